#include "heed/kv_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "attention/testing.h"

namespace heed {
namespace {

using test::max_abs;
using test::max_error;
using test::random_tensor;
using test::refusal;

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.shape() == y.shape() && x.dtype() == y.dtype() &&
         std::memcmp(x.raw(), y.raw(), static_cast<size_t>(x.nbytes())) == 0;
}

Tensor rows(const Tensor& t, int64_t begin, int64_t end) { return t.slice(2, begin, end); }

/// Where each row of (B, H, L, Dv) is largest, as a model picks its next token.
std::vector<int64_t> largest(const Tensor& t) {
  const Tensor x = t.to(DType::f64).contiguous();
  std::vector<int64_t> at;
  for (int64_t r = 0; r < x.numel() / x.size(3); ++r) {
    const double* const row = x.data<double>() + r * x.size(3);
    at.push_back(std::max_element(row, row + x.size(3)) - row);
  }
  return at;
}

struct Sequence {
  Tensor q, k, v;  // (2, 4, L, 6), (2, 2, L, 6), (2, 2, L, 5)
};

Sequence sequence(int64_t length, uint64_t seed, DType dtype = DType::f64) {
  return {random_tensor({2, 4, length, 6}, seed, dtype), random_tensor({2, 2, length, 6}, seed + 1, dtype),
          random_tensor({2, 2, length, 5}, seed + 2, dtype)};
}

KVCache cache_for(int64_t capacity, DType dtype = DType::f64) { return {2, 2, capacity, 6, 5, dtype}; }

TEST(KVCache, TokenByTokenIsTheWholeSequence) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::optional<Rotary>& turned : {std::optional<Rotary>(), std::optional(Rotary{.size = 4})}) {
      const Sequence s = sequence(40, 1, dtype);
      const Tensor q = turned ? rotary(s.q, *turned) : s.q, k = turned ? rotary(s.k, *turned) : s.k;
      const Tensor whole = attention(q, k, s.v, {.causal = Causal::top_left}).out;
      KVCache cache = cache_for(40, dtype);
      for (int64_t t = 0; t < 40; ++t) {
        const AttentionResult r = cache.attend(rows(s.q, t, t + 1), rows(s.k, t, t + 1), rows(s.v, t, t + 1),
                                               {.causal = Causal::bottom_right}, turned);
        const Tensor expected = rows(whole, t, t + 1);
        EXPECT_LT(max_error(r.out.to(DType::f64), expected.to(DType::f64)), dtype == DType::f64 ? 1e-13 : 2e-6);
        EXPECT_EQ(largest(r.out), largest(expected));
      }
      EXPECT_TRUE(same_bits(cache.values(), s.v));
    }
}

RC_GTEST_PROP(KVCache, ChunksOfAnyLengthAreTheWholeSequence, ()) {
  const auto in = [](int64_t low, int64_t high) { return *rc::gen::inRange<int64_t>(low, high + 1); };
  const int64_t length = in(1, 700);
  const Sequence s = sequence(length, static_cast<uint64_t>(in(0, 1000)));
  AttentionOptions o{.causal = in(0, 1) ? Causal::top_left : Causal::bottom_right, .want_lse = true};
  if (in(0, 1)) o.window.left = in(0, length);
  if (in(0, 1)) o.alibi = random_tensor({4}, 9);
  if (in(0, 1)) o.sinks = random_tensor({4}, 10);
  if (in(0, 1)) o.softcap = 3;
  AttentionOptions all = o;
  all.causal = Causal::top_left;
  std::optional<Rotary> turned;
  if (in(0, 1)) turned = Rotary{.layout = static_cast<RotaryLayout>(in(0, 1))};
  const Tensor q = turned ? rotary(s.q, *turned) : s.q, k = turned ? rotary(s.k, *turned) : s.k;
  const AttentionResult whole = attention(q, k, s.v, all);
  KVCache cache = cache_for(1);
  for (int64_t t = 0; t < length;) {
    const int64_t end = std::min(length, t + (in(0, 1) ? in(1, 5) : in(1, 400)));
    cache.reserve(end);
    const AttentionResult r = cache.attend(rows(s.q, t, end), rows(s.k, t, end), rows(s.v, t, end), o, turned);
    RC_ASSERT(max_error(r.out, rows(whole.out, t, end)) <= 1e-12);
    RC_ASSERT(max_error(r.lse, whole.lse.slice(2, t, end)) <= 1e-12);
    t = end;
    RC_ASSERT(cache.length() == t);
  }
}

TEST(KVCache, HalvesAreStorageOnly) {
  const Sequence s = sequence(600, 20, DType::f32);
  const Rotary turned{.layout = RotaryLayout::interleaved};
  for (const DType kept : {DType::f16, DType::bf16}) {
    KVCache cache = cache_for(600, kept);
    cache.append(rows(s.k, 0, 599), rows(s.v, 0, 599), turned);
    const AttentionResult r = cache.attend(rows(s.q, 599, 600), rows(s.k, 599, 600), rows(s.v, 599, 600), {}, turned);
    EXPECT_TRUE(same_bits(cache.keys(), rotary(s.k, turned).to(kept)));
    EXPECT_TRUE(same_bits(cache.values(), s.v.to(kept)));
    // The query is not rounded to what the cache keeps.
    const Tensor exact = attention(rows(rotary(s.q.to(DType::f64), turned), 599, 600), cache.keys().to(DType::f64),
                                   cache.values().to(DType::f64))
                             .out;
    ASSERT_EQ(r.out.dtype(), DType::f32);
    EXPECT_LT(max_error(r.out.to(DType::f64), exact), 1e-6);

    // Operands of other types come in and go out as they are.
    for (const DType own : {DType::f16, DType::bf16, DType::f64}) {
      KVCache other = cache_for(10, kept);
      const AttentionResult first = other.attend(rows(s.q, 0, 4).to(own), rows(s.k, 0, 4).to(own),
                                                 rows(s.v, 0, 4).to(own), {.causal = Causal::top_left});
      EXPECT_EQ(first.out.dtype(), own);
      const Tensor plain = attention(rows(s.q, 0, 4), rows(s.k, 0, 4), rows(s.v, 0, 4), {.causal = Causal::top_left});
      EXPECT_LT(max_error(first.out.to(DType::f64), plain.to(DType::f64)), 0.05 * (1 + max_abs(plain)));
    }
  }
}

TEST(KVCache, IntoMemoryOfTheCaller) {
  const Sequence s = sequence(9, 30, DType::f32);
  for (const DType kept : {DType::f32, DType::f16})
    for (const DType own : {DType::f32, DType::f16}) {
      KVCache one = cache_for(9, kept), two = cache_for(9, kept);
      const Tensor q = s.q.to(own), k = s.k.to(own), v = s.v.to(own);
      const AttentionResult r = one.attend(q, k, v, {.want_lse = true, .want_weights = true});
      AttentionResult into;
      into.out = test::strided_copy(Tensor::zeros({2, 4, 9, 5}, own));
      into.lse = Tensor::zeros({2, 4, 9});
      into.weights = Tensor::zeros({2, 4, 9, 9});
      two.attend(q, k, v, into);
      EXPECT_TRUE(same_bits(into.out, r.out) && same_bits(into.lse, r.lse) && same_bits(into.weights, r.weights));
    }
}

TEST(KVCache, PositionsOfTheCallerAndTables) {
  const Sequence s = sequence(6, 40);
  const Tensor ids = Tensor::from<int64_t>({4, 5, 6, 9, 10, 11}, {2, 3});
  KVCache cache = cache_for(8);
  cache.append(rows(s.k, 0, 3), rows(s.v, 0, 3), Rotary{});
  cache.append(rows(s.k, 3, 6), rows(s.v, 3, 6), Rotary{.positions = ids});
  EXPECT_TRUE(same_bits(rows(cache.keys(), 0, 3), rotary(rows(s.k, 0, 3))));
  EXPECT_TRUE(same_bits(rows(cache.keys(), 3, 6), rotary(rows(s.k, 3, 6), {.positions = ids})));

  // Rows of tables count from the length, too.
  const Tensor cos = random_tensor({6, 3}, 41), sin = random_tensor({6, 3}, 42);
  const Rotary tables{.cos = cos, .sin = sin};
  KVCache by_table = cache_for(8);
  for (int64_t t = 0; t < 6; t += 2) by_table.append(rows(s.k, t, t + 2), rows(s.v, t, t + 2), tables);
  EXPECT_TRUE(same_bits(by_table.keys(), rotary(s.k, tables)));
}

TEST(KVCache, MasksRunOverAllKeys) {
  const Sequence s = sequence(5, 50);
  const Tensor mask = Tensor::zeros({1, 1, 2, 5}, DType::boolean);
  for (const int64_t j : {0, 2, 4}) mask.at<bool>(0, 0, 0, j) = mask.at<bool>(0, 0, 1, j) = true;
  KVCache cache = cache_for(5);
  cache.append(rows(s.k, 0, 3), rows(s.v, 0, 3));
  const Tensor got = cache.attend(rows(s.q, 3, 5), rows(s.k, 3, 5), rows(s.v, 3, 5), {.mask = mask});
  EXPECT_LT(max_error(got, attention(rows(s.q, 3, 5), s.k, s.v, {.mask = mask}).out), 1e-14);
}

TEST(KVCache, GrowsShrinksAndIsReordered) {
  const Sequence s = sequence(8, 60);
  KVCache cache;
  EXPECT_FALSE(cache.defined());
  EXPECT_EQ(cache.capacity(), 0);
  cache = cache_for(3);
  cache.append(rows(s.k, 0, 3), rows(s.v, 0, 3));
  cache.reserve(2);
  EXPECT_EQ(cache.capacity(), 3);
  cache.reserve(4);
  EXPECT_EQ(cache.capacity(), 6);
  cache.reserve(20);
  EXPECT_EQ(cache.capacity(), 20);
  cache.append(rows(s.k, 3, 8), rows(s.v, 3, 8));
  EXPECT_TRUE(same_bits(cache.keys(), s.k) && same_bits(cache.values(), s.v));
  cache.truncate(5);
  EXPECT_TRUE(same_bits(cache.keys(), rows(s.k, 0, 5)));

  cache.reorder({1, 1, 0});
  ASSERT_EQ(cache.keys().size(0), 3);
  EXPECT_EQ(cache.capacity(), 20);
  for (const auto& [to, from] : {std::pair{0, 1}, {1, 1}, {2, 0}})
    EXPECT_TRUE(same_bits(cache.values().slice(0, to, to + 1), rows(s.v, 0, 5).slice(0, from, from + 1)));
  cache.clear();
  EXPECT_EQ(cache.length(), 0);

  const KVCache shared(s.k, s.v);
  EXPECT_EQ(shared.length(), 8);
  EXPECT_EQ(shared.keys().raw(), s.k.raw());
}

TEST(KVCache, IsReorderedInPlaceWhereNothingIsLost) {
  const Tensor k = Tensor::empty({5, 2, 3, 4}), v = Tensor::empty({5, 2, 3, 6});
  for (const Tensor& t : {k, v})
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(i);
  const auto expect = [&](const KVCache& cache, const std::vector<int64_t>& source) {
    ASSERT_EQ(cache.keys().size(0), static_cast<int64_t>(source.size()));
    for (size_t i = 0; i < source.size(); ++i) {
      const auto at = static_cast<int64_t>(i), from = source[i];
      EXPECT_TRUE(same_bits(cache.keys().slice(0, at, at + 1), k.slice(0, from, from + 1))) << i;
      EXPECT_TRUE(same_bits(cache.values().slice(0, at, at + 1), v.slice(0, from, from + 1))) << i;
    }
  };
  const struct {
    std::vector<int64_t> source;
    bool in_place;
  } cases[] = {{{0, 1, 2, 3, 4}, true},
               {{0, 0, 2, 2, 4}, true},
               {{1, 1, 4}, true},
               {{3, 4}, true},
               {{}, true},
               {{1, 0, 2}, false},
               {{4, 1, 0}, false},
               {{1, 2, 1}, false},
               {{0, 1, 2, 3, 4, 4}, false}};
  for (const auto& [source, in_place] : cases)
    for (const bool copied : {false, true}) {
      KVCache cache(5, 2, 8, 4, 6);
      cache.append(k, v);
      const KVCache copy = copied ? cache : KVCache();
      const void* const before = cache.keys().raw();
      cache.reorder(source);
      expect(cache, source);
      EXPECT_EQ(cache.keys().raw() == before, in_place && !copied);
      EXPECT_EQ(cache.capacity(), 8);
      if (copied) expect(copy, {0, 1, 2, 3, 4});
    }
}

TEST(KVCache, ARefusedCallChangesNothing) {
  const Sequence s = sequence(6, 70, DType::f32);
  KVCache cache = cache_for(4, DType::f32);
  cache.append(rows(s.k, 0, 2), rows(s.v, 0, 2));
  const Tensor keys = cache.keys().clone(), values = cache.values().clone();
  const Tensor q = rows(s.q, 2, 4), k = rows(s.k, 2, 4), v = rows(s.v, 2, 4);
  const auto zeros = [](const Dims& shape) { return Tensor::zeros(shape); };
  EXPECT_EQ(refusal([&] { cache.append(rows(s.k, 2, 5), rows(s.v, 2, 5)); }),
            "KVCache: 2 positions and 3 more do not fit a capacity of 4; call reserve() or truncate() first");
  EXPECT_EQ(refusal([&] {
              cache.append(zeros({2, 3, 2, 6}), v);
            }),
            "KVCache: k is (2, 3, 2, 6) and v (2, 2, 2, 5); this cache takes (2, 2, 2, 6) and (2, 2, 2, 5)");
  const std::function<void()> refused[] = {
      [&] { cache.append(k, rows(s.v, 2, 3)); },
      [&] { cache.append(k.to(DType::i32), v); },
      [&] { cache.append({}, v); },
      [&] { cache.append(k, v, Rotary{.size = 5}); },
      [&] { cache.append(k, v, Rotary{.positions = Tensor::zeros({3}, DType::i32)}); },
      [&] {
        cache.append(k, v, Rotary{.cos = zeros({3, 3}), .sin = zeros({3, 3})});
      },  // positions 2 and 3
      [&] { cache.attend(rows(s.q, 2, 3), k, v); },
      [&] {
        cache.attend(zeros({2, 3, 2, 6}), k, v);
      },
      [&] {
        cache.attend(zeros({2, 4, 2, 5}), k, v);
      },
      [&] { cache.attend(q, k, v, {.offset = 1}); },
      [&] { cache.attend(q, k, v, {.key_lengths = Tensor::full({2}, 5, DType::i32)}); },
      [&] { cache.attend(q, k, v, {.dropout = 2}); },
      [&] { cache.attend(q, k, v, AttentionResult{}); },
      [&] { cache.truncate(3); },
      [&] { cache.truncate(-1); },
      [&] {
        cache.reorder({0, 2});
      },
      [&] { KVCache().append(k, v); },
      [&] { KVCache().reserve(1); },
      [&] { KVCache(1, 1, -1, 1, 1); },
      [&] { KVCache(1, 1, 1, 1, 1, DType::i32); },
      [&] { KVCache(s.k, rows(s.v, 0, 3)); },
  };
  int number = 0;
  for (const auto& call : refused) {
    EXPECT_THROW(call(), ShapeError) << number;
    ++number;
    EXPECT_EQ(cache.length(), 2);
    EXPECT_TRUE(same_bits(cache.keys(), keys) && same_bits(cache.values(), values)) << number;
  }
  cache.attend(q, k, v);  // and it goes on
  EXPECT_EQ(cache.length(), 4);
}

constexpr auto kNothing = "(nothing thrown)";  // refusal() of a call that went through

// Memory of any strides can be read, and written to where each element has a place of its own.
TEST(KVCache, WritesIntoMemoryOfTheCallerThatHasRoom) {
  const Tensor memory = test::random_tensor({400}, 90, DType::f32), more = test::random_tensor({400}, 91, DType::f32);
  const Tensor k = test::random_tensor({2, 2, 1, 6}, 92, DType::f32),
               q = test::random_tensor({2, 2, 1, 6}, 93, DType::f32);
  const Dims shape{2, 2, 4, 6}, packed{48, 24, 6, 1}, interleaved{96, 6, 24, 1};
  const auto said = [&](const Tensor& keys, const Tensor& values) {
    KVCache cache(keys, values);
    EXPECT_TRUE(same_bits(cache.keys().contiguous(), keys.contiguous()));
    const std::string full = refusal([&] { cache.append(k, k); });
    EXPECT_NE(full.find("do not fit a capacity of 4"), std::string::npos) << full;
    cache.truncate(3);
    const Tensor before = keys.clone();
    const std::string appended = refusal([&] { cache.append(k, k); });
    cache.truncate(3);
    EXPECT_EQ(refusal([&] { cache.attend(q, k, k); }), appended);
    if (appended != kNothing) {
      EXPECT_TRUE(same_bits(before.contiguous(), keys.contiguous()));
      EXPECT_EQ(cache.length(), 3);
    }
    return appended;
  };
  EXPECT_EQ(said(memory.as_strided(shape, packed), more.as_strided(shape, packed)), kNothing);
  EXPECT_EQ(said(memory.as_strided(shape, interleaved), memory.as_strided(shape, interleaved, 12)), kNothing);
  const Tensor own = more.as_strided(shape, packed);
  for (const Dims& strides : {Dims{48, 24, 5, 1}, {47, 24, 6, 1}, {48, 0, 6, 1}, {0, 24, 6, 1}, {48, 24, 0, 1}}) {
    const Tensor shared = memory.as_strided(shape, strides);
    EXPECT_EQ(said(shared, own).find("KVCache: the memory of keys "), 0) << to_string(strides);
    EXPECT_EQ(said(own, shared).find("KVCache: the memory of values "), 0) << to_string(strides);
  }
  EXPECT_EQ(said(own, own),
            "KVCache: the memory of values shares memory with the memory of keys; pass separate memory");
  EXPECT_NE(said(own, more.as_strided(shape, packed, 6)), kNothing);

  KVCache moved(memory.as_strided(shape, {0, 24, 6, 1}), own);  // reserve() gives it memory of its own
  moved.reserve(5);
  moved.append(k, k);
  EXPECT_TRUE(same_bits(rows(moved.keys(), 4, 5), k));
}

TEST(KVCache, TakesNothingFromThePlacesItWritesTo) {
  const Sequence s = sequence(4, 94, DType::f32);
  const auto filled = [&] {
    KVCache cache = cache_for(8, DType::f32);
    cache.append(s.k, s.v);
    return cache;
  };
  KVCache cache = filled();
  const Tensor keys = cache.keys(), values = cache.values(), slot = rows(keys, 2, 4), value_slot = rows(values, 2, 4);
  cache.truncate(2);
  cache.append(slot, value_slot);  // they are in their places already
  EXPECT_TRUE(same_bits(cache.keys(), s.k) && same_bits(cache.values(), s.v));
  cache.append(rows(keys, 0, 2), rows(values, 0, 2));  // from other places of the cache
  EXPECT_TRUE(same_bits(rows(cache.keys(), 4, 6), rows(s.k, 0, 2)));
  EXPECT_TRUE(same_bits(rows(cache.values(), 4, 6), rows(s.v, 0, 2)));
  cache.truncate(2);
  const Tensor fresh = rows(s.k, 0, 2), fresh_values = rows(s.v, 0, 2);
  EXPECT_EQ(refusal([&] { cache.append(rows(keys, 1, 3), fresh_values); }),
            "KVCache: the memory of keys shares memory with k, which is read; pass separate memory");
  EXPECT_NE(refusal([&] { cache.append(fresh, rows(values, 1, 3)); }), kNothing);
  EXPECT_EQ(refusal([&] { cache.attend(slot, fresh, fresh_values); }),
            "KVCache: the memory of keys shares memory with q, which is read; pass separate memory");
}

// Results that are converted on the way out are written as carefully as those that attention() writes itself.
TEST(KVCache, ConvertedResultsHavePlacesOfTheirOwn) {
  const Sequence s = sequence(3, 95, DType::f32);
  const Tensor q = s.q.to(DType::f16), memory = Tensor::zeros({400}, DType::f16);
  const auto said = [&](const Tensor& out) {
    KVCache cache = cache_for(3, DType::f32);
    AttentionResult into;
    into.out = out;
    const std::string message = refusal([&] { cache.attend(q, s.k, s.v, into); });
    EXPECT_EQ(cache.length(), message == kNothing ? 3 : 0);
    return message;
  };
  EXPECT_EQ(said(memory.as_strided({2, 4, 3, 5}, {60, 15, 5, 1})), kNothing);
  EXPECT_NE(said(memory.as_strided({2, 4, 3, 5}, {60, 15, 4, 1})).find("into.out of shape (2, 4, 3, 5) has strides"),
            std::string::npos);
  EXPECT_NE(said(memory.as_strided({2, 4, 3, 5}, {0, 15, 5, 1})).find("into.out is broadcast along dimension 0"),
            std::string::npos);
}

}  // namespace
}  // namespace heed
