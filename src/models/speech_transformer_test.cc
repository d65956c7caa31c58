#include "heed/speech_transformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "heed/random.h"
#include "tests/gradcheck.h"

namespace heed {
namespace {

using test::expect_gradients;
using test::probe;

constexpr int64_t kBins = 3, kStates = 4, kWidth = 4, kPieces = 11;

SpeechTransformerConfig small() {
  const TransformerLayerOptions layer{.d_model = kWidth,
                                      .nhead = 2,
                                      .dim_feedforward = 5,
                                      .dropout = 0,
                                      .activation = {Activation::gelu},
                                      .norm_first = true};
  return {.vocab_size = kPieces,
          .mel_bins = kBins,
          .d_model = kWidth,
          .max_source_positions = kStates,
          .max_target_positions = 9,
          .encoder = {layer},
          .decoder = {layer, layer}};
}

void fill(const Module& model) {
  for (const Variable& parameter : model.parameters()) parameter.value().copy_from(normal(parameter.shape(), 0, 0.7));
}

double gelu(double x) { return x * std::erfc(-x / std::sqrt(2.0)) / 2; }

// x (L, C) convolved with weight (E, C * 3), zeros beyond its ends.
Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t step) {
  const int64_t length = x.size(0), channels = x.size(1), rows = length / step;
  const Tensor y = Tensor::empty({rows, kWidth}, DType::f64);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t e = 0; e < kWidth; ++e) {
      double sum = bias.at<double>(e);
      for (int64_t k = 0; k < 3; ++k)
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t at = row * step + k - 1;
          if (at >= 0 && at < length) sum += x.at<double>(at, c) * weight.at<double>(e, c * 3 + k);
        }
      y.at<double>(row, e) = gelu(sum);
    }
  return y;
}

TEST(SpeechTransformer, TwoConvolutionsStandInFront) {
  manual_seed(5);
  SpeechTransformer model(small());
  model.to(DType::f64);
  std::map<std::string, Tensor> own;
  for (const auto& [name, parameter] : model.named_parameters()) own[name] = parameter.value();
  const Tensor mel = normal({2, kBins, 2 * kStates}, 0, 1, DType::f64);
  AttentionRecord record;
  record.want_states = true;
  EXPECT_EQ(model.encode(mel, &record).shape(), (Dims{2, kStates, kWidth}));
  for (int64_t b = 0; b < 2; ++b) {
    const Tensor once = convolved(mel.select(0, b).transpose(0, 1), own["conv1.weight"], own["conv1.bias"], 1);
    const Tensor twice = convolved(once, own["conv2.weight"], own["conv2.bias"], 2);
    for (int64_t row = 0; row < kStates; ++row)
      for (int64_t e = 0; e < kWidth; ++e)
        EXPECT_NEAR(record.encoder_states[0].at<double>(b, row, e),
                    twice.at<double>(row, e) + own["source_positions.weight"].at<double>(row, e), 1e-12);
  }
}

TEST(SpeechTransformer, Gradients) {
  manual_seed(6);
  SpeechTransformerConfig config = small();
  config.decoder.pop_back();
  SpeechTransformer model(config);
  model.to(DType::f64);
  fill(model);  // what is small bends too much within a difference
  const Tensor mel = normal({2, kBins, 2 * kStates}, 0, 1, DType::f64), p = normal({2, 3, kPieces}, 0, 1, DType::f64);
  const TokenBatch target = TokenBatch::pad({{1, 2, 3}, {4, 5, 6}}, 0);
  std::vector<Variable> leaves = model.parameters();
  // Positions that no target reaches have no gradient to compare.
  std::erase_if(leaves, [](const Variable& leaf) { return leaf.size(0) == 9; });
  expect_gradients([&] { return probe(model.logits(mel, target), p); }, leaves);
}

TEST(SpeechTransformer, TranscribesWhatTheDecoderSaysWithoutACache) {
  manual_seed(7);
  SpeechTransformer model(small());
  fill(model);
  model.eval();
  const NoGrad no_grad;
  const Tensor mel = normal({1, kBins, 2 * kStates}, 0, 1);
  const TranscribeOptions options{.prompt = {1, 2}, .max_tokens = 5, .never = {3}, .never_first = {4, 5}};
  const std::vector<int32_t> got = model.transcribe(mel, options);
  std::vector<int32_t> text = options.prompt;
  for (size_t i = 0; i < 5; ++i) {
    const Tensor logits = model.logits(mel, TokenBatch::pad({text}, 0)).value();
    int32_t best = -1;
    for (int32_t id = 0; id < kPieces; ++id) {
      if (id == 3 || (i == 0 && (id == 4 || id == 5))) continue;
      const int64_t last = std::ssize(text) - 1;
      if (best < 0 || logits.at<float>(0, last, id) > logits.at<float>(0, last, best)) best = id;
    }
    text.push_back(best);
  }
  EXPECT_EQ(got, std::vector<int32_t>(text.begin() + 2, text.end()));
  TranscribeOptions stopped = options;
  stopped.stop = {got[2]};
  const auto first = std::find(got.begin(), got.end(), got[2]);
  EXPECT_EQ(model.transcribe(mel, stopped), std::vector<int32_t>(got.begin(), first));
  TranscribeOptions longest = options;
  longest.max_tokens = 100;
  EXPECT_EQ(model.transcribe(mel, longest).size(), 7u);  // positions end
}

TEST(SpeechTransformer, RefusesWhatDoesNotFit) {
  manual_seed(8);
  SpeechTransformer model(small());
  model.eval();
  const NoGrad no_grad;
  const Tensor mel = normal({1, kBins, 2 * kStates}, 0, 1);
  for (const Dims& shape : {Dims{1, kBins, 7}, Dims{1, kBins + 1, 8}, Dims{kBins, 8}})
    EXPECT_THROW(model.encode(normal(shape, 0, 1)), ShapeError) << to_string(shape);
  EXPECT_THROW(model.encode(Tensor::zeros({1, kBins, 8}, DType::i32)), ShapeError);
  EXPECT_THROW(model.logits(mel, TokenBatch::pack({{1, 2}})), ShapeError);
  EXPECT_THROW(model.logits(mel, TokenBatch::pad({{1, 2}, {1, 2}}, 0)), ShapeError);
  EXPECT_THROW(model.logits(mel, TokenBatch::pad({{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}, 0)), ShapeError);
  EXPECT_THROW(model.transcribe(mel, {}), ShapeError);
  EXPECT_THROW(model.transcribe(mel, {.prompt = {kPieces}}), ShapeError);
  EXPECT_THROW(model.transcribe(mel, {.prompt = {1}, .max_tokens = -1}), ShapeError);
  EXPECT_THROW(model.transcribe(normal({2, kBins, 8}, 0, 1), {.prompt = {1}}), ShapeError);
  SpeechTransformerConfig config = small();
  config.encoder[0].d_model = 8;
  EXPECT_THROW(SpeechTransformer{config}, ShapeError);
  config = small();
  config.decoder.clear();
  EXPECT_THROW(SpeechTransformer{config}, ShapeError);
}

}  // namespace
}  // namespace heed
