// y = w x with w = (1, 2), x = (3, 4): y is 11 and dy/dw is x. Then a product large enough to be cut into tiles.
#include <heed/functional.h>
#include <heed/io.h>

#include <cstdio>

int main() {
  const heed::Variable w(heed::Tensor::from({1.0, 2.0}, {1, 2}), true);
  const heed::Variable x(heed::Tensor::from({3.0, 4.0}, {1, 2}));
  const heed::Variable y = heed::functional::sum(heed::functional::linear(x, w));
  y.backward();
  const bool gradient = w.grad().at<double>(0, 0) == 3 && w.grad().at<double>(0, 1) == 4;

  const heed::Variable ones(heed::Tensor::full({300, 200}, 1));
  const heed::Variable product = heed::functional::linear(ones, ones);  // (300, 300), each 200
  const bool tiles = heed::functional::sum(product).value().item() == 300.0 * 300 * 200;

  heed::save_npy("consumer.npy", w.value());
  const bool file = heed::load_npy("consumer.npy").tensor.at<double>(0, 1) == 2;
  std::printf("nn %g\n", y.value().item());
  return y.value().item() == 11 && gradient && tiles && file ? 0 : 1;
}
