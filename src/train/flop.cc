#include "heed/kinds.h"
#include "heed/train.h"

namespace heed::inline v0 {
namespace {

template <class Config>
double feed_forward(const Config& c) {  // multiply-adds a token
  return (feed_forward_kind(c.activation).gated ? 3 : 2) * static_cast<double>(c.d_model) *
         static_cast<double>(c.dim_feedforward);
}

}  // namespace

double training_flop(const TransformerConfig& c, int64_t source_length, int64_t target_length) {
  const auto s = static_cast<double>(source_length), t = static_cast<double>(target_length);
  const auto e = static_cast<double>(c.d_model);
  const double projections = 4 * e * e;  // q, k, v and output
  const double encoder = s * (projections + feed_forward(c)) + 2 * s * s * e;
  // Causal self-attention needs half of its square; the cross projections of k and v see the source.
  const double decoder = t * (projections + feed_forward(c)) + t * (t + 1) * e  // self-attention
                         + 2 * t * e * e + 2 * s * e * e + 2 * s * t * e;       // cross-attention
  const double output = t * e * static_cast<double>(c.vocab_size);
  return 6 * (static_cast<double>(c.num_encoder_layers) * encoder +
              static_cast<double>(c.num_decoder_layers) * decoder + output);
}

double training_flop(const LanguageModelConfig& c, int64_t length) {
  const auto t = static_cast<double>(length), e = static_cast<double>(c.d_model);
  const double kv = c.num_kv_heads ? static_cast<double>(c.num_kv_heads) / static_cast<double>(c.nhead) : 1;
  const double projections = (2 + 2 * kv) * e * e;
  const double layer = t * (projections + feed_forward(c)) + t * (t + 1) * e;  // half of the square of attention
  return 6 * (static_cast<double>(c.num_layers) * layer + t * e * static_cast<double>(c.vocab_size));
}

}  // namespace heed::inline v0
