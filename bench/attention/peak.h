// What the multiply-add units of this machine can do.
#pragma once

namespace heed::bench {

/// CPU seconds that this process has used, over all its threads.
double cpu_seconds();

/// Float32 multiply-adds a CPU second, on independent registers in `threads` tiles of the default executor at once.
double multiply_add_peak(int threads);

}  // namespace heed::bench
