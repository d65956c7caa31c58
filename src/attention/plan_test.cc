// Which implementation runs, and what is said about the others.
#include "attention/plan.h"

#include <gtest/gtest.h>

#include "attention/fused.h"

namespace heed {
namespace {

Sizes sizes(int64_t Hq, int64_t Hkv, int64_t Lq, int64_t Lk, int64_t D) {
  Sizes s;
  s.B = 1, s.Hq = Hq, s.Hkv = Hkv, s.Lq = Lq, s.Lk = Lk, s.D = s.Dv = D;
  return s;
}

TEST(Plan, DecodeIsForFewQueriesAndManyKeys) {
  EXPECT_EQ(choose(sizes(32, 8, 1, 4096, 128), {}), Implementation::decode);
  EXPECT_EQ(choose(sizes(32, 8, 4, 512, 256), {}), Implementation::decode);  // the borders
  EXPECT_EQ(choose(sizes(32, 8, 5, 4096, 128), {}), Implementation::fused);  // 20 rows a key head
  EXPECT_EQ(choose(sizes(32, 8, 1, 511, 128), {}), Implementation::fused);
  EXPECT_EQ(choose(sizes(32, 8, 1, 4096, 257), {}), Implementation::fused);
  EXPECT_EQ(choose(sizes(32, 8, 1, 4096, 128), {.dropout = 0.1}), Implementation::fused);
  const ScoreMod mod = score_mod([](auto score, auto) { return score; });
  EXPECT_EQ(choose(sizes(32, 8, 1, 4096, 128), {.score_mod = mod}), Implementation::fused);
}

TEST(Plan, TheCallerChooses) {
  for (const Implementation one : {Implementation::decode, Implementation::fused, Implementation::reference}) {
    EXPECT_EQ(choose(sizes(4, 4, 100, 100, 64), {.implementation = one}), one);
    EXPECT_EQ(choose(sizes(4, 4, 1, 1000, 64), {.implementation = one}), one);
  }
  EXPECT_EQ(choose_backward(sizes(4, 4, 1, 1000, 64), {.implementation = Implementation::decode}),
            Implementation::fused);
  EXPECT_EQ(choose_backward(sizes(4, 4, 1, 1000, 64), {.implementation = Implementation::reference}),
            Implementation::reference);
}

TEST(Plan, NothingToComputeNeedsNoTiles) {
  EXPECT_EQ(choose(sizes(4, 4, 10, 0, 64), {.implementation = Implementation::fused}), Implementation::reference);
  EXPECT_EQ(choose_backward(sizes(4, 4, 0, 10, 64), {}), Implementation::reference);
}

TEST(Plan, ExplainsItself) {
  const Tensor q = Tensor::zeros({1, 8, 2, 64}), k = Tensor::zeros({1, 2, 40, 64});
  const std::string target = fused_target(),
                    operands = "attention: q (1, 8, 2, 64), k (1, 2, 40, 64), v (1, 2, 40, 64)";
  EXPECT_EQ(explain(q, k, k), operands + " f32: fused (" + target +
                                  ", tiles of 64 queries by 64 keys); not decode: fewer than 512 keys leave little to "
                                  "split; not reference: fused comes first; backward: fused");
  EXPECT_EQ(explain(q, k, k,
                    {.causal = Causal::top_left,
                     .offset = 38,
                     .window = {16, -1},
                     .softcap = 30,
                     .mask = Tensor::zeros({40}, DType::boolean),
                     .want_weights = true,
                     .implementation = Implementation::reference}),
            operands +
                " f32, causal top_left, offset 38, window (16, -1), softcap 30, bool mask (40): reference (sums in "
                "double, a row at a time); weights, from a second pass: O(Lq * Lk) memory, as asked; not decode: "
                "options.implementation asks for reference; not fused: options.implementation asks for reference; "
                "backward: reference");
  AttentionOptions ragged;
  ragged.q_offsets = ragged.k_offsets = Tensor::from<int64_t>({0, 30, 32}, {3});
  const Tensor tokens = Tensor::zeros({32, 4, 64}, DType::f16);
  EXPECT_EQ(explain(tokens, tokens, tokens, ragged),
            "attention: q (32, 4, 64), k (32, 4, 64), v (32, 4, 64) f16, ragged: 2 entries of up to 30 queries and 30 "
            "keys: fused (" +
                target +
                ", tiles of 64 queries by 64 keys); not decode: it does not take ragged batches; not reference: fused "
                "comes first; backward: fused");
}

TEST(Plan, ExplainsBackwardAndHalves) {
  const Storages storages{DType::f32, DType::f16};
  EXPECT_EQ(explain_backward(sizes(8, 2, 2, 40, 64), storages, {.implementation = Implementation::decode}),
            std::string(
                "attention_backward: q (1, 8, 2, 64), k (1, 2, 40, 64), v (1, 2, 40, 64) f32 (k and v f16): fused (") +
                fused_target() + ", tiles of 64 queries by 64 keys); not decode: it has no backward");
}

}  // namespace
}  // namespace heed
