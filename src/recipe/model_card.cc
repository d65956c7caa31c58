#include "recipe/model_card.h"

#include <algorithm>

#include "heed/text.h"

namespace heed::inline v0 {
namespace {

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

std::string table_cell(const std::string& text) {
  std::string cell;
  for (const char c : one_line(text)) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

// Longer than any run of backticks in the text.
std::string fence_for(const std::string& text) {
  size_t longest = 2, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return std::string(longest + 1, '`');
}

}  // namespace

std::string to_markdown(const ModelCard& card) {
  std::string text = "# " + one_line(card.title) + "\n\n" + card.summary + "\n";
  for (const CardSection& section : card.sections) {
    text += "\n## " + section.heading + "\n\n| | |\n|---|---|\n";
    for (const auto& [name, value] : section.rows) text += "| " + table_cell(name) + " | " + table_cell(value) + " |\n";
  }
  const std::string fence = fence_for(card.options);
  text += "\n## Options\n\nWhat was not left at its default, as a file for `heed train --config`:\n\n" + fence +
          "toml\n" + card.options + (card.options.ends_with('\n') ? "" : "\n") + fence + "\n";
  return text;
}

CardRows score_rows(std::span<const std::string> translations, std::span<const std::string> references) {
  CardRows rows;
  for (const bool lowercase : {false, true}) {
    const BleuScore score = bleu(translations, references, {.lowercase = lowercase});
    rows.emplace_back(lowercase ? "BLEU, lower-cased" : "BLEU", score.format() + "; " + score.signature());
  }
  const ChrfScore score = chrf(translations, references);
  rows.emplace_back("chrF2", score.format() + "; " + score.signature());
  return rows;
}

}  // namespace heed::inline v0
