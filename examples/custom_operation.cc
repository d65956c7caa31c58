// An operation that heed does not have, on its tape: the snake activation x + sin(a x)^2 / a (Ziyin et al. 2020,
// "Neural Networks Fail to Learn Periodic Functions", section 3), with a learned `a`, checked and put to use.
#include <cmath>
#include <cstdio>

#include "heed/functional.h"
#include "heed/nn.h"
#include "heed/optim.h"
#include "heed/random.h"

namespace {

using namespace heed;

/// x of any shape, a () shaped, float32.
Variable snake(const Variable& x, const Variable& a) {
  const Tensor in = x.value().contiguous(), out = Tensor::empty(in.shape());
  const float rate = a.value().data<float>()[0];
  for (int64_t i = 0; i < in.numel(); ++i) {
    const float s = std::sin(rate * in.data<float>()[i]);
    out.data<float>()[i] = in.data<float>()[i] + s * s / rate;
  }
  return custom_op("snake", {x, a}, out, [in, rate](const Tensor& grad, Gradients& to) {
    const Tensor dy = grad.contiguous(), dx = Tensor::empty(in.shape());
    double da = 0;
    for (int64_t i = 0; i < in.numel(); ++i) {
      const float v = in.data<float>()[i], g = dy.data<float>()[i], s = std::sin(rate * v);
      const float slope = std::sin(2 * rate * v);  // d sin(av)^2 / d(av)
      dx.data<float>()[i] = g * (1 + slope);
      da += static_cast<double>(g * (v * slope / rate - s * s / (rate * rate)));
    }
    if (to.wanted(0)) to.set(0, dx);
    if (to.wanted(1)) to.set(1, Tensor::full({}, da));
  });
}

/// y = w2 snake(w1 x + b1) + b2
struct Wave : Module {
  Wave() : first(1, 16), second(16, 1), a(register_parameter("a", Tensor::full({}, 1))) {
    register_module("first", first);
    register_module("second", second);
  }
  Variable operator()(const Variable& x) const { return second(snake(first(x), a)); }
  Linear first, second;
  Variable a;
};

}  // namespace

int main() {
  // Its derivative against a difference.
  const float x = 0.4f, h = 1e-2f;
  const auto at = [](float v, bool wanted) { return Variable(Tensor::full({}, static_cast<double>(v)), wanted); };
  const Variable leaf = at(x, true), rate = at(1.5f, true);
  snake(leaf, rate).backward();
  const double difference =
      (snake(at(x + h, false), rate).value().item() - snake(at(x - h, false), rate).value().item()) / (2.0 * h);
  std::printf("derivative %.4f, by differences %.4f\n", leaf.grad().item(), difference);

  // It learns a sine from 64 points.
  manual_seed(3);
  Wave wave;
  ParameterArena arena(wave);
  AdamW adam(arena, {});
  Tensor points = Tensor::empty({64, 1}), targets = Tensor::empty({64, 1});
  for (int64_t i = 0; i < 64; ++i) {
    const double t = static_cast<double>(i) / 8 - 4;
    points.at<float>(i, 0) = static_cast<float>(t);
    targets.at<float>(i, 0) = static_cast<float>(-std::sin(2 * t));  // what is added to the output
  }
  for (int step = 0; step <= 600; ++step) {
    const Variable error = functional::add(wave(Variable(points)), Variable(targets));
    const Variable loss = functional::scale(functional::sum(functional::multiply(error, error)), 1.0 / 64);
    if (step % 200 == 0) std::printf("step %d: mean square error %.4f\n", step, loss.value().item());
    wave.zero_grad();
    loss.backward();
    adam.step(0.01);
  }
}
