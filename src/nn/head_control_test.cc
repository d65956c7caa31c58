#include <gtest/gtest.h>

#include <cmath>

#include "heed/models.h"
#include "heed/nn.h"
#include "heed/random.h"
#include "tests/gradcheck.h"

namespace heed {
namespace {

constexpr int64_t kHeads = 4, kSize = 6, kWidth = kHeads * kSize, kLength = 5;

class HeadControls : public testing::Test {
 protected:
  HeadControls() { manual_seed(5); }

  static MultiheadAttentionOptions options() {
    return {.embed_dim = kWidth, .num_heads = kHeads, .kv_heads = 2, .rotary = true};
  }
  static HeadControl with(int64_t head, HeadPattern pattern) {
    HeadControl control;
    control.patterns.assign(kHeads, HeadPattern::learned);
    control.patterns[static_cast<size_t>(head)] = pattern;
    return control;
  }
  static Variable scales(std::vector<float> factors) { return Variable(Tensor::from(factors, {kHeads})); }
};

void expect_near(const Tensor& a, const Tensor& b, float tolerance = 1e-6f) {
  ASSERT_EQ(a.shape(), b.shape());
  const Tensor x = a.contiguous(), y = b.contiguous();
  for (int64_t i = 0; i < x.numel(); ++i) ASSERT_NEAR(x.data<float>()[i], y.data<float>()[i], tolerance) << i;
}

TEST_F(HeadControls, AHeadSwitchedOffIsOneWithoutWeightsBehindIt) {
  MultiheadAttention attention(options());
  const Variable x(normal({2, kLength, kWidth}, 0, 1));
  const NoGrad no_grad;
  const MultiheadAttention::Call causal{.causal = Causal::top_left};
  const Tensor before = attention(x, x, x, causal).value();
  attention.control_heads({.scales = scales({1, 0, 0.5f, 1}), .patterns = {}});
  HeadRecord record;
  const Tensor off = attention(x, x, x, causal, &record).value();
  attention.control_heads({});
  expect_near(attention(x, x, x, causal).value(), before, 0);
  HeadRecord learned;
  attention(x, x, x, causal, &learned);
  expect_near(record.weights, learned.weights, 0);  // what the head attends to is as it was
  const Tensor& weight = attention.out_proj.weight.value();
  weight.slice(1, kSize, 2 * kSize).fill(0);
  for (int64_t row = 0; row < kWidth; ++row)
    for (int64_t column = 2 * kSize; column < 3 * kSize; ++column) weight.at<float>(row, column) *= 0.5f;
  expect_near(off, attention(x, x, x, causal).value());
}

TEST_F(HeadControls, ScalesHaveGradients) {
  MultiheadAttention attention({.embed_dim = kWidth, .num_heads = kHeads});
  attention.to(DType::f64);
  const Variable x = test::leaf({2, kLength, kWidth}), factors(Tensor::full({kHeads}, 1, DType::f64), true);
  attention.control_heads({.scales = factors, .patterns = {}});
  const Tensor weights = normal({2, kLength, kWidth}, 0, 1, DType::f64);
  test::expect_gradients([&] { return test::probe(attention(x, x, x), weights); }, {x, factors});
}

TEST_F(HeadControls, WhatIsAddedHasGradients) {
  MultiheadAttention attention({.embed_dim = kWidth, .num_heads = kHeads});
  attention.to(DType::f64);
  const Variable x = test::leaf({2, kLength, kWidth}), added = test::leaf({2, kLength, kWidth});
  const Tensor y = attention(x, x, x).value();
  attention.control_heads({.scales = {}, .patterns = {}, .added = added});
  const Tensor more = attention(x, x, x).value();
  const Tensor weight = attention.out_proj.weight.value();
  for (int64_t e = 0; e < kWidth; ++e) {
    double sum = y.at<double>(1, 2, e);
    for (int64_t i = 0; i < kWidth; ++i) sum += weight.at<double>(e, i) * added.value().at<double>(1, 2, i);
    EXPECT_NEAR(more.at<double>(1, 2, e), sum, 1e-12);
  }
  const Tensor weights = normal({2, kLength, kWidth}, 0, 1, DType::f64);
  test::expect_gradients([&] { return test::probe(attention(x, x, x), weights); }, {x, added});
  attention.control_heads({.scales = {}, .patterns = {}, .added = test::leaf({2, kLength, kSize})});
  EXPECT_THROW(attention(x, x, x), ShapeError);
}

TEST_F(HeadControls, PatternsReplaceWeights) {
  MultiheadAttention attention(options());
  const Variable x(normal({1, kLength, kWidth}, 0, 1));
  const NoGrad no_grad;
  const auto expected = [](HeadPattern pattern, bool causal, int64_t i, int64_t j) -> float {
    if (pattern == HeadPattern::uniform) return causal ? (j <= i ? 1 / static_cast<float>(i + 1) : 0) : 1.f / kLength;
    return j == (pattern == HeadPattern::own ? i : std::max<int64_t>(i - 1, 0)) ? 1 : 0;
  };
  for (const HeadPattern pattern : {HeadPattern::uniform, HeadPattern::previous, HeadPattern::own})
    for (const bool causal : {false, true}) {
      const MultiheadAttention::Call call{.causal = causal ? Causal::top_left : Causal::none};
      HeadRecord learned, replaced{.want_vectors = true}, some;
      attention.control_heads({});
      attention(x, x, x, call, &learned);
      attention.control_heads(with(2, pattern));
      const Tensor y = attention(x, x, x, call, &replaced).value();
      // The other heads are as they were; the output is what these weights make of the values.
      const Tensor heads = Tensor::zeros({1, kLength, kWidth});
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t i = 0; i < kLength; ++i)
          for (int64_t j = 0; j < kLength; ++j) {
            const float w = replaced.weights.at<float>(0, h, i, j);
            EXPECT_NEAR(w, h == 2 ? expected(pattern, causal, i, j) : learned.weights.at<float>(0, h, i, j), 1e-6f);
            for (int64_t d = 0; d < kSize; ++d)
              heads.at<float>(0, i, h * kSize + d) += w * replaced.vectors.v.at<float>(0, h / 2, j, d);
          }
      expect_near(y, attention.out_proj(Variable(heads)).value(), 1e-5f);
      some.selection = {.heads = Tensor::from<int64_t>({3, 2}, {2}), .rows = Tensor::from<int64_t>({4, 0}, {2})};
      attention(x, x, x, call, &some);
      for (int64_t r = 0; r < 2; ++r)
        for (int64_t j = 0; j < kLength; ++j)
          EXPECT_EQ(some.weights.at<float>(0, 1, r, j), replaced.weights.at<float>(0, 2, r ? 0 : 4, j));
    }
}

TEST_F(HeadControls, WhatMasksHideStaysHidden) {
  MultiheadAttention attention({.embed_dim = kWidth, .num_heads = kHeads});
  const Variable x(normal({2, kLength, kWidth}, 0, 1));
  const NoGrad no_grad;
  attention.control_heads(with(0, HeadPattern::uniform));
  HeadRecord record;
  const Tensor mask = Tensor::zeros({kLength, kLength});
  for (int64_t i = 0; i < kLength; ++i) mask.at<float>(i, 1) = -INFINITY, mask.at<float>(i, 2) = 3;
  attention(x, x, x, {.mask = mask, .tokens = PaddedKeys{Tensor::from<int32_t>({kLength, 4}, {2})}}, &record);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t j = 0; j < kLength; ++j)
      EXPECT_EQ(record.weights.at<float>(b, 0, 0, j), j == 1 || (b && j == 4) ? 0 : b ? 1.f / 3 : 0.25f);
}

TEST_F(HeadControls, StepsArePartsOfTheWhole) {
  MultiheadAttention attention(options());
  const Variable x(normal({1, kLength, kWidth}, 0, 1));
  const NoGrad no_grad;
  for (const HeadPattern pattern : {HeadPattern::uniform, HeadPattern::previous, HeadPattern::own}) {
    HeadControl control = with(1, pattern);
    control.scales = scales({1, 1, 0, 2});
    attention.control_heads(control);
    const Tensor whole = attention(x, x, x, {.causal = Causal::top_left}).value();
    KVCache cache, other;
    const Tensor first = attention.step(Variable(x.value().slice(1, 0, 3)), cache).value();
    expect_near(first, whole.slice(1, 0, 3), 1e-5f);
    attention.step(Variable(x.value().slice(1, 0, 3)), other);
    expect_near(attention.step(Variable(x.value().slice(1, 3, 4)), cache).value(), whole.slice(1, 3, 4), 1e-5f);
    KVCache* const texts[] = {&other};
    expect_near(attention.step(Variable(x.value().slice(1, 3, 4).clone()), texts).value(), whole.slice(1, 3, 4), 1e-5f);
    // Packed behind another sentence.
    const Tensor packed = Tensor::empty({1, 3 + kLength, kWidth});
    packed.slice(1, 0, 3).copy_from(x.value().slice(1, 1, 4));
    packed.slice(1, 3, 3 + kLength).copy_from(x.value());
    const Tensor offsets = Tensor::from<int32_t>({0, 3, 3 + kLength}, {3});
    MultiheadAttentionOptions plain = options();
    plain.rotary = false;
    MultiheadAttention without(plain);
    without.control_heads(control);
    const Variable rows(packed);
    const Tensor both =
        without(rows, rows, rows, {.causal = Causal::top_left, .tokens = PackedTokens{offsets, offsets}}).value();
    expect_near(both.slice(1, 3, 3 + kLength), without(x, x, x, {.causal = Causal::top_left}).value(), 1e-5f);
  }
}

TEST_F(HeadControls, CrossAttentionOverAMemory) {
  MultiheadAttention attention({.embed_dim = kWidth, .num_heads = kHeads});
  const Variable x(normal({2, 3, kWidth}, 0, 1)), memory(normal({2, kLength, kWidth}, 0, 1));
  const NoGrad no_grad;
  HeadControl control = with(3, HeadPattern::uniform);
  control.scales = scales({0, 1, 1, 1});
  attention.control_heads(control);
  const PaddedKeys lengths{Tensor::from<int32_t>({2, kLength}, {2})};
  HeadRecord whole, stored;
  const Tensor y = attention(x, memory, memory, {.tokens = lengths}, &whole).value();
  expect_near(attention.attend_memory(x, attention.project_memory(memory), lengths, &stored).value(), y, 1e-5f);
  expect_near(stored.weights, whole.weights);
  EXPECT_EQ(whole.weights.at<float>(0, 3, 1, 1), 0.5f);
  EXPECT_EQ(whole.weights.at<float>(0, 3, 1, 2), 0);
  attention.control_heads(with(3, HeadPattern::own));
  EXPECT_THROW(attention(x, memory, memory, {}), ShapeError);
}

TEST_F(HeadControls, WhatCannotBeFollowedIsRefused) {
  MultiheadAttention attention(options());
  EXPECT_THROW(attention.control_heads({.scales = Variable(Tensor::full({3}, 1)), .patterns = {}}), ShapeError);
  EXPECT_THROW(attention.control_heads({.scales = {}, .patterns = {HeadPattern::own}}), ShapeError);
  attention.control_heads(with(0, HeadPattern::own));
  const Variable x(normal({1, kLength, kWidth}, 0, 1));
  EXPECT_THROW(attention(x, x, x), ShapeError);
  const NoGrad no_grad;
  EXPECT_NO_THROW(attention(x, x, x));
}

TEST_F(HeadControls, LayersAreFoundByTheirKind) {
  Transformer translator({.vocab_size = 9,
                          .d_model = 8,
                          .nhead = 2,
                          .num_encoder_layers = 2,
                          .num_decoder_layers = 3,
                          .dim_feedforward = 8});
  const AttentionLayers of_translator = attention_layers(translator);
  EXPECT_EQ(of_translator.encoder.size(), 2u);
  EXPECT_EQ(of_translator.decoder.size(), 3u);
  EXPECT_EQ(of_translator.cross.size(), 3u);
  LanguageModel model({.vocab_size = 9, .d_model = 8, .nhead = 2, .num_layers = 2, .dim_feedforward = 8});
  EXPECT_EQ(attention_layers(model).decoder.size(), 2u);
  EXPECT_TRUE(attention_layers(model).encoder.empty());
}

}  // namespace
}  // namespace heed
