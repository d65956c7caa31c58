// The operations of the tape: heed/nn/functional.py has their signatures and documentation.
#include <nanobind/stl/string.h>

#include <string>

#include "arrays.h"
#include "nn.h"
#include "options.h"

namespace heed::python {
namespace {

using namespace nb::literals;
namespace F = functional;

std::string known_activations() {
  std::string names;
  for (const NamedFeedForwardKind& one : kFeedForwardKinds)
    if (!one.kind.gated) names += (names.empty() ? "" : ", ") + std::string(one.name);
  return names;
}

int64_t whole(const char* what, nb::handle value) { return integer(what, value, "at most 2^63 - 1"); }

Variable run_linear(Operand x_, Operand weight_, Operand bias_, bool relu) {
  const Variable x = variable("linear: x", x_), weight = variable("linear: weight", weight_);
  const Variable bias = optional_variable("linear: bias", bias_);
  return computed([&] { return relu ? F::linear_relu(x, weight, bias) : F::linear(x, weight, bias); });
}

Variable run_add(Operand a_, Operand b_) {
  const Variable a = variable("add: a", a_), b = variable("add: b", b_);
  return computed([&] { return F::add(a, b); });
}

Variable run_multiply(Operand a_, Operand b_) {
  const Variable a = variable("multiply: a", a_), b = variable("multiply: b", b_);
  return computed([&] { return F::multiply(a, b); });
}

Variable run_scale(Operand x_, nb::handle factor_) {
  const Variable x = variable("scale: x", x_);
  const double factor = number("scale: factor", factor_);
  return computed([&] { return F::scale(x, factor); });
}

Variable run_sum(Operand x_) {
  const Variable x = variable("sum: x", x_);
  return computed([&] { return F::sum(x); });
}

Variable run_reshape(Operand x_, nb::handle shape_) {
  const Variable x = variable("reshape: x", x_);
  Dims shape;
  for (nb::handle size : shape_) shape.push_back(whole("reshape: shape", size));
  return computed([&] { return F::reshape(x, shape); });
}

Variable run_activation(const std::string& name, Operand x_) {
  const Activation kind = activation_named(name);
  const Variable x = variable("activation: x", x_);
  return computed([&] { return F::activation(kind, x); });
}

Variable run_gated(const std::string& name, Operand gate_up_, nb::handle alpha_) {
  const Activation kind = activation_named(name);
  const Variable gate_up = variable("gated: gate_up", gate_up_);
  const double alpha = number("gated: alpha", alpha_);
  return computed([&] { return F::gated(kind, gate_up, alpha); });
}

Variable run_layer_norm(Operand x_, Operand weight_, Operand bias_, nb::handle epsilon_) {
  const Variable x = variable("layer_norm: x", x_), weight = optional_variable("layer_norm: weight", weight_),
                 bias = optional_variable("layer_norm: bias", bias_);
  const double epsilon = number("layer_norm: epsilon", epsilon_);
  return computed([&] { return F::layer_norm(x, weight, bias, epsilon); });
}

Variable run_rms_norm(Operand x_, Operand weight_, nb::handle epsilon_) {
  const Variable x = variable("rms_norm: x", x_), weight = optional_variable("rms_norm: weight", weight_);
  const double epsilon = number("rms_norm: epsilon", epsilon_);
  return computed([&] { return F::rms_norm(x, weight, epsilon); });
}

Variable run_softmax(Operand x_, bool logarithm) {
  const Variable x = variable("softmax: x", x_);
  return computed([&] { return logarithm ? F::log_softmax(x) : F::softmax(x); });
}

Variable run_embedding(nb::handle ids_, Operand weight_, nb::handle factor_) {
  const Tensor ids = whole_numbers("embedding: ids", ids_);
  const Variable weight = variable("embedding: weight", weight_);
  const double factor = number("embedding: factor", factor_);
  return computed([&] { return F::embedding(ids, weight, factor); });
}

Variable run_dropout(Operand x_, nb::handle p_) {
  const Variable x = variable("dropout: x", x_);
  const double p = number("dropout: p", p_);
  return computed([&] { return F::dropout(x, p); });
}

Variable run_dropout_add(Operand x_, Operand residual_, nb::handle p_) {
  const Variable x = variable("dropout_add: x", x_), residual = variable("dropout_add: residual", residual_);
  const double p = number("dropout_add: p", p_);
  return computed([&] { return F::dropout_add(x, residual, p); });
}

RotaryLayout layout_named(const std::string& name) {
  if (name == "half_split") return RotaryLayout::half_split;
  if (name == "interleaved") return RotaryLayout::interleaved;
  throw ShapeError("rotary: layout is '" + name + "'; pass 'half_split' or 'interleaved'");
}

Variable run_rotary(Operand x_, nb::handle heads_, nb::handle head_size_, const std::string& layout, nb::handle size,
                    nb::handle base, nb::handle positions) {
  const Variable x = variable("rotary: x", x_);
  const int64_t heads = whole("rotary: heads", heads_), head_size = whole("rotary: head_size", head_size_);
  const Rotary options{.layout = layout_named(layout),
                       .size = whole("rotary: size", size),
                       .base = number("rotary: base", base),
                       .positions = whole_numbers("rotary: positions", positions)};
  return computed([&] { return F::rotary(x, heads, head_size, options); });
}

Variable run_attention(Operand q_, Operand k_, Operand v_, const Options& given, Operand learned_mask_) {
  const Variable q = variable("attention: q", q_), k = variable("attention: k", k_), v = variable("attention: v", v_);
  const Variable learned_mask = optional_variable("attention: mask", learned_mask_);
  given.check("attention", q.value(), k.value());
  if (learned_mask.defined())
    check_mask("attention", learned_mask.value(), sizes_of(q.value(), k.value(), given.get()));
  return computed([&] { return F::scaled_dot_product_attention(q, k, v, given.get(), learned_mask); });
}

/// (x, offset, heads, size)
F::PackedHeads heads_of(const char* what, nb::handle packed) {
  return {.x = variable(what, {nb::object(packed[0])}),
          .offset = whole(what, nb::object(packed[1])),
          .heads = whole(what, nb::object(packed[2])),
          .size = whole(what, nb::object(packed[3]))};
}

/// (result, weights), None where they were not asked for.
nb::tuple run_packed_attention(nb::handle q_, nb::handle k_, nb::handle v_, const Options& given, bool return_weights) {
  const F::PackedHeads q = heads_of("packed_attention: q", q_), k = heads_of("packed_attention: k", k_),
                       v = heads_of("packed_attention: v", v_);
  CallSizes sizes{.keys = k.x.shape().rank() == 3 ? k.x.size(1) : -1};
  if (q.x.shape().rank() == 3 && !given.get().q_offsets.defined())
    sizes.batch = q.x.size(0), sizes.heads = q.heads, sizes.queries = q.x.size(1);
  given.check("attention", sizes);
  Tensor weights;
  const Variable y =
      computed([&] { return F::packed_attention(q, k, v, given.get(), return_weights ? &weights : nullptr); });
  return nb::make_tuple(y, as_numpy(weights, Access::write));
}

F::Reduction reduction_named(const std::string& name) {
  if (name == "mean") return F::Reduction::mean;
  if (name == "sum") return F::Reduction::sum;
  if (name == "none") return F::Reduction::none;
  throw ShapeError("cross_entropy: reduction is '" + name + "'; pass 'mean', 'sum' or 'none'");
}

F::CrossEntropyOptions loss_options(int32_t ignore_index, double label_smoothing) {
  return {.ignore_index = ignore_index, .label_smoothing = label_smoothing};
}

Variable run_cross_entropy(Operand x_, nb::handle targets_, int32_t ignore_index, double label_smoothing,
                           Operand weight, const std::string& reduction, bool logarithms) {
  const Variable x = variable("cross_entropy: x", x_);
  const Tensor targets = whole_numbers("cross_entropy: targets", targets_);
  F::CrossEntropyOptions options = loss_options(ignore_index, label_smoothing);
  const Variable of_classes = optional_variable("cross_entropy: weight", weight);
  if (of_classes.defined()) options.weight = of_classes.value();
  options.reduction = reduction_named(reduction);
  return computed(
      [&] { return logarithms ? F::nll_loss(x, targets, options) : F::cross_entropy(x, targets, options); });
}

Variable run_linear_cross_entropy(Operand x_, Operand weight_, Operand bias_, nb::handle targets_, int32_t ignore_index,
                                  double label_smoothing, double r_drop) {
  const Variable x = variable("linear_cross_entropy: x", x_),
                 weight = variable("linear_cross_entropy: weight", weight_),
                 bias = optional_variable("linear_cross_entropy: bias", bias_);
  const Tensor targets = whole_numbers("linear_cross_entropy: targets", targets_);
  F::CrossEntropyOptions options = loss_options(ignore_index, label_smoothing);
  options.r_drop = r_drop;
  return computed([&] { return F::linear_cross_entropy(x, weight, bias, targets, options); });
}

}  // namespace

FeedForwardKind feed_forward_named(const std::string& name) {
  try {
    return feed_forward_kind(name);
  } catch (const UsageError& error) {
    throw ShapeError(error.what());
  }
}

Activation activation_named(const std::string& name) {
  for (const NamedFeedForwardKind& one : kFeedForwardKinds)
    if (one.name == name && !one.kind.gated) return one.kind.activation;
  throw ShapeError("activation: there is no '" + name + "'; pass one of " + known_activations());
}

void define_functional(nb::module_& m) {
  const auto any = [](const char* name) { return nb::arg(name).none(); };  // None is refused by name
  m.def("nn_linear", &run_linear, any("x"), any("weight"), any("bias"), nb::arg("relu"));
  m.def("nn_add", &run_add, any("a"), any("b"));
  m.def("nn_multiply", &run_multiply, any("a"), any("b"));
  m.def("nn_scale", &run_scale, any("x"), any("factor"));
  m.def("nn_sum", &run_sum, any("x"));
  m.def("nn_reshape", &run_reshape, any("x"), nb::arg("shape"));
  m.def("nn_activation", &run_activation, nb::arg("kind"), any("x"));
  m.def("nn_gated", &run_gated, nb::arg("kind"), any("gate_up"), any("alpha"));
  m.def("nn_layer_norm", &run_layer_norm, any("x"), any("weight"), any("bias"), any("epsilon"));
  m.def("nn_rms_norm", &run_rms_norm, any("x"), any("weight"), any("epsilon"));
  m.def("nn_softmax", &run_softmax, any("x"), nb::arg("logarithm"));
  m.def("nn_embedding", &run_embedding, any("ids"), any("weight"), any("factor"));
  m.def("nn_dropout", &run_dropout, any("x"), any("p"));
  m.def("nn_dropout_add", &run_dropout_add, any("x"), any("residual"), any("p"));
  m.def("nn_rotary", &run_rotary, any("x"), any("heads"), any("head_size"), nb::arg("layout"), any("size"), any("base"),
        any("positions"));
  m.def("nn_attention", &run_attention, any("q"), any("k"), any("v"), nb::arg("options"), any("learned_mask"));
  m.def("nn_packed_attention", &run_packed_attention, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("options"),
        nb::arg("return_weights"),
        nb::sig("def nn_packed_attention(q: object, k: object, v: object, options: Options, return_weights: bool) -> "
                "tuple[Variable, NDArray[typing.Any] | None]"));
  m.def("nn_cross_entropy", &run_cross_entropy, any("x"), any("targets"), nb::arg("ignore_index"),
        nb::arg("label_smoothing"), any("weight"), nb::arg("reduction"), nb::arg("logarithms"));
  m.def("nn_linear_cross_entropy", &run_linear_cross_entropy, any("x"), any("weight"), any("bias"), any("targets"),
        nb::arg("ignore_index"), nb::arg("label_smoothing"), nb::arg("r_drop"));
}

}  // namespace heed::python
