#include "cli/over_ranks.h"

#include <memory>

#include "cli/console.h"
#include "heed/mpi.h"

namespace heed::cli {

void over_ranks(double time_limit, const std::function<void(Communicator* ranks)>& f) {
  if (mpi::launched_ranks() < 2) return f(nullptr);
  std::unique_ptr<Communicator> ranks;
  try {
    ranks = mpi::connect(time_limit);
    f(ranks.get());
  } catch (const std::exception& e) {
    if (mpi::speaks(ranks.get(), e)) throw;
    throw ExitStatus{1};
  }
}

}  // namespace heed::cli
