#include "train/ranks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "heed/profile.h"

namespace heed::inline v0 {
namespace {

class Alone final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

 private:
  std::unique_ptr<Transfer> begin(const char*, std::span<const std::byte>, int, std::span<std::byte>, int) override {
    return nullptr;  // there is nobody to send to or to receive from
  }
  void tell(const std::string&) noexcept override {}
};

template <class T>
std::span<T> part(const Tensor& tensor, IndexRange range) {
  return tensor.span<T>().subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
}

std::span<std::byte> bytes(const Tensor& tensor, IndexRange range) {
  const size_t size = size_of(tensor.dtype());
  return {static_cast<std::byte*>(tensor.raw()) + static_cast<size_t>(range.begin) * size,
          static_cast<size_t>(range.size()) * size};
}

using Sum = std::variant<TreeSum<float>, TreeSum<double>>;

Sum sum_of(DType dtype, int64_t leaves, int64_t length, const Communicator& ranks) {
  constexpr int64_t kBlock = ParameterArena::kSliceBlock;
  if (dtype == DType::f32) return TreeSum<float>(leaves, length, ranks.rank(), ranks.size(), kBlock);
  return TreeSum<double>(leaves, length, ranks.rank(), ranks.size(), kBlock);
}

}  // namespace

int64_t leaves_for(int64_t batches) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(batches))); }

Communicator& alone() {
  static Alone one;
  return one;
}

void share_of_lead(Communicator& ranks, const Tensor& tensor) { ranks.broadcast(bytes(tensor, {0, tensor.numel()})); }

void require_same_training(Communicator& ranks, const Recipe& recipe) {
  for (const auto& [name, value] : recipe)
    ranks.require_same("train", name + " " + value, "an option or the data", "start all ranks with the same of both");
}

IndexRange slice_of_arena(const Communicator& ranks, const ParameterArena& arena) {
  return slice_of(arena.size(), ranks.rank(), ranks.size(), ParameterArena::kSliceBlock);
}

Tensor gather_slices(Communicator& ranks, const ParameterArena& arena, const Tensor& slice) {
  if (ranks.size() == 1) return slice;
  if (ranks.rank() != 0) {
    if (slice.numel() > 0) ranks.send(bytes(slice, {0, slice.numel()}), 0);
    return {};
  }
  const Tensor all = Tensor::empty({arena.size()}, arena.dtype());
  const IndexRange own = slice_of_arena(ranks, arena);
  all.slice(0, own.begin, own.end).copy_from(slice);
  for (int rank = 1; rank < ranks.size(); ++rank) {
    const IndexRange theirs = slice_of(arena.size(), rank, ranks.size(), ParameterArena::kSliceBlock);
    if (theirs.size() > 0) ranks.receive(bytes(all, theirs), rank);
  }
  return all;
}

void share_slices(Communicator& ranks, const ParameterArena& arena) {
  if (arena.dtype() == DType::f32)
    all_gather_slices(ranks, arena.values().span<float>(), ParameterArena::kSliceBlock);
  else
    all_gather_slices(ranks, arena.values().span<double>(), ParameterArena::kSliceBlock);
}

double gradient_norm(Communicator& ranks, const ParameterArena& arena) {
  constexpr int64_t kBlock = ParameterArena::kSliceBlock;
  const IndexRange slice = slice_of_arena(ranks, arena);
  const std::vector<double> own = arena.gradient_squares(slice);
  std::vector<double> all(static_cast<size_t>((arena.size() + kBlock - 1) / kBlock));
  std::copy(own.begin(), own.end(), all.begin() + slice.begin / kBlock);
  all_gather_slices(ranks, std::span(all));  // cut as the arena is, a number for each block
  double sum = 0;
  for (const double squares : all) sum += squares;
  return std::sqrt(sum);
}

std::vector<int> by_part(int ranks, int64_t context) {
  std::vector<int> order;
  for (int64_t part = 0; part < context; ++part)
    for (int64_t first = 0; first < ranks; first += context) order.push_back(static_cast<int>(first + part));
  return order;
}

std::vector<int> context_of(int group, int groups, int ranks) {
  std::vector<int> members;
  for (int rank = group; rank < ranks; rank += groups) members.push_back(rank);
  return members;
}

GradientSum::GradientSum(Communicator& ranks, const ParameterArena& arena, int64_t batches)
    : ranks_(ranks),
      arena_(arena),
      leaves_(leaves_of(leaves_for(batches), ranks.rank(), ranks.size())),
      sum_(sum_of(arena.dtype(), leaves_for(batches), arena.size(), ranks)) {}

void GradientSum::add() {
  const ProfileScope profile("sum of gradients");
  std::visit([&]<class T>(TreeSum<T>& sum) { sum.add(arena_.gradients().span<T>()); }, sum_);
}

void GradientSum::finish() {
  const ProfileScope profile("sum of gradients");
  std::visit(
      [&]<class T>(TreeSum<T>& sum) {
        sum.reduce_scatter(ranks_, part<T>(arena_.gradients(), slice_of_arena(ranks_, arena_)));
      },
      sum_);
}

}  // namespace heed::inline v0
