// Wide multi-head self-attention: every head works in the full width k, so the projections are k -> k * heads, one
// product each, and a last layer with bias brings the concatenated heads back to k. The layer of seed 000.
#include <cmath>
#include <memory>

#include "heed/nn.h"
#include "heed/random.h"
#include "tools.h"

namespace {

using namespace heed;
using examples::largest_difference;
namespace F = functional;

enum class Division { by_root, by_fourth_roots };

struct WideAttention : Module {
  WideAttention(int64_t k, int64_t heads, Division division)
      : to_queries(k, k * heads, false),
        to_keys(k, k * heads, false),
        to_values(k, k * heads, false),
        unify_heads(heads * k, k),
        k_(k),
        heads_(heads),
        division_(division) {
    register_module("to_queries", to_queries);
    register_module("to_keys", to_keys);
    register_module("to_values", to_values);
    register_module("unify_heads", unify_heads);
  }

  /// x (B, L, k) -> (B, L, k)
  Variable operator()(const Variable& x) const {
    Variable q = to_queries(x), k = to_keys(x);  // (B, L, heads * k)
    AttentionOptions options;                    // without a scale, scores are divided by sqrt(k)
    if (division_ == Division::by_fourth_roots) {
      const double factor = std::pow(static_cast<double>(k_), -0.25);
      q = F::scale(q, factor);
      k = F::scale(k, factor);
      options.scale = 1;
    }
    const auto heads = [&](const Variable& packed) { return F::PackedHeads{packed, 0, heads_, k_}; };
    return unify_heads(F::packed_attention(heads(q), heads(k), heads(to_values(x)), options));
  }

  Linear to_queries, to_keys, to_values, unify_heads;

 private:
  int64_t k_, heads_;
  Division division_;
};

/// The same layer out of the library: heads as wide as the model, and the three projections stacked into one product.
std::unique_ptr<MultiheadAttention> library_layer(const WideAttention& wide, int64_t k, int64_t heads) {
  auto layer = std::make_unique<MultiheadAttention>(
      MultiheadAttentionOptions{.embed_dim = k, .num_heads = heads, .head_dim = k, .bias = false});
  layer->to(wide.to_queries.weight.dtype());
  const int64_t rows = k * heads;
  int64_t begin = 0;
  for (const Linear* part : {&wide.to_queries, &wide.to_keys, &wide.to_values}) {
    layer->in_proj_weight.value().slice(0, begin, begin + rows).copy_from(part->weight.value());
    begin += rows;
  }
  layer->out_proj.weight.value().copy_from(wide.unify_heads.weight.value());
  layer->out_proj.bias.value().copy_from(wide.unify_heads.bias.value());
  return layer;
}

/// Gives `to` the parameter values of `from`.
void copy_parameters(const Module& from, Module& to) {
  std::vector<std::pair<std::string, Tensor>> values;
  for (const auto& [name, parameter] : from.named_parameters()) values.emplace_back(name, parameter.value());
  to.load(values);
}

/// The largest difference between the gradients of two layers of one kind, under the loss sum(y * y).
double gradient_difference(WideAttention& a, WideAttention& b, const Variable& x) {
  for (WideAttention* layer : {&a, &b}) {
    const Variable y = (*layer)(x);
    F::sum(F::multiply(y, y)).backward();
  }
  double largest = 0;
  const auto pa = a.parameters(), pb = b.parameters();
  for (size_t i = 0; i < pa.size(); ++i) largest = std::max(largest, largest_difference(pa[i].grad(), pb[i].grad()));
  return largest;
}

}  // namespace

int main() {
  const int64_t batch = 2, length = 6, k = 24, heads = 8;
  manual_seed(0);
  WideAttention once(k, heads, Division::by_root), twice(k, heads, Division::by_fourth_roots);
  std::printf("%lld parameters; narrow heads would have %lld\n", static_cast<long long>(once.parameter_count()),
              static_cast<long long>(3 * k * k + k * k + k));
  for (const DType dtype : {DType::f32, DType::f64}) {
    once.to(dtype);
    twice.to(dtype);
    copy_parameters(once, twice);
    const Variable x(normal({batch, length, k}, 0, 1, dtype));  // (B, L, k)
    const auto library = library_layer(once, k, heads);
    std::printf("%s: q and k each / k^(1/4) against scores / sqrt(k): outputs %.1e apart, gradients %.1e\n",
                name_of(dtype), largest_difference(once(x).value(), twice(x).value()),
                gradient_difference(once, twice, x));
    std::printf("     MultiheadAttention with head_dim = embed_dim: %.1e apart\n",
                largest_difference(once(x).value(), (*library)(x, x, x).value()));
  }
  return 0;
}
