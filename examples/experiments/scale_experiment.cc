// Does training stall without the factor 1/sqrt(d)? Two measurements:
//   1. dot products of random vectors of size d: their mean and deviation, and what a softmax lets through;
//   2. one attention layer taught to reverse a sequence, with and without the factor, from the same values and on the
//      same data, by gradient descent and by Adam, at several learning rates.
//
// scale_experiment [steps] [head size]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "heed/nn.h"
#include "heed/optim.h"
#include "heed/random.h"

namespace {

using namespace heed;
namespace F = functional;

constexpr int64_t kVocabulary = 16, kLength = 16, kWidth = 64, kBatch = 16;

// ------------------------------------------------------------------------------------------- 1. dot products

struct DotProducts {
  double mean = 0, deviation = 0;  // of q . k
  double largest = 0;              // the largest weight of a row, averaged
  double jacobian = 0;             // |diag(w) - w w^T|, the Frobenius norm of the softmax's derivative, averaged
};

/// Softmax over the rows of factor * q k^T, q and k (rows, d) of independent unit normal numbers.
DotProducts dot_products(int64_t d, double factor, int64_t rows = 256) {
  manual_seed(1);
  const Tensor q = normal({1, 1, rows, d}, 0, 1, DType::f64), k = normal({1, 1, 16, d}, 0, 1, DType::f64);
  const Tensor w = attention(q, k, k, {.scale = factor, .want_weights = true}).weights.reshape({rows, 16});
  DotProducts result;
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < rows; ++i) {
    double largest = 0, of_squares = 0, of_cubes = 0;
    for (int64_t j = 0; j < 16; ++j) {
      double dot = 0;
      for (int64_t l = 0; l < d; ++l) dot += q.at<double>(0, 0, i, l) * k.at<double>(0, 0, j, l);
      sum += dot;
      squares += dot * dot;
      const double p = w.at<double>(i, j);
      largest = std::max(largest, p);
      of_squares += p * p;
      of_cubes += p * p * p;
    }
    result.largest += largest / static_cast<double>(rows);
    // The sum over i, j of (w_i [i = j] - w_i w_j)^2 is s2 - 2 s3 + s2^2, s_n the sum of w^n.
    const double square = of_squares - 2 * of_cubes + of_squares * of_squares;  // may round to below 0
    result.jacobian += std::sqrt(std::max(0.0, square)) / static_cast<double>(rows);
  }
  const double n = static_cast<double>(rows * 16);
  result.mean = sum / n;
  result.deviation = std::sqrt(squares / n - result.mean * result.mean);
  return result;
}

// ---------------------------------------------------------------------------------------------- 2. training

/// Tokens and their places -> one attention head -> feed-forward -> a token for each place.
struct Reverser : Module {
  Reverser(int64_t d, bool scaled)
      : embed(kVocabulary, kWidth),
        to_q(kWidth, d, false),
        to_k(kWidth, d, false),
        to_v(kWidth, d, false),
        mix(d, kWidth),
        feed_forward(kWidth, 2 * kWidth),
        classify(kWidth, kVocabulary),
        head_size(d),
        scale(scaled ? 1 / std::sqrt(static_cast<double>(d)) : 1) {
    register_module("embed", embed);
    register_module("to_q", to_q);
    register_module("to_k", to_k);
    register_module("to_v", to_v);
    register_module("mix", mix);
    register_module("", feed_forward);
    register_module("classify", classify);
    // The case the factor was made for: normalised inputs and these weights give q and k of variance 1.
    for (const Linear* projection : {&to_q, &to_k, &to_v})
      projection->weight.value().copy_from(normal({d, kWidth}, 0, 1 / std::sqrt(double{kWidth})));
  }

  /// ids (B, L) int32 -> logits (B * L, vocabulary)
  Variable operator()(const Tensor& ids) const {
    const Tensor places =
        SinusoidalPositions(kWidth).rows(0, kLength, DType::f32).expand({ids.size(0), kLength, kWidth});
    const Variable x = F::layer_norm(F::add(embed(ids), Variable(places.contiguous())), {}, {});
    const auto head = [&](const Variable& y) { return F::PackedHeads{.x = y, .size = head_size}; };
    const Variable attended = F::packed_attention(head(to_q(x)), head(to_k(x)), head(to_v(x)), {.scale = scale});
    const Variable h = F::layer_norm(F::add(x, mix(attended)), {}, {});
    const Variable y = F::layer_norm(F::add(h, feed_forward(h)), {}, {});
    return F::reshape(classify(y), {ids.size(0) * kLength, kVocabulary});
  }

  Embedding embed;
  Linear to_q, to_k, to_v, mix;
  FeedForward feed_forward;
  Linear classify;
  int64_t head_size;
  double scale;
};

struct Batch {
  Tensor ids;      // (B, L) int32
  Tensor targets;  // (B * L) int32: each sequence backwards
};

Batch draw_batch() {
  const Tensor drawn = uniform({kBatch, kLength}, 0, double{kVocabulary}, DType::f64);
  const Batch batch = {Tensor::empty({kBatch, kLength}, DType::i32), Tensor::empty({kBatch * kLength}, DType::i32)};
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t i = 0; i < kLength; ++i) {
      const auto id = static_cast<int32_t>(drawn.at<double>(b, i));
      batch.ids.at<int32_t>(b, i) = id;
      batch.targets.at<int32_t>(b * kLength + kLength - 1 - i) = id;
    }
  }
  return batch;
}

enum class Optimiser { gradient_descent, adam };

struct Observation {
  double loss = 0, norm = 0;  // of the batch; of all gradients
  double query_key_norm = 0;  // of the gradients of to_q and to_k alone, which learn through the softmax only
};

/// One observation a step, taken before the step's update.
std::vector<Observation> train(int64_t d, bool scaled, Optimiser optimiser, double rate, int64_t steps) {
  manual_seed(2);
  Reverser model(d, scaled);
  ParameterArena arena(model);
  AdamW adam(arena, {.beta2 = 0.999, .epsilon = 1e-8});
  const std::span<float> values = arena.values().span<float>(), gradients = arena.gradients().span<float>();
  std::vector<Observation> seen;
  for (int64_t step = 0; step < steps; ++step) {
    const Batch batch = draw_batch();
    arena.zero_gradients();
    const Variable loss = F::cross_entropy(model(batch.ids), batch.targets);
    loss.backward();
    Observation now{.loss = loss.value().item(), .norm = arena.gradient_norm()};
    double squares = 0;
    for (const Linear* projection : {&model.to_q, &model.to_k})
      for (const float g : projection->weight.grad().span<float>()) squares += double{g} * g;
    now.query_key_norm = std::sqrt(squares);
    seen.push_back(now);
    if (optimiser == Optimiser::adam) {
      adam.step(rate);
    } else {
      for (size_t i = 0; i < values.size(); ++i) values[i] -= static_cast<float>(rate) * gradients[i];
    }
  }
  return seen;
}

/// The mean over the last tenth of a run: one batch alone is noisy.
double final_loss(const std::vector<Observation>& run) {
  const size_t last = std::max<size_t>(1, run.size() / 10);
  double sum = 0;
  for (size_t i = run.size() - last; i < run.size(); ++i) sum += run[i].loss;
  return sum / static_cast<double>(last);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::max(4L, std::strtol(argv[1], nullptr, 10)) : 200;
  const int64_t d = argc > 2 ? std::max(1L, std::strtol(argv[2], nullptr, 10)) : 64;

  std::printf(
      "Dot products of unit normal vectors, softmax over 16 of them\n"
      "%6s %8s %10s | %20s | %20s\n%6s %8s %10s | %9s %10s | %9s %10s\n",
      "", "", "", "as they are", "times 1/sqrt(d)", "d", "mean", "deviation", "largest", "derivative", "largest",
      "derivative");
  for (const int64_t n : {4, 16, 64, 256, 1024}) {
    const DotProducts raw = dot_products(n, 1), scaled = dot_products(n, 1 / std::sqrt(static_cast<double>(n)));
    std::printf("%6lld %8.2f %10.2f | %9.3f %10.4f | %9.3f %10.4f\n", static_cast<long long>(n), raw.mean,
                raw.deviation, raw.largest, raw.jacobian, scaled.largest, scaled.jacobian);
  }

  std::printf(
      "\nReversing %lld tokens out of %lld with one head of size %lld; guessing costs %.3f\n"
      "%-16s %6s %-9s | %-31s | %-31s | %s\n%-33s |",
      static_cast<long long>(kLength), static_cast<long long>(kVocabulary), static_cast<long long>(d),
      std::log(double{kVocabulary}), "optimiser", "rate", "scale", "loss at step", "gradient norm of W_q, W_k",
      "loss at the end (gradient norm)", "");
  const int64_t at[] = {0, steps / 4, steps / 2, steps - 1};
  for (int group = 0; group < 2; ++group) {
    for (const int64_t step : at) std::printf(" %7lld", static_cast<long long>(step + 1));
    std::printf(" |");
  }
  std::printf("\n");
  for (const Optimiser optimiser : {Optimiser::gradient_descent, Optimiser::adam}) {
    const bool adam = optimiser == Optimiser::adam;
    for (const double rate : adam ? std::vector{0.0003, 0.001, 0.003, 0.01} : std::vector{0.03, 0.1, 0.3, 1.0}) {
      for (const bool scaled : {true, false}) {
        const std::vector<Observation> run = train(d, scaled, optimiser, rate, steps);
        std::printf("%-16s %6.4f %-9s |", adam ? "Adam" : "gradient descent", rate, scaled ? "1/sqrt(d)" : "1");
        for (const int64_t step : at) std::printf(" %7.3f", run[static_cast<size_t>(step)].loss);
        std::printf(" |");
        for (const int64_t step : at) std::printf(" %7.4f", run[static_cast<size_t>(step)].query_key_norm);
        std::printf(" | %7.3f (%.3f)\n", final_loss(run), run.back().norm);
      }
    }
  }
  return 0;
}
