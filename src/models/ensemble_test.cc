// Several models that translate as one, beside the formula over what each of them says alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "heed/models.h"
#include "heed/random.h"

namespace heed::inline v0 {
namespace {

using Ids = std::vector<int32_t>;
using Models = std::vector<const Transformer*>;

TransformerConfig shape(int64_t d_model, int64_t nhead, const char* positions) {
  return {.vocab_size = 14,
          .d_model = d_model,
          .nhead = nhead,
          .num_encoder_layers = 1,
          .num_decoder_layers = 2,
          .dim_feedforward = 12,
          .dropout = 0,
          .positions = positions,
          .max_positions = 24};
}

std::unique_ptr<Transformer> sure_of_itself(const TransformerConfig& config, uint64_t seed) {
  manual_seed(seed);
  auto model = std::make_unique<Transformer>(config);
  for (auto& [name, parameter] : model->named_parameters())
    if (parameter.shape().rank() > 1) parameter.value().copy_from(normal(parameter.shape(), 0, 0.5));
  model->eval();
  return model;
}

// log p of each token behind `target`, by a whole forward pass, in double.
std::vector<double> log_p(const Transformer& model, Ids source, const Ids& target) {
  const NoGrad no_grad;
  source.push_back(model.config().eos_id);
  Ids input{model.config().bos_id};
  input.insert(input.end(), target.begin(), target.end());
  const Tensor logits = model.logits(TokenBatch::pad({source}, 0), TokenBatch::pad({input}, 0)).value();
  const auto row = logits.span<float>().last(static_cast<size_t>(model.config().vocab_size));
  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x));
  std::vector<double> all;
  for (const float x : row) all.push_back(static_cast<double>(x) - std::log(sum));
  return all;
}

std::vector<double> mean_log_p(const Models& models, const Ids& source, const Ids& target) {
  std::vector<double> sum(14, 0.0);
  for (const Transformer* model : models) {
    const std::vector<double> one = log_p(*model, source, target);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += std::exp(one[i]) / static_cast<double>(models.size());
  }
  for (double& x : sum) x = std::log(x);
  return sum;
}

class Ensemble : public testing::Test {
 protected:
  const std::unique_ptr<Transformer> a_ = sure_of_itself(shape(8, 2, "sinusoidal"), 1),
                                     b_ = sure_of_itself(shape(12, 3, "learned"), 2),
                                     c_ = sure_of_itself(shape(8, 1, "rotary"), 3);
  const std::vector<Ids> sources_ = {{5, 6, 7}, {9}, {4, 4, 12, 13, 8}};
};

TEST_F(Ensemble, ProbabilitiesAreTheMeanOfTheModels) {
  for (const Models& models : {Models{a_.get(), b_.get()}, Models{a_.get(), b_.get(), c_.get()}})
    for (const int64_t beam : {1, 4}) {
      const auto found = translate(models, sources_, {.beam = beam, .n_best = beam});
      for (size_t s = 0; s < sources_.size(); ++s)
        for (const Hypothesis& h : found[s]) {
          double expected = 0;
          Ids ids = h.ids;
          const bool ended = ids.size() < 2 * (sources_[s].size() + 1) + 10;  // else it was cut
          if (ended) ids.push_back(a_->config().eos_id);
          for (size_t i = 0; i < ids.size(); ++i)
            expected += mean_log_p(models, sources_[s], {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i)})
                            .at(static_cast<size_t>(ids[i]));
          EXPECT_NEAR(h.log_probability, expected, 2e-5 * std::abs(expected) + 2e-5);
        }
    }
}

TEST_F(Ensemble, GreedyTakesTheMostProbableOfTheMean) {
  const Models models{a_.get(), b_.get(), c_.get()};
  const auto best = [](std::vector<double> p) {
    p[0] = -INFINITY;  // padding is never written
    return static_cast<int32_t>(std::max_element(p.begin(), p.end()) - p.begin());
  };
  bool matters = false;  // a model alone says something else
  for (const Ids& source : sources_) {
    const Hypothesis found = translate(models, {source}, {.beam = 1})[0][0];
    Ids ids = found.ids;
    if (ids.size() < 2 * (source.size() + 1) + 10) ids.push_back(a_->config().eos_id);
    for (size_t i = 0; i < ids.size(); ++i) {
      const Ids before(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_EQ(ids[i], best(mean_log_p(models, source, before)));
      for (const Transformer* model : models) matters |= ids[i] != best(log_p(*model, source, before));
    }
  }
  EXPECT_TRUE(matters);
}

TEST_F(Ensemble, AModelTwiceSaysWhatItSaysAlone) {
  const BeamOptions options{.beam = 3, .n_best = 3, .want_alignment = true};
  const auto alone = a_->translate(sources_, options), twice = translate(Models{a_.get(), a_.get()}, sources_, options);
  for (size_t s = 0; s < sources_.size(); ++s)
    for (size_t n = 0; n < alone[s].size(); ++n) {
      EXPECT_EQ(twice[s][n].ids, alone[s][n].ids);
      EXPECT_NEAR(twice[s][n].log_probability, alone[s][n].log_probability, 1e-4);
      for (int64_t i = 0; i < alone[s][n].alignment.numel(); ++i)
        EXPECT_NEAR(twice[s][n].alignment.span<float>()[static_cast<size_t>(i)],
                    alone[s][n].alignment.span<float>()[static_cast<size_t>(i)], 1e-6);
    }
}

TEST_F(Ensemble, AlignmentIsTheMean) {
  const Models models{a_.get(), b_.get()};
  const Hypothesis together = translate(models, {sources_[2]}, {.beam = 1, .want_alignment = true})[0][0];
  // The same tokens through each model alone.
  Ids source = sources_[2], input{a_->config().bos_id};
  source.push_back(a_->config().eos_id);
  input.insert(input.end(), together.ids.begin(), together.ids.end());
  input.resize(static_cast<size_t>(together.alignment.size(0)));
  std::vector<Tensor> of_models;
  for (const Transformer* model : models) {
    const NoGrad no_grad;
    AttentionRecord record;
    const TokenBatch batch = TokenBatch::pad({source}, 0);
    model->decode(TokenBatch::pad({input}, 0), model->encode(batch), batch, &record);
    of_models.push_back(record.cross.back());  // (1, H, Lt, Ls)
  }
  for (int64_t i = 0; i < together.alignment.size(0); ++i)
    for (int64_t j = 0; j < together.alignment.size(1); ++j) {
      double expected = 0;
      for (const Tensor& w : of_models)
        for (int64_t h = 0; h < w.size(1); ++h)
          expected += static_cast<double>(w.at<float>(0, h, i, j)) / static_cast<double>(2 * w.size(1));
      EXPECT_NEAR(together.alignment.at<float>(i, j), expected, 1e-5);
    }
}

TEST_F(Ensemble, ModelsOfOtherVocabulariesAreRefused) {
  TransformerConfig other = shape(8, 2, "rotary");
  other.vocab_size = 15;
  const auto larger = sure_of_itself(other, 4);
  other = shape(8, 2, "rotary");
  other.eos_id = 4;
  const auto ends_otherwise = sure_of_itself(other, 4);
  EXPECT_THROW(translate(Models{a_.get(), larger.get()}, sources_), ShapeError);
  EXPECT_THROW(translate(Models{a_.get(), ends_otherwise.get()}, sources_), ShapeError);
  EXPECT_THROW(translate(Models{}, sources_), ShapeError);
}

}  // namespace
}  // namespace heed::inline v0
