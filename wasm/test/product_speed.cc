// How fast products are in WebAssembly, under node: GFLOP/s of y = x W^T for some numbers of rows, W in float and in
// float16.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "heed/executor.h"
#include "heed/tensor.h"
#include "kernels/linear.h"

using namespace heed;

template <class W>
void measure(const char* name, int64_t rows, int64_t in, int64_t out) {
  const std::vector<float> x(static_cast<size_t>(rows * in), 0.5F);
  const std::vector<W> w(static_cast<size_t>(in * out));
  std::vector<float> y(static_cast<size_t>(rows * out));
  double best = 1e9;
  for (int run = 0; run < 20; ++run) {
    const int calls = static_cast<int>(std::max<int64_t>(1, 20'000'000 / (rows * in * out)));
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i)
      linear_forward<float>(x.data(), w.data(), nullptr, y.data(), rows, in, out, default_executor(), false);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() / calls);
  }
  std::printf("%4d x %d -> %d, %s: %.1f GFLOP/s\n", static_cast<int>(rows), static_cast<int>(in), static_cast<int>(out),
              name, 2e-9 * static_cast<double>(rows * in * out) / best);
}

int main() {
  for (const int64_t rows : {1, 4, 16, 128, 384}) {
    measure<float>("float", rows, 256, 512);
    measure<float16>("float16", rows, 256, 512);
  }
}
