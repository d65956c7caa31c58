// Which rows of a sequence each rank has.
#pragma once

#include <cstdint>
#include <vector>

#include "heed/tensor.h"
#include "heed/tree_sum.h"

namespace heed::inline v0 {

/// A sequence cut into pieces, each with the rank that has it. A rank's tensors have the rows of its pieces one behind
/// another, in the order of the sequence; every rank is given the same split.
class Split {
 public:
  struct Piece : IndexRange {
    int rank = 0;
  };
  Split() = default;
  /// Piece p is rows cuts[p] .. cuts[p + 1] - 1, of rank owners[p]. Throws ShapeError unless cuts begin with 0 and do
  /// not fall, and there is an owner, a rank from 0 on, for each piece.
  Split(const std::vector<int64_t>& cuts, const std::vector<int>& owners);
  /// One piece a rank, in order, as even as cuts at multiples of `multiple` let them be (kTile: for block masks).
  static Split contiguous(int64_t length, int ranks, int64_t multiple = 1);
  /// Two pieces a rank, its number's from the front and from the end: of causal attention, where late queries see most
  /// keys, each rank has the same work (Brandon et al. 2023, "Striped Attention", 3, for the imbalance; the pairing is
  /// that of Llama 3, arXiv 2407.21783, 3.3.2).
  static Split zigzag(int64_t length, int ranks, int64_t multiple = 1);

  int64_t length() const { return pieces_.empty() ? 0 : pieces_.back().end; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  std::vector<IndexRange> of(int rank) const;
  int64_t rows(int rank) const;
  /// A rank's rows of `whole`, which has all of the sequence along `dimension`.
  Tensor take(const Tensor& whole, int dimension, int rank) const;

 private:
  std::vector<Piece> pieces_;
};

}  // namespace heed::inline v0
