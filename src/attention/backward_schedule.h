// Which parts of backward are computed when. By the sizes alone, so that bits never depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/problem.h"

namespace heed::inline v0 {

/// A block is (key range r, query range t) of one key head. With few heads the blocks run in phases: in none of them do
/// two blocks share a range, so all of a phase can run at once and add to the same gradients, in an order that the
/// sizes decide, and no partial sums are kept. With many heads there is one range, and a block is a whole head.
struct BackwardSchedule {
  int64_t heads;       // B * Hkv
  int64_t all_heads;   // of the whole call, by which it is cut
  int64_t ranges = 1;  // of the keys, and of the queries; as many phases
  int64_t key_range, query_range;
  bool banded;  // queries see a band of keys: phases are its diagonals

  template <class T>
  explicit BackwardSchedule(const Backward<T>& p) {
    heads = p.B * p.Hkv;
    all_heads = p.part.heads > 0 && p.Hkv > 0 ? p.B * (p.part.heads / p.group()) : heads;
    // Blocks of a phase, of 128 keys at least for a small machine, of 256 for a large one.
    ranges = std::max(ranges_for(32, 2 * kTile, p), ranges_for(128, 4 * kTile, p));
    key_range = whole_tiles((p.Lk + ranges - 1) / ranges);
    query_range = whole_tiles((p.Lq + ranges - 1) / ranges);
    const bool right = p.window.right >= 0 || p.causal != Causal::none;
    banded = p.window.left >= 0 && right && p.window.left + std::max<int64_t>(0, p.window.right) < p.Lk / 4;
  }
  int64_t phases() const { return ranges; }
  int64_t blocks() const { return heads * ranges; }  // of a phase
  /// The query range that key range r meets in a phase. Diagonals r + t serve causal limits best: half of each is full.
  int64_t query_of(int64_t phase, int64_t r) const {
    return banded ? (r + phase) % ranges : (phase + ranges - r) % ranges;
  }
  /// f(r, t) for all of one head's blocks, one after another: each range's gradients are added to in the order that the
  /// phases have, so that the bits are the same, but a range of keys stays for as many ranges of queries as that
  /// permits.
  template <class F>
  void each_block(F&& f) const {
    if (banded) {
      for (int64_t r = ranges - 1; r >= 0; --r)
        for (int64_t t = r; t < ranges; ++t) f(r, t);
      for (int64_t r = ranges - 1; r >= 0; --r)
        for (int64_t t = 0; t < r; ++t) f(r, t);
    } else {
      for (int64_t r = 0; r < ranges; ++r)
        for (int64_t t = ranges - r; t < ranges; ++t) f(r, t);
      for (int64_t r = 0; r < ranges; ++r)
        for (int64_t t = 0; t < ranges - r; ++t) f(r, t);
    }
  }
  /// Whether so few threads are busy with whole heads: a phase of blocks has its caches filled anew for each.
  bool suits_whole_heads(int64_t threads, bool alike) const {
    const int64_t turns = (heads + threads - 1) / threads;
    return alike ? 20 * turns * threads <= 21 * heads : turns >= 8;
  }
  /// Whether positions leave nothing to do in a phase.
  template <class T>
  bool is_empty(const Backward<T>& p, int64_t phase) const {
    for (int64_t b = 0; b < p.B; ++b) {
      const Head<T> head = p.head(b, 0);
      for (int64_t r = 0; r < ranges; ++r) {
        const int64_t begin = r * key_range, end = std::min(head.Lk, begin + key_range);
        const int64_t query = query_of(phase, r) * query_range;
        if (begin < end && head.query_begin(begin) < query + query_range && head.query_end(end - 1) > query)
          return false;
      }
    }
    return true;
  }

 private:
  static int64_t whole_tiles(int64_t n) { return (n + kTile - 1) / kTile * kTile; }
  int64_t ranges_for(int64_t blocks, int64_t least, const Sizes& s) const {
    const int64_t wanted = (blocks + all_heads - 1) / std::max<int64_t>(1, all_heads);
    return std::max<int64_t>(1, std::min({wanted, s.Lk / least, s.Lq / least}));
  }
};

}  // namespace heed::inline v0
