// Keys and values on their way from one rank to another, in one message.
#pragma once

#include <vector>

#include "mpi/call.h"

namespace heed::inline v0 {
namespace mpi {

/// Some pieces of the keys that one rank has: k (B, Hkv, rows, D) and v (B, Hkv, rows, Dv), one behind the other in
/// memory.
struct KeyBlock {
  std::vector<IndexRange> pieces;  // of the sequence
  Tensor memory, k, v;

  KeyBlock() = default;
  KeyBlock(const Call& call, std::vector<IndexRange> of_pieces, DType dtype) : pieces(std::move(of_pieces)) {
    int64_t rows = 0;
    for (const IndexRange& piece : pieces) rows += piece.size();
    const Dims of_k{call.whole.B, call.whole.Hkv, rows, call.whole.D},
        of_v{call.whole.B, call.whole.Hkv, rows, call.whole.Dv};
    memory = Tensor::empty({numel(of_k) + numel(of_v)}, dtype);
    k = memory.slice(0, 0, numel(of_k)).reshape(of_k);
    v = memory.slice(0, numel(of_k), memory.size(0)).reshape(of_v);
  }
  bool empty() const { return memory.numel() == 0; }
  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(memory.raw()), static_cast<size_t>(memory.nbytes())};
  }
};

/// f(piece of `some`, where its rows begin among those of `some`, where among those of `all`), both sorted.
template <class F>
void each_piece(const std::vector<IndexRange>& some, const std::vector<IndexRange>& all, const F& f) {
  int64_t at = 0, among = 0;
  size_t n = 0;
  for (const IndexRange& piece : some) {
    for (; !(all[n] == piece); ++n) among += all[n].size();
    f(piece, at, among);
    at += piece.size();
  }
}

/// The pieces of this rank's keys that rank `to` may see.
inline KeyBlock block_for(const Call& call, int to) {
  KeyBlock block(call, call.keys_for(to, call.rank()), call.k.dtype());
  each_piece(block.pieces, call.over.keys.of(call.rank()), [&](const IndexRange& piece, int64_t at, int64_t among) {
    for (const auto& [own, out] : {std::pair(&call.k, &block.k), std::pair(&call.v, &block.v)})
      out->slice(2, at, at + piece.size()).copy_from(own->slice(2, among, among + piece.size()));
  });
  return block;
}

}  // namespace mpi
}  // namespace heed::inline v0
