#include "heed/tree_sum.h"

#include <bit>

namespace heed::inline v0 {
namespace {

bool is_power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

IndexRange numbers_of(IndexRange blocks, int64_t block, int64_t length) {
  return {std::min(blocks.begin * block, length), std::min(blocks.end * block, length)};
}

/// What is left of `length` numbers to a rank after the first `steps` halvings, each with the rank that differs in the
/// next bit.
IndexRange halved(int64_t length, int rank, int steps, int64_t block) {
  IndexRange blocks{0, (length + block - 1) / block};
  for (int step = 0; step < steps; ++step) {
    const int64_t middle = blocks.begin + blocks.size() / 2;
    (rank >> step & 1 ? blocks.begin : blocks.end) = middle;
  }
  return numbers_of(blocks, block, length);
}

int steps_of(int ranks) { return std::countr_zero(static_cast<unsigned>(ranks)); }

struct Place {
  int level;
  int64_t index;
};

/// The largest parts of the tree that lie whole in a range of leaves, from left to right.
std::vector<Place> parts_of(IndexRange leaves) {
  std::vector<Place> parts;
  while (leaves.size() > 0) {
    int level = 0;
    while (leaves.begin % (int64_t{2} << level) == 0 && (int64_t{2} << level) <= leaves.size()) ++level;
    parts.push_back({level, leaves.begin >> level});
    leaves.begin += int64_t{1} << level;
  }
  return parts;
}

template <class T>
std::span<T> part(std::span<T> all, IndexRange range) {
  return all.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
}

/// to = left + right, where `to` is one of the two.
template <class T>
void add(std::span<const T> left, std::span<const T> right, std::span<T> to) {
  for (size_t i = 0; i < to.size(); ++i) to[i] = left[i] + right[i];
}

}  // namespace

IndexRange leaves_of(int64_t leaves, int rank, int ranks) {
  const auto first_of = [&](int64_t of) { return (of * leaves + ranks - 1) / ranks; };
  return {first_of(rank), first_of(rank + 1)};
}

IndexRange slice_of(int64_t length, int rank, int ranks, int64_t block) {
  if (is_power_of_two(ranks)) return halved(length, rank, steps_of(ranks), block);
  return numbers_of(leaves_of((length + block - 1) / block, rank, ranks), block, length);
}

template <class T>
TreeSum<T>::TreeSum(int64_t leaves, int64_t length, int rank, int ranks, int64_t block)
    : leaves_(leaves), length_(length), rank_(rank), ranks_(ranks), block_(block) {
  if (!is_power_of_two(leaves)) throw ShapeError("TreeSum: " + std::to_string(leaves) + " leaves; pass a power of two");
  if (length < 0) throw ShapeError("TreeSum: a length of " + std::to_string(length) + "; pass 0 or more");
  if (rank < 0 || rank >= ranks)
    throw ShapeError("TreeSum: rank " + std::to_string(rank) + " of " + std::to_string(ranks) + "; count from 0");
  own_ = leaves_of(leaves, rank, ranks);
  next_ = own_.begin;
}

template <class T>
void TreeSum<T>::add(std::span<const T> leaf) {
  if (static_cast<int64_t>(leaf.size()) != length_)
    throw ShapeError("TreeSum: a leaf of " + std::to_string(leaf.size()) + " numbers; pass " + std::to_string(length_));
  if (next_ == own_.end)
    throw ShapeError("TreeSum: rank " + std::to_string(rank_) + " has all its leaves, " + std::to_string(own_.begin) +
                     " to " + std::to_string(own_.end) + "; end the sum first");
  const int64_t place = next_++;
  if (!nodes_.empty() && nodes_.back().level == 0 && nodes_.back().index + 1 == place && place % 2 == 1) {
    std::vector<T>& left = nodes_.back().sum;
    heed::add<T>(left, leaf, left);
    nodes_.back() = {1, place / 2, std::move(left)};
  } else {
    std::vector<T> sum = take_spare();
    sum.assign(leaf.begin(), leaf.end());
    nodes_.push_back({0, place, std::move(sum)});
  }
  merge_last();
}

template <class T>
std::vector<T> TreeSum<T>::take_spare() {
  if (spare_.empty()) return {};
  std::vector<T> sum = std::move(spare_.back());
  spare_.pop_back();
  return sum;
}

/// While the last two sums are the two halves of one.
template <class T>
void TreeSum<T>::merge_last() {
  while (nodes_.size() > 1) {
    Node &left = nodes_[nodes_.size() - 2], &right = nodes_.back();
    if (left.level != right.level || left.index % 2 != 0 || left.index + 1 != right.index) return;
    heed::add<T>(left.sum, right.sum, left.sum);
    ++left.level;
    left.index /= 2;
    spare_.push_back(std::move(right.sum));
    nodes_.pop_back();
  }
}

template <class T>
void TreeSum<T>::check_complete(const char* operation, const Communicator& ranks) const {
  if (ranks.size() != ranks_ || ranks.rank() != rank_)
    throw ShapeError(std::string(operation) + ": rank " + std::to_string(ranks.rank()) + " of " +
                     std::to_string(ranks.size()) + " ends a sum of rank " + std::to_string(rank_) + " of " +
                     std::to_string(ranks_) + "; make it for this communicator");
  if (next_ != own_.end)
    throw ShapeError(std::string(operation) + ": rank " + std::to_string(rank_) + " has added " +
                     std::to_string(next_ - own_.begin) + " of its " + std::to_string(own_.size()) +
                     " leaves; add them all");
}

// Rank r has the sum of the r-th of N equal ranges of leaves. Ranks whose ranges meet in the tree halve first.
template <class T>
void TreeSum<T>::halve(Communicator& ranks, std::span<T> into) {
  const std::span<T> sum = nodes_.front().sum;
  std::vector<T> received = take_spare();
  for (int step = 0; step < steps_of(ranks_); ++step) {
    const int other = rank_ ^ 1 << step;
    const IndexRange mine = halved(length_, rank_, step + 1, block_), theirs = halved(length_, other, step + 1, block_);
    received.resize(static_cast<size_t>(mine.size()));
    ranks.exchange("reduce_scatter", as_bytes(part<T>(sum, theirs)), other, std::as_writable_bytes(std::span(received)),
                   other);
    const std::span<T> own = part<T>(sum, mine);
    rank_ < other ? heed::add<T>(own, received, own) : heed::add<T>(received, own, own);
  }
  spare_.push_back(std::move(received));
  const std::span<T> slice = part<T>(sum, slice_of(length_, rank_, ranks_, block_));
  std::copy(slice.begin(), slice.end(), into.begin());
}

// Each rank receives its slice of all parts of the tree, and adds them as one rank would.
template <class T>
void TreeSum<T>::deal(Communicator& ranks, std::span<T> into) {
  const IndexRange slice = slice_of(length_, rank_, ranks_, block_);
  std::vector<std::vector<T>> parts(static_cast<size_t>(ranks_));  // a rank's: (parts, slice)
  const auto take = [&](IndexRange range) {
    std::vector<T> packed;
    for (Node& node : nodes_) {
      const std::span<T> numbers = part<T>(node.sum, range);
      packed.insert(packed.end(), numbers.begin(), numbers.end());
    }
    return packed;
  };
  const auto numbers_of = [&](int rank, IndexRange range) {
    return parts_of(leaves_of(leaves_, rank, ranks_)).size() * static_cast<size_t>(range.size());
  };
  parts[static_cast<size_t>(rank_)] = take(slice);
  for (int distance = 1; distance < ranks_; ++distance) {
    const int to = (rank_ + distance) % ranks_, from = (rank_ + ranks_ - distance) % ranks_;
    const std::vector<T> out = take(slice_of(length_, to, ranks_, block_));
    std::vector<T>& in = parts[static_cast<size_t>(from)];
    in.resize(numbers_of(from, slice));
    ranks.exchange("reduce_scatter", as_bytes(std::span(out)), out.empty() ? Communicator::kNobody : to,
                   std::as_writable_bytes(std::span(in)), in.empty() ? Communicator::kNobody : from);
  }
  TreeSum<T> all(leaves_, slice.size());
  for (int rank = 0; rank < ranks_; ++rank) {
    const T* from = parts[static_cast<size_t>(rank)].data();
    for (const Place& place : parts_of(leaves_of(leaves_, rank, ranks_))) {
      all.nodes_.push_back({place.level, place.index, std::vector<T>(from, from + slice.size())});
      all.merge_last();
      from += slice.size();
    }
  }
  const std::vector<T>& total = all.nodes_.front().sum;
  std::copy(total.begin(), total.end(), into.begin());
}

template <class T>
void TreeSum<T>::reduce_scatter(Communicator& ranks, std::span<T> into) {
  check_complete("reduce_scatter", ranks);
  if (static_cast<int64_t>(into.size()) != slice_of(length_, rank_, ranks_, block_).size())
    throw ShapeError("reduce_scatter: room for " + std::to_string(into.size()) + " numbers, and the slice of rank " +
                     std::to_string(rank_) + " has " + std::to_string(slice_of(length_, rank_, ranks_, block_).size()) +
                     "; pass as much");
  const bool halves = is_power_of_two(ranks_) && leaves_ >= ranks_;
  halves ? halve(ranks, into) : deal(ranks, into);
  for (Node& node : nodes_) spare_.push_back(std::move(node.sum));
  nodes_.clear();
  next_ = own_.begin;
}

template <class T>
void TreeSum<T>::total(Communicator& ranks, std::span<T> into) {
  if (static_cast<int64_t>(into.size()) != length_)
    throw ShapeError("TreeSum: the total has " + std::to_string(length_) + " numbers, and there is room for " +
                     std::to_string(into.size()) + "; pass as much");
  reduce_scatter(ranks, part<T>(into, slice_of(length_, rank_, ranks_, block_)));
  all_gather_slices(ranks, into, block_);
}

template <class T>
void all_gather_slices(Communicator& ranks, std::span<T> numbers, int64_t block) {
  const auto length = static_cast<int64_t>(numbers.size());
  const int rank = ranks.rank(), size = ranks.size();
  const auto exchange = [&](IndexRange out, int to, IndexRange in, int from) {
    ranks.exchange("all_gather_slices", as_bytes(part<T>(numbers, out)), to,
                   std::as_writable_bytes(part<T>(numbers, in)), from);
  };
  if (is_power_of_two(size)) {  // what halve() does, backwards
    for (int step = steps_of(size) - 1; step >= 0; --step) {
      const int other = rank ^ 1 << step;
      exchange(halved(length, rank, step + 1, block), other, halved(length, other, step + 1, block), other);
    }
    return;
  }
  for (int distance = 1; distance < size; ++distance) {
    const int from = (rank + size - distance) % size;
    exchange(slice_of(length, rank, size, block), (rank + distance) % size, slice_of(length, from, size, block), from);
  }
}

template class TreeSum<float>;
template class TreeSum<double>;
template void all_gather_slices(Communicator&, std::span<float>, int64_t);
template void all_gather_slices(Communicator&, std::span<double>, int64_t);

}  // namespace heed::inline v0
