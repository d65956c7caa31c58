#include <cmath>
#include <functional>

#include "heed/attended.h"
#include "heed/text_generator.h"

namespace heed::inline v0 {
namespace {

// Head factors of some layers as leaves, and sums of the magnitudes of their gradients.
class Factors {
 public:
  explicit Factors(const std::vector<MultiheadAttention*>& layers) : layers_(layers) {
    if (layers.empty()) return;
    const int64_t heads = layers.front()->options().num_heads;
    sums_ = Tensor::zeros({std::ssize(layers), heads});
    for (MultiheadAttention* const layer : layers) {
      factors_.emplace_back(Tensor::full({heads}, 1), /*requires_grad=*/true);
      layer->control_heads({.scales = factors_.back(), .patterns = {}});
    }
  }
  ~Factors() {
    for (MultiheadAttention* const layer : layers_) layer->control_heads({});
  }
  Factors(const Factors&) = delete;
  Factors& operator=(const Factors&) = delete;

  void add(double share) {
    for (size_t l = 0; l < factors_.size(); ++l) {
      const std::span<const float> gradient = factors_[l].grad().span<float>();
      for (size_t h = 0; h < gradient.size(); ++h)
        sums_.at<float>(static_cast<int64_t>(l), static_cast<int64_t>(h)) +=
            static_cast<float>(share) * std::abs(gradient[h]);
      factors_[l].zero_grad();
    }
  }
  const Tensor& sums() const { return sums_; }

 private:
  const std::vector<MultiheadAttention*>& layers_;
  std::vector<Variable> factors_;
  Tensor sums_;
};

HeadImportance mean_over(const StoredModel& stored, size_t texts, const std::function<Variable(size_t)>& loss) {
  if (texts == 0) throw UsageError("importance of heads: there are no texts; give one or more");
  Module& module = stored.module();
  const AttentionLayers layers = attention_layers(module);
  Factors encoder(layers.encoder), decoder(layers.decoder), cross(layers.cross);
  for (size_t i = 0; i < texts; ++i) {
    loss(i).backward();
    for (Factors* const factors : {&encoder, &decoder, &cross}) factors->add(1 / static_cast<double>(texts));
    module.zero_grad();
  }
  return {encoder.sums(), decoder.sums(), cross.sums()};
}

UsageError too_short(size_t i, const char* what) {
  return UsageError("importance of heads: text " + std::to_string(i + 1) + " has " + what + "; leave it out");
}

}  // namespace

HeadImportance head_importance(const StoredModel& stored, const std::vector<std::string>& texts) {
  const auto& model = stored.as<LanguageModel>();
  return mean_over(stored, texts.size(), [&](size_t i) {
    const std::vector<int32_t> ids = prompt_ids(stored.tokenizer(), sanitize_utf8(texts[i]));
    if (ids.size() < 2) throw too_short(i, "fewer than two tokens");
    return model.loss(TokenBatch::pad({ids}, 0));
  });
}

HeadImportance head_importance(const StoredModel& stored, const TextPairs& pairs) {
  const auto& model = stored.as<Transformer>();
  const bool whole = model.details().has_value();  // sources include special tokens
  const int32_t pad = model.config().pad_id;
  return mean_over(stored, pairs.source.size(), [&](size_t i) {
    const auto source = stored.source_tokenizer().encode(sanitize_utf8(pairs.source[i]), whole).ids;
    const auto target = stored.tokenizer().encode(sanitize_utf8(pairs.target[i]), /*special_tokens=*/false).ids;
    if (source.empty() || target.empty()) throw too_short(i, "a side without tokens");
    return model.loss(TokenBatch::pad({source}, pad), TokenBatch::pad({target}, pad));
  });
}

}  // namespace heed::inline v0
