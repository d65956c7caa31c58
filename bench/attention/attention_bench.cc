// Speed of attention as a share of what the multiply-add units of this machine can do, measured just before and after
// each case. Both are counted in CPU seconds, so a busy machine disturbs the share little; the times printed are real.
//   attention_bench [--threads=N] [Google Benchmark's options]
//   attention_bench [--threads=N] --serve      answers compare.py, see bench/serve/serve.h
// With --avx2 no wider vectors are used.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/attention/request.h"
#include "bench/serve/peak.h"
#include "bench/serve/serve.h"
#include "heed/attention.h"
#include "simd/targets.h"

namespace {

using namespace heed;
using bench::Request;

Tensor noise(const Dims& shape, DType dtype) {
  const Tensor t = Tensor::empty(shape);
  uint32_t state = 1;
  for (float& x : t.span<float>()) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) * 0x1p-23f - 1;
  }
  return t.to(dtype);
}

// Everything that the calls of a request share, made once.
struct Operands {
  Tensor q, k, v, grad_out;
  AttentionOptions options;
  AttentionResult into;
  AttentionGradients gradients;
  Workspace workspace;
};

std::function<void()> prepare(const Request& r) {
  const DType dtype = r.dtype == "f16" ? DType::f16 : r.dtype == "bf16" ? DType::bf16 : DType::f32;
  const auto all = std::make_shared<Operands>();
  AttentionOptions& o = all->options;
  if (r.causal) o.causal = Causal::bottom_right;
  if (r.window > 0) {
    o.window.left = r.window - 1;
    o.offset = r.Lk - r.Lq;
  }
  o.want_lse = r.backward;
  o.dropout = r.dropout;
  if (r.workspace) o.workspace = &all->workspace;
  Dims q{r.B, r.Hq, r.Lq, r.D}, k{r.B, r.Hkv, r.Lk, r.D}, lse{r.B, r.Hq, r.Lq};
  if (!r.lengths.empty()) {
    std::vector<int64_t> offsets{0};
    for (const int64_t n : r.lengths) offsets.push_back(offsets.back() + n);
    o.q_offsets = o.k_offsets = Tensor::from(offsets, {static_cast<int64_t>(offsets.size())});
    q = {offsets.back(), r.Hq, r.D};
    k = {offsets.back(), r.Hkv, r.D};
    lse = {r.Hq, offsets.back()};
  }
  all->q = noise(q, dtype), all->k = noise(k, dtype), all->v = noise(k, dtype);
  all->into.out = Tensor::empty(q, dtype);
  if (r.backward) {
    all->grad_out = noise(q, dtype);
    all->into.lse = Tensor::empty(lse);
    all->gradients = {Tensor::empty(q, dtype), Tensor::empty(k, dtype), Tensor::empty(k, dtype), {}, {}};
  }
  return [all, backward = r.backward] {
    attention(all->q, all->k, all->v, all->into, all->options);
    if (backward) attention_backward(all->grad_out, all->q, all->k, all->v, all->into, all->gradients, all->options);
  };
}

void run(benchmark::State& state, const Request& request) {
  const std::function<void()> call = prepare(request);
  call();
  const double peak_before = bench::multiply_add_peak(threads()).a_cpu_second, start = bench::cpu_seconds();
  for (auto _ : state) call();
  const double spent = bench::cpu_seconds() - start;
  const double peak = peak_before + bench::multiply_add_peak(threads()).a_cpu_second;  // two flop each, of their mean
  const double rate = request.flop() * static_cast<double>(state.iterations()) / spent;
  state.counters["GFLOP/CPUs"] = 1e-9 * rate;
  state.counters["%peak"] = 100 * rate / peak;
}

std::string name_of(const Request& r) {
  std::string name = r.backward ? "forward+backward/" : "forward/";
  name += std::to_string(r.B) + "x" + std::to_string(r.Hq) + "x";
  if (r.Lq != r.Lk) name += std::to_string(r.Lq) + "x";
  name += std::to_string(r.Lk) + "x" + std::to_string(r.D);
  if (r.causal) name += "/causal";
  if (r.window > 0) name += "/window:" + std::to_string(r.window);
  if (!r.lengths.empty()) name += "/ragged";
  if (r.dtype != "f32") name += "/" + r.dtype;
  return name;
}

Request square(int64_t B, int64_t H, int64_t L, int64_t D, bool causal = false, int64_t window = -1) {
  return {.B = B, .Hq = H, .Hkv = H, .Lq = L, .Lk = L, .D = D, .causal = causal, .window = window};
}

std::vector<Request> cases() {
  Request ragged = square(400, 4, 10, 64);
  for (int64_t b = 0; b < ragged.B; ++b) ragged.lengths.push_back(10 - b % 5);
  std::vector<Request> all = {
      square(1, 8, 512, 64),
      square(1, 8, 512, 64, true),
      square(1, 8, 2048, 64),
      square(1, 8, 2048, 64, true),
      square(1, 8, 2048, 128),
      square(1, 8, 8192, 64, true, 256),
      square(8, 8, 128, 64),
      square(16, 4, 10, 64),  // stays in the second-level cache
      square(400, 4, 10, 64),
      ragged,
      square(400, 4, 10, 64, true),
      square(300, 4, 20, 48),
      {.B = 1, .Hq = 32, .Hkv = 8, .Lq = 1, .Lk = 4096, .D = 128},
  };
  const size_t forward = all.size() - 1;
  for (size_t i = 0; i < forward; ++i) {
    all.push_back(all[i]);
    all.back().backward = true;
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  bool serving = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--threads=", 10) == 0) {
      set_threads(std::atoi(argv[i] + 10));
    } else if (std::strcmp(argv[i], "--avx2") == 0) {
      set_targets_for_test(supported_targets() & ~(HWY_AVX2 - 1));  // better targets have lower bits
    } else if (std::strcmp(argv[i], "--serve") == 0) {
      serving = true;
    } else {
      std::fprintf(stderr, "attention_bench: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  if (serving)
    return bench::serve("heed", HEED_BENCH_BUILD, [](const auto& request) { return prepare(bench::parse(request)); });
  std::printf("multiply-add peak, float32, %d threads: %.1f GFLOP a CPU second\n", threads(),
              2e-9 * bench::multiply_add_peak(threads()).a_cpu_second);
  for (const Request& request : cases())
    benchmark::RegisterBenchmark(name_of(request).c_str(), [request](benchmark::State& state) { run(state, request); })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  benchmark::RunSpecifiedBenchmarks();
}
