// The score functions and masks of score_functions.h at work, in double: each beside what heed has built in for the
// same, forward and backward; then the gradients of learned parameters beside finite differences.
#include "score_functions.h"

#include <cstdio>
#include <random>
#include <string>

#include "tools.h"

namespace {

using namespace heed;
using examples::largest_difference;

constexpr int32_t kHeads = 4, kLength = 200;

Tensor noise(const Dims& shape, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  const Tensor t = Tensor::empty(shape, DType::f64);
  for (double& x : t.span<double>()) x = normal(generator);
  return t;
}

std::vector<double> numbers(int64_t n, uint64_t seed) {
  const Tensor t = noise({n}, seed);
  return {t.data<double>(), t.data<double>() + n};
}

struct Inputs {
  Tensor q = noise({2, kHeads, kLength, 16}, 1);    // (B, H, L, D)
  Tensor k = noise({2, 2, kLength, 16}, 2);         // (B, Hkv, L, D)
  Tensor v = noise({2, 2, kLength, 8}, 3);          // (B, Hkv, L, Dv)
  Tensor grad = noise({2, kHeads, kLength, 8}, 4);  // of the output
};

struct Both {
  AttentionResult result;
  AttentionGradients gradients;
};

Both run(const Inputs& in, AttentionOptions options, const BackwardOptions& backward = {}) {
  options.want_lse = true;
  Both both{attention(in.q, in.k, in.v, options), {}};
  both.gradients = attention_backward(in.grad, in.q, in.k, in.v, both.result, options, backward);
  return both;
}

/// The largest difference of the outputs, and of the gradients.
struct Apart {
  double out, gradients;
};
Apart apart(const Inputs& in, const AttentionOptions& a, const AttentionOptions& b) {
  const Both x = run(in, a), y = run(in, b);
  return {largest_difference(x.result.out, y.result.out),
          std::max({largest_difference(x.gradients.q, y.gradients.q), largest_difference(x.gradients.k, y.gradients.k),
                    largest_difference(x.gradients.v, y.gradients.v)})};
}

/// What a score function adds to a score of 0, as an additive mask (H, L, L).
template <class F>
AttentionOptions added(const F& f) {
  const Tensor mask = Tensor::empty({kHeads, kLength, kLength}, DType::f64);
  for (int32_t h = 0; h < kHeads; ++h)
    for (int32_t i = 0; i < kLength; ++i)
      for (int32_t j = 0; j < kLength; ++j)
        mask.at<double>(h, i, j) = Dual<double>(f(Dual<double>(0), ScoreAt{0, h, i, j})).value;
  return {.mask = mask};
}

/// The same pairs as a boolean mask (L, L).
template <class F>
AttentionOptions shown(const F& f) {
  const Tensor mask = Tensor::empty({kLength, kLength}, DType::boolean);
  for (int32_t i = 0; i < kLength; ++i)
    for (int32_t j = 0; j < kLength; ++j) mask.at<bool>(i, j) = f(ScoreAt{0, 0, i, j});
  return {.mask = mask};
}

/// Calls each(name, name of the twin, options, options of the twin).
template <class Each>
void each_function(const Each& each) {
  using namespace examples;
  const auto mod = [](const auto& f) { return AttentionOptions{.score_mod = score_mod(f)}; };
  const auto mask = [](const auto& f) { return AttentionOptions{.block_mask = block_mask(f, 1, 1, kLength, kLength)}; };

  const std::vector<double> slopes = alibi_slopes<double>(kHeads);
  each("ALiBi", "alibi", mod(alibi(slopes)), AttentionOptions{.alibi = Tensor::from(slopes, {kHeads})});
  each("softcap", "softcap", mod(softcap(2)), AttentionOptions{.softcap = 2});
  const auto relative = relative_bias(numbers(kHeads * (2 * kLength - 1), 5), kLength, kLength);
  each("relative bias", "mask", mod(relative), added(relative));
  for (const bool bidirectional : {false, true}) {
    const auto t5 = t5_bias(numbers(32 * kHeads, 6), kHeads, kLength, kLength, bidirectional);
    each(bidirectional ? "T5 buckets, bidirectional" : "T5 buckets, causal", "mask", mod(t5), added(t5));
  }
  const auto heads = head_bias(std::vector<double>(kHeads, 1.0), numbers(kHeads * kLength, 7), kLength);
  each("head-dependent bias", "mask", mod(heads), added(heads));

  std::vector<int32_t> ids(kLength);
  for (int32_t i = 0; i < kLength; ++i) ids[index(i)] = (i > 30) + (i > 90) + (i > 101);
  each("documents", "mask", mask(documents(ids)), shown(documents(ids)));
  each("prefix-LM", "mask", mask(prefix(50)), shown(prefix(50)));
  each("sliding window", "window", mask(window(40, 10)), AttentionOptions{.window = {40, 10}});
  each("dilated", "mask", mask(dilated(120, 4)), shown(dilated(120, 4)));
  each("block-sparse", "mask", mask(block_sparse(3)), shown(block_sparse(3)));
}

// -- Gradients of learned parameters
// -----------------------------------------------------------------------------------

double loss(const Inputs& in, const ScoreMod& mod) {
  const Tensor out = attention(in.q, in.k, in.v, {.score_mod = mod}).out.contiguous();
  double sum = 0;
  for (int64_t i = 0; i < out.numel(); ++i) sum += out.data<double>()[i] * in.grad.data<double>()[i];
  return sum;
}

/// The largest difference between `gradient` and finite differences of the loss, at parameters `step` apart.
/// with_parameters(p) makes the score function.
template <class WithParameters>
double off_differences(const Inputs& in, const std::vector<double>& parameters, const std::vector<double>& gradient,
                       const WithParameters& with_parameters, size_t step = 1) {
  double worst = 0;
  for (size_t i = 0; i < parameters.size(); i += step) {
    const auto at = [&](double h) {
      std::vector<double> moved = parameters;
      moved[i] += h;
      return loss(in, score_mod(with_parameters(moved)));
    };
    worst = std::max(worst, std::abs((at(1e-5) - at(-1e-5)) / 2e-5 - gradient[i]));
  }
  return worst;
}

struct Learned {
  std::string name;
  size_t parameters;
  double largest, off;  // gradient, and its distance from finite differences
};

/// with_parameters(p) is a score function, visitor(gradient) adds up the gradient of some `sums` numbers, and
/// finish(those) is that of the parameters.
template <class WithParameters, class Visitor, class Finish>
Learned learned(const char* name, const Inputs& in, const std::vector<double>& parameters,
                const WithParameters& with_parameters, size_t sums, const Visitor& visitor, const Finish& finish,
                size_t step = 1) {
  std::vector<double> sum(sums);
  run(in, {.score_mod = score_mod(with_parameters(parameters))}, {.visitor = visitor(std::span<double>(sum))});
  const std::vector<double> gradient = finish(sum);
  double largest = 0;
  for (const double g : gradient) largest = std::max(largest, std::abs(g));
  return {name, parameters.size(), largest, off_differences(in, parameters, gradient, with_parameters, step)};
}

std::vector<Learned> learned_parameters(const Inputs& in) {
  using namespace examples;
  const auto same = [](const std::vector<double>& gradient) { return gradient; };
  const size_t distances = kHeads * (2 * kLength - 1);
  return {
      learned(
          "ALiBi's slopes", in, alibi_slopes<double>(kHeads), [](const auto& p) { return alibi(p); }, kHeads,
          alibi_gradient, same),
      learned(
          "relative bias", in, numbers(distances, 8), [](const auto& p) { return relative_bias(p, kLength, kLength); },
          distances, [](auto sums) { return relative_bias_gradient(sums, kLength, kLength); }, same, 97),
      learned(
          "T5 buckets", in, numbers(32 * kHeads, 9),
          [](const auto& p) { return t5_bias(p, kHeads, kLength, kLength, true); }, distances,
          [](auto sums) { return relative_bias_gradient(sums, kLength, kLength); },
          [](const auto& sums) { return t5_gradient(sums, kHeads, kLength, kLength, true); }, 7)};
}

}  // namespace

int main() {
  const Inputs in;
  std::printf("%-26s %-9s %10s %10s %10s\n", "score function or mask", "built in", "out apart", "gradients", "skipped");
  each_function([&in](const char* name, const char* twin, const AttentionOptions& a, const AttentionOptions& b) {
    const Apart difference = apart(in, a, b);
    std::printf("%-26s %-9s %10.1e %10.1e", name, twin, difference.out, difference.gradients);
    if (a.block_mask)
      std::printf(" %6.0f %%\n", 100 * a.block_mask.sparsity());
    else
      std::printf("\n");
  });
  std::printf("\n%-26s %-9s %10s %10s\n", "gradient of", "numbers", "largest", "off by");
  for (const Learned& l : learned_parameters(in))
    std::printf("%-26s %-9zu %10.1e %10.1e\n", l.name.c_str(), l.parameters, l.largest, l.off);
  return 0;
}
