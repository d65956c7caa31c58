// A communicator on libheed_messages: waiting with a limit, failures that all ranks hear of, progress while a rank
// computes.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "heed/communicator.h"
#include "mpi/message_passing.h"

namespace heed::inline v0 {
namespace mpi {

class MpiRank : public Communicator {
 public:
  explicit MpiRank(const MessagePassing& messages);
  /// Waits for the others and ends MPI, unless this or another rank has failed.
  ~MpiRank() override;
  int rank() const override { return mpi_.rank; }
  int size() const override { return mpi_.size; }
  /// Every rank learns which others run on its computer, and from then on notices where one of them is killed.
  void meet();
  /// Whether another rank tells of a failure within some seconds.
  bool hears_of_a_failure(double seconds);

 private:
  class Moving;
  std::unique_ptr<Transfer> begin(const char* operation, std::span<const std::byte> out, int to,
                                  std::span<std::byte> in, int from) override;
  void tell(const std::string& reason) noexcept override;

  /// MPI moves long messages only while it is called: this thread calls it while the rank computes.
  void keep_moving();

  /// A rank of this computer whose process has ended.
  bool is_gone(int other) const;

  // With mutex_ held:
  void hear(const char* operation);  // throws when another rank has told of its failure
  RankError broken(const RankError& error);
  RankError refused(const char* operation);

  const MessagePassing& mpi_;
  const int exceptions_;          // that were passing when this was made
  std::mutex mutex_;              // one thread at a time is in MPI
  std::vector<pid_t> processes_;  // of the ranks; 0: of another computer
  std::vector<Moving*> moving_;   // that nobody has waited for yet
  std::string failure_;           // what every later call throws, and after which nothing of MPI is called
  bool elsewhere_ = false, told_ = false;
  std::atomic<bool> ends_{false};
  std::thread keeps_moving_;
};

}  // namespace mpi
}  // namespace heed::inline v0
