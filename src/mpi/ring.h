// Keys go from rank to rank and meet this rank's queries piece by piece. At step d a rank has the keys of the rank d
// before it, while those of the next are on their way.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "mpi/key_block.h"

namespace heed::inline v0 {
namespace mpi {

/// Some rows of the queries (of one entry, or of all) and some keys that they may see.
struct Pair {
  IndexRange batch, queries;  // entries; rows of the sequence
  int64_t query_row;          // where they begin among this rank's
  IndexRange keys;            // of the sequence
  int64_t key_row;            // where they begin in the block
  bool first;                 // of these queries
  size_t number;              // of the queries and entries
  AttentionOptions options;

  Tensor of_queries(const Tensor& t) const { return rows(t, query_row, queries.size()); }
  Tensor of_keys(const Tensor& t) const { return rows(t, key_row, keys.size()); }
  /// Of what is shaped like the mask, (B or 1, Hq or 1, own Lq or 1, keys).
  Tensor of_mask(const Tensor& t, const Call& call) const {
    Tensor part = t.size(0) == 1 ? t : t.slice(0, batch.begin, batch.end);
    if (call.mask_rows) part = part.slice(2, query_row, query_row + queries.size());
    return is_wide(call) ? part.slice(3, keys.begin, keys.end) : part;
  }
  static bool is_wide(const Call& call) { return call.mask.size(3) > 1 || call.whole.Lk == 1; }

 private:
  Tensor rows(const Tensor& t, int64_t first_row, int64_t count) const {
    return t.slice(0, batch.begin, batch.end).slice(2, first_row, first_row + count);
  }
};

/// f(Pair) for the queries of this rank and the keys of a block, in which the pieces lie one behind another. `own`: it
/// is the rank's own; then each of the queries has a first pair, which the sinks go to, if it sees nothing.
template <class F>
void each_pair(const Call& call, const std::vector<IndexRange>& key_pieces, bool own, const F& f) {
  size_t number = 0;
  for (const int64_t entry : call.entries()) {
    int64_t query_row = 0;
    for (const IndexRange& queries : call.over.queries.of(call.rank())) {
      Pair pair;
      pair.batch = entry < 0 ? IndexRange{0, call.whole.B} : IndexRange{entry, entry + 1};
      pair.queries = queries, pair.query_row = query_row, pair.number = number++;
      pair.first = own;
      const auto meet = [&](IndexRange keys, int64_t key_row) {
        // The mask hides keys past its last.
        if (call.mask.defined() && Pair::is_wide(call))
          keys.end = std::max(keys.begin, std::min(keys.end, call.mask.size(3)));
        if (call.mask.defined() && Pair::is_wide(call) && keys.size() == 0) keys = {0, 0};
        if (!pair.first && !call.may_see(queries, keys)) return;
        pair.keys = keys, pair.key_row = key_row;
        pair.options = call.part(entry, queries.begin, keys);
        if (call.mask.defined()) pair.options.mask = pair.of_mask(call.mask, call);
        if (call.additive()) pair.options.mask = pair.options.mask.to(call.compute());
        if (!pair.first) pair.options.sinks = {};
        f(pair);
        pair.first = false;
      };
      int64_t key_row = 0;
      for (const IndexRange& keys : key_pieces) {
        meet(keys, key_row);
        key_row += keys.size();
      }
      if (pair.first) meet({0, 0}, 0);
      query_row += queries.size();
    }
  }
}

/// compute(k, v, their pieces, rank they are of, rank that has this one's now) for this rank's own keys, then for those
/// of the others, the next of which travel meanwhile.
template <class F>
void around_the_ring(const Call& call, const char* operation, const F& compute) {
  struct Travelling {
    KeyBlock out, in;
    std::unique_ptr<Communicator::Transfer> transfer;
  };
  const int rank = call.rank(), size = call.size();
  const auto start = [&](int distance) {
    const int to = (rank + distance) % size, from = (rank + size - distance) % size;
    Travelling t;
    t.out = block_for(call, to);
    t.in = KeyBlock(call, call.keys_for(rank, from), call.k.dtype());
    t.transfer = call.ranks.start(operation, t.out.bytes(), t.out.empty() ? Communicator::kNobody : to, t.in.bytes(),
                                  t.in.empty() ? Communicator::kNobody : from);
    return t;
  };
  Travelling next;
  if (size > 1) next = start(1);
  compute(call.k, call.v, call.over.keys.of(rank), rank, rank);
  for (int distance = 1; distance < size; ++distance) {
    const Travelling here = std::move(next);
    here.transfer->wait();
    if (distance + 1 < size) next = start(distance + 1);
    compute(here.in.k, here.in.v, here.in.pieces, (rank + size - distance) % size, (rank + distance) % size);
  }
}

}  // namespace mpi
}  // namespace heed::inline v0
