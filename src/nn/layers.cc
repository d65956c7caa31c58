#include <cmath>

#include "heed/nn.h"
#include "heed/random.h"
#include "kernels/positions.h"

namespace heed::inline v0 {
namespace {

void check_positive(const char* layer, const char* what, int64_t value) {
  if (value < 1)
    throw ShapeError(std::string(layer) + ": " + what + " is " + std::to_string(value) + "; it must be 1 or more");
}

}  // namespace

Linear::Linear(int64_t in_features, int64_t out_features, bool with_bias) {
  check_positive("Linear", "in_features", in_features);
  check_positive("Linear", "out_features", out_features);
  const double bound = 1 / std::sqrt(static_cast<double>(in_features));
  weight = register_parameter("weight", uniform({out_features, in_features}, -bound, bound));
  if (with_bias) bias = register_parameter("bias", uniform({out_features}, -bound, bound));
}

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, double deviation) {
  check_positive("Embedding", "num_embeddings", num_embeddings);
  check_positive("Embedding", "embedding_dim", embedding_dim);
  weight = register_parameter("weight", normal({num_embeddings, embedding_dim}, 0, deviation));
}

LayerNorm::LayerNorm(int64_t width, double epsilon, bool with_bias) : epsilon_(epsilon) {
  check_positive("LayerNorm", "width", width);
  weight = register_parameter("weight", constant({width}, 1));
  if (with_bias) bias = register_parameter("bias", constant({width}, 0));
}

RMSNorm::RMSNorm(int64_t width, double epsilon) : epsilon_(epsilon) {
  check_positive("RMSNorm", "width", width);
  weight = register_parameter("weight", constant({width}, 1));
}

Norm::Norm(NormKind kind, int64_t width, double epsilon, bool bias) {
  if (kind == NormKind::layer_norm) {
    layer_ = std::make_unique<LayerNorm>(width, epsilon, bias);
    register_module("", *layer_);
  } else {
    rms_ = std::make_unique<RMSNorm>(width, epsilon);
    register_module("", *rms_);
  }
}

Variable Norm::operator()(const Variable& x) const { return layer_ ? (*layer_)(x) : (*rms_)(x); }

SinusoidalPositions::SinusoidalPositions(int64_t width, int64_t held)
    : width_(width), table_(Tensor::empty({held, width}, DType::f64)) {
  check_positive("SinusoidalPositions", "width", width);
  sinusoidal_positions(table_.data<double>(), 0, held, width);
}

Tensor SinusoidalPositions::rows(int64_t begin, int64_t length, DType dtype) const {
  if (begin + length <= table_.size(0)) return table_.slice(0, begin, begin + length).to(dtype);
  const Tensor rows = Tensor::empty({length, width_}, DType::f64);
  sinusoidal_positions(rows.data<double>(), begin, length, width_);
  return rows.to(dtype);
}

FeedForwardKind feed_forward_kind(std::string_view name) {
  std::string known;
  for (const NamedFeedForwardKind& one : kFeedForwardKinds) {
    if (one.name == name) return one.kind;
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  }
  throw UsageError("feed_forward_kind: there is no '" + std::string(name) + "'; give one of " + known);
}

FeedForward::FeedForward(int64_t width, int64_t hidden, FeedForwardKind kind, double dropout, bool bias)
    : linear1(width, kind.gated ? 2 * hidden : hidden, bias),
      linear2(hidden, width, bias),
      kind_(kind),
      dropout_(dropout) {
  register_module("linear1", linear1);
  register_module("linear2", linear2);
}

Variable FeedForward::operator()(const Variable& x, const functional::SplitRows* rows) const {
  Variable h;
  if (kind_.gated) {
    h = linear1(x);
    if (kind_.limit != 0) h = functional::bounded_gate(h, kind_.limit);
    h = functional::gated(kind_.activation, h, kind_.alpha);
  } else if (kind_.activation == Activation::relu) {
    h = functional::linear_relu(x, linear1.weight, linear1.bias);
  } else {
    h = functional::activation(kind_.activation, linear1(x));
  }
  if (training()) h = functional::dropout(h, dropout_, rows);
  return linear2(h);
}

}  // namespace heed::inline v0
