// What the commands share that read texts line by line: embed, classify, fill.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/load.h"

namespace heed::cli {

struct ReadingArguments {
  std::string model, file, input, output;
  bool trust = false;
};

/// FILE, --input, --output, --model, --trust. `lines` says what a line of the input is, `fallback` which model is taken
/// where none is named.
void add_reading_options(CLI::App& command, ReadingArguments& a, const std::string& lines, const std::string& fallback);

/// --model or HEED_MODEL; else throws UsageError, which says that it is to be the directory of `kind`.
std::string named_model(const std::string& given, const char* kind);

/// Takes FILE for --input, and throws UsageError where the output would replace what is read; `others` are read, too.
void check_files(ReadingArguments& a, const std::string& model, const std::vector<std::string>& others = {});

/// Calls take(lines, number of those before) for the lines of a file, or standard input, as they come. Warns of
/// malformed UTF-8 in the name of `command`.
void each_window(const std::string& input, const char* command,
                 const std::function<void(const std::vector<std::string>& lines, int64_t before)>& take);

/// "line 7 is longer than the model takes and was cut".
void warn_of_cut(const char* command, int64_t line);

/// "0.9876".
std::string four_digits(double x);

/// Characters of UTF-8 in front of a byte: JSON's readers count these.
int64_t characters_before(const std::string& text, size_t byte);

}  // namespace heed::cli
