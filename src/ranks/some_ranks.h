// Some ranks of many, or all in another order, among themselves.
#pragma once

#include <vector>

#include "heed/communicator.h"

namespace heed::inline v0 {

/// Rank i is `members[i]` of `all`, which must outlive it and is one of them. Its messages are messages of `all`, and
/// so are its time limit and its failures, which all of `all` hear of.
class SomeRanks final : public Communicator {
 public:
  SomeRanks(Communicator& all, std::vector<int> members);
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }

 private:
  std::unique_ptr<Transfer> begin(const char* operation, std::span<const std::byte> out, int to,
                                  std::span<std::byte> in, int from) override;
  void tell(const std::string& reason) noexcept override { all_.fail(reason); }

  Communicator& all_;
  const std::vector<int> members_;
  int rank_;
};

}  // namespace heed::inline v0
