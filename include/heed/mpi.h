// Ranks over MPI: processes that mpirun or srun started, on one machine or many. heed has no MPI in it: connect() loads
// libheed_messages, which is built where an MPI is found and installed beside the program.
#pragma once

#include <exception>
#include <functional>
#include <memory>

#include "heed/communicator.h"

namespace heed::inline v0 {
namespace mpi {

/// Of how many ranks mpirun or srun started this process as one, by what they leave in the environment (Open MPI,
/// MPICH and its kin, SLURM); 0 where nobody did.
int launched_ranks();

/// This process's end of a communicator between all that were started together; alone where nobody started it so. The
/// first starts MPI, unless the program has, and ends it. Long messages move on while the rank computes, unless the
/// program began MPI with less than MPI_THREAD_MULTIPLE. Where it goes while an exception passes, the other ranks are
/// told. Throws UsageError where libheed_messages is missing or of another MPI than mpirun's, RankError where MPI
/// refuses, and where ranks are of other builds or run on other vector instructions, whose bits differ.
std::unique_ptr<Communicator> connect(double time_limit = 600);

/// For a program that prints errors itself: tells the other ranks of `e`, which has ended this one, and returns whether
/// this is the rank to print it; another one prints what has ended all. `ranks` is nullptr where connect() threw it.
bool speaks(Communicator* ranks, const std::exception& e);

/// f(connect(time_limit)) for a program's main: returns 0, or, when f throws on any rank, 1 on all of them, after one
/// line on standard error from the rank that failed.
int run(const std::function<void(Communicator&)>& f, double time_limit = 600);

}  // namespace mpi
}  // namespace heed::inline v0
