// The score functions and masks that people know, each as the lambda that heed::score_mod or heed::block_mask takes.
// What they capture by value lives in the ScoreMod or BlockMask; the spans of the visitors have to outlive it.
//
// H query heads; Lq, Lk lengths. A score function costs least where consecutive queries read consecutive numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "heed/attention.h"

namespace heed::examples {

inline size_t index(int32_t i) { return static_cast<size_t>(i); }

// -- Score functions
// ---------------------------------------------------------------------------------------------------

/// Attention with linear biases: slopes (H) (Press et al. 2022, "Train short, test long", 3).
template <class T>
auto alibi(std::vector<T> slopes) {
  return [slopes = std::move(slopes)](auto score, auto at) {
    return score - slopes[index(at.head)] * static_cast<T>(heed::abs(at.query - at.key));
  };
}

/// The paper's slopes for H heads, H a power of two: 2^(-8/H), 2^(-16/H), ...
template <class T>
std::vector<T> alibi_slopes(int32_t H) {
  std::vector<T> slopes(index(H));
  for (int32_t h = 0; h < H; ++h) slopes[index(h)] = static_cast<T>(std::exp2(-8.0 * (h + 1) / H));
  return slopes;
}

/// Scores between -cap and cap (Gemma 2, arXiv 2408.00118, 2).
inline auto softcap(double cap) {
  return [cap, inverse = 1 / cap](auto score, auto) { return cap * heed::tanh(score * inverse); };
}

/// A learned number for every head and distance: bias (H, Lq + Lk - 1), at query - key + Lk - 1 (as in Shaw et al.
/// 2018, arXiv 1803.02155, without clipping: clip where the table is filled).
template <class T>
auto relative_bias(std::vector<T> bias, int32_t Lq, int32_t Lk) {
  return [bias = std::move(bias), width = Lq + Lk - 1, zero = Lk - 1](auto score, auto at) {
    return score + bias[index(at.head * width + at.query - at.key + zero)];
  };
}

/// T5's bucket of a distance: exact up to half of the buckets, then in logarithms up to `farthest` (Raffel et al. 2020,
/// arXiv 1910.10683, 2.1). Bidirectional: one half for keys after the query; causal: those count as distance 0.
inline int32_t t5_bucket(int32_t query, int32_t key, bool bidirectional, int32_t buckets = 32, int32_t farthest = 128) {
  int32_t first = 0, distance = query - key;
  if (bidirectional) {
    buckets /= 2;
    if (distance < 0) first = buckets, distance = -distance;
  }
  distance = heed::max(distance, 0);
  const int32_t exact = buckets / 2;
  if (distance < exact) return first + distance;
  const double share =
      std::log(static_cast<double>(distance) / exact) / std::log(static_cast<double>(farthest) / exact);
  return first + heed::min(exact + static_cast<int32_t>(share * (buckets - exact)), buckets - 1);
}

/// relative_bias with the numbers of buckets (buckets, H), T5's layout, spread over distances.
template <class T>
auto t5_bias(const std::vector<T>& by_bucket, int32_t H, int32_t Lq, int32_t Lk, bool bidirectional,
             int32_t buckets = 32, int32_t farthest = 128) {
  std::vector<T> bias;
  for (int32_t h = 0; h < H; ++h)
    for (int32_t distance = 1 - Lk; distance < Lq; ++distance)
      bias.push_back(by_bucket[index(t5_bucket(distance, 0, bidirectional, buckets, farthest) * H + h)]);
  return relative_bias(std::move(bias), Lq, Lk);
}

/// A temperature a head, and a bias for every head and key: temperature (H), bias (H, Lk).
template <class T>
auto head_bias(std::vector<T> temperature, std::vector<T> bias, int32_t Lk) {
  return [temperature = std::move(temperature), bias = std::move(bias), Lk](auto score, auto at) {
    return score * temperature[index(at.head)] + bias[index(at.head * Lk + at.key)];
  };
}

// -- Gradients of their parameters: what a visitor adds up of d loss / d score
// -----------------------------------------

/// d loss / d slopes (H), added to `gradient`.
inline ScoreVisitor alibi_gradient(std::span<double> gradient) {
  return score_visitor([gradient](auto dscore, auto, ScoreAt at) {
    gradient[index(at.head)] -= static_cast<double>(dscore) * heed::abs(at.query - at.key);
  });
}

/// d loss / d bias (H, Lq + Lk - 1) of relative_bias, added to `gradient`; a tile at a time, which is several times as
/// fast as a pair at a time.
inline ScoreVisitor relative_bias_gradient(std::span<double> gradient, int32_t Lq, int32_t Lk) {
  return score_visitor([gradient, width = Lq + Lk - 1, zero = Lk - 1](const auto& tile) {
    for (int32_t j = 0; j < tile.keys; ++j) {
      double* const sums = gradient.data() + tile.head * width + tile.query - (tile.key + j) + zero;
      for (int32_t i = 0; i < tile.queries; ++i) sums[i] += static_cast<double>(tile.gradients[j * tile.pitch + i]);
    }
  });
}

/// d loss / d by_bucket (buckets, H) of t5_bias, from that of relative_bias.
inline std::vector<double> t5_gradient(const std::vector<double>& by_distance, int32_t H, int32_t Lq, int32_t Lk,
                                       bool bidirectional, int32_t buckets = 32, int32_t farthest = 128) {
  std::vector<double> gradient(index(buckets * H));
  for (int32_t h = 0; h < H; ++h)
    for (int32_t i = 0; i < Lq + Lk - 1; ++i)
      gradient[index(t5_bucket(i - (Lk - 1), 0, bidirectional, buckets, farthest) * H + h)] +=
          by_distance[index(h * (Lq + Lk - 1) + i)];
  return gradient;
}

// -- Masks
// -------------------------------------------------------------------------------------------------------------

/// Documents packed one after another, ids (L): only the own one. Write & and |, not && and ||: both sides are
/// computed anyway where 16 pairs are looked at together.
inline auto documents(std::vector<int32_t> ids) {
  return [ids = std::move(ids)](auto at) { return ids[index(at.query)] == ids[index(at.key)]; };
}

/// The first `length` keys are seen by all, the others by themselves and what comes later.
inline auto prefix(int32_t length) {
  return [length](auto at) { return (at.key < length) | (at.key <= at.query); };
}

/// Keys query - left .. query + right.
inline auto window(int32_t left, int32_t right) {
  return [left, right](auto at) { return (at.key >= at.query - left) & (at.key <= at.query + right); };
}

/// Every step-th of the last `reach` keys (Beltagy et al. 2020, "Longformer", 3.1).
inline auto dilated(int32_t reach, int32_t step) {
  return [reach, step](auto at) {
    const int32_t back = at.query - at.key;
    return (back >= 0) & (back < reach) & (back % step == 0);
  };
}

/// Blocks of 64 queries and keys: those next to the diagonal, the first row and column, and one in `every` elsewhere
/// (as in Zaheer et al. 2020, "Big Bird", 2). Blocks that are closed cost nothing.
inline auto block_sparse(int32_t every) {
  return [every](auto at) {
    const int32_t row = at.query >> 6, column = at.key >> 6;
    return (heed::abs(row - column) <= 1) | (row == 0) | (column == 0) | ((row * 7 + column * 3) % every == 0);
  };
}

}  // namespace heed::examples
