#include "recipe/choose.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "heed/models.h"

namespace heed::inline v0 {
namespace {

constexpr double kFlops = 150e9;

TrainFacts of_pairs(int64_t pairs, double minutes, double flops = kFlops) {
  return {.pairs = pairs,
          .bytes = 60 * pairs,
          .characters = 80,
          .validation_bytes = 60 * 2000,
          .minutes = minutes,
          .flops = flops};
}
TrainFacts of_text(int64_t bytes, double minutes, double flops = kFlops) {
  return {.text = true,
          .bytes = bytes,
          .characters = 80,
          .validation_bytes = bytes / 9,
          .minutes = minutes,
          .flops = flops};
}

using Options = std::map<std::string, std::string>;

TrainingRequest request_of(const Options& options) {
  TrainingRequest request;
  for (const auto& [field, value] : options) set_option(request, field, {value});
  return request;
}

Options chosen(const TrainFacts& facts, const Options& given = {}) {
  Options all;
  for (const Choice& choice : choose_defaults(facts, request_of(given))) {
    EXPECT_FALSE(choice.reason.empty());
    const size_t before = all.size();
    for (const TrainingOption& option : training_options())
      for (const std::string& value : option_values(choice.options, option.field)) {
        EXPECT_FALSE(given.contains(option.field)) << option.field;
        EXPECT_TRUE(all.emplace(option.field, value).second) << option.field << " is chosen twice";
      }
    EXPECT_GT(all.size(), before);
  }
  return all;
}
double number(const Options& options, const std::string& name) { return std::stod(options.at(name)); }
const Options kMinutes{{"max_minutes", "5"}};

TEST(TrainDefaults, AreValidForEverySize) {
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{100}, int64_t{5000}, int64_t{100000},
                              int64_t{50'000'000}, std::numeric_limits<int64_t>::max() / 100})
    for (const double minutes : {0.0, 0.001, 1.0, 60.0, 1e6})
      for (const double flops : {0.0, 1.0, kFlops, 1e15}) {
        SCOPED_TRACE(std::to_string(count) + " in " + std::to_string(minutes) + " at " + std::to_string(flops));
        const Options given = minutes > 0 ? kMinutes : Options{};
        const auto pairs = chosen(of_pairs(count, minutes, flops), given);
        EXPECT_NO_THROW(
            validate(TransformerConfig{.vocab_size = static_cast<int64_t>(number(pairs, "vocab_size")),
                                       .d_model = static_cast<int64_t>(number(pairs, "d_model")),
                                       .nhead = static_cast<int64_t>(number(pairs, "heads")),
                                       .num_encoder_layers = static_cast<int64_t>(number(pairs, "encoder_layers")),
                                       .num_decoder_layers = static_cast<int64_t>(number(pairs, "decoder_layers")),
                                       .dim_feedforward = static_cast<int64_t>(number(pairs, "feed_forward")),
                                       .dropout = number(pairs, "dropout")}));
        EXPECT_GE(number(pairs, "batch_tokens"), 100);
        const auto text = chosen(of_text(60 * count, minutes, flops), given);
        EXPECT_NO_THROW(
            validate(LanguageModelConfig{.vocab_size = static_cast<int64_t>(number(text, "vocab_size")),
                                         .d_model = static_cast<int64_t>(number(text, "d_model")),
                                         .nhead = static_cast<int64_t>(number(text, "heads")),
                                         .num_layers = static_cast<int64_t>(number(text, "layers")),
                                         .dim_feedforward = static_cast<int64_t>(number(text, "feed_forward")),
                                         .dropout = number(text, "dropout"),
                                         .max_positions = static_cast<int64_t>(number(text, "block"))}));
        EXPECT_GE(number(text, "batch"), 1);
        for (const auto& options : {pairs, text}) {
          EXPECT_GT(number(options, "learning_rate"), 0);
          EXPECT_LT(number(options, "learning_rate"), 0.1);
          EXPECT_GE(number(options, "warmup"), 1);
          EXPECT_GE(number(options, "validate_every"), 1);
          EXPECT_EQ(options.at("schedule"), "linear");
          EXPECT_EQ(options.at("max_updates"), "0");
          EXPECT_TRUE(minutes > 0 || options.contains("max_epochs"));  // there is an end
        }
      }
}

TEST(TrainDefaults, GrowWithTheDataAndTheTime) {
  for (const bool text : {false, true}) {
    const auto width = [&](double count, double minutes) {
      return number(chosen(text ? of_text(static_cast<int64_t>(100 * count), minutes)
                                : of_pairs(static_cast<int64_t>(count), minutes),
                           kMinutes),
                    "d_model");
    };
    for (const double count : {1e3, 1e4, 1e5, 1e6})
      for (double minutes = 0.1; minutes < 1e4; minutes *= 4)
        EXPECT_LE(width(count, minutes), width(count, 4 * minutes));
    EXPECT_LT(width(1e5, 1), width(1e5, 1000));
    EXPECT_LT(width(1e3, 1000), width(1e6, 1000));
    double pieces = 0, dropout = 1;
    for (double count = 1; count < 1e9; count *= 10) {
      const auto options =
          chosen(text ? of_text(static_cast<int64_t>(100 * count), 0) : of_pairs(static_cast<int64_t>(count), 0));
      EXPECT_GE(number(options, "vocab_size"), pieces);
      EXPECT_LE(number(options, "dropout"), dropout);
      pieces = number(options, "vocab_size");
      dropout = number(options, "dropout");
    }
    EXPECT_GT(pieces, 5000);
  }
}

TEST(TrainDefaults, AThousandPiecesFor150KB) {
  EXPECT_EQ(chosen(of_pairs(2500, 0)).at("vocab_size"), "1000");
  EXPECT_EQ(chosen(of_text(150'000, 0)).at("vocab_size"), "1000");
}

TEST(TrainDefaults, MorePiecesThanCharacters) {
  TrainFacts facts = of_pairs(1000, 0);
  facts.characters = 3000;
  EXPECT_GE(number(chosen(facts), "vocab_size"), 3300);
}

TEST(TrainDefaults, WhatIsGivenDecidesWith) {
  const TrainFacts facts = of_pairs(20000, 5);
  EXPECT_EQ(chosen(facts, {{"max_minutes", "5"}, {"d_model", "100"}}).at("heads"), "2");  // divides it
  EXPECT_EQ(std::fmod(number(chosen(facts, {{"max_minutes", "5"}, {"heads", "7"}}), "d_model"), 7), 0);
  EXPECT_GT(number(chosen(facts, {{"max_minutes", "5"}, {"d_model", "64"}}), "learning_rate"),
            number(chosen(facts, {{"max_minutes", "5"}, {"d_model", "512"}}), "learning_rate"));
  EXPECT_FALSE(chosen(facts, {{"dropout", "0.1"}}).contains("subword_dropout"));
  Options all;
  for (const auto& option : chosen(facts, kMinutes)) all.insert(option);
  EXPECT_TRUE(chosen(facts, all).empty());
  Options text;
  for (const auto& option : chosen(of_text(1'000'000, 5), kMinutes)) text.insert(option);
  EXPECT_TRUE(chosen(of_text(1'000'000, 5), text).empty());
}

TEST(TrainDefaults, TheEnd) {
  // A number of updates may be raised later: neither the schedule nor the size hangs on it.
  const auto ten = chosen(of_pairs(5000, 0), {{"max_updates", "10000"}}),
             more = chosen(of_pairs(5000, 0), {{"max_updates", "20000"}});
  EXPECT_EQ(ten, more);
  EXPECT_FALSE(ten.contains("schedule"));
  EXPECT_FALSE(ten.contains("patience"));
  EXPECT_LE(number(chosen(of_pairs(5000, 0), {{"max_updates", "100"}}), "warmup"), 10);
  // These schedules have a length in updates.
  EXPECT_GT(number(chosen(of_text(1'000'000, 5), {{"max_minutes", "5"}, {"schedule", "cosine"}}), "max_updates"), 0);
  EXPECT_EQ(chosen(of_pairs(5000, 5), {{"max_minutes", "5"}, {"schedule", "constant"}}).at("max_updates"), "0");
  // Little data does not fill an hour.
  EXPECT_TRUE(chosen(of_pairs(1000, 60), kMinutes).contains("max_epochs"));
  EXPECT_FALSE(chosen(of_pairs(100000, 60), kMinutes).contains("max_epochs"));
  // Reading 100,000 validation pairs after each hundred updates would cost more than learning.
  TrainFacts validates = of_pairs(5000, 2);
  const double few = number(chosen(validates, kMinutes), "validate_every");
  validates.validation_bytes = 60 * 100000;
  EXPECT_GT(number(chosen(validates, kMinutes), "validate_every"), 10 * few);
}

TEST(TrainDefaults, BleuChoosesWhereASmallCorpusIsSeenOften) {
  EXPECT_EQ(chosen(of_pairs(5000, 2), kMinutes).at("validate_by"), "bleu");
  EXPECT_FALSE(chosen(of_pairs(1'000'000, 5), kMinutes).contains("validate_by"));  // not seen ten times
  EXPECT_FALSE(chosen(of_text(200'000, 1), kMinutes).contains("validate_by"));
  Options none = kMinutes;
  none["bleu_sentences"] = "0";
  EXPECT_FALSE(chosen(of_pairs(5000, 2), none).contains("validate_by"));
  TrainFacts facts = of_pairs(5000, 2);
  facts.validation_bytes = 0;
  EXPECT_FALSE(chosen(facts, kMinutes).contains("validate_by"));
}

TEST(TrainDefaults, WithoutAClockOrALimitTheSpeedSaysNothing) {
  EXPECT_EQ(chosen(of_pairs(5000, 0, 1e9)), chosen(of_pairs(5000, 0, 1e12)));
  EXPECT_NE(chosen(of_pairs(100000, 5, 1e9), kMinutes), chosen(of_pairs(100000, 5, 1e12), kMinutes));
}

TEST(TrainDefaults, ALineNamesValuesAndReason) {
  const Choice choice{.options = {.d_model = 128, .heads = 4, .learning_rate = 0.00391}, .reason = "for 5 pairs"};
  EXPECT_EQ(to_line(choice, nullptr), "chosen d_model 128 heads 4 learning_rate 0.00391: for 5 pairs");
}

TEST(TrainDefaults, SpeedIsMeasured) { EXPECT_GT(measure_flops(0), 1e6); }

TEST(TrainDefaults, HoldsOutTwoPercentWithinLimits) {
  for (const auto& [pairs, held] : {std::pair<int64_t, int64_t>{0, 0},
                                    {99, 0},
                                    {100, 10},
                                    {999, 100},
                                    {1000, 100},
                                    {5000, 100},
                                    {5001, 100},
                                    {50000, 1000},
                                    {100000, 2000},
                                    {113294, 2000},
                                    {int64_t{1} << 40, 2000}}) {
    const double part = default_valid_fraction(pairs);
    EXPECT_EQ(static_cast<int64_t>(part * static_cast<double>(pairs) + 0.5), held) << pairs;
    EXPECT_LE(part, 0.1);
  }
}

}  // namespace
}  // namespace heed::inline v0
