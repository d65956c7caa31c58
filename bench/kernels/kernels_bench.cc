// Kernels of training at the shapes of a small Transformer: 4,096 tokens, width 256, feed-forward 512, vocabulary
// 2,400. Rates are per second of CPU time of the whole process, that is of one core: they hold on a machine that is not
// idle.
#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <vector>

#include "heed/executor.h"
#include "heed/rotary.h"
#include "kernels/activation.h"
#include "kernels/adamw.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/norm.h"
#include "kernels/softmax.h"

namespace heed {
namespace {

constexpr int64_t kTokens = 4096, kWidth = 256, kVocabulary = 2400;

std::vector<float> normals(int64_t n) {
  std::mt19937 bits(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(bits);
  return values;
}

void report(benchmark::State& state, const char* name, double per_iteration) {
  state.counters[name] =
      benchmark::Counter(per_iteration * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

// ---- Products ----

// Arguments: rows, in, out, threads.
void linear_gradient(benchmark::State& state) {
  const int64_t rows = state.range(0), in = state.range(1), out = state.range(2);
  const auto executor = make_executor(static_cast<int>(state.range(3)));
  const std::vector<float> dy = normals(rows * out), x = normals(rows * in), w = normals(in * out);
  std::vector<float> dx(x.size()), dw(w.size()), dbias(static_cast<size_t>(out));
  for (auto _ : state) {
    linear_backward<float>(dy.data(), x.data(), w.data(), dx.data(), dw.data(), dbias.data(), rows, in, out, *executor,
                           nullptr);
    benchmark::ClobberMemory();
  }
  report(state, "FLOP/s", 4.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out));
}
BENCHMARK(linear_gradient)
    ->ArgNames({"rows", "in", "out", "threads"})
    ->ArgsProduct({{16, 64, 190, 4096}, {256}, {768}, {1, 2}})
    ->ArgsProduct({{400, 4096}, {512}, {2048}, {1, 2}})
    ->ArgsProduct({{400, 4096}, {2048}, {512}, {1, 2}})
    ->MeasureProcessCPUTime();

// ---- Passes ----

// f(executor) handles `elements` elements.
template <class F>
void pass(benchmark::State& state, int64_t elements, F&& f) {
  const auto executor = make_executor(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    f(*executor);
    benchmark::ClobberMemory();
  }
  report(state, "elements/s", static_cast<double>(elements));
}

struct Rows {
  int64_t n = kTokens * kWidth;
  std::vector<float> x = normals(n), dy = normals(n), y = normals(n), gamma = normals(kWidth), beta = normals(kWidth);
  std::vector<float> mean = normals(kTokens), rstd = normals(kTokens);
};

void layer_norm(benchmark::State& state) {
  Rows r;
  pass(state, r.n, [&](Executor& ex) {
    layer_norm_forward<float>(r.x.data(), r.gamma.data(), r.beta.data(), 1e-5f, r.y.data(), r.mean.data(),
                              r.rstd.data(), kTokens, kWidth, ex);
  });
}
BENCHMARK(layer_norm)->Arg(1)->Arg(2)->MeasureProcessCPUTime();

void layer_norm_gradient(benchmark::State& state) {
  Rows r;
  std::vector<float> dgamma(kWidth), dbeta(kWidth);
  pass(state, r.n, [&](Executor& ex) {
    layer_norm_backward<float>(r.dy.data(), r.x.data(), r.gamma.data(), r.mean.data(), r.rstd.data(), r.y.data(),
                               dgamma.data(), dbeta.data(), kTokens, kWidth, ex);
  });
}
BENCHMARK(layer_norm_gradient)->Arg(1)->Arg(2)->MeasureProcessCPUTime();

template <Activation kind>
void activation(benchmark::State& state) {
  Rows r;
  pass(state, r.n, [&](Executor& ex) { activation_forward<float>(kind, r.x.data(), r.y.data(), r.n, ex); });
}
BENCHMARK_TEMPLATE(activation, Activation::relu)->Arg(1)->MeasureProcessCPUTime();
BENCHMARK_TEMPLATE(activation, Activation::gelu)->Arg(1)->MeasureProcessCPUTime();
BENCHMARK_TEMPLATE(activation, Activation::gelu_tanh)->Arg(1)->MeasureProcessCPUTime();
BENCHMARK_TEMPLATE(activation, Activation::silu)->Arg(1)->MeasureProcessCPUTime();

template <Activation kind>
void activation_gradient(benchmark::State& state) {
  Rows r;
  pass(state, r.n,
       [&](Executor& ex) { activation_backward<float>(kind, r.dy.data(), r.x.data(), r.y.data(), r.n, ex); });
}
BENCHMARK_TEMPLATE(activation_gradient, Activation::relu)->Arg(1)->MeasureProcessCPUTime();
BENCHMARK_TEMPLATE(activation_gradient, Activation::gelu)->Arg(1)->MeasureProcessCPUTime();
BENCHMARK_TEMPLATE(activation_gradient, Activation::gelu_tanh)->Arg(1)->MeasureProcessCPUTime();
BENCHMARK_TEMPLATE(activation_gradient, Activation::silu)->Arg(1)->MeasureProcessCPUTime();

void swiglu(benchmark::State& state) {
  Rows r;
  pass(state, r.n / 2,
       [&](Executor& ex) { gated_forward<float>(Activation::silu, r.x.data(), r.y.data(), kTokens, kWidth / 2, ex); });
}
BENCHMARK(swiglu)->Arg(1)->MeasureProcessCPUTime();

void swiglu_gradient(benchmark::State& state) {
  Rows r;
  pass(state, r.n / 2, [&](Executor& ex) {
    gated_backward<float>(Activation::silu, r.dy.data(), r.x.data(), r.y.data(), kTokens, kWidth / 2, ex);
  });
}
BENCHMARK(swiglu_gradient)->Arg(1)->MeasureProcessCPUTime();

void dropout_add(benchmark::State& state) {
  Rows r;
  pass(state, r.n,
       [&](Executor& ex) { dropout_add_forward<float>(r.x.data(), r.dy.data(), r.y.data(), r.n, 0.1, 1, 2, ex); });
}
BENCHMARK(dropout_add)->Arg(1)->Arg(2)->MeasureProcessCPUTime();

void sum_of_squares(benchmark::State& state) {
  Rows r;
  pass(state, r.n, [&](Executor& ex) { benchmark::DoNotOptimize(heed::sum_of_squares(r.x.data(), r.n, ex)); });
}
BENCHMARK(sum_of_squares)->Arg(1)->MeasureProcessCPUTime();

void accumulate(benchmark::State& state) {
  Rows r;
  pass(state, r.n, [&](Executor& ex) { heed::accumulate(r.x.data(), r.y.data(), r.n, ex); });
}
BENCHMARK(accumulate)->Arg(1)->MeasureProcessCPUTime();

void all_finite(benchmark::State& state) {
  Rows r;
  pass(state, r.n, [&](Executor& ex) { benchmark::DoNotOptimize(heed::all_finite(r.x.data(), r.n, ex)); });
}
BENCHMARK(all_finite)->Arg(1)->MeasureProcessCPUTime();

void embedding_gradient(benchmark::State& state) {
  Rows r;
  std::vector<int32_t> ids(kTokens);
  std::mt19937 bits(1);
  for (int32_t& id : ids) id = static_cast<int32_t>(bits() % kVocabulary);
  std::vector<float> dtable(kVocabulary * kWidth);
  pass(state, r.n, [&](Executor& ex) {
    embedding_backward<float>(ids.data(), r.dy.data(), 16, dtable.data(), kTokens, kWidth, ex);
  });
}
BENCHMARK(embedding_gradient)->Arg(1)->Arg(2)->MeasureProcessCPUTime();

void softmax(benchmark::State& state) {
  Rows r;
  pass(state, r.n, [&](Executor& ex) { softmax_forward<float>(r.x.data(), r.y.data(), kTokens, kWidth, ex); });
}
BENCHMARK(softmax)->Arg(1)->MeasureProcessCPUTime();

void adamw(benchmark::State& state) {
  Rows r;
  std::vector<float> v(r.x.size(), 1);
  const AdamWOptions options{.learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-9, .weight_decay = 0.01};
  pass(state, r.n, [&](Executor& ex) {
    adamw_step<float>(r.x.data(), r.dy.data(), r.y.data(), v.data(), r.n, 10, options, 1, ex);
  });
}
BENCHMARK(adamw)->Arg(1)->Arg(2)->MeasureProcessCPUTime();

void rotary_turn(benchmark::State& state) {
  Rows r;
  const Dims shape{kTokens / 128, kWidth / 64, 128, 64}, strides{128 * kWidth, 64, kWidth, 1};
  const Tensor x = Tensor::borrow(r.x.data(), DType::f32, shape, strides);
  const Tensor y = Tensor::borrow(r.y.data(), DType::f32, shape, strides);
  pass(state, r.n, [&](Executor& ex) { rotary(x, y, {.executor = &ex}); });
}
BENCHMARK(rotary_turn)->Arg(1)->MeasureProcessCPUTime();

// Elements are logits: forward and all three gradients.
void linear_cross_entropy(benchmark::State& state) {
  Rows r;
  const std::vector<float> w = normals(kVocabulary * kWidth);
  std::vector<float> dw(w.size()), dbias(kVocabulary), bias(kVocabulary);
  const std::vector<int32_t> targets(kTokens, 7);
  pass(state, kTokens * kVocabulary, [&](Executor& ex) {
    heed::linear_cross_entropy<float>(r.x.data(), w.data(), bias.data(), targets.data(), -100, 0.1, 0, r.y.data(),
                                      dw.data(), dbias.data(), 1, kTokens, kWidth, kVocabulary, ex);
  });
}
BENCHMARK(linear_cross_entropy)->Arg(1)->Arg(2)->MeasureProcessCPUTime();

// Elements are logits: forward and backward without the products.
void cross_entropy(benchmark::State& state) {
  const int64_t rows = 512;
  const std::vector<float> logits = normals(rows * kVocabulary);
  std::vector<RowLogSum<float>> log_sums(rows);
  std::vector<float> d(logits.size());
  const std::vector<int32_t> targets(rows, 7);
  pass(state, rows * kVocabulary, [&](Executor& ex) {
    cross_entropy_forward<float>(logits.data(), targets.data(), -100, 0.1, log_sums.data(), rows, kVocabulary, ex);
    cross_entropy_backward<float>(logits.data(), targets.data(), -100, 0.1, log_sums.data(), 1, d.data(), rows,
                                  kVocabulary, ex);
  });
}
BENCHMARK(cross_entropy)->Arg(1)->MeasureProcessCPUTime();

}  // namespace
}  // namespace heed

BENCHMARK_MAIN();
