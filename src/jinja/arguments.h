// Arguments by position or name. All functions throw ProgramError for arguments of the wrong kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "jinja/value.h"

namespace heed::inline v0::jinja {

/// Null for an absent argument.
const Value* argument(const Arguments& given, size_t place, const char* name);
/// Null for an absent argument, and for none.
const std::string* text_argument(const Arguments& given, size_t place, const char* name);
const std::string& needed_text(const Arguments& given, size_t place, const char* name);
/// The name of a filter, test or attribute.
std::string needed_name(const Arguments& given, size_t place, const char* name);
std::optional<int64_t> whole_argument(const Arguments& given, size_t place, const char* name);

/// Refuses arguments beyond `names`. `of` is the function, for the message.
void expect_arguments(const Arguments& given, std::initializer_list<std::string_view> names, const std::string& of);
/// Expects `least` to `most` arguments, all by position, as most of Python's methods do.
void expect_places(const Arguments& given, size_t least, size_t most, const std::string& of);

}  // namespace heed::inline v0::jinja
