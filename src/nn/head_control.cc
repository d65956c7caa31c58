// Heads that are scaled, switched off or attend to something else, to see what they are for.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "heed/nn.h"

namespace heed::inline v0 {
namespace {

// Which keys a mask of scores lets head h see: itself where it is boolean.
Tensor visible(const Tensor& mask, int64_t h) {
  if (!mask.defined()) return mask;
  const int heads = mask.rank() - 3;
  const Tensor own = heads >= 0 && mask.size(heads) > 1 ? mask.slice(heads, h, h + 1) : mask;
  if (own.dtype() == DType::boolean) return own;
  const Tensor added = own.to(DType::f32).contiguous(), seen = Tensor::empty(own.shape(), DType::boolean);
  constexpr float kHidden = 0.69f * std::numeric_limits<float>::lowest();
  std::transform(added.data<float>(), added.data<float>() + added.numel(), seen.data<bool>(),
                 [](float x) { return x > kHidden; });
  return seen;
}

// Each query sees one key: itself, or the one `back` before it, where there is one.
Tensor one_key(int64_t queries, int64_t keys, int64_t first, int64_t back) {
  const Tensor seen = Tensor::zeros({queries, keys}, DType::boolean);
  for (int64_t i = 0; i < queries; ++i) seen.at<bool>(i, std::max<int64_t>(first + i - back, 0)) = true;
  return seen;
}

}  // namespace

void MultiheadAttention::control_heads(HeadControl control) {
  const int64_t heads = options_.num_heads;
  if (control.scales.defined() && !(control.scales.shape() == Dims{heads}))
    throw ShapeError("MultiheadAttention: scales " + to_string(control.scales.shape()) + " are not one for each of " +
                     std::to_string(heads) + " heads");
  if (!control.patterns.empty() && std::ssize(control.patterns) != heads)
    throw ShapeError("MultiheadAttention: " + std::to_string(control.patterns.size()) +
                     " patterns are not one for each of " + std::to_string(heads) + " heads");
  const bool nothing = !control.scales.defined() && control.patterns.empty() && !control.added.defined();
  control_ = nothing ? nullptr : std::make_unique<const HeadControl>(std::move(control));
}

// Writes what the replaced heads give over `keys` and `values` (B, Hkv, Lk, size) into y (B, Lq, heads * size), and
// their weights into the record. how.offset: where the first query stands among the keys.
void MultiheadAttention::replace_heads(const Tensor& y, const Tensor& keys, const Tensor& values,
                                       const AttentionOptions& how, HeadRecord* record) const {
  const int64_t heads = options_.num_heads, size = options_.head_dim, queries = y.size(1);
  std::vector<int64_t> recorded;
  if (record && record->want_weights) {
    recorded.resize(static_cast<size_t>(heads));
    std::iota(recorded.begin(), recorded.end(), 0);
    if (const Tensor& some = record->selection.heads; some.defined())
      recorded.assign(some.data<int64_t>(), some.data<int64_t>() + some.numel());
  }
  for (int64_t h = 0; h < heads; ++h) {
    const HeadPattern pattern = control_->patterns[static_cast<size_t>(h)];
    if (pattern == HeadPattern::learned) continue;
    AttentionOptions replaced;
    replaced.key_lengths = how.key_lengths;
    replaced.executor = how.executor;
    if (pattern == HeadPattern::uniform) {
      replaced.causal = how.causal;
      replaced.offset = how.offset;
      replaced.window = how.window;
      replaced.mask = visible(how.mask, h);
    } else {
      replaced.mask = one_key(queries, keys.size(2), how.offset, pattern == HeadPattern::previous ? 1 : 0);
    }
    AttentionResult result;
    Tensor own_weights;  // of the record, whose heads may be apart
    result.out = y.as_strided({y.size(0), 1, queries, size}, {y.stride(0), size, y.stride(1), 1}, h * size);
    if (const auto at = std::find(recorded.begin(), recorded.end(), h); at != recorded.end()) {
      replaced.selection.rows = record->selection.rows;
      own_weights = record->weights.slice(1, at - recorded.begin(), at - recorded.begin() + 1);
      result.weights = Tensor::empty(own_weights.shape(), own_weights.dtype());
    }
    const Tensor nothing = Tensor::zeros(result.out.shape(), y.dtype());  // all scores are 0
    const int64_t shared = h / (heads / options_.kv_heads);
    heed::attention(nothing, keys.slice(1, shared, shared + 1), values.slice(1, shared, shared + 1), result, replaced);
    if (own_weights.defined()) own_weights.copy_from(result.weights);
  }
}

// y (B, Lq, heads * size), what attention gave over the keys and values of `memory`, as control_ has it.
Variable MultiheadAttention::controlled(const Variable& y, const KVCache& memory, const AttentionOptions& how,
                                        Heads kind, HeadRecord* record) const {
  const auto fail = [](const std::string& what) { throw ShapeError("MultiheadAttention: patterns of heads " + what); };
  const std::vector<HeadPattern>& patterns = control_->patterns;
  const auto has = [&](auto... which) {
    return std::any_of(patterns.begin(), patterns.end(), [&](HeadPattern p) { return ((p == which) || ...); });
  };
  if (has(HeadPattern::uniform, HeadPattern::previous, HeadPattern::own)) {
    if (grad_enabled() && y.requires_grad()) fail("have no gradient; put NoGrad around them");
    if (kind == Heads::split) fail("are not for rows that are split over ranks; give all of them");
    if (kind == Heads::cross && has(HeadPattern::previous, HeadPattern::own))
      fail("in cross-attention are learned or uniform; previous and own are for self-attention");
    if (how.q_offsets.defined()) {
      const std::span<const int32_t> q = how.q_offsets.span<int32_t>(), k = how.k_offsets.span<int32_t>();
      AttentionOptions of_one = how;
      of_one.q_offsets = of_one.k_offsets = {};
      for (size_t b = 0; b + 1 < q.size(); ++b)
        replace_heads(y.value().slice(1, q[b], q[b + 1]), memory.keys().slice(2, k[b], k[b + 1]),
                      memory.values().slice(2, k[b], k[b + 1]), of_one, nullptr);
    } else {
      replace_heads(y.value(), memory.keys(), memory.values(), how, record);
    }
  }
  const Variable scaled = control_->scales.defined() ? functional::scale_heads(y, control_->scales) : y;
  return control_->added.defined() ? functional::add(scaled, control_->added) : scaled;
}

}  // namespace heed::inline v0
