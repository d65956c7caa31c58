// Multi-head attention for one sentence at a time, input_dim -> hidden_dim, with biases everywhere; it returns its
// output and its weights. The layer of seed 003. Batched or not, the arithmetic is the same.
#include <string>

#include "heed/nn.h"
#include "heed/random.h"
#include "tools.h"

namespace {

using namespace heed;
using examples::largest_difference;
namespace F = functional;

/// The size of a head. Throws ShapeError where the heads cannot share hidden_dim equally.
int64_t head_size(int64_t hidden_dim, int64_t n_heads) {
  if (n_heads < 1 || hidden_dim % n_heads != 0)
    throw ShapeError("AttentionLayer: hidden_dim " + std::to_string(hidden_dim) + " is not a multiple of " +
                     std::to_string(n_heads) + " heads; every head takes hidden_dim / n_heads of it");
  return hidden_dim / n_heads;
}

struct AttentionLayer : Module {
  AttentionLayer(int64_t input_dim, int64_t n_heads, int64_t hidden_dim)
      : heads(n_heads),
        size(head_size(hidden_dim, n_heads)),
        q(input_dim, hidden_dim),
        k(input_dim, hidden_dim),
        v(input_dim, hidden_dim),
        mixing_proj(hidden_dim, hidden_dim) {
    register_module("q", q);
    register_module("k", k);
    register_module("v", v);
    register_module("mixing_proj", mixing_proj);
  }

  struct Result {
    Variable output;  // (L, hidden_dim) or (B, L, hidden_dim)
    Tensor weights;   // (n_heads, L, L) or (B, n_heads, L, L)
  };

  /// x (L, input_dim): one sentence.
  Result operator()(const Variable& x) const {
    const int64_t length = x.size(0);
    const Result one = batched(F::reshape(x, {1, length, x.size(1)}));
    return {F::reshape(one.output, {length, one.output.size(2)}), one.weights.select(0, 0)};
  }

  /// x (B, L, input_dim)
  Result batched(const Variable& x) const {
    const auto split = [&](const Variable& packed) { return F::PackedHeads{packed, 0, heads, size}; };
    Tensor weights;
    const Variable merged = F::packed_attention(split(q(x)), split(k(x)), split(v(x)), {}, &weights);
    return {mixing_proj(merged), weights};
  }

  int64_t heads, size;
  Linear q, k, v, mixing_proj;
};

/// The largest difference between sentences of x (B, L, input_dim) taken one by one and taken together: of the outputs
/// and of the weights.
double batching_matters(const AttentionLayer& layer, const Tensor& x) {
  const AttentionLayer::Result together = layer.batched(Variable(x));
  double largest = 0;
  for (int64_t b = 0; b < x.size(0); ++b) {
    const AttentionLayer::Result one = layer(Variable(x.select(0, b)));
    largest = std::max({largest, largest_difference(one.output.value(), together.output.value().select(0, b)),
                        largest_difference(one.weights, together.weights.select(0, b))});
  }
  return largest;
}

}  // namespace

int main() {
  manual_seed(3);
  const int64_t length = 5, input_dim = 12, n_heads = 4, hidden_dim = 24;
  const AttentionLayer layer(input_dim, n_heads, hidden_dim);
  const Tensor sentences = normal({3, length, input_dim}, 0, 1);  // (B, L, input_dim)

  const AttentionLayer::Result one = layer(Variable(sentences.select(0, 0)));
  std::printf("x %s -> output %s, weights %s\n", to_string(sentences.select(0, 0).shape()).c_str(),
              to_string(one.output.shape()).c_str(), to_string(one.weights.shape()).c_str());
  examples::print("weights of head 0", one.weights.select(0, 0));
  std::printf("one by one against batched: %.1e apart\n", batching_matters(layer, sentences));

  try {
    AttentionLayer(input_dim, 5, hidden_dim);
  } catch (const ShapeError& error) {
    std::printf("5 heads: %s\n", error.what());
  }
  return 0;
}
