// A call computed in parts, by entries, heads, queries and keys, against the whole: forward, merge and backward.
// RC_PARAMS="seed=N" repeats a run.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "attention/testing.h"

namespace heed {
namespace {

using test::max_abs;
using test::max_error;
using test::random_tensor;
using test::refusal;
using test::same_bits;

struct Whole {
  Tensor q, k, v, grad;
  AttentionOptions options;
};

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

/// [0, n) in one to three pieces, cut at multiples of `step`.
std::vector<Range> pieces(int64_t n, int64_t step) {
  std::set<int64_t> cuts{0, n};
  for (int i = 0; i < 2; ++i) cuts.insert(std::min(n, *rc::gen::inRange<int64_t>(0, n / step + 1) * step));
  std::vector<Range> list;
  for (auto it = cuts.begin(); std::next(it) != cuts.end(); ++it) list.push_back({*it, *std::next(it)});
  return list;
}

Tensor cut(const Tensor& t, int dimension, Range range) { return t.slice(dimension, range.begin, range.end); }

/// to (a view) += from, both in double.
void add(const Tensor& to, const Tensor& from) {
  const Tensor dense = from.contiguous();
  const Dims n = to.shape();
  const double* x = dense.data<double>();
  for (int64_t b = 0; b < n[0]; ++b)
    for (int64_t h = 0; h < n[1]; ++h)
      for (int64_t i = 0; i < n[2]; ++i)
        for (int64_t d = 0; d < n[3]; ++d) to.at<double>(b, h, i, d) += *x++;
}

Whole random_whole() {
  const auto number = [](int64_t low, int64_t high) { return *rc::gen::inRange<int64_t>(low, high + 1); };
  const int64_t B = number(1, 2), Hkv = number(1, 2), group = number(1, 2), Lq = number(1, 150), Lk = number(1, 200);
  const int64_t D = number(1, 9), Dv = number(1, 9);
  const auto seed = static_cast<uint64_t>(number(0, 1 << 20));
  Whole w;
  w.q = random_tensor({B, Hkv * group, Lq, D}, seed);
  w.k = random_tensor({B, Hkv, Lk, D}, seed + 1);
  w.v = random_tensor({B, Hkv, Lk, Dv}, seed + 2);
  w.grad = random_tensor({B, Hkv * group, Lq, Dv}, seed + 3);
  AttentionOptions& o = w.options;
  o.want_lse = true;
  o.offset = number(-20, 80);
  if (number(0, 1)) o.causal = Causal::top_left;
  if (number(0, 2) == 0) o.window = {number(0, 90), number(0, 90)};
  if (number(0, 2) == 0) o.alibi = random_tensor({Hkv * group}, seed + 4, DType::f64, 0.1);
  if (number(0, 2) == 0) o.softcap = 2;
  if (number(0, 2) == 0)
    o.score_mod = score_mod([](auto score, ScoreAt at) {
      return score * (1 + 0.25f * static_cast<float>(at.head)) +
             0.03125f * static_cast<float>(at.key - at.query - 7 * at.batch);
    });
  if (number(0, 2) == 0)
    o.block_mask = block_mask(
        [](ScoreAt at) { return (at.query / 64 + at.key / 64 + at.head) % 3 != 0 && at.key % 5 != at.batch; }, B,
        Hkv * group, Lq, Lk);
  if (number(0, 1)) {
    o.dropout = 0.3;
    o.seed = seed;
    o.stream = 5;
  }
  if (number(0, 3) == 0) o.implementation = Implementation::reference;
  return w;
}

RC_GTEST_PROP(Part, CutsMergeToTheWhole, ()) {
  const Whole w = random_whole();
  const int64_t B = w.q.size(0), Hq = w.q.size(1), Hkv = w.k.size(1), group = Hq / Hkv,
                step = w.options.block_mask ? kTile : 1;
  const AttentionResult whole = attention(w.q, w.k, w.v, w.options);
  const AttentionGradients gradients = attention_backward(w.grad, w.q, w.k, w.v, whole, w.options);
  const auto zeros = [](const Tensor& like) { return Tensor::zeros(like.shape(), DType::f64); };
  const Tensor dq = zeros(w.q), dk = zeros(w.k), dv = zeros(w.v);
  const std::vector<Range> batches = pieces(B, 1), heads = pieces(Hkv, 1), queries = pieces(w.q.size(2), step),
                           keys = pieces(w.k.size(2), step);
  double worst = 0, worst_lse = 0;
  for (const Range& b : batches) {
    for (const Range& h : heads) {
      const Range hq{h.begin * group, h.end * group};
      for (const Range& i : queries) {
        const auto of_queries = [&](const Tensor& t) { return cut(cut(cut(t, 0, b), 1, hq), 2, i); };
        AttentionResult expected;
        expected.out = of_queries(whole.out).contiguous();
        expected.lse = of_queries(whole.lse).contiguous();
        expected.lse_low = of_queries(whole.lse_low).contiguous();
        AttentionResult merged;
        for (const Range& j : keys) {
          const auto of_keys = [&](const Tensor& t) { return cut(cut(cut(t, 0, b), 1, h), 2, j); };
          AttentionOptions o = w.options;
          o.part = {b.begin, hq.begin, i.begin, j.begin, Hq};
          if (o.alibi.defined()) o.alibi = cut(o.alibi, 0, hq);
          const Tensor q = of_queries(w.q), k = of_keys(w.k), v = of_keys(w.v);
          const AttentionResult part = attention(q, k, v, o);
          merged = merged.out.defined() ? merge(merged, part) : part;
          const AttentionGradients g = attention_backward(of_queries(w.grad), q, k, v, expected, o);
          add(of_queries(dq), g.q);
          add(of_keys(dk), g.k);
          add(of_keys(dv), g.v);
        }
        worst = std::max(worst, max_error(merged.out, expected.out));
        worst_lse = std::max(worst_lse, max_error(merged.lse, expected.lse));
      }
    }
  }
  RC_ASSERT(worst <= 1e-12 * (1 + max_abs(whole.out)));
  RC_ASSERT(worst_lse <= 1e-12 * (1 + max_abs(whole.lse)));
  RC_ASSERT(max_error(dq, gradients.q) <= 1e-11 * (1 + max_abs(gradients.q)));
  RC_ASSERT(max_error(dk, gradients.k) <= 1e-11 * (1 + max_abs(gradients.k)));
  RC_ASSERT(max_error(dv, gradients.v) <= 1e-11 * (1 + max_abs(gradients.v)));
}

TEST(Part, SomeHeadsHaveTheBitsOfTheWhole) {
  // Of so many heads and positions that the gradients of all are summed in fewer ranges than those of one alone.
  const int64_t Hkv = 8, group = 2, L = 1024;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor q = random_tensor({1, Hkv * group, L, 8}, 1, dtype), k = random_tensor({1, Hkv, L, 8}, 2, dtype),
                 v = random_tensor({1, Hkv, L, 8}, 3, dtype), grad = random_tensor(q.shape(), 4, dtype);
    AttentionOptions o{.causal = Causal::top_left, .dropout = 0.1, .want_lse = true};
    const AttentionResult whole = attention(q, k, v, o);
    const AttentionGradients gradients = attention_backward(grad, q, k, v, whole, o);
    for (const Range h : {Range{0, 1}, Range{3, 5}}) {
      const Range hq{h.begin * group, h.end * group};
      o.part = {.first_head = hq.begin, .heads = Hkv * group};
      const auto of_queries = [&](const Tensor& t) { return cut(t, 1, hq).contiguous(); };
      const auto of_keys = [&](const Tensor& t) { return cut(t, 1, h).contiguous(); };
      const AttentionResult part = attention(of_queries(q), of_keys(k), of_keys(v), o);
      const AttentionGradients g = attention_backward(of_queries(grad), of_queries(q), of_keys(k), of_keys(v), part, o);
      EXPECT_TRUE(same_bits(part.out, of_queries(whole.out)));
      EXPECT_TRUE(same_bits(part.lse, of_queries(whole.lse)));
      EXPECT_TRUE(same_bits(g.q, of_queries(gradients.q)));
      EXPECT_TRUE(same_bits(g.k, of_keys(gradients.k)));
      EXPECT_TRUE(same_bits(g.v, of_keys(gradients.v)));
    }
  }
}

TEST(Part, VisitorsSeePlacesOfTheWhole) {
  const Tensor q = random_tensor({1, 2, 5, 4}, 1), k = random_tensor({1, 2, 6, 4}, 2),
               v = random_tensor({1, 2, 6, 3}, 3);
  for (const Implementation implementation : {Implementation::fused, Implementation::reference}) {
    const AttentionOptions o{.part = {7, 3, 100, 200, 9}, .want_lse = true, .implementation = implementation};
    const AttentionResult r = attention(q, k, v, o);
    std::set<std::array<int32_t, 4>> seen;
    const auto see = [&](const auto& tile) { seen.insert({tile.batch, tile.head, tile.query, tile.key}); };
    BackwardOptions backward;
    backward.visitor = {.f32 = see, .f64 = see};
    attention_backward(Tensor::zeros(r.out.shape(), DType::f64), q, k, v, r, o, backward);
    EXPECT_EQ(seen, (std::set<std::array<int32_t, 4>>{{7, 3, 100, 200}, {7, 4, 100, 200}}));
  }
}

TEST(Part, WhatCannotBeAPart) {
  const Tensor q = random_tensor({1, 2, 5, 4}, 1), k = random_tensor({1, 2, 6, 4}, 2);
  const auto says = [&](const AttentionOptions& o) { return refusal([&] { attention(q, k, k, o); }); };
  EXPECT_EQ(says({.part = {.first_query = -1}}),
            "attention: part.first_query is -1; pass a place in the whole, from 0 to 2^58");
  EXPECT_EQ(says({.part = {.first_head = 3, .heads = 4}}),
            "attention: part.heads is 4, and the part ends at head 5; pass Hq of the whole");
  EXPECT_EQ(says({.causal = Causal::bottom_right, .part = {.first_key = 1}}),
            "attention: causal bottom_right counts from the ends of this call, which is a part of another; pass "
            "Causal::top_left, with the whole's Lk - Lq as offset");
  const BlockMask blocks = block_mask([](ScoreAt) { return true; }, 1, 1, 80, 90);
  EXPECT_EQ(
      says({.block_mask = blocks, .part = {.first_query = 3}}),
      "attention: part.first_query 3 and part.first_key 0 with a block_mask, which has one class for a tile; cut at "
      "multiples of 64");
  EXPECT_EQ(says({.block_mask = blocks, .part = {.first_key = 128}}),
            "attention: a block_mask of (1, 1, 80, 90) for a part that ends at (1, 2, 5, 134); pass that of the whole");
  AttentionOptions ragged{.part = {.first_query = 1}};
  ragged.q_offsets = ragged.k_offsets = Tensor::from<int32_t>({0, 2}, {2});
  EXPECT_NE(refusal([&] {
              attention(random_tensor({2, 1, 4}, 1), random_tensor({2, 1, 4}, 2), random_tensor({2, 1, 4}, 3), ragged);
            }).find("cannot be used with q_offsets"),
            std::string::npos);
}

}  // namespace
}  // namespace heed
