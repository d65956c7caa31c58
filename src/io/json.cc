#include "io/json.h"

#include <set>
#include <vector>

#include "heed/error.h"
#include "heed/io.h"

namespace heed::inline v0 {

void check_json_bytes(std::string_view text, const std::string& where) {
  if (text.starts_with("\xEF\xBB\xBF"))
    throw FormatError(where + ": starts with a byte-order mark, which JSON forbids");
  if (const size_t at = text.find('\0'); at != std::string_view::npos)
    throw FormatError(where + ": not JSON: byte " + std::to_string(at) + " is 0");
}

std::string json_reason(const std::exception& error) {
  std::string_view text = error.what();
  if (const size_t end = text.find("] "); text.starts_with('[') && end != std::string_view::npos)
    text.remove_prefix(end + 2);
  std::string line;
  for (const char c : text.substr(0, 200)) line += c >= 0x20 && c < 0x7f ? c : '?';
  return line;
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kLongest = 80;
  size_t length = std::min(text.size(), kLongest);
  while (length < text.size() && length > 0 && (text[length] & 0xC0) == 0x80) --length;  // not inside a character
  std::string out =
      nlohmann::json(text.substr(0, length)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (length < text.size()) out += "...";
  return out;
}

nlohmann::json parse_json(std::string_view text, const std::string& where) {
  check_json_bytes(text, where);
  std::vector<std::set<std::string>> keys;  // of each object that is open
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (static_cast<size_t>(depth) > kJsonDepth)
      throw FormatError(where + ": nested deeper than " + std::to_string(kJsonDepth) + " levels");
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.get<std::string>()).second)
      throw FormatError(where + ": the key " + in_quotes(value.get<std::string>()) + " occurs twice");
    return true;
  };
  try {
    return nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::exception& error) {
    throw FormatError(where + ": not JSON: " + json_reason(error));
  }
}

}  // namespace heed::inline v0
