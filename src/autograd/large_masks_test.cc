// Attention on the tape under masks of any finite number, and of none: results and gradients.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "attention/large_scores.h"
#include "heed/autograd.h"
#include "heed/functional.h"

namespace heed {
namespace {

namespace F = functional;
using test::expect_near;

/// (1, H, L, D) -> (1, L, H * D)
Tensor packed(const Tensor& t) { return t.transpose(1, 2).contiguous().reshape({1, t.size(2), t.size(1) * t.size(3)}); }

/// Heads [offset / D, ...) of packed rows.
Tensor unpacked(const Tensor& t, int64_t offset, int64_t heads, int64_t size) {
  return t.slice(2, offset, offset + heads * size).contiguous().reshape({1, t.size(1), heads, size}).transpose(1, 2);
}

Variable leaf(const Tensor& t) { return Variable(t.clone(), true); }

template <class T>
class LargeMasksOnTheTape : public ::testing::Test {
 protected:
  static constexpr DType kType = dtype_of<T>();
  static constexpr std::array<int64_t, 3> kKeys = {1, 5, 70};

  void expect(const char* name, const Tensor& value, const Tensor& exact, const std::string& what) {
    ASSERT_TRUE(value.defined()) << name << ", " << what;
    expect_near(name, value, exact, kType, what + ", " + name_of(kType));
  }
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LargeMasksOnTheTape, Types);

TYPED_TEST(LargeMasksOnTheTape, ScaledDotProductAttention) {
  for (const int64_t Lk : this->kKeys)
    for (const bool learned : {false, true}) {
      test::LargeScoresExample e = test::large_scores_example<TypeParam>(Lk, this->kType, 20);
      e.grad_lse = Tensor::zeros(e.grad_lse.shape(), this->kType);
      const test::Formula<TypeParam> exact(e);
      Variable q = leaf(e.q), k = leaf(e.k), v = leaf(e.v), mask;
      AttentionOptions options{.scale = 1};
      if (learned) {
        mask = leaf(e.mask);
      } else {
        options.mask = e.mask;
      }
      const Variable out = F::scaled_dot_product_attention(q, k, v, options, mask);
      out.backward(e.grad);
      const std::string what = std::to_string(Lk) + " keys" + (learned ? ", a learned mask" : "");
      this->expect("out", out.value(), exact.out, what);
      this->expect("dq", q.grad(), exact.dq, what);
      this->expect("dk", k.grad(), exact.dk, what);
      this->expect("dv", v.grad(), exact.dv, what);
      if (learned) this->expect("dmask", mask.grad(), exact.dmask, what);
    }
}

TYPED_TEST(LargeMasksOnTheTape, PackedAttention) {
  for (const int64_t Lk : this->kKeys)
    for (const bool learned : {false, true}) {
      test::LargeScoresExample e = test::large_scores_example<TypeParam>(Lk, this->kType, 30);
      e.grad_lse = Tensor::zeros(e.grad_lse.shape(), this->kType);
      const int64_t H = e.q.size(1), Lq = e.q.size(2), D = e.q.size(3), Dv = e.v.size(3);
      if (learned) e.sinks = Tensor::from<TypeParam>({0.5, -1e9}, {H});
      const test::Formula<TypeParam> exact(e);
      Variable q = leaf(packed(e.q)), sinks, mask;
      const Tensor kv = Tensor::empty({1, Lk, H * (D + Dv)}, this->kType);
      kv.slice(2, 0, H * D).copy_from(packed(e.k));
      kv.slice(2, H * D, H * (D + Dv)).copy_from(packed(e.v));
      Variable both = leaf(kv);
      AttentionOptions options{.scale = 1};
      if (learned) {
        mask = leaf(e.mask), sinks = leaf(*e.sinks);
      } else {
        options.mask = e.mask;
      }
      Tensor weights;
      const Variable out = F::packed_attention({q, 0, H, D}, {both, 0, H, D}, {both, H * D, H, Dv}, options, &weights,
                                               nullptr, mask, sinks);
      out.backward(packed(e.grad));
      const std::string what = std::to_string(Lk) + " keys" + (learned ? ", a learned mask and sinks" : "");
      this->expect("weights", weights, exact.weights, what);
      this->expect("out", unpacked(out.value(), 0, H, Dv), exact.out, what);
      this->expect("dq", unpacked(q.grad(), 0, H, D), exact.dq, what);
      this->expect("dk", unpacked(both.grad(), 0, H, D), exact.dk, what);
      this->expect("dv", unpacked(both.grad(), H * D, H, Dv), exact.dv, what);
      ASSERT_EQ(exact.dq.size(2), Lq);
      if (!learned) continue;
      this->expect("dmask", mask.grad(), exact.dmask, what);
      this->expect("dsinks", sinks.grad(), exact.dsinks, what);
    }
}

}  // namespace
}  // namespace heed
