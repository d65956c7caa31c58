// Sums over ranks with the bits of one rank. The numbers of G leaves (micro-batches; G a power of two) are added by a
// binary tree that G alone decides: leaves 2i and 2i + 1 first, then pairs of these sums, and so on. Ranks have
// contiguous ranges of leaves, so that most of the tree lies inside of one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "heed/communicator.h"

namespace heed::inline v0 {

/// [begin, end)
struct IndexRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const IndexRange&) const = default;
};

/// The leaves of a rank: `leaves` dealt in contiguous ranges whose sizes differ by 1 at most, the first at rank 0. Some
/// are empty where there are fewer leaves than ranks. Of n times as many over n times as many ranks, each n-th of the
/// ranks has an n-th of the leaves, dealt alike.
IndexRange leaves_of(int64_t leaves, int rank, int ranks);

/// The numbers of `length` that a rank has after reduce_scatter, and that it brings to all_gather_slices: disjoint,
/// together all of them, cut at multiples of `block` alone. Not in the order of the ranks.
IndexRange slice_of(int64_t length, int rank, int ranks, int64_t block = 1);

/// One rank's part of a sum. T is float or double.
template <class T>
class TreeSum {
 public:
  /// `block` as slice_of has it. Throws ShapeError unless `leaves` is a power of two and `length` not below 0.
  TreeSum(int64_t leaves, int64_t length, int rank = 0, int ranks = 1, int64_t block = 1);

  IndexRange leaves() const { return own_; }  // of this rank
  int64_t length() const { return length_; }
  /// Adds this rank's next leaf, `length` numbers. Keeps at most log2(leaves) + 1 sums at a time on one rank, twice as
  /// many elsewhere. Throws ShapeError for a leaf of another length or one too many.
  void add(std::span<const T> leaf);

  /// Writes the part of the total that slice_of gives this rank; `into` is as long. On every rank, after all its
  /// leaves; then the next sum can begin. For N = 2^k ranks and at least as many leaves k messages with (N-1)/N of the
  /// length (recursive halving, nearest ranks first, which is this tree; Thakur et al. 2005, "Optimization of
  /// collective communication operations in MPICH", 4.3); otherwise N - 1 messages with a slice for each part of the
  /// tree that lies whole in this rank's leaves.
  void reduce_scatter(Communicator& ranks, std::span<T> into);
  /// The total on every rank. `into` has `length` numbers.
  void total(Communicator& ranks, std::span<T> into);

 private:
  /// The sum of leaves [index * 2^level, (index + 1) * 2^level).
  struct Node {
    int level;
    int64_t index;
    std::vector<T> sum;
  };
  void merge_last();
  void halve(Communicator& ranks, std::span<T> into);
  void deal(Communicator& ranks, std::span<T> into);
  std::vector<T> take_spare();
  void check_complete(const char* operation, const Communicator& ranks) const;
  int64_t leaves_, length_;
  int rank_, ranks_;
  int64_t block_;
  IndexRange own_;
  int64_t next_;             // leaf
  std::vector<Node> nodes_;  // from left to right
  std::vector<std::vector<T>> spare_;
};

extern template class TreeSum<float>;
extern template class TreeSum<double>;

/// Every rank's slice to all ranks: of `numbers` this rank's slice_of is read, the rest is written. log2(N) messages
/// for N = 2^k ranks, else N - 1, with (N-1)/N of the length.
template <class T>
void all_gather_slices(Communicator& ranks, std::span<T> numbers, int64_t block = 1);

extern template void all_gather_slices(Communicator&, std::span<float>, int64_t);
extern template void all_gather_slices(Communicator&, std::span<double>, int64_t);

}  // namespace heed::inline v0
