// heed tokenize: texts as a model reads them, and back.
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/line_reader.h"
#include "cli/paths.h"
#include "cli/text_or_file.h"
#include "heed/text.h"
#include "heed/tokenizer.h"

namespace heed::cli {
namespace {

struct TokenizeArguments {
  std::string model, file, input, output;
  bool pieces = false, decode = false, no_special = false, target = false;
};

// Pieces stand between tabs on one line: what would break that is written as in C.
std::string escaped(std::string_view piece) {
  std::string out;
  for (const char c : piece) {
    if (c == '\t') {
      out += "\\t";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\\') {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return out;
}

std::string encoded_line(const Tokenizer& tokenizer, const std::string& text, const TokenizeArguments& a) {
  std::string line;
  for (const int32_t id : tokenizer.encode(text, !a.no_special).ids) {
    if (!line.empty()) line += a.pieces ? '\t' : ' ';
    line += a.pieces ? escaped(tokenizer.token(id).value_or("")) : std::to_string(id);
  }
  return line + '\n';
}

std::vector<int32_t> parse_ids(std::string_view line, size_t number, int64_t size) {
  constexpr std::string_view kSpaces = " \t";
  std::vector<int32_t> ids;
  while (true) {
    const size_t begin = line.find_first_not_of(kSpaces);
    if (begin == std::string_view::npos) return ids;
    line.remove_prefix(begin);
    const std::string_view word = line.substr(0, line.find_first_of(kSpaces));
    line.remove_prefix(word.size());
    int32_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0 || id >= size)
      throw FormatError("line " + std::to_string(number) + ": '" + std::string(word.substr(0, 40)) +
                        "' is no id of the tokenizer, whose ids are 0 to " + std::to_string(size - 1));
    ids.push_back(id);
  }
}

// Calls take(line, number) for each line, counted from 1.
template <class Take>
void each_line(const TokenizeArguments& a, const Take& take) {
  size_t number = 0;
  int64_t replaced = 0;
  if (is_standard_stream(a.input)) {
    LineReader reader(STDIN_FILENO, "standard input");
    constexpr size_t kMost = 1024;
    for (std::vector<std::string> lines; !(lines = reader.read(kMost)).empty();)
      for (const std::string& line : lines) take(line, ++number);
    replaced = reader.replaced();
  } else {
    for (const std::string& line : read_lines(a.input, &replaced)) take(line, ++number);
  }
  if (replaced > 0) warn("tokenize", replaced_in_words(replaced));
}

void tokenize(TokenizeArguments& a) {
  if (!a.file.empty() && !a.input.empty()) throw UsageError("a file and --input are given; give one of them");
  if (a.input.empty()) a.input = a.file;
  if (a.pieces && a.decode) throw UsageError("--pieces and --decode are given; give one of them");
  const std::string model = find_model(a.model);
  expect_no_text("tokenize", a.input, GivesText::standard_input);
  std::vector<std::string> inputs = model_paths(model);
  inputs.push_back(a.input.empty() ? "-" : a.input);
  expect_other_output(a.output, inputs);
  const Tokenizer tokenizer = load_tokenizer(model, a.target ? TokenizerSide::target : TokenizerSide::source);
  write_output(a.output, [&](FileWriter& out) {
    each_line(a, [&](const std::string& line, size_t number) {
      out.write(a.decode ? tokenizer.decode(parse_ids(line, number, tokenizer.size()), a.no_special) + '\n'
                         : encoded_line(tokenizer, line, a));
    });
  });
}

}  // namespace

void add_tokenize(CLI::App& program) {
  const auto a = std::make_shared<TokenizeArguments>();
  CLI::App* command = program.add_subcommand("tokenize", "Turn texts into ids of tokens, and back");
  command->description(
      "Turn texts into ids of tokens, and back\n\n"
      "Prints the ids of each line as a model reads it, with its special tokens. The model's directory is one of "
      "heed's, "
      "or one with a tokenizer.json or the other files that Hugging Face's hub has.");
  command->add_option("file", a->file, "Read this file, a text a line; - for standard input [-]")->type_name("FILE");
  command->add_option("-i,--input", a->input, "The same as an option")->type_name("FILE");
  command
      ->add_option("-o,--output", a->output,
                   "Write to this file, which is there when all is written; - for standard output [-]")
      ->type_name("FILE");
  command->add_option("-m,--model", a->model, "Directory of the model or tokenizer [HEED_MODEL, else the bundled one]")
      ->type_name("DIR");
  command->add_flag("--pieces", a->pieces, "Print the tokens themselves, with tabs between them");
  command->add_flag("--decode", a->decode, "Take lines of ids, and print the texts");
  command->add_flag("--no-special", a->no_special, "Add no special tokens; with --decode, leave them out");
  command->add_flag("--target", a->target, "Of a model that translates: the tokens that it writes");
  command->footer(
      "Examples:\n"
      "  echo 'Hola, mi nombre es Alex.' | heed tokenize --pieces\n"
      "  heed tokenize --no-special < dev.es | heed tokenize --decode");
  command->callback([a] { tokenize(*a); });
}

}  // namespace heed::cli
