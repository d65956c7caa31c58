// The rules that PyTorch's own tests hold its scaled_dot_product_attention to on a CPU, on sizes of theirs: float32
// within their tolerances of the formula in double, gradients of the sum of the output likewise.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "attention/testing.h"
#include "heed/attention.h"

namespace heed {
namespace {

using test::random_tensor;
using test::Textbook;
using test::textbook;

// |got - want| <= atol + rtol |want|
void expect_close(const char* what, const Tensor& got, const Tensor& want, double atol, double rtol) {
  ASSERT_EQ(to_string(got.shape()), to_string(want.shape())) << what;
  const Tensor a = got.to(DType::f64).contiguous();
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.data<double>()[i], y = want.data<double>()[i];
    ASSERT_LE(std::abs(x - y), atol + rtol * std::abs(y)) << what << ", element " << i << ": " << x << ", not " << y;
  }
}

struct Sizes {
  int64_t B, Hq, Hkv, Lq, Lk, D;
};

void expect_rule(const Sizes& s, AttentionOptions o, double grad_atol = 1e-5, double grad_rtol = 5e-6) {
  SCOPED_TRACE(testing::Message() << s.B << " x " << s.Hq << " of " << s.Hkv << " x " << s.Lq << " x " << s.Lk << " x "
                                  << s.D << (o.causal == Causal::none ? "" : " causal")
                                  << (o.mask.defined() ? " mask " + to_string(o.mask.shape()) : ""));
  const auto drawn = [&](int64_t H, int64_t L, uint64_t seed) {  // heads lie inside positions, as theirs do
    return random_tensor({s.B, L, H, s.D}, seed, DType::f32).transpose(1, 2);
  };
  const Tensor q = drawn(s.Hq, s.Lq, 1), k = drawn(s.Hkv, s.Lk, 2), v = drawn(s.Hkv, s.Lk, 3);
  const Tensor ones = Tensor::full(q.shape(), 1);
  const Textbook exact = textbook<double>(q, k, v, o, ones);
  o.want_lse = true;
  const AttentionResult r = attention(q, k, v, o);
  expect_close("out", r.out, exact.out, 1e-5, 5e-6);
  const AttentionGradients g = attention_backward(ones, q, k, v, r, o);
  expect_close("dq", g.q, exact.dq, grad_atol, grad_rtol);
  expect_close("dk", g.k, exact.dk, grad_atol, grad_rtol);
  expect_close("dv", g.v, exact.dv, grad_atol, grad_rtol);
}

TEST(PyTorchRules, WithinItsTolerances) {
  for (const Causal causal : {Causal::none, Causal::top_left})
    for (const auto& [B, H] : {std::pair<int64_t, int64_t>{2, 1}, {2, 3}, {12, 1}})
      for (const int64_t Lq : {11, 514, 1030}) expect_rule({B, H, H, Lq, 514, 8}, {.causal = causal});
}

TEST(PyTorchRules, MasksOfEveryBroadcastShape) {
  std::mt19937_64 bits(5);
  const Sizes s{2, 3, 3, 267, 514, 16};
  for (const bool boolean : {false, true})
    for (int shape = 0; shape < 16; ++shape) {
      const Dims dims{shape & 1 ? 1 : s.B, shape & 2 ? 1 : s.Hq, shape & 4 ? 1 : s.Lq, shape & 8 ? 1 : s.Lk};
      Tensor mask = random_tensor(dims, 9, DType::f32);
      if (boolean) {
        mask = Tensor::empty(dims, DType::boolean);
        for (bool& open : mask.span<bool>()) open = bits() % 2;
      }
      expect_rule(s, {.mask = mask}, 1.25e-5, 5.25e-6);
    }
}

TEST(PyTorchRules, GroupedHeads) {
  for (const auto& [Hq, Hkv] : {std::pair<int64_t, int64_t>{9, 3}, {9, 1}, {9, 9}})
    expect_rule({12, Hq, Hkv, 17, 100, 8}, {.mask = random_tensor({12, Hq, 17, 100}, 7, DType::f32)});
}

// is_causal is the lower triangle from the upper left corner, whatever the lengths.
TEST(PyTorchRules, CausalIsTopLeft) {
  for (const auto& [Lq, Lk] : {std::pair<int64_t, int64_t>{5, 9}, {9, 5}, {130, 70}, {70, 130}}) {
    const Tensor q = random_tensor({1, 2, Lq, 8}, 1, DType::f32), k = random_tensor({1, 2, Lk, 8}, 2, DType::f32);
    const Tensor mask = Tensor::empty({Lq, Lk}, DType::boolean);
    for (int64_t i = 0; i < Lq; ++i)
      for (int64_t j = 0; j < Lk; ++j) mask.at<bool>(i, j) = j <= i;
    const AttentionOptions triangle{.mask = mask}, causal{.causal = Causal::top_left};
    const Textbook exact = textbook<double>(q, k, k, triangle);
    expect_close("out", attention(q, k, k, causal).out, exact.out, 1e-5, 5e-6);
  }
}

// A row that is masked out whole gives 0 and gradient 0, to the bit; the others are as ever.
TEST(PyTorchRules, RowsMaskedOutAreZero) {
  const int64_t Lq = 70, Lk = 90;
  const Tensor q = random_tensor({2, 2, Lq, 16}, 1, DType::f32), k = random_tensor({2, 2, Lk, 16}, 2, DType::f32);
  const Tensor v = random_tensor({2, 2, Lk, 16}, 3, DType::f32), grad = random_tensor(q.shape(), 4, DType::f32);
  const auto hidden = [](int64_t i) { return i % 3 == 1 || i == 69; };
  const Tensor open = Tensor::full({Lq, 1}, 1, DType::boolean), added = Tensor::zeros({Lq, Lk});
  for (int64_t i = 0; i < Lq; ++i) {
    if (!hidden(i)) continue;
    open.at<bool>(i, 0) = false;
    for (int64_t j = 0; j < Lk; ++j) added.at<float>(i, j) = -INFINITY;
  }
  for (const Tensor& mask : {open, added}) {
    const AttentionOptions o{.mask = mask, .want_lse = true};
    const AttentionResult r = attention(q, k, v, o);
    const AttentionGradients g = attention_backward(grad, q, k, v, r, o);
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t i = 0; i < Lq; ++i)
          for (int64_t d = 0; d < 16 && hidden(i); ++d) {
            ASSERT_EQ(r.out.at<float>(b, h, i, d), 0);
            ASSERT_EQ(g.q.at<float>(b, h, i, d), 0);
          }
    const Textbook exact = textbook<double>(q, k, v, o, grad);
    expect_close("out", r.out, exact.out, 1e-5, 5e-6);
    expect_close("dq", g.q, exact.dq, 1e-5, 5e-6);
    expect_close("dk", g.k, exact.dk, 1e-5, 5e-6);
    expect_close("dv", g.v, exact.dv, 1e-5, 5e-6);
  }
  const AttentionOptions nothing{.mask = Tensor::zeros({Lk}, DType::boolean), .want_lse = true};
  const AttentionResult r = attention(q, k, v, nothing);
  const AttentionGradients g = attention_backward(grad, q, k, v, r, nothing);
  for (const Tensor& t : {r.out, g.q, g.k, g.v})
    for (const float x : t.span<float>()) ASSERT_EQ(x, 0);
}

}  // namespace
}  // namespace heed
