#include "recipe/presets.h"

#include <algorithm>
#include <string_view>

#include "heed/config_fields.h"

namespace heed::inline v0 {
namespace {

using R = TrainingRequest;

const R kTextDefaults{.valid_fraction = 0.1,
                      .vocab_type = "subwords",
                      .beta2 = 0.99,
                      .epsilon = 1e-8,
                      .weight_decay = 0.1,
                      .label_smoothing = 0};

constexpr const char* kChosen[] = {
    "vocab_size",    "d_model",       "heads",          "feed_forward",    "encoder_layers",    "decoder_layers",
    "layers",        "pre_norm",      "dropout",        "subword_dropout", "batch_tokens",      "block",
    "batch",         "learning_rate", "warmup",         "schedule",        "max_updates",       "max_epochs",
    "patience",      "average",       "validate_every", "max_positions",   "min_learning_rate", "validate_by",
    "bleu_sentences"};

constexpr const char* kOfPresets[] = {"vocab_size",     "d_model",        "heads",  "feed_forward",
                                      "encoder_layers", "decoder_layers", "layers", "pre_norm"};

}  // namespace

R pairs_preset(const std::string& name) {
  if (name == "tiny")
    return {.vocab_size = 1000,
            .d_model = 64,
            .heads = 2,
            .encoder_layers = 1,
            .decoder_layers = 1,
            .feed_forward = 128,
            .pre_norm = true};
  if (name == "small")
    return {.vocab_size = 2400,
            .d_model = 256,
            .heads = 4,
            .encoder_layers = 3,
            .decoder_layers = 2,
            .feed_forward = 512,
            .pre_norm = true};
  return {.vocab_size = 16000,
          .d_model = 512,
          .heads = 8,
          .encoder_layers = 6,
          .decoder_layers = 6,
          .feed_forward = 2048,
          .pre_norm = false};  // base: Vaswani et al. 2017, table 3
}

R text_preset(const std::string& name) {
  if (name == "tiny")
    return {.vocab_size = 512,
            .d_model = 64,
            .heads = 2,
            .layers = 2,
            .feed_forward = 256,
            .batch = 12,
            .block = 64,
            .max_updates = 1000};
  if (name == "small")
    return {.vocab_size = 2000,
            .d_model = 256,
            .heads = 4,
            .layers = 4,
            .feed_forward = 1024,
            .batch = 32,
            .block = 128,
            .max_updates = 5000};
  return {.vocab_size = 16000,
          .d_model = 768,
          .heads = 12,
          .layers = 12,
          .feed_forward = 3072,
          .batch = 8,
          .block = 1024,
          .max_updates = 100000};  // base: Radford et al. 2019, table 2, first row
}

R text_defaults() {
  R all = kTextDefaults;
  const std::vector<FieldValue> of_translator = field_values(TransformerConfig());
  for (const auto& [field, value] : field_values(LanguageModelConfig())) {
    if (!field.option || std::string_view(field.option) == "max_positions") continue;
    if (!option_values(text_preset("tiny"), field.option).empty()) continue;
    for (const auto& [other, standard] : of_translator)
      if (other.option && std::string_view(other.option) == field.option && standard != value)
        set_option(all, field.option, {value});
  }
  return all;
}

R text_steps() { return {.warmup = 100, .average = 1, .learning_rate = 0.001, .schedule = "cosine"}; }

R tuning_defaults() {
  return {.warmup = 0,
          .average = 1,
          .learning_rate = 5e-5,
          .beta2 = 0.999,
          .epsilon = 1e-8,
          .label_smoothing = 0,
          .schedule = "linear"};
}

bool is_chosen(const std::string& field) {
  return std::find(std::begin(kChosen), std::end(kChosen), field) != std::end(kChosen);
}

bool is_of_preset(const std::string& field) {
  return std::find(std::begin(kOfPresets), std::end(kOfPresets), field) != std::end(kOfPresets);
}

std::string text_default(const std::string& field) {
  const std::vector<std::string> values = option_values(text_defaults(), field);
  return values.empty() ? "" : values.front();
}

}  // namespace heed::inline v0
