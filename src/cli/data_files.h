// The files that a command line names as data.
#pragma once

#include <string>
#include <vector>

namespace heed::cli {

/// The files in the order of their names on the command line: each a file, a pattern (glob(7); its files in the order
/// of their bytes), or "-" for standard input. A file that exists is no pattern. Throws IoError for a pattern that fits
/// no file.
std::vector<std::string> files_of(const std::vector<std::string>& names);

/// The bytes of a file or of standard input, unpacked where gzip compressed them. Throws IoError, and FormatError for
/// compressed data that is broken.
std::string read_data(const std::string& file);

/// As messages call a file of data.
std::string name_of_data(const std::string& file);

}  // namespace heed::cli
