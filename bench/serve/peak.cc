#include "bench/serve/peak.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>

#include "heed/executor.h"
#include "heed/tensor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/serve/peak.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "simd/targets.h"

HWY_BEFORE_NAMESPACE();
namespace heed::bench {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Multiply-adds done by `rounds` rounds over 12 accumulators: enough to hide the latency everywhere.
double multiply_adds(int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto start = [&](float value) HWY_ATTR { return hn::Set(d, value); };  // all different, or they are merged
  V a = start(1), b = start(2), c = start(3), e = start(4), f = start(5), g = start(6);
  V h = start(7), i = start(8), j = start(9), k = start(10), l = start(11), m = start(12);
  const V x = hn::Set(d, 0.999f), y = hn::Set(d, 0.5f);
  for (int64_t r = 0; r < rounds; ++r) {
    a = hn::MulAdd(a, x, y), b = hn::MulAdd(b, x, y), c = hn::MulAdd(c, x, y), e = hn::MulAdd(e, x, y);
    f = hn::MulAdd(f, x, y), g = hn::MulAdd(g, x, y), h = hn::MulAdd(h, x, y), i = hn::MulAdd(i, x, y);
    j = hn::MulAdd(j, x, y), k = hn::MulAdd(k, x, y), l = hn::MulAdd(l, x, y), m = hn::MulAdd(m, x, y);
  }
  const V total = hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, e)),
                          hn::Add(hn::Add(hn::Add(f, g), hn::Add(h, i)), hn::Add(hn::Add(j, k), hn::Add(l, m))));
  *sink = hn::GetLane(total);
  return 12.0 * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(d));
}

// The sum of n floats, n a multiple of 16 vectors.
float read_floats(const float* from, int64_t n) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V a = hn::Zero(d), b = a, c = a, e = a;
  for (int64_t i = 0; i < n; i += 4 * lanes) {
    a = hn::Add(a, hn::Load(d, from + i));
    b = hn::Add(b, hn::Load(d, from + i + lanes));
    c = hn::Add(c, hn::Load(d, from + i + 2 * lanes));
    e = hn::Add(e, hn::Load(d, from + i + 3 * lanes));
  }
  return hn::GetLane(hn::Add(hn::Add(a, b), hn::Add(c, e)));
}

}  // namespace HWY_NAMESPACE
}  // namespace heed::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::bench {

HEED_EXPORT(multiply_adds);
HEED_EXPORT(read_floats);

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

MultiplyAddPeak multiply_add_peak(int threads) {
  MultiplyAddPeak best;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const double cpu = cpu_seconds(), start = seconds();
    std::atomic<double> done{0};
    parallel_for(default_executor(), threads, [&](int64_t) {
      float sink = 0;
      done += HEED_DISPATCH(multiply_adds)(int64_t{1} << 20, &sink);
      benchmark::DoNotOptimize(sink);
    });
    best.a_second = std::max(best.a_second, done / (seconds() - start));
    best.a_cpu_second = std::max(best.a_cpu_second, done / (cpu_seconds() - cpu));
  }
  return best;
}

double read_bandwidth(int threads, size_t bytes) {
  constexpr size_t kStep = 64 * HWY_MAX_BYTES;  // a multiple of what one round of any target reads
  const size_t share = std::max<size_t>(1, bytes / static_cast<size_t>(threads) / kStep) * kStep / sizeof(float);
  const Tensor memory = Tensor::full({threads, static_cast<int64_t>(share)}, 1);  // written, so that pages are real
  const int passes = static_cast<int>(std::max<size_t>(1, (size_t{64} << 20) / (share * sizeof(float))));
  double best = 0;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const double start = seconds();
    parallel_for(default_executor(), threads, [&](int64_t tile) {
      const float* const from = memory.data<float>() + tile * static_cast<int64_t>(share);
      for (int pass = 0; pass < passes; ++pass) {
        float sum = HEED_DISPATCH(read_floats)(from, static_cast<int64_t>(share));
        benchmark::DoNotOptimize(sum);
      }
    });
    best = std::max(best, static_cast<double>(memory.nbytes()) * passes / (seconds() - start));
  }
  return best;
}

}  // namespace heed::bench
#endif
