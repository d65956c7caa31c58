#include "jinja/arguments.h"

#include <algorithm>

#include "jinja/characters.h"

namespace heed::inline v0::jinja {

const Value* argument(const Arguments& given, size_t place, const char* name) {
  if (place < given.positional.size()) return &given.positional[place];
  return find(given.named, name);
}

const std::string* text_argument(const Arguments& given, size_t place, const char* name) {
  const Value* const value = argument(given, place, name);
  if (!value || value->is_none()) return nullptr;
  if (!value->text()) fail(std::string(name) + " is " + kind_of(*value));
  return value->text();
}

const std::string& needed_text(const Arguments& given, size_t place, const char* name) {
  const std::string* const text = text_argument(given, place, name);
  if (!text) fail(std::string(name) + " is missing");
  return *text;
}

std::string needed_name(const Arguments& given, size_t place, const char* name) {
  constexpr size_t kLongest = 255;
  const std::string& text = needed_text(given, place, name);
  if (text.size() > kLongest || !is_ascii(text)) fail(std::string(name) + " is no name that heed has");
  return text;
}

std::optional<int64_t> whole_argument(const Arguments& given, size_t place, const char* name) {
  const Value* const value = argument(given, place, name);
  if (!value) return {};
  if (!whole(*value)) fail(std::string(name) + " is " + kind_of(*value));
  return whole(*value);
}

void expect_arguments(const Arguments& given, std::initializer_list<std::string_view> names, const std::string& of) {
  const auto known = [&](const auto& entry) {
    return std::find(names.begin() + std::min(given.positional.size(), names.size()), names.end(), entry.first) !=
           names.end();
  };
  if (given.positional.size() > names.size() || !std::all_of(given.named.begin(), given.named.end(), known))
    fail("heed does not have these arguments of '" + of + "'");
}

void expect_places(const Arguments& given, size_t least, size_t most, const std::string& of) {
  if (given.positional.size() < least || given.positional.size() > most || !given.named.empty())
    fail("heed does not have these arguments of '" + of + "'");
}

}  // namespace heed::inline v0::jinja
