// Options in a file: the part of TOML 1.0 (toml.io) that holds options, and no more. docs/decisions/0017-toml.md
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::inline v0 {

struct ConfigEntry {
  std::string name;
  std::vector<std::string> values;  // as typed at a command line; several for a list
  int64_t line = 0;                 // from 1
};

/// Entries in the order of the file: NAME = VALUE, one a line, where a value is text, a number, true, false, or a list
/// of these. Memory is a small multiple of the text, whatever it holds. `path` names the file in messages. Throws
/// FormatError "PATH: line N: ..." for other text: dotted names, tables, dates, lists of lists, names given twice.
std::vector<ConfigEntry> parse_config(std::string_view toml, const std::string& path);

/// "name = value". Numbers and booleans stand bare unless `quoted`; a list is an array.
std::string toml_line(const std::string& name, const std::vector<std::string>& values, bool list, bool quoted);

}  // namespace heed::inline v0
