// Every operation of the tape: its gradient against differences, and its value against the plain composition.
#include "heed/functional.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/gradcheck.h"

namespace heed {
namespace {

namespace F = functional;
using test::expect_gradients;
using test::leaf;
using test::probe;

class Functional : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(7); }
};

Tensor noise(const Dims& shape) { return normal(shape, 0, 1, DType::f64); }

TEST_F(Functional, LinearGradients) {
  Variable x = leaf({2, 3, 5}), w = leaf({4, 5}), b = leaf({4});
  const Tensor p = noise({2, 3, 4});
  expect_gradients([&] { return probe(F::linear(x, w, b), p); }, {x, w, b});
  expect_gradients([&] { return probe(F::linear_relu(x, w, b), p); }, {x, w, b});
  expect_gradients([&] { return probe(F::linear_relu(x, w), p); }, {x, w});
  const Tensor part = noise({2, 3, 2});
  expect_gradients([&] { return probe(F::linear_slice(x, w, {1, 3}, b, {1, 3}), part); }, {x, w, b});
}

TEST_F(Functional, SumsWhereAValueFansOut) {
  Variable x = leaf({3, 4});
  const Tensor p = noise({3, 4});
  expect_gradients([&] { return probe(F::add(F::multiply(x, x), F::scale(F::add(x, x), 0.5)), p); }, {x});
}

TEST_F(Functional, LeavesAddUpOverSeveralBackwards) {
  Variable x = leaf({2});
  F::sum(x).backward();
  F::sum(F::scale(x, 2)).backward();
  EXPECT_EQ(x.grad().at<double>(1), 3.0);
  x.zero_grad();
  EXPECT_EQ(x.grad().at<double>(1), 0.0);
}

TEST_F(Functional, ActivationGradients) {
  Variable x = leaf({3, 7});
  const Tensor p = noise({3, 7});
  for (const Activation kind :
       {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::tanh,
        Activation::relu_squared, Activation::quick_gelu, Activation::gelu_10})
    expect_gradients([&] { return probe(F::activation(kind, x), p); }, {x});
}

TEST_F(Functional, SwigluIsSiluOfGateTimesUp) {
  Variable x = leaf({3, 8});
  const Tensor p = noise({3, 4});
  expect_gradients([&] { return probe(F::swiglu(x), p); }, {x});
  const double gate = x.value().at<double>(1, 2), up = x.value().at<double>(1, 6);
  EXPECT_NEAR(F::swiglu(x).value().at<double>(1, 2), gate / (1 + std::exp(-gate)) * up, 1e-14);
  expect_gradients([&] { return probe(F::swiglu(x, 1.702), p); }, {x});
  EXPECT_NEAR(F::swiglu(x, 1.702).value().at<double>(1, 2), gate / (1 + std::exp(-1.702 * gate)) * up, 1e-14);
}

TEST_F(Functional, BoundedGates) {
  Variable x = leaf({3, 8}, 2);
  const Tensor p = noise({3, 8});
  expect_gradients([&] { return probe(F::bounded_gate(x, 1.5), p); }, {x});
  const Tensor from = Tensor::from<double>({9, -9, std::nan(""), 9, -9, 0.5}, {1, 6});
  const std::vector<double> want{2, -9, std::nan(""), 3, -1, 1.5};
  const Tensor y = F::bounded_gate(Variable(from), 2).value();
  for (int64_t i = 0; i < 6; ++i) {
    const double expected = want[static_cast<size_t>(i)], got = y.at<double>(0, i);
    EXPECT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected))) << i << ": " << got;
  }
  for (const double limit : {0.0, -1.0, std::nan("")}) EXPECT_THROW(F::bounded_gate(x, limit), ShapeError) << limit;
  EXPECT_THROW(F::bounded_gate(leaf({2, 3}), 1), ShapeError);
}

TEST_F(Functional, PartsBehindEachOther) {
  Variable a = leaf({2, 1, 3}), b = leaf({2, 4, 3});
  const Tensor whole = F::concatenate({a, b, a}, 1).value();
  ASSERT_EQ(whole.shape(), (Dims{2, 6, 3}));
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t row = 0; row < 6; ++row)
      for (int64_t j = 0; j < 3; ++j) {
        const bool of_b = row > 0 && row < 5;
        EXPECT_EQ(whole.at<double>(i, row, j),
                  of_b ? b.value().at<double>(i, row - 1, j) : a.value().at<double>(i, 0, j));
      }
  const Tensor p = noise({2, 6, 3}), q = noise({4, 1, 3});
  expect_gradients([&] { return probe(F::concatenate({a, b, a}, 1), p); }, {a, b});
  expect_gradients([&] { return probe(F::concatenate({a, a}, 0), q); }, {a});
  EXPECT_THROW(F::concatenate({}, 0), ShapeError);
  EXPECT_THROW(F::concatenate({a, b}, 0), ShapeError);
  EXPECT_THROW(F::concatenate({a, leaf({2, 3})}, 1), ShapeError);
  EXPECT_THROW(F::concatenate({a}, 3), ShapeError);
  EXPECT_THROW(F::concatenate({a, Variable(normal({2, 1, 3}, 0, 1))}, 1), ShapeError);
}

TEST_F(Functional, NormGradients) {
  Variable x = leaf({4, 6}), w = leaf({6}), b = leaf({6});
  const Tensor p = noise({4, 6});
  expect_gradients([&] { return probe(F::layer_norm(x, w, b), p); }, {x, w, b});
  expect_gradients([&] { return probe(F::layer_norm(x, {}, {}), p); }, {x});
  expect_gradients([&] { return probe(F::rms_norm(x, w), p); }, {x, w});
}

TEST_F(Functional, SoftmaxGradients) {
  Variable x = leaf({4, 6});
  const Tensor p = noise({4, 6});
  expect_gradients([&] { return probe(F::softmax(x), p); }, {x});
  expect_gradients([&] { return probe(F::log_softmax(x), p); }, {x});
}

TEST_F(Functional, EmbeddingGradientsAddRepeatedIds) {
  Variable w = leaf({5, 3});
  const Tensor ids = Tensor::from<int32_t>({4, 0, 4, 2}, {2, 2});
  const Tensor p = noise({2, 2, 3});
  expect_gradients([&] { return probe(F::embedding(ids, w, 1.5), p); }, {w});
  EXPECT_THROW(F::embedding(Tensor::from<int32_t>({5}, {1}), w), ShapeError);
  EXPECT_THROW(F::embedding(Tensor::from<int32_t>({-1}, {1}), w), ShapeError);
}

TEST_F(Functional, EmbeddingsOfPaddingGetNoGradient) {
  Variable w = leaf({4, 3});
  F::sum(F::embedding(Tensor::from<int32_t>({2, 1, 2, 0}, {4}), w, 1, /*padding_id=*/2)).backward();
  for (int64_t id = 0; id < 4; ++id) EXPECT_EQ(w.grad().at<double>(id, 0), id < 2 ? 1 : 0) << id;
}

TEST_F(Functional, RelativePositionBias) {
  Variable w = leaf({8, 2});
  const Tensor p = noise({1, 2, 5, 30});
  for (const bool both_ways : {false, true})
    expect_gradients([&] { return probe(F::relative_position_bias(w, 5, 30, both_ways, 12, 3), p); }, {w});
  // By hand, 4 buckets for each way: distances 0 and 1 alone, then those below and from 2 sqrt(8 / 2) = 4 on.
  const Tensor both = F::relative_position_bias(w, 1, 13, true, 8, 6).value();
  const int64_t of_distance[13] = {3, 3, 3, 2, 2, 1, 0, 5, 6, 6, 7, 7, 7};
  for (int64_t j = 0; j < 13; ++j) EXPECT_EQ(both.at<double>(0, 1, 0, j), w.value().at<double>(of_distance[j], 1)) << j;
  // One way: what comes later shares the first bucket. Row i of the whole is that of query i alone.
  const Tensor whole = F::relative_position_bias(w, 6, 6, false, 16).value();
  EXPECT_EQ(whole.at<double>(0, 0, 1, 4), w.value().at<double>(0, 0));
  const Tensor fourth = F::relative_position_bias(w, 1, 6, false, 16, 4).value();
  for (int64_t j = 0; j < 6; ++j) EXPECT_EQ(fourth.at<double>(0, 1, 0, j), whole.at<double>(0, 1, 4, j));
  EXPECT_THROW(F::relative_position_bias(leaf({3, 2}), 2, 2, true), ShapeError);
  EXPECT_THROW(F::relative_position_bias(w, 2, 2, false, 4), ShapeError);
}

// 8 * 16^(k / 8): a bucket begins at 16, 32 and 64 themselves.
TEST_F(Functional, BucketsOfRelativePositionsBeginWhereTheRuleSays) {
  Variable w = leaf({32, 1});
  const Tensor bias = F::relative_position_bias(w, 1, 130, true, 128).value();
  const int64_t begins[9] = {8, 12, 16, 23, 32, 46, 64, 91, 128};
  for (int64_t k = 0; k < 8; ++k)
    for (int64_t distance = begins[k]; distance < begins[k + 1]; ++distance)
      EXPECT_EQ(bias.at<double>(0, 0, 0, distance), w.value().at<double>(16 + 8 + k, 0)) << distance;
}

TEST_F(Functional, SoftcapGradients) {
  Variable x = leaf({4, 6});
  const Tensor p = noise({4, 6});
  expect_gradients([&] { return probe(F::softcap(x, 1.5), p); }, {x});
  EXPECT_NEAR(F::softcap(x, 1.5).value().at<double>(1, 2), 1.5 * std::tanh(x.value().at<double>(1, 2) / 1.5), 1e-14);
}

TEST_F(Functional, DropoutKeepsTheMeanAndBackwardUsesTheSameDraws) {
  Variable x(Tensor::full({200, 100}, 1, DType::f64), true);
  const Variable y = F::dropout(x, 0.3);
  F::sum(y).backward();
  double mean = 0;
  for (int64_t i = 0; i < 20000; ++i) {
    const double value = y.value().data<double>()[i];
    EXPECT_TRUE(value == 0 || std::abs(value - 1 / 0.7) < 1e-12);
    EXPECT_EQ(x.grad().data<double>()[i], value);
    mean += value / 20000;
  }
  EXPECT_NEAR(mean, 1, 0.02);
  EXPECT_TRUE(F::dropout(x, 0).same(x));
  EXPECT_THROW(F::dropout(x, 1), ShapeError);
}

TEST_F(Functional, DropoutAddIsResidualPlusDropout) {
  Variable x = leaf({5, 9}), r = leaf({5, 9});
  manual_seed(3);
  const Tensor fused = F::dropout_add(x, r, 0.4).value();
  manual_seed(3);
  const Tensor plain = F::add(r, F::dropout(x, 0.4)).value();
  for (int64_t i = 0; i < 45; ++i) EXPECT_DOUBLE_EQ(fused.data<double>()[i], plain.data<double>()[i]);
  const Tensor p = noise({5, 9});
  expect_gradients(
      [&] {
        manual_seed(3);
        return probe(F::dropout_add(x, r, 0.4), p);
      },
      {x, r});
}

TEST_F(Functional, RotaryTurnsPairsByPosition) {
  Variable x = leaf({2, 3, 12});  // two heads of four, the rest untouched
  const Tensor positions = Tensor::from<int32_t>({0, 1, 5}, {3});
  const Tensor p = noise({2, 3, 12});
  for (const RotaryLayout layout : {RotaryLayout::interleaved, RotaryLayout::half_split})
    expect_gradients([&] { return probe(F::rotary(x, 2, 4, {.layout = layout, .positions = positions}), p); }, {x});
  const Tensor y = F::rotary(x, 2, 4, {.layout = RotaryLayout::interleaved, .positions = positions}).value();
  const Tensor& in = x.value();
  EXPECT_EQ(y.at<double>(0, 0, 3), in.at<double>(0, 0, 3));  // position 0 does not turn
  EXPECT_EQ(y.at<double>(0, 2, 9), in.at<double>(0, 2, 9));  // no head
  EXPECT_NEAR(y.at<double>(1, 2, 4), in.at<double>(1, 2, 4) * std::cos(5) - in.at<double>(1, 2, 5) * std::sin(5),
              1e-12);
  EXPECT_NEAR(y.at<double>(1, 2, 7), in.at<double>(1, 2, 6) * std::sin(0.05) + in.at<double>(1, 2, 7) * std::cos(0.05),
              1e-12);
}

TEST_F(Functional, AttentionGradients) {
  Variable q = leaf({2, 4, 3, 5}), k = leaf({2, 2, 6, 5}), v = leaf({2, 2, 6, 3}), mask = leaf({1, 4, 3, 6});
  const Tensor p = noise({2, 4, 3, 3});
  expect_gradients([&] { return probe(F::scaled_dot_product_attention(q, k, v, {.causal = Causal::bottom_right}), p); },
                   {q, k, v});
  expect_gradients([&] { return probe(F::scaled_dot_product_attention(q, k, v, {}, mask), p); }, {q, k, v, mask});
}

TEST_F(Functional, PackedAttentionIsAttentionOfTheUnpackedHeads) {
  Variable qkv = leaf({2, 5, 2 * 3 + 3 + 4});  // two query heads of 3, one key head of 3, one value head of 4
  const F::PackedHeads q{qkv, 0, 2, 3}, k{qkv, 6, 1, 3}, v{qkv, 9, 1, 4};
  const Tensor p = noise({2, 5, 8});
  expect_gradients([&] { return probe(F::packed_attention(q, k, v, {.causal = Causal::top_left}), p); }, {qkv});
  const Tensor& x = qkv.value();
  const auto heads = [&](int64_t offset, int64_t count, int64_t size) {
    return Variable(
        x.slice(2, offset, offset + count * size).reshape({2, 5, count, size}).transpose(1, 2).contiguous());
  };
  const Tensor plain =
      F::scaled_dot_product_attention(heads(0, 2, 3), heads(6, 1, 3), heads(9, 1, 4), {.causal = Causal::top_left})
          .value()
          .transpose(1, 2)
          .reshape({2, 5, 8});
  const Tensor packed = F::packed_attention(q, k, v, {.causal = Causal::top_left}).value();
  for (int64_t i = 0; i < packed.numel(); ++i) EXPECT_NEAR(packed.data<double>()[i], plain.data<double>()[i], 1e-12);
  EXPECT_THROW(F::packed_attention(q, k, {qkv, 10, 1, 4}), ShapeError);
}

// A sink is one more key of that score, whose value is 0.
TEST_F(Functional, LearnedSinks) {
  Variable x = leaf({2, 3, 12}), sinks = leaf({2}), mask = leaf({1, 2, 3, 3});
  const auto attend = [&](const Variable& added) {
    return F::packed_attention({x, 0, 2, 2}, {x, 4, 2, 2}, {x, 8, 2, 2}, {.causal = Causal::top_left}, nullptr, nullptr,
                               added, sinks);
  };
  const Tensor y = attend({}).value(), p = noise({2, 3, 4});
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = 0; i < 3; ++i) {
        double sum = std::exp(sinks.value().at<double>(h)), out = 0;
        for (int64_t j = 0; j <= i; ++j) {
          double score = 0;
          for (int64_t d = 0; d < 2; ++d)
            score += x.value().at<double>(b, i, 2 * h + d) * x.value().at<double>(b, j, 4 + 2 * h + d) / std::sqrt(2.0);
          sum += std::exp(score);
          out += std::exp(score) * x.value().at<double>(b, j, 8 + 2 * h);
        }
        EXPECT_NEAR(y.at<double>(b, i, 2 * h), out / sum, 1e-12);
      }
  expect_gradients([&] { return probe(attend({}), p); }, {x, sinks});
  expect_gradients([&] { return probe(attend(mask), p); }, {x, sinks, mask});
  EXPECT_THROW(F::packed_attention({x, 0, 2, 2}, {x, 4, 2, 2}, {x, 8, 2, 2}, {.sinks = sinks.value()}, nullptr, nullptr,
                                   {}, sinks),
               ShapeError);
}

TEST_F(Functional, PackedAttentionOfHeadsThatOverlap) {
  Variable x = leaf({2, 4, 6});
  const Tensor p = noise({2, 4, 6}), some = noise({2, 4, 3});
  const F::PackedHeads whole{x, 0, 1, 6}, first{x, 0, 1, 3}, middle{x, 1, 1, 3}, last{x, 3, 1, 3};
  expect_gradients([&] { return probe(F::packed_attention(whole, whole, whole), p); }, {x});
  expect_gradients([&] { return probe(F::packed_attention(first, middle, last), some); }, {x});
  expect_gradients([&] { return probe(F::packed_attention(first, first, last), some); }, {x});
}

TEST_F(Functional, PackedAttentionOfSeparateInputs) {
  Variable q = leaf({2, 3, 8}), kv = leaf({2, 4, 18});  // two columns of kv that no head reads
  const F::PackedHeads qh{q, 0, 2, 4}, kh{kv, 0, 2, 4}, vh{kv, 8, 2, 4};
  const Tensor p = noise({2, 3, 8});
  const Tensor lengths = Tensor::from<int32_t>({4, 2}, {2});
  expect_gradients([&] { return probe(F::packed_attention(qh, kh, vh, {.key_lengths = lengths}), p); }, {q, kv});
}

TEST_F(Functional, CrossEntropyGradientsAndValue) {
  Variable x = leaf({4, 6});
  const Tensor targets = Tensor::from<int32_t>({1, -100, 5, 0}, {4});
  for (const double smoothing : {0.0, 0.1}) {
    const F::CrossEntropyOptions options{.label_smoothing = smoothing};
    expect_gradients([&] { return F::cross_entropy(x, targets, options); }, {x});
    double expected = 0;
    for (const int row : {0, 2, 3}) {
      double sum = 0, all = 0;
      for (int j = 0; j < 6; ++j) sum += std::exp(x.value().at<double>(row, j));
      for (int j = 0; j < 6; ++j) all += std::log(sum) - x.value().at<double>(row, j);
      const int target = targets.at<int32_t>(row);
      expected += ((1 - smoothing) * (std::log(sum) - x.value().at<double>(row, target)) + smoothing * all / 6) / 3;
    }
    F::LossParts parts;
    EXPECT_NEAR(F::cross_entropy(x, targets, options, &parts).value().item(), expected, 1e-12);
    EXPECT_EQ(parts.count, 3);
  }
  const Tensor ignored = Tensor::full({4}, -100, DType::i32);
  EXPECT_EQ(F::cross_entropy(x, ignored).value().item(), 0);
  EXPECT_THROW(F::cross_entropy(x, Tensor::full({4}, 6, DType::i32)), ShapeError);
}

TEST_F(Functional, WeightsOfClassesAndReductions) {
  Variable x = leaf({4, 3});
  const Tensor targets = Tensor::from<int32_t>({1, -100, 2, 0}, {2, 2}), weight = Tensor::from({0.5, 2.0, 3.0}, {3});
  const Tensor p = noise({2, 2});
  double each[4] = {};
  for (const int row : {0, 2, 3}) {
    double sum = 0;
    for (int j = 0; j < 3; ++j) sum += std::exp(x.value().at<double>(row, j));
    const int target = targets.data<int32_t>()[row];
    each[row] = weight.at<double>(target) * (std::log(sum) - x.value().at<double>(row, target));
  }
  F::CrossEntropyOptions o{.weight = weight, .reduction = F::Reduction::none};
  const Tensor losses = F::cross_entropy(x, targets, o).value();
  ASSERT_TRUE(losses.shape() == targets.shape());
  for (int row = 0; row < 4; ++row) EXPECT_NEAR(losses.data<double>()[row], each[row], 1e-14);
  expect_gradients([&] { return probe(F::cross_entropy(x, targets, o), p); }, {x});
  o.reduction = F::Reduction::sum;
  EXPECT_NEAR(F::cross_entropy(x, targets, o).value().item(), each[0] + each[2] + each[3], 1e-13);
  const F::CrossEntropyOptions plain{.reduction = F::Reduction::sum};
  EXPECT_NEAR(F::cross_entropy(x, targets, plain).value().item(), each[0] / 2 + each[2] / 3 + each[3] / 0.5, 1e-13);
  o.reduction = F::Reduction::mean;
  EXPECT_NEAR(F::cross_entropy(x, targets, o).value().item(), (each[0] + each[2] + each[3]) / 5.5, 1e-13);
  EXPECT_NEAR(F::nll_loss(F::log_softmax(x), targets, o).value().item(), (each[0] + each[2] + each[3]) / 5.5, 1e-13);
  for (const double smoothing : {0.0, 0.2}) {
    o.label_smoothing = smoothing;
    expect_gradients([&] { return F::nll_loss(x, targets, o); }, {x});
  }
  EXPECT_EQ(F::cross_entropy(x, Tensor::full({4}, -100, DType::i32), o).value().item(), 0);
  F::LossParts parts;
  EXPECT_THROW(F::cross_entropy(x, targets, o, &parts), ShapeError);
  EXPECT_THROW(F::linear_cross_entropy(x, leaf({3, 3}), {}, targets, o), ShapeError);
  o.weight = Tensor::full({4}, 1, DType::f64);
  EXPECT_THROW(F::cross_entropy(x, targets, o), ShapeError);
}

TEST_F(Functional, LinearCrossEntropyEqualsItsComposition) {
  Variable x = leaf({600, 5}, 0.5), w = leaf({7, 5}), b = leaf({7});  // more rows than a chunk
  std::vector<int32_t> ids(600);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i % 11 == 3 ? -100 : static_cast<int32_t>(i % 7);
  const Tensor targets = Tensor::from(ids, {600});
  const F::CrossEntropyOptions options{.label_smoothing = 0.1};
  F::scale(F::linear_cross_entropy(x, w, b, targets, options), 3).backward();
  const Tensor dx = x.grad().clone(), dw = w.grad().clone(), db = b.grad().clone();
  for (Variable* v : {&x, &w, &b}) v->zero_grad();
  const Variable plain = F::scale(F::cross_entropy(F::linear(x, w, b), targets, options), 3);
  EXPECT_NEAR(plain.value().item(), 3 * F::linear_cross_entropy(x, w, b, targets, options).value().item(), 1e-12);
  plain.backward();
  for (int64_t i = 0; i < dx.numel(); ++i) EXPECT_NEAR(dx.data<double>()[i], x.grad().data<double>()[i], 1e-13);
  for (int64_t i = 0; i < dw.numel(); ++i) EXPECT_NEAR(dw.data<double>()[i], w.grad().data<double>()[i], 1e-12);
  for (int64_t i = 0; i < db.numel(); ++i) EXPECT_NEAR(db.data<double>()[i], b.grad().data<double>()[i], 1e-12);
}

TEST_F(Functional, RDropNeedsEachRowTwice) {
  const Variable x = leaf({4, 5}), w = leaf({7, 5});
  const auto loss = [&](const std::vector<int32_t>& targets, double r_drop) {
    const auto rows = static_cast<int64_t>(targets.size());
    return F::linear_cross_entropy(Variable(x.value().slice(0, 0, rows)), w, {}, Tensor::from(targets, {rows}),
                                   {.r_drop = r_drop})
        .value()
        .item();
  };
  EXPECT_GT(loss({1, 6, 1, 6}, 2), loss({1, 6, 1, 6}, 0));
  EXPECT_EQ(loss({-100, -100}, 2), 0);
  EXPECT_THROW(loss({1, 6, 1, 5}, 2), ShapeError);
  EXPECT_THROW(loss({1, 1, 1}, 2), ShapeError);
  for (const double wrong : {-1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)})
    EXPECT_THROW(loss({1, 1}, wrong), ShapeError);
  const Tensor targets = Tensor::from(std::vector<int32_t>{1, 2, 1, 2}, {4});
  EXPECT_THROW(F::cross_entropy(x, targets, {.r_drop = 1}), ShapeError);
  EXPECT_THROW(F::nll_loss(x, targets, {.r_drop = 1}), ShapeError);
}

TEST_F(Functional, RefusesWhatDoesNotFit) {
  EXPECT_THROW(F::linear(leaf({2, 3}), leaf({4, 5})), ShapeError);
  EXPECT_THROW(F::linear(leaf({2, 3}), Variable(Tensor::zeros({4, 3}))), ShapeError);  // double times float
  EXPECT_THROW(F::add(leaf({2, 3}), leaf({3, 2})), ShapeError);
  EXPECT_THROW(F::swiglu(leaf({2, 3})), ShapeError);
  EXPECT_THROW(F::layer_norm(leaf({2, 3}), leaf({4}), {}), ShapeError);
  EXPECT_THROW(F::softmax(Variable(Tensor::zeros({2, 3}, DType::f16))), ShapeError);
  EXPECT_THROW(leaf({2, 3}).backward(), ShapeError);
}

TEST_F(Functional, CustomOperationsJoinTheTape) {
  Variable x = leaf({3});
  const auto cube = [](const Variable& v) {
    const Tensor in = v.value(), out = Tensor::empty(in.shape(), DType::f64);
    for (int64_t i = 0; i < in.numel(); ++i) out.data<double>()[i] = std::pow(in.data<double>()[i], 3);
    return custom_op("cube", {v}, out, [in](const Tensor& grad, Gradients& g) {
      const Tensor d = Tensor::empty(in.shape(), DType::f64);
      for (int64_t i = 0; i < in.numel(); ++i)
        d.data<double>()[i] = 3 * std::pow(in.data<double>()[i], 2) * grad.data<double>()[i];
      g.set(0, d);
    });
  };
  const Tensor p = noise({3});
  expect_gradients([&] { return probe(F::add(cube(x), x), p); }, {x});
}

TEST_F(Functional, ALongTapeIsDroppedWithoutBackward) {
  const Variable x(Tensor::full({1}, 1), true);
  for (const bool captured : {false, true}) {  // what keeps the one before: the tape, or the operation's own function
    Variable y = x;
    for (int i = 0; i < 300000; ++i) {
      const Variable before = y;
      if (captured)
        y = custom_op("keep", {x}, before.value(), [before](const Tensor&, Gradients&) {});
      else
        y = custom_op("keep", {before}, before.value(), [](const Tensor&, Gradients&) {});
    }
    y = {};
  }
  EXPECT_TRUE(x.requires_grad());
}

TEST_F(Functional, HistoryIsFreedByBackwardAndAbsentUnderNoGrad) {
  Variable x = leaf({1});
  const Variable y = F::scale(x, 2);
  y.backward();
  EXPECT_THROW(y.backward(), ShapeError);
  const NoGrad no_grad;
  EXPECT_FALSE(F::scale(x, 2).requires_grad());
}

}  // namespace
}  // namespace heed
