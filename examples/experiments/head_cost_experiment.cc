// What do heads cost? h narrow heads (k/h wide) are said to cost about what one head costs, h wide heads (k wide) h
// times as much. Multiply-adds are counted, time is measured: medians over runs of the forward pass and of forward and
// backward.
//
// head_cost_experiment [length] [width] [runs]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "heed/nn.h"
#include "heed/random.h"

namespace {

using namespace heed;

struct Shape {
  int64_t length, width;    // L, k
  int64_t heads, head_dim;  // narrow: head_dim = k / heads; wide: head_dim = k
};

struct Cost {
  int64_t parameters = 0;
  double multiply_adds = 0;  // of one forward pass; the softmax is not counted
  double forward_ms = 0, training_ms = 0;
};

/// The products of a layer: three projections and the one behind them, then scores and averages head by head.
double multiply_adds(const Shape& s) {
  const double length = static_cast<double>(s.length), inner = static_cast<double>(s.heads * s.head_dim);
  return 4 * length * static_cast<double>(s.width) * inner + 2 * length * length * inner;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class F>
double milliseconds(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

/// Costs of several layers. The runs take turns, so that a slow moment of the machine meets all of them.
std::vector<Cost> measure(const std::vector<Shape>& shapes, int runs) {
  manual_seed(5);
  std::vector<std::unique_ptr<MultiheadAttention>> layers;
  std::vector<Variable> inputs;  // (1, L, k)
  std::vector<Cost> costs;
  for (const Shape& s : shapes) {
    layers.push_back(std::make_unique<MultiheadAttention>(MultiheadAttentionOptions{
        .embed_dim = s.width, .num_heads = s.heads, .head_dim = s.head_dim, .bias = false, .out_bias = false}));
    inputs.emplace_back(normal({1, s.length, s.width}, 0, 1), /*requires_grad=*/true);
    costs.push_back({.parameters = layers.back()->parameter_count(), .multiply_adds = multiply_adds(s)});
  }
  std::vector<std::vector<double>> forward(shapes.size()), training(shapes.size());
  for (int run = -1; run < runs; ++run) {  // run -1 warms up
    for (size_t i = 0; i < shapes.size(); ++i) {
      const Variable& x = inputs[i];
      const double without_tape = milliseconds([&] {
        const NoGrad no_grad;
        (*layers[i])(x, x, x);
      });
      const Tensor gradient = Tensor::full(x.shape(), 1);
      const double with_backward = milliseconds([&] { (*layers[i])(x, x, x).backward(gradient); });
      if (run < 0) continue;
      forward[i].push_back(without_tape);
      training[i].push_back(with_backward);
    }
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    costs[i].forward_ms = median(forward[i]);
    costs[i].training_ms = median(training[i]);
  }
  return costs;
}

/// One head, then 2, 4 and 8 narrow ones, then as many wide ones.
std::vector<Shape> shapes_to_compare(int64_t length, int64_t width) {
  std::vector<Shape> shapes = {{length, width, 1, width}};
  for (const int64_t heads : {2, 4, 8}) shapes.push_back({length, width, heads, width / heads});
  for (const int64_t heads : {2, 4, 8}) shapes.push_back({length, width, heads, width});
  return shapes;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, long otherwise) { return argc > i ? std::strtol(argv[i], nullptr, 10) : otherwise; };
  const int64_t length = argument(1, 256), width = argument(2, 256);
  const int runs = static_cast<int>(argument(3, 9));
  if (length < 1 || width < 8 || width % 8 != 0 || runs < 1) {
    std::fprintf(stderr, "head_cost_experiment: the width is a multiple of 8, length and runs are 1 or more\n");
    return 2;
  }
  const std::vector<Shape> shapes = shapes_to_compare(length, width);
  const std::vector<Cost> costs = measure(shapes, runs);
  const Cost& one = costs.front();

  std::printf("Self-attention of %lld vectors of size %lld, %d threads, medians of %d runs\n",
              static_cast<long long>(length), static_cast<long long>(width), threads(), runs);
  std::printf("%-16s %10s %16s %18s %20s\n", "heads", "parameters", "multiply-adds", "forward", "with backward");
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::string name = std::to_string(shapes[i].heads) + " x " + std::to_string(shapes[i].head_dim);
    const Cost& c = costs[i];
    std::printf("%-16s %10lld %7.0fM (%4.2f x) %8.2f ms (%4.2f x) %8.2f ms (%4.2f x)\n", name.c_str(),
                static_cast<long long>(c.parameters), c.multiply_adds * 1e-6, c.multiply_adds / one.multiply_adds,
                c.forward_ms, c.forward_ms / one.forward_ms, c.training_ms, c.training_ms / one.training_ms);
  }
  return 0;
}
