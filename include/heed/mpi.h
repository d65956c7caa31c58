// Ranks over MPI: processes that mpirun or srun started, on one machine or many. heed has no MPI in it: connect() loads
// libheed_messages, which is built where an MPI is found and installed beside the program.
#pragma once

#include <exception>
#include <functional>
#include <memory>

#include "heed/communicator.h"

namespace heed::inline v0 {
namespace mpi {

/// The number of ranks that mpirun or srun started, from the environment (Open MPI, MPICH and derivatives, SLURM); 0 if
/// this process was not started by them.
int launched_ranks();

/// The communicator of all ranks started together; a single rank if this process was not started by mpirun. The first
/// call initialises MPI, unless the program has, and finalises it at the end. Long messages progress while the rank
/// computes, unless the program initialised MPI with less than MPI_THREAD_MULTIPLE. If it is destroyed by an exception,
/// the other ranks are notified. Throws UsageError if libheed_messages is missing or built for another MPI than
/// mpirun's, RankError if MPI fails, and if ranks differ in their builds or vector instructions, whose results differ
/// in bits.
std::unique_ptr<Communicator> connect(double time_limit = 600);

/// For programs that print errors themselves: notifies the other ranks of `e`, which ended this rank, and returns
/// whether this rank should print it; else another rank prints the cause. `ranks` is nullptr if connect() threw.
bool speaks(Communicator* ranks, const std::exception& e);

/// f(connect(time_limit)) for a program's main: returns 0, or, when f throws on any rank, 1 on all of them, after one
/// line on standard error from the rank that failed.
int run(const std::function<void(Communicator&)>& f, double time_limit = 600);

}  // namespace mpi
}  // namespace heed::inline v0
