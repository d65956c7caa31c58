#include "bench/attention/peak.h"

#include <algorithm>
#include <ctime>

#include "heed/executor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/attention/peak.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

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

}  // namespace HWY_NAMESPACE
}  // namespace heed::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::bench {

HWY_EXPORT(multiply_adds);

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double multiply_add_peak(int threads) {
  double best = 0;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const double start = cpu_seconds();
    double done = 0;
    parallel_for(default_executor(), threads, [&](int64_t tile) {
      float sink = 0;
      const double n = HWY_DYNAMIC_DISPATCH(multiply_adds)(int64_t{1} << 20, &sink);
      volatile float keep = sink;
      (void)keep;
      if (tile == 0) done = n;
    });
    best = std::max(best, done * threads / (cpu_seconds() - start));
  }
  return best;
}

}  // namespace heed::bench
#endif
