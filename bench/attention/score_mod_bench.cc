// What lambdas cost: every score function and mask of examples/score_functions.h over what heed has built in for the
// same, in turns, forward and forward + backward, float32. Built twice, for the flags of whoever writes the lambda.
//   score_mod_bench [--threads=N] [--rounds=N] [--length=L] [--only=NAME]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "examples/score_functions.h"

namespace {

using namespace heed;

constexpr int32_t kHeads = 8;

struct Settings {
  int rounds = 15;
  int32_t length = 2048;
  std::string only;
};

Tensor noise(const Dims& shape) {
  const Tensor t = Tensor::empty(shape);
  uint32_t state = 1;
  for (float& x : t.span<float>()) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) * 0x1p-23f - 1;
  }
  return t;
}

std::vector<float> numbers(int64_t n) {
  const Tensor t = noise({n});
  return {t.data<float>(), t.data<float>() + n};
}

/// One shape with all that its calls read and write.
class Calls {
 public:
  explicit Calls(int32_t L) : length_(L), lse_(Tensor::empty({1, kHeads, L})) {}

  double seconds(AttentionOptions options, bool backward) {
    options.workspace = &workspace_;
    AttentionResult into;
    into.out = out_, into.lse = lse_;
    const auto start = std::chrono::steady_clock::now();
    attention(q_, k_, v_, into, options);
    if (backward) attention_backward(grad_, q_, k_, v_, into, gradients_, options);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  Tensor tensor() const { return noise({1, kHeads, length_, 64}); }
  int32_t length_;
  Tensor q_ = tensor(), k_ = tensor(), v_ = tensor(), grad_ = tensor(), out_ = tensor(), lse_;
  AttentionGradients gradients_{tensor(), tensor(), tensor(), {}, {}};
  Workspace workspace_;
};

double quantile(std::vector<double> x, double share) {
  std::sort(x.begin(), x.end());
  return x[static_cast<size_t>(share * static_cast<double>(x.size() - 1) + 0.5)];
}

void row(const Settings& settings, Calls& calls, const char* name, const char* twin, const AttentionOptions& a,
         const AttentionOptions& b) {
  if (!settings.only.empty() && settings.only != name) return;
  std::printf("%-20s %-8s", name, twin);
  for (const bool backward : {false, true}) {
    calls.seconds(a, backward), calls.seconds(b, backward);
    std::vector<double> ratios, times;
    for (int round = 0; round < settings.rounds; ++round) {
      // Each is first as often as second.
      const double before = round % 2 == 0 ? calls.seconds(a, backward) : 0;
      const double other = calls.seconds(b, backward);
      const double own = round % 2 == 0 ? before : calls.seconds(a, backward);
      ratios.push_back(own / other);
      times.push_back(own);
    }
    std::printf(" | %8.2f ms  %5.3f (%5.3f - %5.3f)", 1e3 * quantile(times, 0.5), quantile(ratios, 0.5),
                quantile(ratios, 0.25), quantile(ratios, 0.75));
  }
  std::printf("\n");
}

/// The pairs that f shows, as a boolean mask (L, L).
template <class F>
AttentionOptions shown(const F& f, int32_t L) {
  const Tensor mask = Tensor::empty({L, L}, DType::boolean);
  for (int32_t i = 0; i < L; ++i)
    for (int32_t j = 0; j < L; ++j) mask.at<bool>(i, j) = f(ScoreAt{0, 0, i, j});
  return {.mask = mask};
}

void run(const Settings& settings) {
  using namespace examples;
  const int32_t L = settings.length;
  const auto mod = [](const auto& f) { return AttentionOptions{.score_mod = score_mod(f)}; };
  const auto mask = [L](const auto& f) { return AttentionOptions{.block_mask = block_mask(f, 1, 1, L, L)}; };
  Calls calls(L);
  std::printf("1 x %d x %d x 64, %d threads, compiled with %s; median (quartiles) of %d ratios\n", kHeads, L, threads(),
              HEED_BENCH_BUILD, settings.rounds);
  std::printf("%-20s %-8s | %-33s | %s\n", "function", "over", "forward", "forward + backward");

  const AttentionOptions none;
  row(settings, calls, "none", "none", none, none);
  const std::vector<float> slopes = alibi_slopes<float>(kHeads);
  row(settings, calls, "alibi", "alibi", mod(alibi(slopes)), {.alibi = Tensor::from(slopes, {kHeads})});
  row(settings, calls, "softcap", "softcap", mod(softcap(30)), {.softcap = 30});
  const auto relative = relative_bias(numbers(kHeads * (2 * L - 1)), L, L);
  row(settings, calls, "relative", "none", mod(relative), none);
  row(settings, calls, "relative", "mask", mod(relative), {.mask = noise({kHeads, L, L})});
  for (const bool bidirectional : {false, true})
    row(settings, calls, bidirectional ? "t5-bidirectional" : "t5-causal", "none",
        mod(t5_bias(numbers(32 * kHeads), kHeads, L, L, bidirectional)), none);
  const auto heads = head_bias(std::vector<float>(kHeads, 1.0f), numbers(kHeads * L), L);
  row(settings, calls, "head-bias", "mask", mod(heads), {.mask = noise({kHeads, 1, L})});

  std::vector<int32_t> ids(index(L));
  for (int32_t i = 0; i < L; ++i) ids[index(i)] = i / 300;
  row(settings, calls, "documents", "mask", mask(documents(ids)), shown(documents(ids), L));
  row(settings, calls, "prefix", "mask", mask(prefix(L / 8)), shown(prefix(L / 8), L));
  row(settings, calls, "window", "window", mask(window(L / 8, 0)), {.window = {L / 8, 0}});
  row(settings, calls, "dilated", "mask", mask(dilated(L / 4, 4)), shown(dilated(L / 4, 4), L));
  row(settings, calls, "block-sparse", "mask", mask(block_sparse(8)), shown(block_sparse(8), L));
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto value = [&](std::string_view flag) {
      return argument.starts_with(flag) ? argv[i] + flag.size() : nullptr;
    };
    if (const char* threads = value("--threads=")) {
      set_threads(std::atoi(threads));
    } else if (const char* rounds = value("--rounds=")) {
      settings.rounds = std::max(1, std::atoi(rounds));
    } else if (const char* length = value("--length=")) {
      settings.length = std::max(1, std::atoi(length));
    } else if (const char* only = value("--only=")) {
      settings.only = only;
    } else {
      std::fprintf(stderr, "score_mod_bench: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  run(settings);
}
