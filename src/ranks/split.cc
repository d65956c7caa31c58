#include "heed/split.h"

#include <string>

namespace heed::inline v0 {
namespace {

std::vector<int64_t> even_cuts(int64_t length, int count, int64_t multiple) {
  const int64_t steps = (length + multiple - 1) / multiple;
  std::vector<int64_t> cuts;
  for (int n = 0; n <= count; ++n) cuts.push_back(std::min(length, leaves_of(steps, n, count).begin * multiple));
  return cuts;
}

void check(int64_t length, int ranks, int64_t multiple) {
  if (length < 0 || ranks < 1 || multiple < 1)
    throw ShapeError("Split: a length of " + std::to_string(length) + " over " + std::to_string(ranks) +
                     " ranks in multiples of " + std::to_string(multiple) +
                     "; pass a length from 0, and ranks and multiples from 1 on");
}

}  // namespace

Split::Split(const std::vector<int64_t>& cuts, const std::vector<int>& owners) {
  if (cuts.size() != owners.size() + 1 || cuts[0] != 0)
    throw ShapeError("Split: " + std::to_string(cuts.size()) + " cuts and " + std::to_string(owners.size()) +
                     " owners; pass an owner for each piece, and cuts from 0 to the length");
  for (size_t p = 0; p < owners.size(); ++p) {
    if (cuts[p + 1] < cuts[p])
      throw ShapeError("Split: cut " + std::to_string(p + 1) + " is " + std::to_string(cuts[p + 1]) + " after " +
                       std::to_string(cuts[p]) + "; cuts must not fall");
    if (owners[p] < 0)
      throw ShapeError("Split: the owner of piece " + std::to_string(p) + " is " + std::to_string(owners[p]) +
                       "; pass a rank from 0 on");
    pieces_.push_back({{cuts[p], cuts[p + 1]}, owners[p]});
  }
}

Split Split::contiguous(int64_t length, int ranks, int64_t multiple) {
  check(length, ranks, multiple);
  std::vector<int> owners;
  for (int rank = 0; rank < ranks; ++rank) owners.push_back(rank);
  return {even_cuts(length, ranks, multiple), owners};
}

Split Split::zigzag(int64_t length, int ranks, int64_t multiple) {
  check(length, ranks, multiple);
  std::vector<int> owners;
  for (int rank = 0; rank < ranks; ++rank) owners.push_back(rank);
  for (int rank = ranks - 1; rank >= 0; --rank) owners.push_back(rank);
  return {even_cuts(length, 2 * ranks, multiple), owners};
}

std::vector<IndexRange> Split::of(int rank) const {
  std::vector<IndexRange> list;
  for (const Piece& piece : pieces_)
    if (piece.rank == rank && piece.size() > 0) list.push_back(piece);
  return list;
}

int64_t Split::rows(int rank) const {
  int64_t sum = 0;
  for (const IndexRange& piece : of(rank)) sum += piece.size();
  return sum;
}

Tensor Split::take(const Tensor& whole, int dimension, int rank) const {
  if (whole.size(dimension) != length())
    throw ShapeError("Split: a tensor " + to_string(whole.shape()) + " along dimension " + std::to_string(dimension) +
                     ", and a sequence of " + std::to_string(length()) + "; pass all of its rows");
  Dims shape = whole.shape();
  shape[dimension] = rows(rank);
  const Tensor own = Tensor::empty(shape, whole.dtype());
  int64_t at = 0;
  for (const IndexRange& piece : of(rank)) {
    own.slice(dimension, at, at + piece.size()).copy_from(whole.slice(dimension, piece.begin, piece.end));
    at += piece.size();
  }
  return own;
}

}  // namespace heed::inline v0
