// Settings of generation_config.json and the rules they become, beside what transformers makes of the same scores.
#include "pretrained/generation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/sampler.h"
#include "models/token_rules.h"

namespace heed::inline v0 {
namespace {

using Ids = std::vector<int32_t>;
using nlohmann::json;

// tests/models/make_rules.py prints them.
std::vector<json> cases() {
  std::ifstream file(HEED_RULE_CASES);
  return json::parse(file).get<std::vector<json>>();
}

PretrainedModel settings(const json& fields, bool of_config = false) {
  PretrainedModel model;
  read_generation(Keys(fields, of_config ? "config.json" : "generation_config.json"), of_config, model);
  return model;
}

std::vector<float> applied(const json& c, const PretrainedModel& model) {
  auto scores = c["scores"].get<std::vector<float>>();
  const auto text = c["text"].get<Ids>(), source = c["source"].get<Ids>();
  const ScoreRules rules(model.generate.rules, model.generate.stop, std::ssize(scores), "generate");
  rules.apply({.ids = text,
               .source = source,
               .prompt = c["prompt"].get<size_t>(),
               .last = std::ssize(text) + 1 == c["limit"].get<int64_t>()},
              scores);
  return scores;
}

TEST(TokenRules, ChangeScoresAsTransformersDoes) {
  size_t compared = 0, changed = 0;
  for (const bool of_config : {false, true}) {  // the fields have the same meaning in an older config.json
    for (const json& c : cases()) {
      if (!c.contains("after")) continue;
      SCOPED_TRACE(c.dump());
      const PretrainedModel model = settings(c["fields"], of_config);
      std::vector<float> got = applied(c, model);
      if (model.generate.rules.renormalize.value_or(false)) {
        const float most = *std::max_element(got.begin(), got.end());
        double sum = 0;
        for (const float x : got) sum += std::exp(double{x} - double{most});
        for (float& x : got) x = static_cast<float>(double{x} - double{most} - std::log(sum));
      }
      const json& want = c["after"];
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        if (want[i].is_null()) {
          EXPECT_EQ(got[i], -INFINITY) << i;
          continue;
        }
        const auto value = want[i].get<double>();
        EXPECT_NEAR(static_cast<double>(got[i]), value, 2e-6 * std::max(1.0, std::abs(value))) << i;
        changed += value != c["scores"][i].get<double>();
      }
      ++compared;
    }
  }
  EXPECT_GE(compared, 200u);
  EXPECT_GE(changed, 600u);
}

// As in transformers: the flag is read from config.json, and from a generation_config.json that was made of one.
TEST(TokenRules, ForceTheFirstTokenOfOldConfigurations) {
  const json fields{{"bos_token_id", 5}, {"force_bos_token_to_be_generated", true}};
  const auto first = [](const json& given, bool of_config) {
    const PretrainedModel model = settings(given, of_config);
    EXPECT_EQ(model.beam.rules.first_token, model.generate.rules.first_token);
    return model.generate.rules.first_token;
  };
  const auto with = [&](const json& more) {
    json all = fields;
    all.update(more);
    return all;
  };
  EXPECT_EQ(first(fields, true), 5);
  EXPECT_EQ(first(fields, false), std::nullopt);
  EXPECT_EQ(first(with({{"_from_model_config", true}}), false), 5);
  EXPECT_EQ(first(with({{"force_bos_token_to_be_generated", false}}), true), std::nullopt);
  EXPECT_EQ(first(with({{"forced_bos_token_id", 4}}), true), 5);
  EXPECT_EQ(first(with({{"forced_bos_token_id", 4}}), false), 4);
}

TEST(TokenRules, DrawsHaveTheProbabilitiesOfTransformers) {
  size_t compared = 0, cut = 0;
  for (const json& c : cases()) {
    if (!c.contains("draws")) continue;
    SCOPED_TRACE(c.dump());
    const PretrainedModel model = settings(c["fields"]);
    const auto want = c["draws"].get<std::vector<double>>();
    std::vector<double> got(want.size(), 0);
    for (const auto& choice : Sampler(model.generate.sampling, "generate").choices(applied(c, model)))
      got[static_cast<size_t>(choice.id)] = choice.probability;
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], 1e-6) << i;
      EXPECT_EQ(got[i] == 0, want[i] == 0) << i;
      cut += want[i] == 0;
    }
    ++compared;
  }
  EXPECT_GE(compared, 60u);
  EXPECT_GE(cut, 200u);
}

TEST(TokenRules, TellWhatIsOutOfRange) {
  const auto refuse = [](const TokenRules& rules) {
    try {
      ScoreRules(rules, {2}, 12, "generate");
    } catch (const ShapeError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refuse({.repetition_penalty = 0}), "generate: repetition_penalty is 0; it must be above 0, and 1 for none");
  EXPECT_NE(refuse({.encoder_repetition_penalty = NAN}), "");
  EXPECT_NE(refuse({.no_repeat_ngram_size = -1}), "");
  EXPECT_NE(refuse({.min_tokens = -1}), "");
  EXPECT_NE(refuse({.length_decay = LengthDecay{0, INFINITY}}), "");
  EXPECT_NE(refuse({.sequence_bias = {{{3}, INFINITY}}}), "");
  EXPECT_NE(refuse({.sequence_bias = {{{}, 1}}}), "");
  EXPECT_EQ(refuse({.bad_words = {{3, 12}}}), "generate: token 12 of bad_words is not in 0..11");
  for (const TokenRules& rules :
       {TokenRules{.sequence_bias = {{{12}, 1}}}, TokenRules{.first_token = 12}, TokenRules{.last_tokens = {-1}},
        TokenRules{.never = {12}}, TokenRules{.never_first = {12}}})
    EXPECT_NE(refuse(rules), "");
  EXPECT_EQ(refuse({.first_token = 4, .never = {4}}),
            "generate: first_token is token 4, which `never` forbids; leave it out of one of them");
  EXPECT_EQ(refuse({.last_tokens = {4, 5}, .never = {4}}), "");
  EXPECT_TRUE(ScoreRules({}, {2, 99}, 12, "generate").empty());  // an end that is no token is never written
  EXPECT_TRUE(
      ScoreRules({.repetition_penalty = 1, .no_repeat_ngram_size = 0, .min_length = 0}, {2}, 12, "generate").empty());
  EXPECT_TRUE(ScoreRules({.bad_words = {{2}}}, {2}, 12, "generate").empty());  // an end token may be written
}

TEST(TokenRules, OfASourceWithAVocabularyOfItsOwn) {
  const Ids text{1, 3}, source{3, 40, 3, 5};
  std::vector<float> scores(12, 1);
  const ScoreRules rules({.encoder_repetition_penalty = 2, .encoder_no_repeat_ngram_size = 2}, {}, 12, "translate");
  rules.apply({.ids = text, .source = source, .prompt = 1}, scores);
  EXPECT_EQ(scores[3], 2);
  EXPECT_EQ(scores[5], -INFINITY);
  EXPECT_EQ(scores[4], 1);
}

}  // namespace
}  // namespace heed::inline v0
