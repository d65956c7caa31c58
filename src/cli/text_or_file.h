// Texts and names of files that take each other's place on the command line.
#pragma once

#include <cstdint>
#include <string>

namespace heed::cli {

/// Warns in the name of `command` if a text, which is used as it is, names a regular file. `how` reads that file: "-i
/// notes.txt".
void warn_of_file_name(const char* command, const std::string& text, const std::string& how);

/// The content of a file as an argument, for texts that no option reads from a file: "$(cat notes.txt)".
std::string content_as_argument(const std::string& file);

enum class GivesText : uint8_t { argument, standard_input };
/// Throws IoError if `path` does not exist and looks like a text. The message says how `command` takes a text.
void expect_no_text(const char* command, const std::string& path, GivesText how);

}  // namespace heed::cli
