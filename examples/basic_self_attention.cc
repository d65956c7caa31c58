// Self-attention, one step at a time: from y = softmax(X X^T) X, which has no parameters, to a Transformer block.
// Each step is run on a sequence and on the same sequence in another order: up to the last step, attention sees a set.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heed/nn.h"
#include "heed/random.h"
#include "tools.h"

namespace {

using namespace heed;
using examples::largest_difference;
namespace F = functional;

/// In another order the sums over keys round differently: results agree within this many units of rounding, 2^-24 of
/// the largest output in float32 and 2^-53 in float64. Rows of weights sum to 1 within as many.
constexpr double kRounding = 32;

/// x (B, L, K) -> (B, L, K). `weights` receives (B, heads, L, L).
using Layer = std::function<Variable(const Variable& x, Tensor* weights)>;

F::PackedHeads one_head(const Variable& x) { return {.x = x, .size = x.size(2)}; }

/// Row i of the output is the average of all rows, each weighted by how well it matches row i.
Variable basic(const Variable& x, Tensor* weights) {
  return F::packed_attention(one_head(x), one_head(x), one_head(x), {.scale = 1}, weights);
}

/// Three matrices, so that a row can ask for one thing, be found by another, and say a third.
struct QueriesKeysValues : Module {
  explicit QueriesKeysValues(int64_t k) : to_q(k, k, false), to_k(k, k, false), to_v(k, k, false) {
    register_module("to_q", to_q);
    register_module("to_k", to_k);
    register_module("to_v", to_v);
  }
  Variable operator()(const Variable& x, const AttentionOptions& options, Tensor* weights) const {
    return F::packed_attention(one_head(to_q(x)), one_head(to_k(x)), one_head(to_v(x)), options, weights);
  }
  Linear to_q, to_k, to_v;
};

Variable attend(const MultiheadAttention& heads, const Variable& x, Tensor* weights) {
  HeadRecord record;
  const Variable y = heads(x, x, x, {}, weights ? &record : nullptr);
  if (weights) *weights = record.weights;
  return y;
}

/// The paper's block: each norm comes after the residual sum (Vaswani et al. 2017, 3.1).
Variable post_norm(const TransformerEncoderLayer& block, const Variable& x, Tensor* weights) {
  const Variable h = block.norm1(F::add(x, attend(block.self_attn, x, weights)));
  return block.norm2(F::add(h, block.feed_forward(h)));
}

/// Norms before the sub-layers leave the sum itself alone, which trains more easily (Xiong et al. 2020).
Variable pre_norm(const TransformerEncoderLayer& block, const Variable& x, Tensor* weights) {
  const Variable y = block.norm1(x);
  const Variable h = F::add(x, attend(block.self_attn, y, weights));
  return F::add(h, block.feed_forward(block.norm2(h)));
}

struct Step {
  const char* name;
  Layer layer;
};

/// Every step for vectors of size k; the heads of the later ones have size k / heads.
std::vector<Step> steps(int64_t k, int64_t heads, DType dtype) {
  const auto qkv = std::make_shared<QueriesKeysValues>(k);
  const auto narrow = std::make_shared<MultiheadAttention>(k, heads);
  const auto block = std::make_shared<TransformerEncoderLayer>(
      TransformerLayerOptions{.d_model = k, .nhead = heads, .dim_feedforward = 4 * k, .dropout = 0});
  for (Module* module :
       {static_cast<Module*>(qkv.get()), static_cast<Module*>(narrow.get()), static_cast<Module*>(block.get())})
    module->to(dtype);
  return {
      {"softmax(X X^T) X", basic},
      {"queries, keys, values", [=](const Variable& x, Tensor* w) { return (*qkv)(x, {.scale = 1}, w); }},
      {"scores / sqrt(k)", [=](const Variable& x, Tensor* w) { return (*qkv)(x, {}, w); }},
      {"narrow heads", [=](const Variable& x, Tensor* w) { return attend(*narrow, x, w); }},
      {"block, post-norm", [=](const Variable& x, Tensor* w) { return post_norm(*block, x, w); }},
      {"block, pre-norm", [=](const Variable& x, Tensor* w) { return pre_norm(*block, x, w); }},
      {"positions, block",
       [=](const Variable& x, Tensor* w) {
         const Tensor positions = SinusoidalPositions(k).rows(0, x.size(1), dtype).reshape({1, x.size(1), k});
         return post_norm(*block, F::add(x, Variable(positions)), w);
       }},
  };
}

/// Row i of the result is row order[i] of x (1, L, K).
Tensor reordered(const Tensor& x, const std::vector<int64_t>& order) {
  const Tensor y = Tensor::empty(x.shape(), x.dtype());
  for (size_t i = 0; i < order.size(); ++i) y.select(1, static_cast<int64_t>(i)).copy_from(x.select(1, order[i]));
  return y;
}

/// How far layer(reordered(x)) is from reordered(layer(x)), in units of the largest output.
double order_matters(const Layer& layer, const Tensor& x, const std::vector<int64_t>& order) {
  const Tensor y = layer(Variable(x), nullptr).value();
  const Tensor expected = reordered(y, order), got = layer(Variable(reordered(x, order)), nullptr).value();
  return largest_difference(got, expected) / largest_difference(y, Tensor::zeros(y.shape(), y.dtype()));
}

/// The largest |1 - sum| over the rows of weights.
double rows_off_one(const Layer& layer, const Tensor& x) {
  Tensor weights;
  layer(Variable(x), &weights);
  const int64_t keys = weights.size(3), rows = weights.numel() / keys;
  const Tensor table = weights.to(DType::f64).reshape({rows, keys});
  double off = 0;
  for (int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (int64_t key = 0; key < keys; ++key) sum += table.at<double>(row, key);
    off = std::max(off, std::abs(1 - sum));
  }
  return off;
}

}  // namespace

int main() {
  const int64_t length = 7, k = 32, heads = 4;
  const std::vector<int64_t> order = {3, 0, 6, 2, 5, 1, 4};
  for (const DType dtype : {DType::f32, DType::f64}) {
    manual_seed(4);
    const Tensor x = normal({1, length, k}, 0, 1, dtype);
    std::printf("%s                   rows sum to 1 within   order matters by\n", name_of(dtype));
    for (const auto& [name, layer] : steps(k, heads, dtype))
      std::printf("%-24s %17.1e %18.1e\n", name, rows_off_one(layer, x), order_matters(layer, x, order));
  }
  std::printf(
      "In another order the sums over keys round differently; the bound is %.0f units of rounding,\n"
      "%.1e in f32 and %.1e in f64. Only positions make the order count.\n",
      kRounding, kRounding * 0x1p-24, kRounding * 0x1p-53);
  return 0;
}
