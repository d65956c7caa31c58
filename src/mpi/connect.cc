// Finding MPI, and a program's way over it.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "attention/fused.h"
#include "heed/mpi.h"
#include "mpi/mpi_rank.h"
#include "simd/matrix_tiles.h"

namespace heed::inline v0 {
namespace mpi {
namespace {

constexpr std::chrono::seconds kMostForALine{5};  // for a rank to print, on a machine that is busy

const MessagePassing& load() {
  // By its bare name, as pictures are (docs/decisions/0001). Never unloaded: MPI does not survive that. Its plugins
  // look for its symbols among the global ones.
  void* const library = dlopen(kMessagesLibrary, RTLD_NOW | RTLD_GLOBAL);
  void* const symbol = library ? dlsym(library, kMessagePassingSymbol) : nullptr;
  if (!symbol) {
#ifdef HEED_PYTHON_PACKAGE
    throw UsageError(
        "mpi::connect: the Python package has no MPI; build heed with CMake where an MPI is installed (docs/cpp.md) "
        "and run that program under mpirun, or start one process without mpirun");
#else
    const char* const reason = dlerror();
    throw UsageError(std::string("mpi::connect: ") + kMessagesLibrary + " cannot be loaded (" +
                     (reason ? reason : "unknown") +
                     "); build heed where an MPI is installed (on Debian: apt install libopenmpi-dev openmpi-bin), or "
                     "start one process without mpirun");
#endif
  }
  const char* reason = "";
  const MessagePassing* const mpi = reinterpret_cast<MessagePassingFunction>(symbol)(&reason);
  if (!mpi) throw RankError(std::string("mpi::connect: ") + reason, false);
  return *mpi;
}

/// The first of these variables of the environment that is set; 0 without.
int number_in(std::initializer_list<const char*> variables) {
  for (const char* variable : variables)
    if (const char* const text = std::getenv(variable)) return std::atoi(text);
  return 0;
}

std::unique_ptr<MpiRank> connected(double time_limit) {
  const MessagePassing& mpi = load();
  if (const int launched = launched_ranks(); launched > 1 && mpi.size == 1) {
    mpi.end();
    throw UsageError(
        "mpi::connect: " + std::to_string(launched) + " processes were started, and " + mpi.library +
        " knows of this one alone; start them with the mpirun of that MPI (or srun --mpi=pmix for Open MPI, pmi2 for "
        "MPICH), or build heed with the other");
  }
  auto ranks = std::make_unique<MpiRank>(mpi);
  ranks->set_time_limit(time_limit);
  ranks->require_same("mpi::connect",
                      std::string("heed " HEED_VERSION ", " __VERSION__ ", ") + fused_target() +
                          (uses_matrix_tiles() ? " with matrix tiles" : ""),
                      "the build",
                      "start one build on all ranks, on processors with the same vector instructions and matrix unit");
  ranks->meet();
  return ranks;
}

}  // namespace

int launched_ranks() { return number_in({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}); }

std::unique_ptr<Communicator> connect(double time_limit) { return connected(time_limit); }

bool speaks(Communicator* ranks, const std::exception& e) {
  const auto* const error = dynamic_cast<const RankError*>(&e);
  bool silent = error && error->elsewhere();
  // What ends one rank often ends all at once: those behind the first give it time to say so, and others to hear.
  if (auto* const own = dynamic_cast<MpiRank*>(ranks))
    silent = silent || own->hears_of_a_failure(own->rank() == 0 ? 0 : 1 + std::min(0.05 * own->rank(), 1.0));
  // Nobody to ask: on each computer its first rank says it, and that of rank 0 first, so that mpirun ends the others.
  if (!ranks && !silent) {
    silent = number_in({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) > 0;
    if (!silent && number_in({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) > 0)
      std::this_thread::sleep_for(kMostForALine);
  }
  if (ranks && !silent) ranks->fail(e.what());
  // mpirun ends all ranks when one has ended: that is to be the one that speaks, after its line.
  if (silent) std::this_thread::sleep_for(kMostForALine);
  return !silent;
}

int run(const std::function<void(Communicator&)>& f, double time_limit) {
  std::unique_ptr<MpiRank> ranks;
  try {
    ranks = connected(time_limit);
    f(*ranks);
    return 0;
  } catch (const std::exception& e) {
    if (speaks(ranks.get(), e)) std::fprintf(stderr, "heed: %s\n", e.what());
  }
  return 1;
}

}  // namespace mpi
}  // namespace heed::inline v0
