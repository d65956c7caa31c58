// heed fill: what masks hide.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/paths.h"
#include "cli/reading.h"
#include "heed/text_reader.h"

namespace heed::cli {
namespace {

using Json = nlohmann::ordered_json;

struct FillArguments : ReadingArguments {
  FillOptions options;
  bool json = false;
};

// Columns end at tabs and lines at newlines.
std::string in_column(std::string text) {
  for (char& c : text)
    if (c == '\t' || c == '\n' || c == '\r') c = ' ';
  return text;
}

std::string as_json(const std::string& text, const std::vector<FilledMask>& masks, int64_t number) {
  Json line = {{"line", number}, {"text", text}, {"masks", Json::array()}};
  for (const FilledMask& mask : masks) {
    Json fillings = Json::array();
    for (const MaskFilling& f : mask)
      fillings.push_back({{"token", f.token}, {"id", f.id}, {"probability", f.probability}, {"text", f.text}});
    line["masks"].push_back(fillings);
  }
  return json_line(line);
}

std::string as_columns(const std::vector<FilledMask>& masks, int64_t number) {
  std::string out;
  for (size_t m = 0; m < masks.size(); ++m)
    for (const MaskFilling& f : masks[m]) {
      const std::string token = in_column(f.token);
      out += std::to_string(number) + '\t' + std::to_string(m + 1) + '\t' + four_digits(f.probability) + '\t' +
             (token.starts_with(' ') ? token.substr(1) : token) + '\t' + in_column(f.text) + '\n';
    }
  return out;
}

void fill(FillArguments& a) {
  const std::string directory = named_model(a.model, "a model that finds masked words");
  check_files("fill", a, directory);
  const StoredModel model = load(directory, a.load);
  if (model.pretrained().head.task != HeadTask::masked_words)
    throw UsageError(directory + " holds " + what_it_does(model) + "; name one that finds masked words");
  write_output(a.output, [&](FileWriter& out) {
    each_window(a.input, "fill", [&](const std::vector<std::string>& lines, int64_t before, CutLines& cut) {
      FillOptions options = a.options;
      options.first_line = before;
      const auto found = fill_masks(model, lines, options);
      for (size_t i = 0; i < found.size(); ++i) {
        ++before;
        if (found[i].empty())
          cut.pass(before, "has no mask; write " + (a.options.mask.empty() ? "[MASK] or <mask>" : a.options.mask) +
                               " where a word is to be found");
        out.write(a.json ? as_json(lines[i], found[i], before) : as_columns(found[i], before));
      }
    });
  });
}

}  // namespace

void add_fill(CLI::App& program) {
  const auto a = std::make_shared<FillArguments>();
  CLI::App* command = program.add_subcommand("fill", "Find the words that masks in a text stand for");
  command->description(
      "Find the words that masks in a text stand for\n\n"
      "Each line has a mask or several, written [MASK] or <mask>. Prints for each the most probable tokens: number of "
      "line and mask, probability, token, and the whole text, where other masks are filled with what is likeliest "
      "there.");
  add_reading_options(*command, *a, "a text a line", "HEED_MODEL");
  command->add_option("--mask", a->options.mask, "What the texts write for a mask [[MASK] or <mask>]")
      ->type_name("WORD")
      ->check(not_empty());
  command->add_option("--top", a->options.top, "Tokens for each mask")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_flag("--json", a->json, "Write each line as a JSON object with all digits");
  set_usage(*command, {"--model DIR [OPTIONS] [FILE]"});
  command->footer(
      "Examples:\n"
      "  echo 'The [MASK] barks.' | heed fill --model bert\n"
      "  echo 'The ___ barks.' | heed fill --model bert --mask ___ --top 1");
  command->callback([a] { fill(*a); });
}

}  // namespace heed::cli
