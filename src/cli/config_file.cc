#include "cli/config_file.h"

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <charconv>
#include <cstdint>
#include <regex>
#include <sstream>
#include <utility>

#include "heed/error.h"

namespace heed::cli {
namespace {

std::string where(const std::string& path, const toml::source_region& region) {
  return path + ": line " + std::to_string(region.begin.line) + ": ";
}

std::string shortest(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number, std::chars_format::general).ptr};
}

std::string text_of(const std::string& path, const std::string& name, const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* yes = node.as_boolean()) return yes->get() ? "true" : "false";
  if (const auto* number = node.as_floating_point()) return shortest(number->get());
  throw FormatError(where(path, node.source()) + "'" + name +
                    "' is neither text nor a number, true or false; options stand alone, as in seed = 1");
}

std::string toml_value(const std::string& text, bool quoted) {
  static const std::regex whole("-?(0|[1-9][0-9]*)"), real("-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?");
  const char* const end = text.data() + text.size();
  int64_t number = 0;
  double fraction = 0;
  if (!quoted && (text == "true" || text == "false")) return text;
  if (!quoted && std::regex_match(text, whole)) {
    if (std::from_chars(text.data(), end, number).ec == std::errc()) return text;  // else too large for TOML
  } else if (!quoted && std::regex_match(text, real) && std::from_chars(text.data(), end, fraction).ec == std::errc()) {
    return shortest(fraction);
  }
  std::ostringstream out;
  out << toml::toml_formatter{toml::value<std::string>(text), toml::format_flags::none};
  return out.str();
}

}  // namespace

std::vector<ConfigEntry> parse_config(std::string_view toml, const std::string& path) {
  toml::table table;
  try {
    table = toml::parse(toml);
  } catch (const toml::parse_error& e) {
    throw FormatError(where(path, e.source()) + std::string(e.description()));
  }
  std::vector<ConfigEntry> entries;
  for (const auto& [key, node] : table) {
    ConfigEntry entry{.name = std::string(key.str()), .values = {}, .line = node.source().begin.line};
    if (const toml::array* array = node.as_array())
      for (const toml::node& value : *array) entry.values.push_back(text_of(path, entry.name, value));
    else
      entry.values.push_back(text_of(path, entry.name, node));
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string toml_line(const std::string& name, const std::vector<std::string>& values, bool list, bool quoted) {
  std::string line = name + " = ";
  if (list) line += "[";
  for (size_t i = 0; i < values.size(); ++i) line += (i > 0 ? ", " : "") + toml_value(values[i], quoted);
  return line + (list ? "]" : "");
}

}  // namespace heed::cli
