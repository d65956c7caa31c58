#include "mpi/call.h"

#include <algorithm>
#include <cstring>

#include "attention/check.h"

namespace heed::inline v0 {
namespace mpi {
namespace {

constexpr int64_t kFar = int64_t{1} << 60;

[[noreturn]] void refuse(const char* operation, const std::string& rule) {
  throw ShapeError(std::string(operation) + ": " + rule);
}

/// A tensor of which only the shape is looked at: `n` along `dimension`, without memory.
Tensor stretched(const Tensor& t, int dimension, int64_t n) {
  Dims shape = t.shape(), strides;
  shape[dimension] = n;
  for (int d = 0; d < t.rank(); ++d) strides.push_back(d == t.rank() - 1 ? t.stride(d) : 0);
  return t.as_strided(shape, strides);
}

int64_t integer(const Tensor& t, int64_t i) {
  return t.dtype() == DType::i64 ? t.at<int64_t>(i) : int64_t{t.at<int32_t>(i)};
}

}  // namespace

Tensor as_heads(const Tensor& t, bool ragged) {
  if (!ragged || !t.defined()) return t;
  return t.as_strided({1, t.size(1), t.size(0), t.size(2)}, {0, t.stride(1), t.stride(0), t.stride(2)});
}

Tensor as_rows(const Tensor& t, bool ragged) {
  if (!ragged || !t.defined()) return t;
  return t.as_strided({t.size(2), t.size(1), t.size(3)}, {t.stride(2), t.stride(1), t.stride(3)});
}

Tensor as_column(const Tensor& rows) {
  if (rows.rank() == 2)
    return rows.as_strided({1, rows.size(0), rows.size(1), 1}, {0, rows.stride(0), rows.stride(1), 1});
  return rows.as_strided({rows.size(0), rows.size(1), rows.size(2), 1},
                         {rows.stride(0), rows.stride(1), rows.stride(2), 1});
}

Tensor as_columns(const Tensor& lse, const Tensor& lse_low) {
  const Tensor high = as_column(lse), low = as_column(lse_low);
  const Tensor both = Tensor::empty({high.size(0), high.size(1), high.size(2), 2}, lse.dtype());
  both.slice(3, 0, 1).copy_from(high);
  both.slice(3, 1, 2).copy_from(low);
  return both;
}

Tensor heads_slice(const Tensor& t, int dimension, IndexRange heads) {
  return t.size(dimension) == 1 ? t : t.slice(dimension, heads.begin, heads.end);
}

Call::Call(const char* operation, Communicator& communicator, const Tensor& queries, const Tensor& keys,
           const Tensor& values, const OverRanks& layout, const AttentionOptions& of_whole)
    : ranks(communicator), over(layout), options(of_whole) {
  const bool ragged = options.q_offsets.defined() || options.k_offsets.defined();
  const int rows = ragged ? 0 : 2;  // the dimension that is split
  for (const auto& [name, t, split] : {std::tuple("q", &queries, &over.queries), std::tuple("k", &keys, &over.keys),
                                       std::tuple("v", &values, &over.keys)})
    check_tensor(operation, name, *t, *split);
  if (options.want_weights || options.want_scores)
    refuse(operation,
           "weights and scores have a row of all keys for each query, which no rank is to hold; compute those "
           "of the queries that matter on one rank");
  const AttentionPart& given = options.part;
  if (given.first_batch || given.first_head || given.first_query || given.first_key || given.heads)
    refuse(operation, "part is set by the ranks; pass the options of the whole");
  if (ragged && over.meeting == Meeting::ring)
    refuse(operation, "q_offsets and k_offsets cannot be used with Meeting::ring; use Meeting::exact or heads");
  mask = options.mask;
  take_mask(operation);
  AttentionOptions checked = options;
  if (mask.defined() && mask_rows) checked.mask = stretched(mask, 2, over.queries.length());
  whole = check_inputs(operation, stretched(queries, rows, over.queries.length()),
                       stretched(keys, rows, over.keys.length()), stretched(values, rows, over.keys.length()), checked);
  all_heads = whole.Hq;
  options.mask = {};
  check_agreement(operation);
  q = as_heads(queries, ragged), k = as_heads(keys, ragged), v = as_heads(values, ragged);
  if (over.meeting != Meeting::ring || !options.block_mask) return;
  for (const Split* split : {&over.queries, &over.keys})
    for (const Split::Piece& piece : split->pieces())
      if (piece.size() > 0 && piece.begin % kTile != 0)
        refuse(operation, "a piece begins at row " + std::to_string(piece.begin) +
                              ", and the block_mask has one class for a tile; cut at multiples of " +
                              std::to_string(kTile) + ", or use Meeting::exact or heads");
}

/// Each rank compares with the one before: when any two differ, one sees it and ends all. Else other rows would be
/// taken for those that are expected.
void Call::check_agreement(const char* operation) const {
  if (size() == 1) return;
  uint64_t own = 0xcbf29ce484222325;  // FNV-1a, by words
  const auto add = [&](auto number) {
    uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof number);
    own = (own ^ bits) * 0x100000001b3;
  };
  for (const Split* split : {&over.queries, &over.keys})
    for (const Split::Piece& piece : split->pieces()) add(piece.end), add(piece.rank);
  for (const int64_t n :
       {whole.B, whole.Hq, whole.Hkv, whole.D, whole.Dv, options.offset, options.window.left, options.window.right})
    add(n);
  for (const double x : {options.scale.value_or(0), options.softcap, options.dropout}) add(x);
  for (const uint64_t n : {options.seed, options.stream}) add(n);
  for (const bool there : {mask.defined(), options.alibi.defined(), options.sinks.defined(),
                           options.key_lengths.defined(), options.q_offsets.defined(), options.want_lse,
                           static_cast<bool>(options.score_mod), static_cast<bool>(options.block_mask)})
    add(there);
  add(options.causal), add(options.implementation), add(over.meeting);
  uint64_t before = 0;
  const int next = (rank() + 1) % size(), last = (rank() + size() - 1) % size();
  ranks.exchange(operation, std::as_bytes(std::span(&own, 1)), next, std::as_writable_bytes(std::span(&before, 1)),
                 last);
  if (before != own)
    throw RankError(std::string(operation) + ": ranks " + std::to_string(last) + " and " + std::to_string(rank()) +
                        " have other sizes, splits or options; pass the same to all",
                    false);
}

void Call::check_tensor(const char* operation, const char* name, const Tensor& t, const Split& split) const {
  for (const Split::Piece& piece : split.pieces())
    if (piece.rank >= size())
      refuse(operation, "a piece of " + std::string(name) + " is rank " + std::to_string(piece.rank) +
                            "'s, and there are " + std::to_string(size()) + " ranks; split it over these");
  const bool ragged = options.q_offsets.defined() || options.k_offsets.defined();
  if (!t.defined() || t.rank() != (ragged ? 3 : 4)) return;  // check_inputs says so
  const int64_t rows = t.size(ragged ? 0 : 2);
  if (rows != split.rows(rank()))
    refuse(operation, std::string(name) + " of rank " + std::to_string(rank()) + " has " + std::to_string(rows) +
                          " rows, and its pieces have " + std::to_string(split.rows(rank())) +
                          "; pass this rank's rows, as Split::take has them");
}

/// As four dimensions. A row for each query or one for all: where some rank has a single query the two look alike
/// there, and ranks with more tell.
void Call::take_mask(const char* operation) {
  if (!mask.defined()) return;
  if (mask.rank() > 4) refuse(operation, "a mask of shape " + to_string(mask.shape()) + "; pass (B, Hq, own Lq, Lk)");
  Dims shape, strides;
  for (int d = 4; d > 0; --d) {
    shape.push_back(d <= mask.rank() ? mask.size(-d) : 1);
    strides.push_back(d <= mask.rank() ? mask.stride(-d) : 0);
  }
  mask = mask.as_strided(shape, strides);
  const int64_t own = over.queries.rows(rank());
  if (shape[2] != 1 && shape[2] != own)
    refuse(operation, "the mask of rank " + std::to_string(rank()) + " has " + std::to_string(shape[2]) +
                          " rows; pass " + std::to_string(own) + ", one for each of its queries, or one for all");
  bool alike = false;
  for (int other = 0; other < size(); ++other) alike = alike || over.queries.rows(other) == 1;
  mask_rows = shape[2] != 1;
  if (!alike) return;
  const std::byte says{own == 1 ? uint8_t{2} : static_cast<uint8_t>(mask_rows)};
  const auto all = ranks.all_gather(std::span(&says, 1));
  mask_rows = std::none_of(all.begin(), all.end(), [](const auto& said) { return said[0] == std::byte{0}; });
}

bool Call::may_see(const IndexRange& query_rows, const IndexRange& key_rows) const {
  if (query_rows.size() == 0 || key_rows.size() == 0) return false;
  int64_t low = options.offset, high = options.offset, keys = whole.Lk;
  if (options.key_lengths.defined()) {
    keys = 0;
    for (int64_t b = 0; b < whole.B; ++b) keys = std::max(keys, integer(options.key_lengths, b));
  }
  if (options.causal == Causal::bottom_right) {
    low = high = keys - whole.Lq;
    for (int64_t b = 0; b < whole.B && options.key_lengths.defined(); ++b)
      low = std::min(low, integer(options.key_lengths, b) - whole.Lq);
  }
  const auto [left, right] = options.window;
  const int64_t first = left >= 0 && left < kFar ? query_rows.begin + low - left : -2 * kFar;
  int64_t last = right >= 0 && right < kFar ? query_rows.end - 1 + high + right : 2 * kFar;
  if (options.causal != Causal::none) last = std::min(last, query_rows.end - 1 + high);
  return key_rows.begin <= last && key_rows.end > first && key_rows.begin < keys;
}

std::vector<IndexRange> Call::keys_for(int to, int from) const {
  std::vector<IndexRange> list = over.keys.of(from);
  const std::vector<IndexRange> queries = over.queries.of(to);
  std::erase_if(list, [&](const IndexRange& piece) {
    return std::none_of(queries.begin(), queries.end(), [&](const IndexRange& rows) { return may_see(rows, piece); });
  });
  return list;
}

Call Call::of_heads(IndexRange key_heads) const {
  const IndexRange heads{key_heads.begin * group(), key_heads.end * group()};
  Call some = *this;
  some.q = q.slice(1, heads.begin, heads.end);
  some.k = k.slice(1, key_heads.begin, key_heads.end);
  some.v = v.slice(1, key_heads.begin, key_heads.end);
  if (mask.defined()) some.mask = heads_slice(mask, 1, heads);
  for (Tensor* t : {&some.options.alibi, &some.options.sinks})
    if (t->defined()) *t = t->slice(0, heads.begin, heads.end);
  some.first_head = first_head + heads.begin;
  some.whole.Hq = heads.size(), some.whole.Hkv = key_heads.size();
  return some;
}

AttentionResult Call::empty_result() const {
  AttentionResult own;
  own.out = Tensor::empty({q.size(0), q.size(1), q.size(2), whole.Dv}, q.dtype());
  for (Tensor* t : {&own.lse, &own.lse_low})
    if (options.want_lse) *t = Tensor::empty({q.size(0), q.size(1), q.size(2)}, compute());
  return own;
}

AttentionResult Call::of_key_head(const AttentionResult& own, int64_t key_head) const {
  const int64_t begin = key_head * group(), end = begin + group();
  AttentionResult some;
  some.out = own.out.slice(1, begin, end);
  if (own.lse.defined()) some.lse = own.lse.slice(1, begin, end), some.lse_low = own.lse_low.slice(1, begin, end);
  return some;
}

std::vector<int64_t> Call::entries() const {
  if (options.causal != Causal::bottom_right || !options.key_lengths.defined()) return {-1};
  std::vector<int64_t> list;
  for (int64_t b = 0; b < whole.B; ++b) list.push_back(b);
  return list;
}

AttentionOptions Call::part(int64_t b, int64_t query, IndexRange key_rows) const {
  AttentionOptions o = options;
  o.part = {std::max<int64_t>(b, 0), first_head, query, key_rows.begin, all_heads};
  if (o.causal == Causal::bottom_right) {
    o.causal = Causal::top_left;
    o.offset = (b < 0 ? whole.Lk : integer(options.key_lengths, b)) - whole.Lq;
  }
  if (!o.key_lengths.defined()) return o;
  const int64_t first = std::max<int64_t>(b, 0), count = b < 0 ? whole.B : 1;
  o.key_lengths = Tensor::empty({count}, DType::i64);
  for (int64_t n = 0; n < count; ++n)
    o.key_lengths.at<int64_t>(n) =
        std::clamp<int64_t>(integer(options.key_lengths, first + n) - key_rows.begin, 0, key_rows.size());
  return o;
}

}  // namespace mpi
}  // namespace heed::inline v0
