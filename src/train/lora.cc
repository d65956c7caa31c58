#include "heed/lora.h"

#include <cmath>
#include <map>
#include <utility>

#include "heed/random.h"
#include "train/state.h"

namespace heed::inline v0 {

void validate(const LowRankOptions& o) {
  constexpr int64_t kLargestRank = 1 << 16;
  if (o.rank < 1 || o.rank > kLargestRank)
    throw ShapeError("lora: rank is " + std::to_string(o.rank) + "; it must be in 1.." + std::to_string(kLargestRank));
  if (!(o.alpha > 0) || !std::isfinite(o.alpha))
    throw ShapeError("lora: alpha is " + std::to_string(o.alpha) + "; it must be above 0");
}

// The matrix of the model, what its rows were, and what is added to them.
struct LowRankAdapters::Layer {
  Variable matrix;
  int64_t begin, end;
  Tensor original;  // (out, in)
  Variable a, b;    // (rank, in), (out, rank)
};

namespace {

bool trainable(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

Tensor transposed(const Tensor& x) { return x.transpose(0, 1).contiguous(); }

// x y, without a tape.
Tensor product(const Tensor& x, const Tensor& y) {
  const NoGrad no_grad;
  return functional::linear(Variable(x), Variable(transposed(y))).value();
}

Tensor scaled(const Tensor& x, double factor) {
  const NoGrad no_grad;
  return functional::scale(Variable(x), factor).value();
}

}  // namespace

Tensor low_rank_sum(const Tensor& w, const Tensor& b, const Tensor& a, double factor) {
  const NoGrad no_grad;
  return functional::add(Variable(w), Variable(scaled(product(b, a), factor))).value();
}

LowRankAdapters::LowRankAdapters(Module& model, const std::vector<AdaptedRows>& layers, const LowRankOptions& options,
                                 const std::vector<std::string>& whole)
    : model_(model), options_(options), layers_(layers) {
  validate(options);
  std::map<std::string, Variable> parameters;
  for (const auto& [name, parameter] : model.named_parameters()) parameters.emplace(name, parameter);
  const auto find = [&](const std::string& name) {
    const auto found = parameters.find(name);
    if (found == parameters.end()) throw ShapeError("lora: the model has no parameter '" + name + "'");
    return found->second;
  };
  for (const AdaptedRows& rows : layers) {
    const Variable matrix = find(rows.parameter);
    if (matrix.shape().rank() != 2 || !trainable(matrix.dtype()) || rows.begin < 0 || rows.end <= rows.begin ||
        rows.end > matrix.size(0))
      throw ShapeError("lora: rows " + std::to_string(rows.begin) + ".." + std::to_string(rows.end) + " of '" +
                       rows.parameter + "', which is " + to_string(matrix.shape()) + " " + name_of(matrix.dtype()) +
                       "; name rows of a float32 or float64 matrix");
    const int64_t in = matrix.size(1), out = rows.end - rows.begin;
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    Layer layer{matrix, rows.begin, rows.end, matrix.value().slice(0, rows.begin, rows.end).clone(), {}, {}};
    layer.a =
        register_parameter(rows.name + ".lora_A.weight", uniform({options.rank, in}, -bound, bound, matrix.dtype()));
    layer.b = register_parameter(rows.name + ".lora_B.weight", Tensor::zeros({out, options.rank}, matrix.dtype()));
    adapted_.push_back(std::move(layer));
  }
  for (const std::string& name : whole) register_parameter(name, find(name));
}

LowRankAdapters::~LowRankAdapters() = default;

void LowRankAdapters::apply() const {
  model_.train(training());
  const double factor = options_.alpha / static_cast<double>(options_.rank);
  const NoGrad no_grad;
  for (const Layer& layer : adapted_)
    layer.matrix.value()
        .slice(0, layer.begin, layer.end)
        .copy_from(low_rank_sum(layer.original, layer.b.value(), layer.a.value(), factor));
}

Variable LowRankAdapters::operator()(const std::function<Variable()>& compute) const {
  apply();
  const Variable result = compute();
  std::vector<Variable> inputs;
  for (const Layer& layer : adapted_) inputs.insert(inputs.end(), {layer.a, layer.b});
  const double factor = options_.alpha / static_cast<double>(options_.rank);
  return custom_op(
      "lora", inputs, result.value(), [result, factor, layers = adapted_](const Tensor& grad, Gradients& gradients) {
        for (Layer layer : layers) layer.matrix.zero_grad();
        result.backward(grad);
        for (size_t i = 0; i < layers.size(); ++i) {
          const Layer& layer = layers[i];
          if (!layer.matrix.grad().defined()) continue;  // it had no part in the result
          const Tensor of_rows = scaled(layer.matrix.grad().slice(0, layer.begin, layer.end).contiguous(), factor);
          gradients.set(2 * i, product(transposed(layer.b.value()), of_rows));
          gradients.set(2 * i + 1, product(of_rows, transposed(layer.a.value())));
        }
      });
}

Recipe AdaptedTask::settings() const {
  Recipe recipe = task_.settings();
  std::string names;
  for (const AdaptedRows& rows : adapters_.layers()) names += rows.name + "\n";
  Fingerprint print;
  print.add(std::string_view(names));
  recipe.insert(recipe.end(), {{"lora", std::to_string(adapters_.options().rank)},
                               {"lora_alpha", std::to_string(adapters_.options().alpha)},
                               {"lora_layers", print.text()}});
  return recipe;
}

Task::Step AdaptedTask::loss(int64_t batch) {
  Step step;
  step.loss = adapters_([&] {
    step = task_.loss(batch);
    return step.loss;
  });
  return step;
}

functional::LossParts AdaptedTask::validation(int64_t batch) {
  adapters_.apply();
  return task_.validation(batch);
}

}  // namespace heed::inline v0
