// What a kernel sees of a call: pointers, sizes and resolved options. check.cc has vouched for all of it. Head is the
// part of one (entry, query head), with every rule about positions turned into numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "heed/attention.h"

namespace heed::inline v0 {

/// How an operand is kept: as the compute type T, or in half of float's bits.
enum class Storage : uint8_t { same, f16, bf16 };

/// Positions further than any: sums of a few of them do not overflow.
inline constexpr int64_t kUnlimited = int64_t{1} << 60;

/// Rows (L, width) of one head; the innermost stride is 1.
template <class T>
struct Source {
  const void* data = nullptr;
  int64_t row = 0;  // stride in elements
  Storage storage = Storage::same;
  /// Row i where it is kept as T.
  const T* direct(int64_t i) const { return static_cast<const T*>(data) + i * row; }
  Source from(int64_t i) const {
    const int64_t at = i * row;
    if (storage == Storage::same) return {static_cast<const T*>(data) + at, row, storage};
    return {static_cast<const uint16_t*>(data) + at, row, storage};
  }
  T get(int64_t i, int64_t d) const {
    const int64_t at = i * row + d;
    if (storage == Storage::same) return static_cast<const T*>(data)[at];
    const uint16_t bits = static_cast<const uint16_t*>(data)[at];
    return static_cast<T>(storage == Storage::f16 ? to_float(float16{bits}) : to_float(bfloat16{bits}));
  }
};

template <class T>
struct Target {
  void* data = nullptr;
  int64_t row = 0;
  Storage storage = Storage::same;
  T* direct(int64_t i) const { return static_cast<T*>(data) + i * row; }
  Target from(int64_t i) const {
    const int64_t at = i * row;
    if (storage == Storage::same) return {static_cast<T*>(data) + at, row, storage};
    return {static_cast<uint16_t*>(data) + at, row, storage};
  }
  void set(int64_t i, int64_t d, T x) const {
    const int64_t at = i * row + d;
    if (storage == Storage::same) {
      static_cast<T*>(data)[at] = x;
    } else {
      static_cast<uint16_t*>(data)[at] =
          storage == Storage::f16 ? to_float16(static_cast<float>(x)).bits : to_bfloat16(static_cast<float>(x)).bits;
    }
  }
};

/// A strided operand (B, H, L, width); of a ragged batch `batch` is 0 and rows count tokens.
struct Operand {
  void* data = nullptr;
  int64_t batch = 0, head = 0, row = 0;  // strides in elements
  Storage storage = Storage::same;

  template <class T>
  Source<T> source(int64_t b, int64_t h, int64_t first_row) const {
    Source<T> s = Source<T>{data, 1, storage}.from(b * batch + h * head + first_row * row);
    s.row = row;
    return s;
  }
  template <class T>
  Target<T> target(int64_t b, int64_t h, int64_t first_row) const {
    Target<T> t = Target<T>{data, 1, storage}.from(b * batch + h * head + first_row * row);
    t.row = row;
    return t;
  }
};

/// Rows whose lse is further from 0: its rounding, a factor on all of a row's weights, is more than that of the rest.
inline constexpr double kLargeLse = 64;

/// Of a row that sees something.
template <class T>
bool is_large(T lse) {
  return std::isfinite(lse) && std::fabs(lse) > static_cast<T>(kLargeLse);
}

/// A vector of int32 or int64.
struct Indices {
  const void* data = nullptr;
  int64_t stride = 0;
  bool wide = false;  // int64
  explicit operator bool() const { return data != nullptr; }
  int64_t operator[](int64_t i) const {
    return wide ? static_cast<const int64_t*>(data)[i * stride] : static_cast<const int32_t*>(data)[i * stride];
  }
};

/// A mask broadcast to (B, Hq, Lq, Lk): strides are 0 along the dimensions it lacks.
struct MaskView {
  bool present = false;
  bool boolean = false;  // else additive, in the compute type
  const void* data = nullptr;
  int64_t batch = 0, head = 0, query = 0, key = 0;
  int64_t keys = 0;  // those past it are hidden
  int64_t offset(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return b * batch + h * head + i * query + j * key;
  }
};

struct Sizes {
  int64_t B = 0, Hq = 0, Hkv = 0, Lq = 0, Lk = 0, D = 0, Dv = 0;  // of a ragged batch: the longest Lq and Lk
  int64_t Tq = 0, Tk = 0;                                         // of a ragged batch: tokens; else 0
  bool ragged = false;
  int64_t group() const { return Hq / Hkv; }  // query heads that share a key head
};

/// Of a pair (0, 0) of a head in the whole call, of which this one may be a part.
struct Place {
  int64_t batch = 0, head = 0, query = 0, key = 0;
};

/// One query head of one entry and the key head it reads.
template <class T>
struct Head {
  int64_t b = 0, h = 0, hkv = 0;
  Place place;         // for functions, block_mask and draws
  int64_t number = 0;  // b * Hq + h of the whole: of draws
  int64_t Lq = 0;      // queries
  int64_t Lk = 0;      // keys that any query may see by number: the least of length, key_lengths and the mask's width
  int64_t D = 0, Dv = 0;
  Source<T> q, k, v;  // (Lq, D), (Lk, D), (Lk, Dv)
  T scale = 1;
  /// Query i may see keys i + first_key .. i + last_key, both ends included, before any mask.
  int64_t first_key = -kUnlimited, last_key = kUnlimited;
  int64_t offset = 0;  // query i stands at key position i + offset: ALiBi
  T softcap = 0;
  const ScoreMod* score_mod = nullptr;
  const void* mask = nullptr;  // of pair (0, 0)
  bool mask_boolean = false;
  int64_t mask_query = 0, mask_key = 0;  // strides
  const BlockMask* block_mask = nullptr;
  bool has_alibi = false;
  T alibi = 0;
  bool has_sink = false;
  T sink = 0;

  /// Whether positions limit what a query sees, beyond Lk.
  bool has_limits() const { return first_key > -kUnlimited / 2 || last_key < kUnlimited / 2; }
  /// Whether a function changes scores before the mask.
  bool is_modified() const { return softcap != 0 || score_mod; }
  /// Keys that row i may see, before the mask: [key_begin, key_end). Neither falls as i grows.
  int64_t key_begin(int64_t i) const { return std::clamp<int64_t>(i + first_key, 0, Lk); }
  int64_t key_end(int64_t i) const { return std::clamp<int64_t>(i + last_key + 1, 0, Lk); }
  /// Rows that may see key j < Lk, before the mask: [query_begin, query_end). Neither falls as j grows.
  int64_t query_begin(int64_t j) const { return std::clamp<int64_t>(j - last_key, 0, Lq); }
  int64_t query_end(int64_t j) const { return std::clamp<int64_t>(j - first_key + 1, 0, Lq); }
  /// What the mask adds to a score; -inf hides.
  T bias(int64_t i, int64_t j) const {
    if (!mask) return 0;
    const int64_t at = i * mask_query + j * mask_key;
    if (mask_boolean) return static_cast<const bool*>(mask)[at] ? T{0} : -static_cast<T>(INFINITY);
    return static_cast<const T*>(mask)[at];
  }
  bool visible(int64_t i, int64_t j) const {
    if (j < key_begin(i) || j >= key_end(i) || bias(i, j) == -static_cast<T>(INFINITY)) return false;
    if (!block_mask) return true;
    T score[kScoreLanes] = {};
    (*block_mask)(one_score(i, j, score));
    return score[0] == 0;
  }
  /// A tile for one pair, in the first of kScoreLanes scores.
  ScoreTile<T> one_score(int64_t i, int64_t j, T* scores, T* derivatives = nullptr) const {
    ScoreTile<T> tile;
    tile.batch = static_cast<int32_t>(place.batch);
    tile.head = static_cast<int32_t>(place.head);
    tile.query = static_cast<int32_t>(place.query + i);
    tile.key = static_cast<int32_t>(place.key + j);
    tile.queries = tile.keys = 1;
    tile.pitch = kScoreLanes;
    tile.scores = scores;
    tile.derivatives = derivatives;
    return tile;
  }
};

/// What forward and backward have in common.
template <class T>
struct Problem : Sizes {
  Operand q;  // (B, Hq, Lq, D)
  Operand k;  // (B, Hkv, Lk, D)
  Operand v;  // (B, Hkv, Lk, Dv)
  double scale = 1;
  Causal causal = Causal::none;
  int64_t offset = 0;
  Window window;
  double softcap = 0;
  const ScoreMod* score_mod = nullptr;
  MaskView mask;
  const BlockMask* block_mask = nullptr;
  const T* alibi = nullptr;  // (Hq), alibi_stride apart; likewise sinks
  const T* sinks = nullptr;
  int64_t alibi_stride = 0, sinks_stride = 0;
  Indices key_lengths;           // (B)
  Indices q_offsets, k_offsets;  // (B + 1)
  double dropout = 0;
  uint64_t seed = 0, stream = 0;
  AttentionPart part;
  Workspace* workspace = nullptr;

  int64_t queries(int64_t b) const { return q_offsets ? q_offsets[b + 1] - q_offsets[b] : Lq; }
  /// Keys of entry b: those past it are hidden from every query.
  int64_t keys(int64_t b) const {
    return k_offsets ? k_offsets[b + 1] - k_offsets[b] : key_lengths ? key_lengths[b] : Lk;
  }
  int64_t query_row(int64_t b) const { return q_offsets ? q_offsets[b] : 0; }  // rows in front of entry b
  int64_t key_row(int64_t b) const { return k_offsets ? k_offsets[b] : 0; }
  /// Where row 0 of (b, h) stands in lse: (B, Hq, Lq), or (Hq, Tq) of a ragged batch.
  int64_t lse_row(int64_t b, int64_t h) const { return ragged ? h * Tq + query_row(b) : (b * Hq + h) * Lq; }

  Head<T> head(int64_t b, int64_t h) const {
    Head<T> r;
    const int64_t n = keys(b);
    r.b = b, r.h = h, r.hkv = h / group();
    r.place = {b + part.first_batch, h + part.first_head, part.first_query, part.first_key};
    r.number = r.place.batch * (part.heads ? part.heads : part.first_head + Hq) + r.place.head;
    r.Lq = queries(b), r.Lk = mask.present ? std::min(n, mask.keys) : n;
    r.D = D, r.Dv = Dv;
    r.q = q.source<T>(b, h, query_row(b));
    r.k = k.source<T>(b, r.hkv, key_row(b));
    r.v = v.source<T>(b, r.hkv, key_row(b));
    r.scale = static_cast<T>(scale);
    r.offset = causal == Causal::bottom_right ? n - r.Lq : offset + part.first_query - part.first_key;
    if (window.left >= 0) r.first_key = r.offset - window.left;
    if (window.right >= 0) r.last_key = r.offset + window.right;
    if (causal != Causal::none) r.last_key = std::min(r.last_key, r.offset);
    r.softcap = static_cast<T>(softcap);
    r.score_mod = score_mod;
    if (mask.present) {
      const int64_t at = mask.offset(b, h, 0, 0);
      r.mask = mask.boolean ? static_cast<const void*>(static_cast<const bool*>(mask.data) + at)
                            : static_cast<const void*>(static_cast<const T*>(mask.data) + at);
      r.mask_boolean = mask.boolean;
      r.mask_query = mask.query, r.mask_key = mask.key;
    }
    r.block_mask = block_mask;
    r.has_alibi = alibi != nullptr;
    if (alibi) r.alibi = alibi[h * alibi_stride];
    r.has_sink = sinks != nullptr;
    if (sinks) r.sink = sinks[h * sinks_stride];
    return r;
  }
};

template <class T>
struct Forward : Problem<T> {
  Operand out;  // (B, Hq, Lq, Dv)
  // See lse_row, contiguous, where wanted. lse + lse_low is the logarithm; lse is that rounded.
  T* lse = nullptr;
  T* lse_low = nullptr;  // only beside lse
};

/// Weights or scores, a second pass over finished lse. Weights of large rows (is_large) are computed from their own
/// scores, since these may be rounded otherwise than lse's. Dense: (B, N, R, width) contiguous, or (N, Tq, width) of a
/// ragged batch.
template <class T>
struct Inspection : Problem<T> {
  const T* lse = nullptr;  // see lse_row
  ScoreStage stage = ScoreStage::weights;
  Indices heads;      // (N) query heads; absent: all
  Indices rows;       // (R) queries; absent: all
  int64_t N = 0;      // heads wanted
  int64_t R = 0;      // rows wanted of an entry; of a ragged batch Tq
  int64_t width = 0;  // Lk
  T* dense = nullptr;
  double top_p = 1;
};

template <class T>
struct Backward : Problem<T> {
  Operand grad_out;                      // (B, Hq, Lq, Dv)
  Operand out;                           // (B, Hq, Lq, Dv)
  const T* lse = nullptr;                // see lse_row, contiguous
  const T* lse_low = nullptr;            // likewise; null: 0
  const T* grad_lse = nullptr;           // likewise, where given
  Operand dq;                            // (B, Hq, Lq, D)
  Operand dk;                            // (B, Hkv, Lk, D)
  Operand dv;                            // (B, Hkv, Lk, Dv)
  T* dmask = nullptr;                    // where wanted: shaped like the mask, contiguous
  int64_t mask_sizes[4] = {1, 1, 1, 1};  // B or 1, Hq or 1, Lq or 1, the mask's keys or 1
  T* dsinks = nullptr;                   // (Hq), where wanted
  const ScoreVisitor* visitor = nullptr;
  /// Where the gradient of mask element (b, h, i, j) is summed.
  int64_t dmask_offset(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t* n = mask_sizes;
    return (((n[0] == 1 ? 0 : b) * n[1] + (n[1] == 1 ? 0 : h)) * n[2] + (n[2] == 1 ? 0 : i)) * n[3] +
           (n[3] == 1 ? 0 : j);
  }
};

}  // namespace heed::inline v0
