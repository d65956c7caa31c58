#include "pretrained/family.h"

#include "heed/error.h"
#include "heed/io.h"

namespace heed::inline v0 {

const Family& family_of(const Keys& config) {
  const std::string type = config.text("model_type");
  std::string known;
  for (const Family* family : {&kGpt2, &kLlama, &kGemma, &kGptOss, &kBert, &kMarian, &kT5, &kVit, &kWhisper})
    for (const std::string& name : family->model_types) {
      if (name == type) return *family;
      known += (known.empty() ? "" : ", ") + name;
    }
  config.fail("model_type", "heed has " + known);
}

Activation activation_of(const Keys& config, const std::string& key, const std::string& fallback) {
  const std::string name = config.text(key, fallback);
  if (name == "relu") return Activation::relu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::gelu_tanh;
  if (name == "silu" || name == "swish") return Activation::silu;
  config.fail(key, "heed has relu, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, silu and swish");
}

int64_t size_of(const Keys& config, const std::string& key) { return config.integer(key, 1, 10'000'000); }

Described language_model(LanguageModelConfig config, LanguageModelDetails details, Names names) {
  names.layers = config.num_layers;
  if (config.tie_embeddings) names.copies.emplace_back("lm_head.weight");
  return {.make = [config, details] { return std::make_unique<LanguageModel>(config, details); },
          .names = std::move(names)};
}

}  // namespace heed::inline v0
