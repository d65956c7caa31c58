// Scoring given translations, and drawing them, beside the search.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>

#include "heed/executor.h"
#include "heed/models.h"
#include "heed/random.h"

namespace heed {
namespace {

using Ids = std::vector<int32_t>;

// Weights far from 0, so that no two tokens are nearly as probable.
std::unique_ptr<Transformer> sure_model(uint64_t seed) {
  manual_seed(seed);
  auto made = std::make_unique<Transformer>(TransformerConfig{.vocab_size = 12,
                                                              .d_model = 8,
                                                              .nhead = 2,
                                                              .num_encoder_layers = 1,
                                                              .num_decoder_layers = 2,
                                                              .dim_feedforward = 12,
                                                              .dropout = 0,
                                                              .max_positions = 16});
  for (auto& [name, parameter] : made->named_parameters())
    if (parameter.shape().rank() > 1) parameter.value().copy_from(normal(parameter.shape(), 0, 0.5));
  made->eval();
  return made;
}

const std::vector<Ids> kSources{{4, 5, 6}, {7}, {}, {8, 9, 10, 11, 4}};

// log p of each token of a translation and of its end, by one pass over all of it.
std::vector<double> by_logits(const Transformer& model, Ids source, const Ids& target) {
  const NoGrad no_grad;
  source.push_back(model.config().eos_id);
  Ids input{model.config().bos_id}, output = target;
  input.insert(input.end(), target.begin(), target.end());
  output.push_back(model.config().eos_id);
  const Tensor logits = model.logits(TokenBatch::pad({source}, 0), TokenBatch::pad({input}, 0)).value();
  std::vector<double> all;
  for (int64_t i = 0; i < std::ssize(output); ++i) {
    double sum = 0;
    for (int64_t id = 0; id < logits.size(2); ++id) sum += std::exp(static_cast<double>(logits.at<float>(0, i, id)));
    all.push_back(static_cast<double>(logits.at<float>(0, i, output[static_cast<size_t>(i)])) - std::log(sum));
  }
  return all;
}

TEST(Score, IsThatOfThePlainLogits) {
  const std::unique_ptr<Transformer> made = sure_model(1);
  const Transformer& model = *made;
  const std::vector<Ids> targets{{4, 4, 9, 10}, {}, {5, 6, 7, 8, 9, 10, 11, 4, 5, 6, 7, 8, 9, 10, 11}, {1, 0, 2}};
  const std::vector<Hypothesis> scored =
      model.score(kSources, targets, {.length_penalty = 0.5, .want_alignment = true});
  ASSERT_EQ(scored.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const std::vector<double> expected = by_logits(model, kSources[i], targets[i]);
    const Hypothesis& h = scored[i];
    EXPECT_EQ(h.ids, targets[i]);
    ASSERT_EQ(h.token_log_probabilities.size(), expected.size());
    for (size_t t = 0; t < expected.size(); ++t) EXPECT_NEAR(h.token_log_probabilities[t], expected[t], 2e-5);
    const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
    EXPECT_NEAR(h.log_probability, sum, 1e-4);
    EXPECT_NEAR(h.score, sum / std::sqrt(static_cast<double>(expected.size())), 1e-4);
    EXPECT_EQ(h.alignment.shape(), (Dims{std::ssize(expected), std::ssize(kSources[i]) + 1}));
  }
}

TEST(Score, OfWhatTheSearchFindsIsItsScore) {
  const std::unique_ptr<Transformer> made = sure_model(2);
  const Transformer& model = *made;
  // Not the longest, which end without an end.
  const auto found = model.translate(kSources, {.beam = 4, .length_penalty = 0.8, .max_length = 12, .n_best = 4});
  for (size_t i = 0; i < kSources.size(); ++i)
    for (const Hypothesis& h : found[i]) {
      EXPECT_NEAR(std::accumulate(h.token_log_probabilities.begin(), h.token_log_probabilities.end(), 0.0),
                  h.log_probability, 1e-4);
      if (h.token_log_probabilities.size() == h.ids.size()) continue;  // cut at max_length
      const Hypothesis again = model.score({kSources[i]}, {h.ids}, {.length_penalty = 0.8})[0];
      EXPECT_NEAR(again.score, h.score, 1e-5 * std::abs(h.score));
      EXPECT_NEAR(again.log_probability, h.log_probability, 1e-5 * std::abs(h.log_probability));
    }
}

TEST(Score, RefusesWhatDoesNotFit) {
  const std::unique_ptr<Transformer> made = sure_model(3);
  const Transformer& model = *made;
  EXPECT_THROW(model.score({{4}}, {}), ShapeError);
  EXPECT_THROW(model.score({{4}}, {Ids(16, 4)}), ShapeError);
  EXPECT_NO_THROW(model.score({{4}}, {Ids(15, 4)}));
  for (const int32_t id : {-1, 12, model.config().eos_id}) EXPECT_THROW(model.score({{4}}, {{4, id}}), ShapeError);
  EXPECT_THROW(model.score({{4}}, {{4}}, {.length_penalty = NAN}), ShapeError);
  EXPECT_TRUE(model.score({}, {}).empty());
}

TEST(Search, TellsOfItsSteps) {
  const std::unique_ptr<Transformer> model = sure_model(5);
  for (const int64_t beam : {1, 3}) {
    std::vector<std::vector<Ids>> told(kSources.size());
    BeamOptions options{.beam = beam};
    options.on_step = [&](size_t source, const Ids& ids) { told.at(source).push_back(ids); };
    const auto found = model->translate(kSources, options);
    for (size_t i = 0; i < told.size(); ++i) {
      for (size_t step = 0; step < told[i].size(); ++step) EXPECT_EQ(told[i][step].size(), step + 1);
      EXPECT_GE(told[i].size() + 1, found[i][0].ids.size());
      if (beam > 1) continue;
      for (const Ids& ids : told[i]) EXPECT_TRUE(std::equal(ids.begin(), ids.end(), found[i][0].ids.begin()));
    }
  }
}

TEST(Sampling, DrawsAsOftenAsTheModelSays) {
  const std::unique_ptr<Transformer> made = sure_model(4);
  const Transformer& model = *made;
  constexpr int64_t kDraws = 1000;
  std::map<Ids, int> counts;
  for (uint64_t stream = 0; stream < 20; ++stream) {
    const auto drawn =
        model.translate({{4, 5}}, {.max_length = 1, .n_best = kDraws, .sampling = Sampling{}, .streams = {stream}});
    for (const Hypothesis& h : drawn[0]) ++counts[h.ids];
  }
  // The probabilities of the first token, without those of pad and begin.
  const NoGrad no_grad;
  const Tensor logits = model.logits(TokenBatch::pad({{4, 5, 3}}, 0), TokenBatch::pad({{2}}, 0)).value();
  double sum = 0;
  for (int32_t id = 0; id < 12; ++id) sum += id == 0 || id == 2 ? 0 : std::exp(double{logits.at<float>(0, 0, id)});
  for (int32_t id = 0; id < 12; ++id) {
    const double p = id == 0 || id == 2 ? 0 : std::exp(double{logits.at<float>(0, 0, id)}) / sum;
    const double expected = 20 * kDraws * p;
    EXPECT_NEAR(counts[id == 3 ? Ids{} : Ids{id}], expected, 5 * std::sqrt(expected * (1 - p))) << id;
  }
}

TEST(Sampling, DependsOnSeedStreamAndStepAlone) {
  const std::unique_ptr<Transformer> made = sure_model(5);
  const Transformer& model = *made;
  const auto drawn = [&](const std::vector<Ids>& sources, uint64_t seed, std::vector<uint64_t> streams,
                         int64_t n_best = 3) {
    std::vector<std::vector<Ids>> all;
    for (const auto& line : model.translate(
             sources, {.n_best = n_best, .sampling = Sampling{.seed = seed}, .streams = std::move(streams)})) {
      all.emplace_back();
      for (const Hypothesis& h : line) all.back().push_back(h.ids);
    }
    return all;
  };
  const auto all = drawn(kSources, 7, {});
  const int before = threads();
  set_threads(before == 1 ? 2 : 1);
  EXPECT_EQ(drawn(kSources, 7, {}), all);
  set_threads(before);
  for (size_t i = 0; i < kSources.size(); ++i) EXPECT_EQ(drawn({kSources[i]}, 7, {i})[0], all[i]);
  EXPECT_NE(drawn(kSources, 8, {}), all);
  EXPECT_NE(drawn({kSources[0]}, 7, {1})[0], all[0]);
  const auto more = drawn({kSources[0]}, 7, {0}, 5)[0];
  for (const Ids& ids : all[0]) EXPECT_EQ(std::count(more.begin(), more.end(), ids) > 0, true);
}

TEST(Sampling, ColdIsGreedyAndScoresAreTheModels) {
  const std::unique_ptr<Transformer> made = sure_model(6);
  const Transformer& model = *made;
  const auto cold = model.translate(kSources, {.sampling = Sampling{.temperature = 0}});
  const auto greedy = model.translate(kSources, {.beam = 1});
  const auto warm =
      model.translate(kSources, {.max_length = 15, .n_best = 6, .sampling = Sampling{.temperature = 1.5}});
  for (size_t i = 0; i < kSources.size(); ++i) {
    EXPECT_EQ(cold[i][0].ids, greedy[i][0].ids);
    EXPECT_NEAR(cold[i][0].score, greedy[i][0].score, 1e-5);  // other rows share a product, so their sums differ
    ASSERT_EQ(warm[i].size(), 6u);
    for (size_t n = 0; n < 6; ++n) {
      const Hypothesis& h = warm[i][n];
      EXPECT_LE(h.score, warm[i][n > 0 ? n - 1 : 0].score);
      if (h.token_log_probabilities.size() == h.ids.size()) continue;  // cut at max_length
      EXPECT_NEAR(model.score({kSources[i]}, {h.ids})[0].score, h.score, 1e-4);
    }
  }
  EXPECT_THROW(model.translate(kSources, {.n_best = 1001, .sampling = Sampling{}}), ShapeError);
  EXPECT_THROW(model.translate(kSources, {.sampling = Sampling{.top_p = 0}}), ShapeError);
  EXPECT_THROW(model.translate(kSources, {.sampling = Sampling{}, .streams = {1}}), ShapeError);
}

}  // namespace
}  // namespace heed
