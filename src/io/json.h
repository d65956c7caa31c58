// Strict JSON for files that somebody else may have written.
//
// JSON that heed makes begins as an object or an array (Json::object(), {{...}}): a null that becomes one by [] or
// push_back says so before it has the memory (nlohmann 3.11.2, operator[]), and where there is none its destructor
// crashes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace heed::inline v0 {

inline constexpr size_t kJsonDepth = 64;

/// Refuses duplicate keys, nesting beyond `depth`, NUL bytes and a byte-order mark. Throws FormatError "WHERE: ...".
/// Takes time in proportion to the text, which nlohmann's own parser does not where it is given a callback or makes an
/// ordered_json.
nlohmann::json parse_json(std::string_view text, const std::string& where, size_t depth = kJsonDepth);
/// As parse_json, with the keys in their order.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& where);

/// What the two JSON readers check before the parser sees the text: it would take a NUL for the end and skip a mark.
void check_json_bytes(std::string_view text, const std::string& where);

/// The parser's own words without its error number, one line of at most 200 characters.
std::string json_reason(const std::exception& error);

}  // namespace heed::inline v0
