#include "heed/train.h"

namespace heed::inline v0 {

double training_flop(const TransformerConfig& c, int64_t source_length, int64_t target_length) {
  const auto s = static_cast<double>(source_length), t = static_cast<double>(target_length);
  const auto e = static_cast<double>(c.d_model), f = static_cast<double>(c.dim_feedforward);
  const double projections = 4 * e * e;  // q, k, v and output
  const double feed_forward = (c.activation == "swiglu" ? 3 : 2) * e * f;
  const double encoder = s * (projections + feed_forward) + 2 * s * s * e;
  // Causal self-attention needs half of its square; the cross projections of k and v see the source.
  const double decoder = t * (projections + feed_forward) + t * (t + 1) * e  // self-attention
                         + 2 * t * e * e + 2 * s * e * e + 2 * s * t * e;    // cross-attention
  const double output = t * e * static_cast<double>(c.vocab_size);
  return 6 * (static_cast<double>(c.num_encoder_layers) * encoder +
              static_cast<double>(c.num_decoder_layers) * decoder + output);
}

}  // namespace heed::inline v0
