// What this machine can do: multiply-adds and reads.
#pragma once

#include <cstddef>

namespace heed::bench {

/// CPU seconds that this process has used, over all its threads.
double cpu_seconds();

/// Seconds of a clock that only goes forward.
double seconds();

/// Float32 multiply-adds on independent registers, in `threads` tiles of the default executor at once; best of several.
struct MultiplyAddPeak {
  double a_cpu_second = 0;  // of one thread
  double a_second = 0;      // of all threads together
};
MultiplyAddPeak multiply_add_peak(int threads);

/// Bytes a second that `threads` tiles of the default executor read together, one stream each, from `bytes` of memory
/// that they go through again and again; best of several.
double read_bandwidth(int threads, size_t bytes);

}  // namespace heed::bench
