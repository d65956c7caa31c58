// Speed of attention as a share of what the multiply-add units of this machine can do, measured just before and after
// each case. Both are counted in CPU seconds, so a busy machine disturbs the share little; the times printed are real.
//   attention_bench [--threads=N] [Google Benchmark's options]
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "bench/attention/peak.h"
#include "heed/attention.h"

namespace {

using namespace heed;

struct Case {
  const char* name;
  int64_t B, H, L, D;
  Causal causal = Causal::none;
  bool backward = false;
  bool ragged = false;
};

// Multiply-adds that a call needs: two products forward, five more backward (the scores again, and four gradients).
double multiply_adds(const Case& c, const std::vector<int32_t>& lengths) {
  double scores = 0;
  for (const int32_t n : lengths) {
    const double l = n;
    scores += static_cast<double>(c.H) * (c.causal == Causal::none ? static_cast<double>(c.L) * l : l * (l + 1) / 2);
  }
  return scores * static_cast<double>(c.D) * (c.backward ? 7 : 2);
}

Tensor noise(const Dims& shape) {
  const Tensor t = Tensor::empty(shape);
  uint32_t state = 1;
  for (float& x : t.span<float>()) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) * 0x1p-23f - 1;
  }
  return t;
}

void run(benchmark::State& state, const Case& c) {
  // The layout of training: heads side by side in a row, (B, L, H, D).
  const auto tensor = [&] { return noise({c.B, c.L, c.H, c.D}).transpose(1, 2); };
  const Tensor q = tensor(), k = tensor(), v = tensor(), grad = tensor();
  std::vector<int32_t> lengths(static_cast<size_t>(c.B), static_cast<int32_t>(c.L));
  if (c.ragged)
    for (size_t b = 0; b < lengths.size(); ++b) lengths[b] -= static_cast<int32_t>(b % 5);
  AttentionOptions options{.causal = c.causal};
  options.want_lse = c.backward;
  if (c.ragged) options.key_lengths = Tensor::from(lengths, {c.B});
  AttentionResult into{tensor(), {}, {}};
  if (c.backward) into.lse = Tensor::empty({c.B, c.H, c.L});
  const AttentionGradients gradients{tensor(), tensor(), tensor(), {}};
  const double peak_before = bench::multiply_add_peak(threads()), start = bench::cpu_seconds();
  for (auto _ : state) {
    attention(q, k, v, into, options);
    if (c.backward) attention_backward(grad, q, k, v, into, gradients, options);
  }
  const double seconds = bench::cpu_seconds() - start;
  const double peak = (peak_before + bench::multiply_add_peak(threads())) / 2;
  const double rate = multiply_adds(c, lengths) * static_cast<double>(state.iterations()) / seconds;
  state.counters["GFLOP/CPUs"] = 2e-9 * rate;
  state.counters["%peak"] = 100 * rate / peak;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--threads=", 10) == 0) {
      set_threads(std::atoi(argv[i] + 10));
    } else {
      std::fprintf(stderr, "attention_bench: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  std::printf("multiply-add peak, float32, %d threads: %.1f GFLOP a CPU second\n", threads(),
              2e-9 * bench::multiply_add_peak(threads()));
  static const Case cases[] = {
      {"1x8x512x64", 1, 8, 512, 64},
      {"1x8x512x64/causal", 1, 8, 512, 64, Causal::top_left},
      {"1x8x2048x64", 1, 8, 2048, 64},
      {"1x8x2048x64/causal", 1, 8, 2048, 64, Causal::top_left},
      {"1x8x2048x128", 1, 8, 2048, 128},
      {"8x8x128x64", 8, 8, 128, 64},
      {"16x4x10x64", 16, 4, 10, 64},  // stays in the second-level cache
      {"400x4x10x64", 400, 4, 10, 64},
      {"400x4x10x64/ragged", 400, 4, 10, 64, Causal::none, false, true},
      {"400x4x10x64/causal", 400, 4, 10, 64, Causal::top_left},
      {"300x4x20x48", 300, 4, 20, 48},
  };
  for (const bool backward : {false, true}) {
    for (Case c : cases) {
      c.backward = backward;
      const std::string name = std::string(backward ? "forward+backward/" : "forward/") + c.name;
      benchmark::RegisterBenchmark(name.c_str(), [c](benchmark::State& state) { run(state, c); })
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
    }
  }
  benchmark::RunSpecifiedBenchmarks();
}
