// Options in a file: TOML (toml.io, version 1.0) without tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::cli {

struct ConfigEntry {
  std::string name;
  std::vector<std::string> values;  // as one would type them; several for an array
  int64_t line = 0;                 // from 1
};

/// `path` names the file in messages. Throws FormatError with the line for what is no TOML, names a key twice, or has
/// tables.
std::vector<ConfigEntry> parse_config(std::string_view toml, const std::string& path);

/// "name = value". Numbers and booleans stand bare unless `quoted`; a list is an array.
std::string toml_line(const std::string& name, const std::vector<std::string>& values, bool list, bool quoted);

}  // namespace heed::cli
