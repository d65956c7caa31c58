// Every rule of the public call: what it says when it is broken, and that its border is allowed.
#include "attention/check.h"

#include <gtest/gtest.h>

#include "attention/testing.h"
#include "heed/attention.h"

namespace heed {
namespace {

using test::refusal;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor zeros(const Dims& s, DType t = DType::f32) { return Tensor::zeros(s, t); }

/// B 2, Hq 12, Hkv 12, Lq 3, Lk 5, D 4, Dv 6.
class CheckInputs : public ::testing::Test {
 protected:
  const Tensor q = zeros({2, 12, 3, 4}), k = zeros({2, 12, 5, 4}), v = zeros({2, 12, 5, 6});
  static std::string said(const Tensor& a, const Tensor& b, const Tensor& c, const AttentionOptions& o = {}) {
    return refusal([&] { check_inputs("attention", a, b, c, o); });
  }
  std::string said(const AttentionOptions& o) const { return said(q, k, v, o); }
  const std::string nothing = "(nothing thrown)";
};

TEST_F(CheckInputs, Operands) {
  EXPECT_EQ(said(q, k, v), nothing);
  EXPECT_EQ(said(q, zeros({2, 5, 5, 4}), zeros({2, 5, 5, 4})),
            "attention: 12 query heads are not a multiple of 5 key heads; pass k and v with 1, 2, 3, 4, 6 or 12 heads");
  EXPECT_EQ(said({}, k, v), "attention: q is undefined; pass a tensor (B, Hq, Lq, D)");
  EXPECT_EQ(
      said(q.select(0, 0), k, v),
      "attention: q has shape (12, 3, 4), not the four dimensions (B, Hq, Lq, D); add the missing ones with reshape");
  EXPECT_EQ(
      said(zeros({1, 2, 12, 3, 4}), k, v),
      "attention: q has shape (1, 2, 12, 3, 4), not the four dimensions (B, Hq, Lq, D); select from the others, or "
      "join them");
  EXPECT_EQ(said(q, zeros({2, 12, 5, 4}, DType::f64), v), "attention: k is f64 and q is f32; convert one with to()");
  EXPECT_EQ(said(q, k.to(DType::bf16), v.to(DType::bf16)), nothing);
  EXPECT_EQ(said(q, k.to(DType::bf16), v.to(DType::f16)), "attention: v is f16 and k is bf16; convert one with to()");
  EXPECT_EQ(said(q.to(DType::f16), k, v), "attention: k is f32 and q is f16; convert one with to()");
  EXPECT_EQ(said(zeros({2, 12, 3, 4}, DType::i32), k, v),
            "attention: q is i32; pass f32, f64, f16 or bf16, convert with to()");
  EXPECT_EQ(said(q, zeros({3, 12, 5, 4}), v),
            "attention: batches of q, k and v are 2, 3 and 2; make them equal, with expand() where one is shared");
  EXPECT_EQ(said(q, zeros({2, 12, 5, 3}), v),
            "attention: the head size of q is 4 and of k 3; they are multiplied, make them equal");
  EXPECT_EQ(said(q, k, zeros({2, 6, 5, 6})), "attention: k has 12 heads and v 6; make them equal");
  EXPECT_EQ(said(q, k, zeros({2, 12, 4, 6})), "attention: k has 5 positions and v 4; each key needs its value");
  EXPECT_EQ(said(zeros({2, 12, 3, 0}), zeros({2, 12, 5, 0}), v),
            "attention: the head size of q and k is 0; pass at least 1");
  EXPECT_EQ(said(zeros({1, 1, 3, 1024}), zeros({1, 1, 5, 1024}), zeros({1, 1, 5, 513})), nothing);
  EXPECT_EQ(said(q, k.transpose(2, 3), v),
            "attention: the innermost stride of k is 4, which must be 1; call contiguous() first");
}

TEST_F(CheckInputs, Masks) {
  const std::string rule =
      " does not broadcast to (B, Hq, Lq, Lk) = (2, 12, 3, 5); pass (Lq, Lk) = (3, 5), or a shape whose dimensions, "
      "from the right, are 1 or those sizes (a last one from 2 to Lk - 1 hides the keys past it)";
  for (const Dims& good : {Dims{}, {1}, {5}, {4}, {2}, {3, 1}, {12, 1, 5}, {2, 12, 3, 5}, {2, 1, 1, 3}})
    EXPECT_EQ(said({.mask = zeros(good)}), nothing) << to_string(good);
  for (const Dims& bad : {Dims{6}, {0}, {2, 1}, {3, 3, 5}, {2, 1, 4, 5}, {1, 1, 1, 1, 1}})
    EXPECT_EQ(said({.mask = zeros(bad)}), "attention: a mask of shape " + to_string(bad) + rule);
  EXPECT_EQ(said({.mask = zeros({3, 5}, DType::f64)}),
            "attention: the mask is f64; pass bool (true = may be attended) or f32 like q (added to the score)");
  const auto half = [](DType t, DType mask) {
    const Tensor x = zeros({1, 1, 3, 4}, t);
    return said(x, x, x, {.mask = zeros({3, 3}, mask)});
  };
  EXPECT_EQ(half(DType::f16, DType::f16), nothing);
  EXPECT_EQ(half(DType::bf16, DType::f32), nothing);
  EXPECT_EQ(half(DType::bf16, DType::f16),
            "attention: the mask is f16; pass bool (true = may be attended) or f32 (added to the score)");
}

// Tensors without elements have no memory to be strided.
TEST_F(CheckInputs, EmptyTensorsOfAnyStrides) {
  float number = 0;
  const auto of = [&](const Dims& s, const Dims& strides) { return Tensor::borrow(&number, DType::f32, s, strides); };
  for (const Dims& strides : {Dims{0, 0, 0, 0}, {0, 0, 0, 7}, {-1, 3, 0, -2}}) {
    SCOPED_TRACE(to_string(strides));
    const Tensor none = of({0, 12, 5, 4}, strides), no_keys = of({2, 12, 0, 4}, strides);
    EXPECT_EQ(said(of({0, 12, 3, 4}, strides), none, none), nothing);
    EXPECT_EQ(said(q, no_keys, no_keys), nothing);
    EXPECT_EQ(said(of({2, 12, 0, 4}, strides), k, v), nothing);
  }
  EXPECT_NE(said(of({2, 12, 3, 4}, {0, 0, 0, 0}), k, v), nothing);
}

TEST_F(CheckInputs, NumbersForEachEntryOrHead) {
  EXPECT_EQ(said({.key_lengths = Tensor::from<int32_t>({0, 5}, {2})}), nothing);
  EXPECT_EQ(said({.key_lengths = Tensor::from<int32_t>({1, 6}, {2})}),
            "attention: key_lengths[1] is 6; pass 0 to Lk = 5");
  EXPECT_EQ(said({.key_lengths = Tensor::from<int64_t>({-1, 5}, {2})}),
            "attention: key_lengths[0] is -1; pass 0 to Lk = 5");
  EXPECT_EQ(said({.key_lengths = Tensor::from<int32_t>({1}, {1})}),
            "attention: key_lengths have shape (1); pass one length an entry, (2)");
  EXPECT_EQ(said({.key_lengths = zeros({2})}), "attention: key_lengths are f32; pass i32 or i64");
  EXPECT_EQ(said({.alibi = zeros({12}), .sinks = zeros({12})}), nothing);
  EXPECT_EQ(said({.alibi = zeros({1})}), "attention: alibi has shape (1); pass (Hq) = (12)");
  EXPECT_EQ(said({.sinks = zeros({12}, DType::f16)}), "attention: sinks is f16; pass f32, convert with to()");
}

TEST_F(CheckInputs, Positions) {
  constexpr int64_t kMost = int64_t{1} << 58, kEnd = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(said({.offset = -kMost, .window = {kEnd, kEnd}}), nothing);
  EXPECT_EQ(said({.offset = kMost + 1}),
            "attention: offset is 288230376151711745; pass at most 2^58, in either direction");
  EXPECT_EQ(
      said({.causal = Causal::bottom_right, .offset = 2}),
      "attention: causal bottom_right places the queries itself, and offset is 2; pass 0, or Causal::top_left with "
      "this offset");
  EXPECT_EQ(said({.window = {-1, -2}}),
            "attention: the window is (-1, -2); pass the keys to the left and right of a query, -1 for all");
}

TEST_F(CheckInputs, Factors) {
  EXPECT_EQ(said({.dropout = 1}), "attention: dropout is 1; pass a probability in [0, 1)");
  const auto scale = [](const std::string& x, const std::string& most) {
    return "attention: scale is " + x + "; pass at most " + most + ", in either direction, or none for 1/sqrt(D)";
  };
  const auto softcap = [](const std::string& x, const std::string& limits) {
    return "attention: softcap is " + x + "; pass a limit from " + limits + ", or 0 for none";
  };
  EXPECT_EQ(said({.scale = kNaN}), scale("nan", "1e+38 in f32"));
  EXPECT_EQ(said({.scale = -INFINITY}), scale("-inf", "1e+38 in f32"));
  EXPECT_EQ(said({.scale = 3e38}), scale("3e+38", "1e+38 in f32"));  // 4.3e38 in units of log 2
  for (const double x : {1e-46, 1e39, -1.0, 1e-40, 1e38, double{INFINITY}, kNaN}) {
    std::ostringstream text;
    text << x;
    EXPECT_EQ(said({.softcap = x}), softcap(text.str(), "1e-37 to 1e+37 in f32"));
  }
  EXPECT_EQ(said({.scale = -1e38, .softcap = 1e-37}), nothing);
  EXPECT_EQ(said({.scale = 0.0, .softcap = 1e37}), nothing);
  const Tensor x = zeros({1, 1, 3, 4}, DType::f64), half = x.to(DType::bf16);
  EXPECT_EQ(said(x, x, x, {.scale = 1e39, .softcap = 1e-46}), nothing);
  EXPECT_EQ(said(x, x, x, {.softcap = 1e-308}), softcap("1e-308", "1e-307 to 1e+307 in f64"));
  EXPECT_EQ(said(half, half, half, {.softcap = 1e39}), softcap("1e+39", "1e-37 to 1e+37 in f32"));
}

TEST_F(CheckInputs, NumbersOfHeadsAreFinite) {
  const auto heads = [](double x) {
    const Tensor t = zeros({12});
    t.at<float>(3) = static_cast<float>(x);
    return t;
  };
  const std::string rule = "; pass at most 1e+38 in f32, in either direction";
  EXPECT_EQ(said({.alibi = heads(INFINITY)}), "attention: alibi[3] is inf" + rule);
  EXPECT_EQ(said({.alibi = heads(-INFINITY)}), "attention: alibi[3] is -inf" + rule);
  EXPECT_EQ(said({.alibi = heads(kNaN)}), "attention: alibi[3] is nan" + rule);
  EXPECT_EQ(said({.sinks = heads(2e38)}), "attention: sinks[3] is 2e+38" + rule + ", or -inf for none");
  EXPECT_EQ(said({.sinks = heads(-INFINITY)}), nothing);
}

TEST_F(CheckInputs, PositionsThatAreCountedInFewerBits) {
  float number = 0;
  const auto of = [&](const Dims& s) { return Tensor::borrow(&number, DType::f32, s, {0, 0, 0, 1}); };
  constexpr int64_t kMod = int64_t{1} << 31, kDraws = int64_t{1} << 32;
  const auto tall = [&](int64_t L, AttentionOptions o) {
    return said(of({1, 1, L, 1}), of({1, 1, 1, 1}), of({1, 1, 1, 1}), o);
  };
  const ScoreMod same = score_mod([](auto score, auto) { return score; });
  EXPECT_EQ(tall(kMod - 1, {.score_mod = same}), nothing);
  EXPECT_EQ(
      tall(kMod, {.score_mod = same}),
      "attention: (B, Hq, Lq, Lk) = (1, 1, 2147483648, 1) with score_mod or block_mask, whose positions are int32; "
      "pass less than 2^31 of each");
  EXPECT_EQ(tall(kDraws - 1, {.dropout = 0.5}), nothing);
  EXPECT_EQ(tall(kDraws, {.dropout = 0.5}),
            "attention: Lq 4294967296 and Lk 1 with dropout, which counts positions in 32 bits; pass less than 2^32 "
            "queries and 2^34 keys");
}

TEST_F(CheckInputs, BlockMasks) {
  const auto of = [](int64_t b, int64_t h, int64_t queries, int64_t keys) {
    return AttentionOptions{.block_mask = block_mask([](auto) { return true; }, b, h, queries, keys)};
  };
  EXPECT_EQ(said(of(1, 12, 3, 5)), nothing);
  EXPECT_EQ(said(of(2, 1, 3, 5)), nothing);
  EXPECT_EQ(
      said(of(3, 1, 3, 5)),
      "attention: a block_mask of (3, 1, 3, 5) for (B, Hq, Lq, Lk) = (2, 12, 3, 5); make it with B or 1, Hq or 1, "
      "and these lengths");
  EXPECT_NE(said(of(1, 1, 3, 6)), nothing);
}

TEST_F(CheckInputs, Selections) {
  const auto numbers = [](std::initializer_list<int64_t> list) {
    return Tensor::from<int64_t>(list, {static_cast<int64_t>(list.size())});
  };
  EXPECT_EQ(said({.selection = {.heads = numbers({11, 0, 0}), .rows = numbers({2}), .top_p = 0.1}}), nothing);
  EXPECT_EQ(said({.selection = {.heads = numbers({})}}), nothing);
  EXPECT_EQ(said({.selection = {.heads = numbers({0, 12})}}),
            "attention: selection.heads[1] is 12 of 12; count from 0");
  EXPECT_EQ(said({.selection = {.rows = numbers({-1})}}), "attention: selection.rows[0] is -1 of 3; count from 0");
  EXPECT_EQ(said({.selection = {.rows = zeros({1}, DType::i32)}}),
            "attention: selection.rows are i32 (1); pass i64 (R)");
  EXPECT_EQ(said({.selection = {.top_p = 0}}),
            "attention: selection.top_p is 0; pass a share of the weights in (0, 1]");
}

TEST_F(CheckInputs, Decode) {
  AttentionOptions o{.dropout = 0.1, .implementation = Implementation::decode};
  EXPECT_EQ(said(o), "attention: options.implementation asks for decode, but it does not take dropout; pass automatic");
  o.dropout = 0;
  EXPECT_EQ(said(o), nothing);
}

/// Entries of 2 and 1 queries, and of 0 and 4 keys.
class CheckRagged : public CheckInputs {
 protected:
  const Tensor tq = zeros({3, 4, 8}), tk = zeros({4, 2, 8}), tv = zeros({4, 2, 6});
  AttentionOptions options(std::initializer_list<int64_t> queries = {0, 2, 3},
                           std::initializer_list<int64_t> keys = {0, 0, 4}) const {
    AttentionOptions o;
    o.q_offsets = Tensor::from<int64_t>(queries, {static_cast<int64_t>(queries.size())});
    o.k_offsets = Tensor::from<int64_t>(keys, {static_cast<int64_t>(keys.size())}).to(DType::i32);
    return o;
  }
  std::string ragged(const AttentionOptions& o) const { return said(tq, tk, tv, o); }
};

TEST_F(CheckRagged, Sizes) {
  const Sizes s = check_inputs("attention", tq, tk, tv, options());
  EXPECT_TRUE(s.ragged);
  EXPECT_EQ((Dims{s.B, s.Hq, s.Hkv, s.Lq, s.Lk, s.D, s.Dv, s.Tq}), (Dims{2, 4, 2, 2, 4, 8, 6, 3}));
  EXPECT_EQ(s.Tk, 4);
}

TEST_F(CheckRagged, Offsets) {
  AttentionOptions o = options();
  o.k_offsets = {};
  EXPECT_EQ(ragged(o), "attention: q_offsets are given without k_offsets; pass both or neither");
  EXPECT_EQ(ragged(options({1, 2, 3})), "attention: q_offsets[0] is 1; it must be 0");
  EXPECT_EQ(ragged(options({0, 4, 3})), "attention: q_offsets[2] is 3 after 4; offsets must not fall");
  EXPECT_EQ(ragged(options({0, 2, 4})),
            "attention: q_offsets end at 4 and q has 3 tokens; the last offset must be their number");
  EXPECT_EQ(ragged(options({0, 3})),
            "attention: q_offsets have 2 elements and k_offsets 3; both cut the same entries, make them equal");
  EXPECT_EQ(ragged(options({})), "attention: q_offsets have shape (0); pass (B + 1), the first 0");
  EXPECT_EQ(said(q, k, v, options()),
            "attention: q has shape (2, 12, 3, 4), not the three dimensions (Tq, Hq, D); select from the others, or "
            "join them, or leave q_offsets and k_offsets out");
}

TEST_F(CheckRagged, WhatItDoesNotTake) {
  AttentionOptions o = options();
  o.mask = zeros({1});
  EXPECT_EQ(
      ragged(o),
      "attention: a mask cannot be used with q_offsets and k_offsets; use score_mod, a window or a causal rule, or "
      "a padded batch");
  o = options();
  o.key_lengths = Tensor::from<int64_t>({0, 4}, {2});
  EXPECT_EQ(ragged(o),
            "attention: key_lengths cannot be used with q_offsets and k_offsets; give each entry its keys through "
            "k_offsets");
  o = options();
  o.selection.rows = Tensor::from<int64_t>({0}, {1});
  EXPECT_EQ(ragged(o),
            "attention: selection.rows cannot be used with q_offsets and k_offsets; take the rows from all weights");
  o = options();
  o.block_mask = block_mask([](auto) { return true; }, 1, 1, 2, 4);
  EXPECT_EQ(ragged(o),
            "attention: a block_mask cannot be used with q_offsets and k_offsets; use score_mod, or a padded batch");
}

TEST(CheckOutputs, FitAndStandApart) {
  const Tensor x = zeros({2, 3, 4, 4}), out = zeros({2, 3, 4, 4});
  const auto said = [&](const AttentionResult& into, const AttentionOptions& o = {}) {
    return refusal([&] { check_outputs(check_inputs("attention", x, x, x, o), x, x, x, into, o); });
  };
  const auto with = [&](auto field, const Tensor& t) {
    AttentionResult into;
    into.out = out;
    into.*field = t;
    return into;
  };
  EXPECT_EQ(said({}), "attention: into.out is undefined; pass a tensor (B, Hq, Lq, Dv)");
  EXPECT_EQ(said(with(&AttentionResult::out, zeros({2, 3, 4, 5}))),
            "attention: into.out has shape (2, 3, 4, 5); pass (B, Hq, Lq, Dv) = (2, 3, 4, 4)");
  EXPECT_EQ(said(with(&AttentionResult::out, x)),
            "attention: into.out shares memory with q, which is read; pass separate memory");
  EXPECT_EQ(said(with(&AttentionResult::out, zeros({1, 3, 4, 4}).expand({2, 3, 4, 4}))),
            "attention: into.out is broadcast along dimension 0 and cannot be written to; pass separate memory");
  EXPECT_EQ(said(with(&AttentionResult::lse, zeros({2, 3, 5}))),
            "attention: into.lse has shape (2, 3, 5); pass (B, Hq, Lq) = (2, 3, 4)");
  EXPECT_EQ(said(with(&AttentionResult::lse, zeros({2, 4, 3}).transpose(1, 2))),
            "attention: into.lse is strided; call contiguous() first");
  EXPECT_EQ(said(with(&AttentionResult::weights, zeros({2, 3, 4, 4})),
                 {.selection = {.heads = Tensor::from<int64_t>({2}, {1})}}),
            "attention: into.weights has shape (2, 3, 4, 4); pass (B, N, R, Lk) = (2, 1, 4, 4)");
  EXPECT_EQ(said(with(&AttentionResult::scores, zeros({2, 3, 4, 4}))),
            "attention: into.scores is defined, but not of which stage; set options.want_scores");
  EXPECT_EQ(
      said(with(&AttentionResult::lse, {}), {.selection = {.top_p = 0.5}}),
      "attention: selection.top_p is 0.5, whose results have no size beforehand; call attention() without `into`");
  const Tensor numbers = zeros({24});  // lse in the same place as another input or output
  const Tensor lse = numbers.reshape({2, 3, 4});
  for (const auto& [name, o] : {std::pair<const char*, AttentionOptions>{"the mask", {.mask = numbers.slice(0, 0, 4)}},
                                {"alibi", {.alibi = numbers.slice(0, 21, 24)}},
                                {"sinks", {.sinks = numbers.slice(0, 4, 7)}}})
    EXPECT_EQ(said(with(&AttentionResult::lse, lse), o),
              std::string("attention: into.lse shares memory with ") + name + ", which is read; pass separate memory");
  AttentionResult both = with(&AttentionResult::lse, lse);
  both.out = zeros({2, 3, 4, 8}).slice(3, 0, 4);
  both.scores = both.weights = zeros({2, 3, 4, 4});
  EXPECT_EQ(said(both, {.want_scores = ScoreStage::scaled}),
            "attention: into.scores shares memory with into.weights; pass separate memory");
}

// Whether two elements may have one place, by the strides.
TEST(CheckOutputs, ElementsHavePlacesOfTheirOwn) {
  std::vector<float> memory(1000);
  const auto said = [&](const Dims& s, const Dims& strides, size_t first = 0) {
    const Tensor x = zeros(s);
    AttentionResult into;
    into.out = Tensor::borrow(memory.data() + first, DType::f32, s, strides);
    return refusal([&] { check_outputs(check_inputs("attention", x, x, x, {}), x, x, x, into, {}); });
  };
  const std::string nothing = "(nothing thrown)", share = "so its elements may share memory";
  EXPECT_EQ(said({2, 3, 4, 5}, {60, 20, 5, 1}), nothing);
  EXPECT_EQ(said({2, 3, 4, 5}, {60, 5, 15, 1}), nothing);          // tokens before heads
  EXPECT_EQ(said({2, 3, 4, 5}, {120, 40, 10, 1}), nothing);        // parts of wider rows
  EXPECT_EQ(said({2, 3, 4, 5}, {-60, -20, -5, 1}, 115), nothing);  // from the end
  EXPECT_EQ(said({1, 3, 4, 5}, {0, 20, 5, 1}), nothing);           // one entry
  EXPECT_EQ(said({2, 3, 4, 1}, {12, 4, 1, 1}), nothing);
  for (const Dims& none : {Dims{0, 3, 4, 5}, {2, 3, 0, 5}}) {
    EXPECT_EQ(said(none, {0, 0, 0, 0}), nothing) << to_string(none);
    EXPECT_EQ(said(none, {1, 1, 1, 3}), nothing) << to_string(none);
  }
  for (const Dims& strides : {Dims{60, 20, 4, 1}, {60, 19, 5, 1}, {59, 20, 5, 1}, {60, 20, 1, 1}, {1, 20, 5, 1}}) {
    const std::string message = said({2, 3, 4, 5}, strides);
    EXPECT_NE(message.find(share), std::string::npos) << message;
    EXPECT_NE(message.find("into.out of shape (2, 3, 4, 5) has strides"), std::string::npos) << message;
  }
  EXPECT_NE(said({2, 3, 4, 5}, {0, 20, 5, 1}).find("is broadcast along dimension 0"), std::string::npos);
}

class CheckBackward : public ::testing::Test {
 protected:
  CheckBackward() {
    saved.out = zeros(x.shape()), saved.lse = zeros({2, 3, 4});
    into.q = zeros(x.shape()), into.k = zeros(x.shape()), into.v = zeros(x.shape());
  }
  std::string said() const {
    return refusal([&] {
      const Sizes s = check_inputs("attention_backward", x, x, x, options);
      check_saved(s, x, grad, saved, options, backward);
      check_gradients(s, grad, x, x, x, saved, into, options, backward);
    });
  }
  const Tensor x = zeros({2, 3, 4, 4});
  Tensor grad = zeros({2, 3, 4, 4});
  AttentionOptions options;
  BackwardOptions backward;
  AttentionResult saved;
  AttentionGradients into;
};

TEST_F(CheckBackward, WhatForwardSaved) {
  EXPECT_EQ(said(), "(nothing thrown)");
  saved.lse = {};
  EXPECT_EQ(said(),
            "attention_backward: forward.lse is undefined; pass the result of attention() called with want_lse");
  saved.lse = zeros({2, 3, 4}, DType::f64);
  EXPECT_EQ(said(), "attention_backward: forward.lse is f64; pass f32, convert with to()");
}

TEST_F(CheckBackward, GradientsFromAbove) {
  backward.grad_lse = zeros({2, 3, 5});
  EXPECT_EQ(said(), "attention_backward: grad_lse has shape (2, 3, 5); pass (B, Hq, Lq) = (2, 3, 4)");
  backward.grad_lse = {};
  grad = zeros({2, 3, 4, 5});
  EXPECT_EQ(said(), "attention_backward: grad_out has shape (2, 3, 4, 5); pass (B, Hq, Lq, Dv) = (2, 3, 4, 4)");
}

TEST_F(CheckBackward, WhatHasAGradient) {
  const std::string mask = "attention_backward: the gradient of the mask is wanted, but the mask is ",
                    sinks =
                        "attention_backward: the gradient of the sinks is wanted, but there are none; pass "
                        "options.sinks";
  backward.want_mask = true;
  EXPECT_EQ(said(), mask + "absent; only an additive mask has one");
  options.mask = zeros({4}, DType::boolean);
  EXPECT_EQ(said(), mask + "boolean; only an additive mask has one");
  backward = {.want_sinks = true};
  EXPECT_EQ(said(), sinks);
  backward = {};
  into.sinks = zeros({3});
  EXPECT_EQ(said(), sinks);
  options.sinks = zeros({3});
  EXPECT_EQ(said(), "(nothing thrown)");
}

TEST_F(CheckBackward, GradientsStandApart) {
  into.k = into.q;
  EXPECT_EQ(said(), "attention_backward: into.k shares memory with into.q; pass separate memory");
  into.k = grad;
  EXPECT_EQ(said(), "attention_backward: into.k shares memory with grad_out, which is read; pass separate memory");
  into.k = saved.out;
  EXPECT_EQ(said(), "attention_backward: into.k shares memory with forward.out, which is read; pass separate memory");
  into.k = zeros(x.shape());
  options.sinks = into.sinks = zeros({3});
  EXPECT_EQ(said(), "attention_backward: into.sinks shares memory with sinks, which is read; pass separate memory");
}

}  // namespace
}  // namespace heed
