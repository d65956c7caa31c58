// A command as one of the ranks that mpirun started.
#pragma once

#include <functional>

#include "heed/communicator.h"

namespace heed::cli {

/// f(a communicator between the ranks that mpirun started), or f(nullptr) where nobody did. Of what f throws one rank
/// prints a line; the others leave quietly. A rank waits `time_limit` seconds for another one.
void over_ranks(double time_limit, const std::function<void(Communicator* ranks)>& f);

}  // namespace heed::cli
