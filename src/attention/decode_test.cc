// The decode kernel against the formula, on every SIMD target that this machine can run.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "attention/fused.h"
#include "simd/targets.h"

namespace heed {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

/// One call with its inputs in double; q, k and v are rounded to what they are kept as.
struct Call {
  int64_t B = 1, Hkv = 1, group = 1, Lq = 1, Lk = 1, D = 8, Dv = 8;
  Tensor q{}, k{}, v{};
  AttentionOptions options{};
  int64_t Hq() const { return Hkv * group; }
};

Tensor normals(const Dims& shape, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  const Tensor t = Tensor::empty(shape, DType::f64);
  for (double& x : t.span<double>()) x = normal(generator);
  return t;
}

Call make_call(Call c, uint64_t seed, DType kept = DType::f64) {
  const auto rounded = [&](const Dims& shape, uint64_t s) { return normals(shape, s).to(kept).to(DType::f64); };
  c.q = rounded({c.B, c.Hq(), c.Lq, c.D}, seed);
  c.k = rounded({c.B, c.Hkv, c.Lk, c.D}, seed + 1);
  c.v = rounded({c.B, c.Hkv, c.Lk, c.Dv}, seed + 2);
  return c;
}

/// Some of everything that the kernel takes.
Call arbitrary_call(DType kept) {
  const auto in = [](int64_t low, int64_t high) { return *rc::gen::inRange<int64_t>(low, high + 1); };
  const auto one_in = [&](int64_t n) { return in(1, n) == 1; };
  Call c;
  c.B = in(1, 2), c.Hkv = in(1, 3), c.group = in(1, 5), c.Lq = one_in(2) ? 1 : in(1, 6);
  c.Lk = one_in(3) ? in(250, 1100) : in(0, 140);
  c.D = one_in(2) ? in(1, 40) : in(41, 130), c.Dv = one_in(2) ? in(1, 40) : in(41, 130);
  const auto seed = static_cast<uint64_t>(in(0, 1 << 20));
  c = make_call(c, seed, kept);
  AttentionOptions& o = c.options;
  o.causal = static_cast<Causal>(in(0, 2));
  if (one_in(2)) o.offset = in(-3, c.Lk);
  if (one_in(3)) o.window.left = in(0, c.Lk);
  if (one_in(3)) o.window.right = in(0, 5);
  if (one_in(3)) o.scale = 0.3;
  if (one_in(3)) o.softcap = 2;
  if (one_in(3)) o.alibi = normals({c.Hq()}, seed + 3).to(DType::f64);
  if (one_in(3)) o.sinks = normals({c.Hq()}, seed + 4);
  if (one_in(3)) {
    o.key_lengths = Tensor::empty({c.B}, DType::i32);
    for (int32_t& n : o.key_lengths.span<int32_t>()) n = static_cast<int32_t>(in(0, c.Lk));
  }
  if (const int64_t kind = in(0, 3); kind > 1) {
    const Dims shape{in(0, 1) ? c.B : 1, in(0, 1) ? c.Hq() : 1, in(0, 1) ? c.Lq : 1, in(0, 1) ? c.Lk : 1};
    const Tensor values = normals(shape, seed + 5);
    for (double& x : values.span<double>())
      if (x < -0.9) x = -kInf;
    o.mask = values;
    if (kind == 2) {
      o.mask = Tensor::empty(shape, DType::boolean);
      for (int64_t i = 0; i < values.numel(); ++i) o.mask.data<bool>()[i] = values.data<double>()[i] != -kInf;
    }
  }
  return c;
}

struct Output {
  Tensor out, lse;
};

bool sees(const Call& c, int64_t b, int64_t h, int64_t i, int64_t j) {
  const AttentionOptions& o = c.options;
  const int64_t n = o.key_lengths.defined() ? o.key_lengths.at<int32_t>(b) : c.Lk;
  const int64_t at = i + (o.causal == Causal::bottom_right ? n - c.Lq : o.offset);
  if (j >= n || (o.causal != Causal::none && j > at)) return false;
  if ((o.window.left >= 0 && j < at - o.window.left) || (o.window.right >= 0 && j > at + o.window.right)) return false;
  if (!o.mask.defined()) return true;
  const Tensor mask = o.mask.expand({c.B, c.Hq(), c.Lq, c.Lk});
  return o.mask.dtype() == DType::boolean ? mask.at<bool>(b, h, i, j) : mask.at<double>(b, h, i, j) != -kInf;
}

/// The formula with sums in T.
template <class T>
Output formula(const Call& c) {
  const AttentionOptions& o = c.options;
  const auto scale = static_cast<T>(o.scale.value_or(1 / std::sqrt(static_cast<double>(c.D))));
  Output r{Tensor::zeros({c.B, c.Hq(), c.Lq, c.Dv}, DType::f64), Tensor::full({c.B, c.Hq(), c.Lq}, -kInf, DType::f64)};
  for (int64_t b = 0; b < c.B; ++b)
    for (int64_t h = 0; h < c.Hq(); ++h)
      for (int64_t i = 0; i < c.Lq; ++i) {
        const int64_t n = o.key_lengths.defined() ? o.key_lengths.at<int32_t>(b) : c.Lk;
        const int64_t at = i + (o.causal == Causal::bottom_right ? n - c.Lq : o.offset);
        std::vector<int64_t> keys;
        std::vector<T> scores;
        for (int64_t j = 0; j < c.Lk; ++j) {
          if (!sees(c, b, h, i, j)) continue;
          T s = 0;
          for (int64_t d = 0; d < c.D; ++d)
            s += static_cast<T>(c.q.at<double>(b, h, i, d)) * static_cast<T>(c.k.at<double>(b, h / c.group, j, d));
          s *= scale;
          if (o.softcap > 0) s = static_cast<T>(o.softcap) * std::tanh(s / static_cast<T>(o.softcap));
          if (o.mask.defined() && o.mask.dtype() != DType::boolean)
            s += static_cast<T>(o.mask.expand({c.B, c.Hq(), c.Lq, c.Lk}).at<double>(b, h, i, j));
          if (o.alibi.defined()) s -= static_cast<T>(o.alibi.at<double>(h) * static_cast<double>(std::abs(at - j)));
          keys.push_back(j);
          scores.push_back(s);
        }
        std::vector<T> all = scores;
        if (o.sinks.defined()) all.push_back(static_cast<T>(o.sinks.at<double>(h)));
        if (all.empty()) continue;
        const T max = *std::max_element(all.begin(), all.end());
        T sum = 0;
        for (const T s : all) sum += std::exp(s - max);
        r.lse.at<double>(b, h, i) = static_cast<double>(max + std::log(sum));
        for (int64_t d = 0; d < c.Dv; ++d) {
          T x = 0;
          for (size_t n_key = 0; n_key < keys.size(); ++n_key)
            x += std::exp(scores[n_key] - max) * static_cast<T>(c.v.at<double>(b, h / c.group, keys[n_key], d));
          r.out.at<double>(b, h, i, d) = static_cast<double>(x / sum);
        }
      }
  return r;
}

/// The same values between rows and heads of other memory, full of NaN.
Tensor scattered(const Tensor& t) {
  const Tensor memory = Tensor::full({t.size(0), t.size(2), t.size(1), t.size(3) + 3}, kNaN, t.dtype());
  const Tensor view = memory.transpose(1, 2).slice(3, 0, t.size(3));
  view.copy_from(t);
  return view;
}

Operand operand(const Tensor& t) {
  return {t.raw(), t.stride(0), t.stride(1), t.stride(2),
          t.dtype() == DType::f16    ? Storage::f16
          : t.dtype() == DType::bf16 ? Storage::bf16
                                     : Storage::same};
}

/// The kernel computing in T, with k and v kept as `kept`.
template <class T>
Output decode(const Call& c, DType kept = dtype_of<T>(), Executor& executor = default_executor(),
              Workspace* workspace = nullptr) {
  const DType type = dtype_of<T>();
  const Tensor q = scattered(c.q.to(type)), k = scattered(c.k.to(kept)), v = scattered(c.v.to(kept));
  const Tensor out = scattered(Tensor::full({c.B, c.Hq(), c.Lq, c.Dv}, 7, type));
  const Tensor lse = Tensor::full({c.B, c.Hq(), c.Lq}, 7, type);
  const AttentionOptions& o = c.options;
  Tensor mask = o.mask, alibi = o.alibi, sinks = o.sinks;
  Forward<T> p;
  p.B = c.B, p.Hq = c.Hq(), p.Hkv = c.Hkv, p.Lq = c.Lq, p.Lk = c.Lk, p.D = c.D, p.Dv = c.Dv;
  p.q = operand(q), p.k = operand(k), p.v = operand(v), p.out = operand(out);
  p.lse = lse.data<T>();
  p.scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(c.D)));
  p.causal = o.causal, p.offset = o.offset, p.window = o.window, p.softcap = o.softcap;
  p.workspace = workspace;
  if (mask.defined()) {
    const bool boolean = mask.dtype() == DType::boolean;
    if (!boolean) mask = mask.to(type);
    const Tensor wide = mask.expand({c.B, c.Hq(), c.Lq, c.Lk});
    p.mask = {true, boolean, wide.raw(), wide.stride(0), wide.stride(1), wide.stride(2), wide.stride(3), c.Lk};
  }
  if (alibi.defined()) alibi = alibi.to(type), p.alibi = alibi.data<T>(), p.alibi_stride = 1;
  if (sinks.defined()) sinks = sinks.to(type), p.sinks = sinks.data<T>(), p.sinks_stride = 1;
  if (o.key_lengths.defined()) p.key_lengths = {o.key_lengths.raw(), 1, false};
  decode_forward(p, executor);
  return {out.contiguous(), lse};
}

double largest(const Tensor& t) {
  double x = 0;
  for (const double y : t.span<double>())
    if (std::isfinite(y)) x = std::max(x, std::abs(y));
  return x;
}

/// -inf equals itself; NaN is infinitely far from everything.
double error(const Tensor& got, const Tensor& exact) {
  const Tensor wide = got.to(DType::f64);
  double x = 0;
  for (int64_t i = 0; i < exact.numel(); ++i) {
    const double a = wide.data<double>()[i], b = exact.data<double>()[i];
    if (a == b) continue;
    x = std::max(x, std::isfinite(a - b) ? std::abs(a - b) : kInf);
  }
  return x;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
}

bool is_exact(const Call& c) {
  const Output exact = formula<double>(c), got = decode<double>(c);
  return error(got.out, exact.out) <= 1e-13 * (10 + largest(exact.out)) &&
         error(got.lse, exact.lse) <= 1e-13 * (10 + largest(exact.lse));
}

class DecodeOnTarget : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { set_targets_for_test(GetParam()); }
  void TearDown() override { set_targets_for_test(0); }
};

TEST_P(DecodeOnTarget, EveryRemainder) {
  for (const int64_t D : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 80, 127, 128, 129})
    EXPECT_TRUE(is_exact(make_call({.group = 3, .Lk = 11, .D = D, .Dv = 130 - D}, 1))) << D;
  for (const int64_t Lk : {0, 1, 2, 3, 4, 5, 63, 64, 65, 255, 256, 257, 1023})
    EXPECT_TRUE(is_exact(make_call({.group = 2, .Lk = Lk, .D = 6, .Dv = 5}, 2))) << Lk;
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 16, 21})
    EXPECT_TRUE(is_exact(make_call({.group = rows, .Lk = 70, .D = 12, .Dv = 20}, 3))) << rows;
}

TEST_P(DecodeOnTarget, SplitsOfAnyNumber) {
  for (const Causal causal : {Causal::none, Causal::bottom_right}) {
    Call c = make_call({.B = 2, .Hkv = 2, .group = 2, .Lq = 3, .Lk = 2500, .D = 5, .Dv = 6}, 4);
    c.options.causal = causal;
    c.options.key_lengths = Tensor::from<int32_t>({2500, 700}, {2});
    EXPECT_TRUE(is_exact(c));
    c.options.window.left = 300;
    EXPECT_TRUE(is_exact(c));
  }
}

TEST_P(DecodeOnTarget, AsAccurateAsTheFormulaWhateverTheStorage) {
  for (const DType kept : {DType::f32, DType::f16, DType::bf16})
    for (const int64_t D : {64, 128, 75}) {
      const Call c = make_call({.Hkv = 2, .group = 4, .Lk = 700, .D = D, .Dv = D}, 5, kept);
      const Output exact = formula<double>(c), plain = formula<float>(c), got = decode<float>(c, kept);
      constexpr double kEps = std::numeric_limits<float>::epsilon();
      EXPECT_LE(error(got.out, exact.out), 2 * error(plain.out, exact.out) + 4 * kEps * largest(exact.out));
      EXPECT_LE(error(got.lse, exact.lse), 2 * error(plain.lse, exact.lse) + 4 * kEps * largest(exact.lse));
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, DecodeOnTarget, ::testing::ValuesIn(fused_targets()),
                         [](const auto& test) { return hwy::TargetName(test.param); });

RC_GTEST_PROP(Decode, EqualsTheFormula, ()) { RC_ASSERT(is_exact(arbitrary_call(DType::f64))); }

RC_GTEST_PROP(Decode, IsCloseInFloatOverHalves, ()) {
  const DType kept = *rc::gen::element(DType::f32, DType::f16, DType::bf16);
  const Call c = arbitrary_call(kept);
  const Output exact = formula<double>(c), got = decode<float>(c, kept);
  RC_ASSERT(error(got.out, exact.out) <= 1e-4 * (1 + largest(exact.out)));
  RC_ASSERT(error(got.lse, exact.lse) <= 1e-4 * (1 + largest(exact.lse)));
}

RC_GTEST_PROP(Decode, WhatIsHiddenChangesNoBit, ()) {
  const Call c = arbitrary_call(DType::f32);
  RC_PRE(c.Lk > 0);
  const int64_t b = *rc::gen::inRange<int64_t>(0, c.B), hkv = *rc::gen::inRange<int64_t>(0, c.Hkv);
  const int64_t j = *rc::gen::inRange<int64_t>(0, c.Lk);
  Call poisoned = c;
  poisoned.k = c.k.clone(), poisoned.v = c.v.clone();
  poisoned.k.at<double>(b, hkv, j, c.D / 2) = *rc::gen::element(kNaN, kInf, -kInf);
  poisoned.v.at<double>(b, hkv, j, c.Dv / 2) = *rc::gen::element(kNaN, kInf, -kInf);
  const Output before = decode<float>(c), after = decode<float>(poisoned);
  for (int64_t h = 0; h < c.Hq(); ++h)
    for (int64_t i = 0; i < c.Lq; ++i) {
      const Tensor row = before.out.select(0, b).select(0, h).select(0, i);
      if (h / c.group == hkv && sees(c, b, h, i, j)) continue;
      RC_ASSERT(same_bits(row, after.out.select(0, b).select(0, h).select(0, i)));
      RC_ASSERT(before.lse.at<float>(b, h, i) == after.lse.at<float>(b, h, i));
    }
}

TEST(Decode, ValuesThatARowSeesReachItEvenBesideARowThatDoesNot) {
  // Query 0 sees keys 0 and 1, query 1 also key 2, whose value is infinite in one place.
  Call c = make_call({.Lq = 2, .Lk = 3, .D = 4, .Dv = 21}, 6);
  c.options.causal = Causal::bottom_right;
  c.v.at<double>(0, 0, 2, 20) = kInf;
  const Output got = decode<float>(c);
  for (int64_t d = 0; d < 21; ++d) {
    EXPECT_TRUE(std::isfinite(got.out.at<float>(0, 0, 0, d)));
    EXPECT_EQ(std::isinf(got.out.at<float>(0, 0, 1, d)), d == 20);
  }
}

TEST(Decode, SameBitsForEveryNumberOfThreads) {
  Call c = make_call({.B = 2, .Hkv = 2, .group = 4, .Lk = 3000, .D = 40, .Dv = 24}, 7);
  c.options.key_lengths = Tensor::from<int32_t>({3000, 1234}, {2});
  const Output one = decode<float>(c, DType::f32, *make_executor(1));
  Workspace workspace;
  for (int threads = 2; threads <= 8; ++threads) {
    const Output many = decode<float>(c, DType::f32, *make_executor(threads), &workspace);
    EXPECT_TRUE(same_bits(one.out, many.out) && same_bits(one.lse, many.lse)) << threads;
  }
}

TEST(Decode, AnEntryDoesNotDependOnItsNeighbours) {
  Call both = make_call({.B = 2, .Hkv = 1, .group = 2, .Lk = 900, .D = 8, .Dv = 8}, 8);
  both.options.key_lengths = Tensor::from<int32_t>({500, 900}, {2});
  Call first = both;
  first.B = 1, first.q = both.q.slice(0, 0, 1), first.k = both.k.slice(0, 0, 1), first.v = both.v.slice(0, 0, 1);
  first.options.key_lengths = Tensor::from<int32_t>({500}, {1});
  EXPECT_TRUE(same_bits(decode<float>(both).out.slice(0, 0, 1), decode<float>(first).out));
}

}  // namespace
}  // namespace heed
