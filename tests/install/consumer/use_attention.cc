// One query over two keys whose scores are 0 and log 3: the weights are 1/4 and 3/4.
#include <heed/attention.h>

#include <cmath>
#include <cstdio>

int main() {
  const heed::Tensor q = heed::Tensor::from({1.0, 0.0}, {1, 1, 1, 2});
  const heed::Tensor k = heed::Tensor::from({0.0, 5.0, std::log(3.0), -5.0}, {1, 1, 2, 2});
  const heed::Tensor v = heed::Tensor::from({8.0, -4.0}, {1, 1, 2, 1});
  const double out = heed::Tensor(heed::attention(q, k, v, {.scale = 1})).item();
  std::printf("attention %.12f\n", out);
  return std::abs(out - (8 * 0.25 - 4 * 0.75)) < 1e-12 ? 0 : 1;
}
