// score_mod and mask_mod: plain C++ lambdas inside the fused kernels. The kernels hand every tile of scores to the
// lambda through one function pointer; the loop over the tile is a template here, so the lambda is inlined and
// vectorised where it is written, and nothing is compiled at run time. The score is a Dual: a lambda that takes `auto`
// yields its own derivative in backward, and forward drops what computes it.
//
//   heed::score_mod([slope](auto score, auto at) { return score - slope * heed::abs(at.query - at.key); })
//   heed::block_mask([](auto at) { return at.key <= at.query; }, 1, 1, Lq, Lk)
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/dual.h"
#include "heed/error.h"

namespace heed::inline v0 {

inline constexpr int64_t kTile = 64;    // queries and keys of a tile of scores
inline constexpr int kScoreLanes = 16;  // scores that a score_mod is called for in one loop of fixed length

/// Which score: entry of the batch, query head, query and key (both counted within the entry).
struct ScoreAt {
  int32_t batch, head, query, key;
};

/// A tile of scores, [key][query]: element (i, j) is scores[j * pitch + i]. Rows are padded to whole groups of
/// kScoreLanes; what stands in the padding is nobody's, and is never shown to a lambda as a query past the last.
template <class T>
struct ScoreTile {
  uint32_t size = sizeof(ScoreTile);                // grows at its end only
  int32_t batch = 0, head = 0, query = 0, key = 0;  // of element (0, 0)
  int32_t queries = 0, keys = 0;
  int64_t pitch = 0;
  T* scores = nullptr;       // changed in place
  T* derivatives = nullptr;  // backward: receives d new score / d old score; null in forward
};

/// A score function with its type erased. Undefined (false) by default. Copies share one lambda, which lives as long
/// as the last of them; what it points to has to live as long. Threads call it at the same time.
class ScoreMod {
 public:
  ScoreMod() = default;
  explicit operator bool() const { return context_ != nullptr; }
  void operator()(const ScoreTile<float>& tile) const { f32_(context_.get(), tile); }
  void operator()(const ScoreTile<double>& tile) const { f64_(context_.get(), tile); }

 private:
  template <class F>
  friend ScoreMod score_mod(F f);
  std::shared_ptr<const void> context_;
  void (*f32_)(const void*, const ScoreTile<float>&) = nullptr;
  void (*f64_)(const void*, const ScoreTile<double>&) = nullptr;
};

enum class TileClass : uint8_t { empty, full, partial };

/// mask_mod evaluated once per tile: whole tiles are skipped or taken as they are, and only partial ones ask the lambda
/// again. Copies share one lambda, as those of ScoreMod do. Undefined (false) by default.
class BlockMask {
 public:
  BlockMask() = default;
  explicit operator bool() const { return context_ != nullptr; }
  int64_t batch() const { return batch_; }  // B, or 1 for all entries
  int64_t heads() const { return heads_; }  // Hq, or 1 for all heads
  int64_t queries() const { return queries_; }
  int64_t keys() const { return keys_; }
  TileClass at(int64_t b, int64_t h, int64_t query_tile, int64_t key_tile) const {
    const int64_t row = ((batch_ == 1 ? 0 : b) * heads_ + (heads_ == 1 ? 0 : h)) * query_tiles_ + query_tile;
    return (*classes_)[static_cast<size_t>(row * key_tiles_ + key_tile)];
  }
  /// Share of tiles that are empty, in [0, 1].
  double sparsity() const;
  /// Writes -inf where the lambda says false.
  void operator()(const ScoreTile<float>& tile) const { f32_(context_.get(), tile); }
  void operator()(const ScoreTile<double>& tile) const { f64_(context_.get(), tile); }

 private:
  template <class F>
  friend BlockMask block_mask(F f, int64_t batch, int64_t heads, int64_t queries, int64_t keys);
  friend BlockMask block_mask(const ScoreMod& hiding, int64_t batch, int64_t heads, int64_t queries, int64_t keys);
  BlockMask(int64_t batch, int64_t heads, int64_t queries, int64_t keys);
  template <class Class>
  void classify(const Class& class_of);
  std::shared_ptr<const void> context_;
  void (*f32_)(const void*, const ScoreTile<float>&) = nullptr;
  void (*f64_)(const void*, const ScoreTile<double>&) = nullptr;
  std::shared_ptr<const std::vector<TileClass>> classes_;  // (batch, heads, query tiles, key tiles)
  int64_t batch_ = 0, heads_ = 0, queries_ = 0, keys_ = 0, query_tiles_ = 0, key_tiles_ = 0;
};

/// d loss / d score (as score_mod returned it) of a tile, laid out as in ScoreTile; 0 where a pair is hidden.
template <class T>
struct ScoreGradientTile {
  int32_t batch = 0, head = 0, query = 0, key = 0, queries = 0, keys = 0;
  int64_t pitch = 0;
  const T* gradients = nullptr;
  const T* scores = nullptr;  // as score_mod received them
};

/// Receives tiles of d(score), in an order that depends on sizes alone. Undefined (false) by default.
struct ScoreVisitor {
  std::function<void(const ScoreGradientTile<float>&)> f32;
  std::function<void(const ScoreGradientTile<double>&)> f64;
  explicit operator bool() const { return static_cast<bool>(f32); }
  void operator()(const ScoreGradientTile<float>& tile) const { f32(tile); }
  void operator()(const ScoreGradientTile<double>& tile) const { f64(tile); }
};

// Internal linkage: units built for different instruction sets must not share these loops.
namespace {

/// step(i, query) for groups of kScoreLanes queries from i; query(l) is the one of lane l. Lanes past the last query
/// get the last.
template <class Step>
inline void for_each_group(int32_t first, int32_t queries, const Step& step) {
  int32_t i = 0;
  for (; i + kScoreLanes <= queries; i += kScoreLanes)  // in steps of 1, so that a table is read in a row
    step(i, [from = first + i](int32_t l) { return from + l; });
  if (i < queries) step(i, [from = first + i, last = queries - 1 - i](int32_t l) { return from + std::min(l, last); });
}

// g++ at -O3 unrolls a short loop before its vectoriser looks at it.
#ifdef __clang__
#define HEED_ROLLED
#else
#define HEED_ROLLED _Pragma("GCC unroll 1")
#endif

// Results stand in an array of their own before they are stored: nothing that the lambda reads can overlap with it.

template <class T, class F, class Query>
inline void value_lanes(const F& f, ScoreAt at, const Query& query, T* scores) {
  T values[kScoreLanes];
  HEED_ROLLED
  for (int32_t l = 0; l < kScoreLanes; ++l) {
    at.query = query(l);
    const Dual<T> y = f(Dual<T>{scores[l], T{0}}, ScoreAt{at});
    values[l] = y.value;
  }
  for (int32_t l = 0; l < kScoreLanes; ++l) scores[l] = values[l];
}

template <class T, class F, class Query>
inline void derivative_lanes(const F& f, ScoreAt at, const Query& query, const T* scores, T* derivatives) {
  T slopes[kScoreLanes];
  HEED_ROLLED
  for (int32_t l = 0; l < kScoreLanes; ++l) {
    at.query = query(l);
    const Dual<T> y = f(Dual<T>{scores[l], T{1}}, ScoreAt{at});
    slopes[l] = y.derivative;
  }
  for (int32_t l = 0; l < kScoreLanes; ++l) derivatives[l] = slopes[l];
}

/// Values and derivatives have a loop each, so that backward meets forward's very bits, whatever a compiler contracts.
template <class T, class F>
inline void score_loop(const F& f, const ScoreTile<T>& tile) {
  const int64_t pitch = tile.pitch;
  T *const scores = tile.scores, *const derivatives = tile.derivatives;
  if (derivatives)
    for_each_group(tile.query, tile.queries, [&](int32_t i, const auto& query) {
      for (int32_t j = 0; j < tile.keys; ++j)
        derivative_lanes(f, {tile.batch, tile.head, 0, tile.key + j}, query, scores + j * pitch + i,
                         derivatives + j * pitch + i);
    });
  for_each_group(tile.query, tile.queries, [&](int32_t i, const auto& query) {
    for (int32_t j = 0; j < tile.keys; ++j)
      value_lanes(f, {tile.batch, tile.head, 0, tile.key + j}, query, scores + j * pitch + i);
  });
}

/// A mask as a score function.
template <class F>
struct Hiding {
  F f;
  template <class T>
  Dual<T> operator()(Dual<T> score, ScoreAt at) const {
    return where(static_cast<bool>(f(at)), score, -std::numeric_limits<T>::infinity());
  }
};

template <class F>
inline TileClass class_loop(const F& f, ScoreAt first, int32_t queries, int32_t keys) {
  int64_t open = 0, seen = 0;
  for_each_group(first.query, queries, [&](int32_t, const auto& query) {
    if (open != 0 && open != seen) return;
    int32_t counts[kScoreLanes] = {};
    for (int32_t j = 0; j < keys; ++j) {
      int32_t lanes[kScoreLanes];
      HEED_ROLLED
      for (int32_t l = 0; l < kScoreLanes; ++l)
        lanes[l] = static_cast<bool>(f(ScoreAt{first.batch, first.head, query(l), first.key + j}));
      for (int32_t l = 0; l < kScoreLanes; ++l) counts[l] += lanes[l];
    }
    for (int32_t l = 0; l < kScoreLanes; ++l) open += counts[l];
    seen += int64_t{kScoreLanes} * keys;
  });
  return open == seen ? TileClass::full : open == 0 ? TileClass::empty : TileClass::partial;
}

// The loops once for every instruction set, with the lambda inside. A program built for any x86-64 still has its
// lambdas run on the vectors of the machine that it meets.
#define HEED_SCORE_LOOPS(Name, attributes)                                                          \
  struct Name {                                                                                     \
    template <class T, class F>                                                                     \
    attributes static void scores(const void* f, const ScoreTile<T>& tile) {                        \
      score_loop(*static_cast<const F*>(f), tile);                                                  \
    }                                                                                               \
    template <class F>                                                                              \
    attributes static TileClass classes(const F& f, ScoreAt first, int32_t queries, int32_t keys) { \
      return class_loop(f, first, queries, keys);                                                   \
    }                                                                                               \
  };
HEED_SCORE_LOOPS(BaselineLoops, __attribute__((flatten)))
#if defined(__x86_64__) && !defined(__AVX512F__)
#define HEED_AVX2_LOOPS
HEED_SCORE_LOOPS(Avx2Loops, __attribute__((flatten, target("avx2,fma"))))
#ifndef __clang__  // clang 14 takes longer with them
#define HEED_AVX512_LOOPS
HEED_SCORE_LOOPS(Avx512Loops, __attribute__((flatten, target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl"))))
#endif
#endif
#undef HEED_SCORE_LOOPS
#undef HEED_ROLLED

/// use(loops) with the loops for this machine.
template <class Use>
inline auto with_score_loops(const Use& use) {
#ifdef HEED_AVX512_LOOPS
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return use(Avx512Loops{});
#endif
#ifdef HEED_AVX2_LOOPS
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return use(Avx2Loops{});
#endif
  return use(BaselineLoops{});
}
#undef HEED_AVX512_LOOPS
#undef HEED_AVX2_LOOPS

}  // namespace

// Hidden scores are infinite, and derivatives rely on the order of additions: neither survives -ffast-math.
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || defined(__ASSOCIATIVE_MATH__)
#define HEED_IEEE_ARITHMETIC false
#else
#define HEED_IEEE_ARITHMETIC true
#endif

/// f(score, at) -> score, where score is a Dual<float> or Dual<double> and at a ScoreAt; or f(tile), which changes the
/// scores of a ScoreTile of either type itself, and assigns derivatives where the tile has room for them. Called by
/// several threads.
template <class F>
ScoreMod score_mod(F f) {
  constexpr bool kTakesTiles =
      std::invocable<const F&, const ScoreTile<float>&> && std::invocable<const F&, const ScoreTile<double>&>;
  static_assert(sizeof(F) != 0 && HEED_IEEE_ARITHMETIC,
                "score_mod: this file is compiled with -ffast-math or a part of it; compile it with -fno-fast-math");
  static_assert(
      kTakesTiles || (std::is_invocable_r_v<Dual<float>, const F&, Dual<float>, ScoreAt> &&
                      std::is_invocable_r_v<Dual<double>, const F&, Dual<double>, ScoreAt>),
      "score_mod: the function is not callable as f(score, at) const -> score; write [](auto score, auto at), "
      "with heed::exp, heed::tanh, heed::where for what is in <cmath>");
  ScoreMod mod;
  mod.context_ = std::make_shared<const F>(std::move(f));
  if constexpr (kTakesTiles) {
    mod.f32_ = [](const void* own, const ScoreTile<float>& tile) { (*static_cast<const F*>(own))(tile); };
    mod.f64_ = [](const void* own, const ScoreTile<double>& tile) { (*static_cast<const F*>(own))(tile); };
  } else {
    with_score_loops([&](auto loops) {
      mod.f32_ = decltype(loops)::template scores<float, F>;
      mod.f64_ = decltype(loops)::template scores<double, F>;
    });
  }
  return mod;
}

/// Scores through `first`, then through `then`. One that is undefined leaves them as they are.
inline ScoreMod operator|(ScoreMod first, ScoreMod then) {
  if (!first || !then) return first ? first : then;
  return score_mod([first = std::move(first), then = std::move(then)]<class T>(const ScoreTile<T>& tile) {
    first(tile);
    if (!tile.derivatives) return then(tile);
    T slopes[kTile * kTile];
    ScoreTile<T> part = tile;
    part.derivatives = slopes;
    for (int32_t j = 0; j < tile.keys; j += part.keys) {
      const int64_t from = j * tile.pitch;
      part.key = tile.key + j;
      part.keys = static_cast<int32_t>(std::min<int64_t>(tile.keys - j, kTile * kTile / tile.pitch));
      part.scores = tile.scores + from;
      then(part);
      for (int64_t row = 0; row < part.keys * tile.pitch; row += tile.pitch)
        for (int64_t i = row; i < row + tile.queries; ++i) tile.derivatives[from + i] *= slopes[i];
    }
  });
}

inline BlockMask::BlockMask(int64_t batch, int64_t heads, int64_t queries, int64_t keys)
    : batch_(batch),
      heads_(heads),
      queries_(queries),
      keys_(keys),
      query_tiles_((queries + kTile - 1) / kTile),
      key_tiles_((keys + kTile - 1) / kTile) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - kTile;
  const auto check = [](const char* name, int64_t size, int64_t least) {
    if (size < least || size > kMost)
      throw ShapeError(std::string("block_mask: ") + name + " is " + std::to_string(size) + "; it must be from " +
                       std::to_string(least) + " to " + std::to_string(kMost));
  };
  check("batch", batch, 1);
  check("heads", heads, 1);
  check("queries", queries, 0);
  check("keys", keys, 0);
  const double tiles = static_cast<double>(batch * heads) * static_cast<double>(query_tiles_ * key_tiles_);
  if (tiles > 0x1p40)
    throw ShapeError("block_mask: batch " + std::to_string(batch) + " and heads " + std::to_string(heads) + " of " +
                     std::to_string(queries) + " x " + std::to_string(keys) +
                     " pairs are more than 2^40 tiles; make a mask for fewer entries at a time");
}

/// class_of(first, queries, keys) for every tile.
template <class Class>
void BlockMask::classify(const Class& class_of) {
  std::vector<TileClass> classes;
  classes.reserve(static_cast<size_t>(batch_ * heads_ * query_tiles_ * key_tiles_));
  for (int64_t row = 0; row < batch_ * heads_; ++row)
    for (int64_t query = 0; query < queries_; query += kTile)
      for (int64_t key = 0; key < keys_; key += kTile)
        classes.push_back(class_of(ScoreAt{static_cast<int32_t>(row / heads_), static_cast<int32_t>(row % heads_),
                                           static_cast<int32_t>(query), static_cast<int32_t>(key)},
                                   static_cast<int32_t>(std::min(queries_ - query, kTile)),
                                   static_cast<int32_t>(std::min(keys_ - key, kTile))));
  classes_ = std::make_shared<const std::vector<TileClass>>(std::move(classes));
}

/// f(at) -> whether the pair may be attended, at a ScoreAt. It is called for every pair now, and for those of partial
/// tiles in every call of attention, by several threads. `batch` and `heads` are 1 where f does not look at them. Keeps
/// one byte a tile. Throws ShapeError for sizes below 0 (batch, heads: below 1) or at.query and at.key beyond int32.
template <class F>
BlockMask block_mask(F f, int64_t batch, int64_t heads, int64_t queries, int64_t keys) {
  static_assert(sizeof(F) != 0 && HEED_IEEE_ARITHMETIC,
                "block_mask: this file is compiled with -ffast-math or a part of it; compile it with -fno-fast-math");
  static_assert(std::is_invocable_r_v<bool, const F&, ScoreAt>,
                "block_mask: the function is not callable as f(at) const -> bool; write [](auto at)");
  BlockMask mask(batch, heads, queries, keys);
  const auto hiding = std::make_shared<const Hiding<F>>(Hiding<F>{std::move(f)});
  with_score_loops([&](auto loops) {
    using Loops = decltype(loops);
    mask.classify(
        [&](ScoreAt first, int32_t rows, int32_t columns) { return Loops::classes(hiding->f, first, rows, columns); });
    mask.f32_ = Loops::template scores<float, Hiding<F>>;
    mask.f64_ = Loops::template scores<double, Hiding<F>>;
  });
  mask.context_ = hiding;
  return mask;
}

/// The same of a score function that hides pairs (-inf) and leaves all other scores as they are, so that masks can be
/// joined with |. Throws ShapeError for one that makes another number of a score of 0.
inline BlockMask block_mask(const ScoreMod& hiding, int64_t batch, int64_t heads, int64_t queries, int64_t keys) {
  if (!hiding) throw ShapeError("block_mask: the score function is undefined; pass score_mod(...)");
  BlockMask mask(batch, heads, queries, keys);
  mask.classify([&](ScoreAt first, int32_t rows, int32_t columns) {
    float scores[kTile * kTile] = {};
    ScoreTile<float> tile{sizeof(tile), first.batch, first.head, first.query, first.key, rows, columns, kTile, scores};
    hiding(tile);
    int64_t hidden = 0;
    for (int32_t j = 0; j < columns; ++j)
      for (int32_t i = 0; i < rows; ++i) {
        const float score = scores[j * kTile + i];
        if (score != 0 && score != -std::numeric_limits<float>::infinity())
          throw ShapeError("block_mask: the score function makes " + std::to_string(score) + " of 0 at query " +
                           std::to_string(first.query + i) + " and key " + std::to_string(first.key + j) +
                           "; pass one that leaves scores as they are or hides them with -inf");
        hidden += score != 0;
      }
    return hidden == 0 ? TileClass::full : hidden == int64_t{rows} * columns ? TileClass::empty : TileClass::partial;
  });
  mask.context_ = std::make_shared<const ScoreMod>(hiding);
  mask.f32_ = [](const void* own, const ScoreTile<float>& tile) { (*static_cast<const ScoreMod*>(own))(tile); };
  mask.f64_ = [](const void* own, const ScoreTile<double>& tile) { (*static_cast<const ScoreMod*>(own))(tile); };
  return mask;
}

#undef HEED_IEEE_ARITHMETIC

inline double BlockMask::sparsity() const {
  int64_t empty = 0;
  for (const TileClass c : *classes_) empty += c == TileClass::empty;
  return classes_->empty() ? 0 : static_cast<double>(empty) / static_cast<double>(classes_->size());
}

/// Either f(tile), a ScoreGradientTile of float or double, or f(gradient, score, at) for one pair after another. The
/// latter leaves out pairs whose gradient is 0, such as hidden ones, whose scores may be anything.
template <class F>
ScoreVisitor score_visitor(F f) {
  const auto shared = std::make_shared<F>(std::move(f));  // std::function copies
  const auto visit = [shared](const auto& tile) {
    if constexpr (std::invocable<F&, decltype(tile)>) {
      (*shared)(tile);
    } else {
      for (int32_t j = 0; j < tile.keys; ++j)
        for (int32_t i = 0; i < tile.queries; ++i) {
          const int64_t at = j * tile.pitch + i;
          if (tile.gradients[at] != 0)
            (*shared)(tile.gradients[at], tile.scores[at],
                      ScoreAt{tile.batch, tile.head, tile.query + i, tile.key + j});
        }
    }
  };
  return {visit, visit};
}

}  // namespace heed::inline v0
