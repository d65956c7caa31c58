#include "cli/reading.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/commands.h"
#include "cli/line_reader.h"
#include "cli/load_options.h"
#include "cli/paths.h"
#include "cli/text_or_file.h"

namespace heed::cli {
namespace {

// A file that is read, or standard input where none is named.
class InputFile {
 public:
  explicit InputFile(const std::string& path)
      : descriptor(is_standard_stream(path) ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor < 0) throw IoError("read " + path + ": " + std::strerror(errno));
  }
  ~InputFile() {
    if (descriptor != STDIN_FILENO) ::close(descriptor);
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const int descriptor;
};

}  // namespace

void add_reading_options(CLI::App& command, ReadingArguments& a, const std::string& lines, const std::string& fallback,
                         bool several) {
  command.add_option("file", a.files, "Read this file, " + lines + "; - for standard input [-]")
      ->type_name("FILE")
      ->expected(1, several ? CLI::detail::expected_max_vector_size : 1);
  command.add_option("-i,--input", a.input, "The same as an option")->type_name("FILE");
  command
      .add_option("-o,--output", a.output,
                  "Write to this file, which is there when all is written; - for standard output [-]")
      ->type_name("FILE");
  command.add_option("-m,--model", a.model, "Directory of the model [" + fallback + "]")->type_name("DIR");
  add_load_options(command, a.load);
}

std::string named_model(const std::string& given, const char* kind) {
  const std::string model = given.empty() ? model_of_environment() : given;
  if (model.empty())
    throw UsageError(std::string("--model is missing: the directory of ") + kind + ", as Hugging Face's hub has them");
  return model;
}

void check_files(const char* command, ReadingArguments& a, const std::string& model,
                 const std::vector<std::string>& others) {
  if (!a.files.empty() && !a.input.empty()) throw UsageError("a file and --input are given; give one of them");
  if (a.files.size() == 1) a.input = a.files[0];
  if (a.files.size() < 2) expect_no_text(command, a.input, GivesText::standard_input);
  std::vector<std::string> inputs = others;
  inputs.insert(inputs.end(), a.files.begin(), a.files.end());
  inputs.push_back(a.input.empty() && a.files.empty() ? "-" : a.input);
  for (std::string& file : model_paths(model, a.load.base)) inputs.push_back(std::move(file));
  expect_other_output(a.output, inputs);
}

void each_window(const std::string& input, const char* command, const TakeLines& take) {
  constexpr size_t kMost = 4096;
  const InputFile file(input);
  LineReader reader(file.descriptor, is_standard_stream(input) ? "standard input" : input);
  int64_t before = 0;
  CutLines cut;
  for (std::vector<std::string> lines; !(lines = reader.read(kMost)).empty(); before += std::ssize(lines))
    take(lines, before, cut);
  const std::string passed = "line " + std::to_string(cut.passed.first) + " " + cut.reason;
  if (cut.passed.count > 0 && cut.passed.count == before)
    throw FormatError(passed + (before > 1 ? ", nor has any other line" : ""));
  if (cut.passed.count > 0)
    warn(command,
         passed + "; passed over " + (cut.passed.count > 1 ? std::to_string(cut.passed.count) + " such lines" : "it"));
  const std::string first = "line " + std::to_string(cut.first);
  if (cut.count == 1) warn(command, first + " is longer than the model takes and was cut");
  if (cut.count > 1)
    warn(command,
         std::to_string(cut.count) + " lines are longer than the model takes and were cut, " + first + " the first");
  if (const int64_t replaced = reader.replaced(); replaced > 0) warn(command, replaced_in_words(replaced));
}

std::string json_line(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

std::string four_digits(double x) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%.4f", x);
  return text.data();
}

int64_t characters_before(const std::string& text, size_t byte) {
  return std::count_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(byte),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace heed::cli
