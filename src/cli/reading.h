// What the commands share that read texts line by line: embed, classify, fill.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heed/load.h"

namespace heed::cli {

struct ReadingArguments {
  std::string model, input, output;
  std::vector<std::string> files;  // one, but of pictures
  LoadOptions load{};
};

/// FILE, --input, --output, --model and those of add_load_options. `lines` says what a line of the input is, `fallback`
/// which model is taken where none is named. `several`: there may be more than one FILE.
void add_reading_options(CLI::App& command, ReadingArguments& a, const std::string& lines, const std::string& fallback,
                         bool several = false);

/// --model or HEED_MODEL; else throws UsageError, which says that it is to be the directory of `kind`.
std::string named_model(const std::string& given, const char* kind);

/// Takes a single FILE for --input, and throws UsageError where the output would replace what is read, IoError where a
/// text stands in the place of a file; `others` are read, too.
void check_files(const char* command, ReadingArguments& a, const std::string& model,
                 const std::vector<std::string>& others = {});

/// How many lines, and the first, from 1.
struct LineCount {
  int64_t count = 0, first = 0;
  void add(int64_t line) {
    if (count++ == 0) first = line;
  }
};
/// Lines that were longer than the model takes, and those that it can make nothing of, with the reason: "has no mask".
struct CutLines : LineCount {
  LineCount passed{};
  std::string reason{};
  void pass(int64_t line, const std::string& why) {
    passed.add(line);
    reason = why;
  }
};

/// Calls take(lines, number of those before, cut) for the lines of a file, or standard input, as they come. At the end
/// it warns in the name of `command` of those that were cut or passed over, and of malformed UTF-8. Throws FormatError
/// where all lines were passed over.
using TakeLines = std::function<void(const std::vector<std::string>& lines, int64_t before, CutLines& cut)>;
void each_window(const std::string& input, const char* command, const TakeLines& take);

/// An object on a line of its own. What a tokenizer has that is no UTF-8 becomes U+FFFD.
std::string json_line(const nlohmann::ordered_json& object);

/// "0.9876".
std::string four_digits(double x);

/// Characters of UTF-8 in front of a byte: JSON's readers count these.
int64_t characters_before(const std::string& text, size_t byte);

}  // namespace heed::cli
