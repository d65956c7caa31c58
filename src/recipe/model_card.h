// MODEL_CARD.md: what a trained model is, what it was trained on and how well it does (after Mitchell et al. 2019,
// "Model Cards for Model Reporting").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace heed::inline v0 {

using CardRows = std::vector<std::pair<std::string, std::string>>;

/// A heading and a table of facts.
struct CardSection {
  std::string heading;
  CardRows rows;
};

struct ModelCard {
  std::string title, summary;
  std::vector<CardSection> sections;
  std::string options;  // of the run, as TOML
};

/// The card as Markdown. Text from outside (file names) can neither break a table nor end the block of options.
std::string to_markdown(const ModelCard& card);

/// BLEU with and without regard to case and chrF2, each with its signature.
CardRows score_rows(std::span<const std::string> translations, std::span<const std::string> references);

}  // namespace heed::inline v0
