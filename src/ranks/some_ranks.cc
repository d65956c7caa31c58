#include "ranks/some_ranks.h"

#include <algorithm>
#include <utility>

namespace heed::inline v0 {

SomeRanks::SomeRanks(Communicator& all, std::vector<int> members) : all_(all), members_(std::move(members)) {
  rank_ = static_cast<int>(std::find(members_.begin(), members_.end(), all.rank()) - members_.begin());
  if (rank_ == size()) throw ShapeError("SomeRanks: rank " + std::to_string(all.rank()) + " is none of them");
}

std::unique_ptr<Communicator::Transfer> SomeRanks::begin(const char* operation, std::span<const std::byte> out, int to,
                                                         std::span<std::byte> in, int from) {
  const auto of_all = [&](int rank) { return rank == kNobody ? kNobody : members_[static_cast<size_t>(rank)]; };
  return all_.start(operation, out, of_all(to), in, of_all(from));
}

}  // namespace heed::inline v0
