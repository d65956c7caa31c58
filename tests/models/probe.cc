// Answers what tests/models/fidelity.py asks of models: a line of JSON each.
//
//   {"tables": true}                                   what heed does with each key, by model_type and by file
//   {"model": DIR, "base": DIR, "ids": [...], "target": [...], "pixels": FILE.npy, "mel": FILE.npy, "save": DIR,
//    "states": true}
//
// "base" is of adapters. A model answers {"logits": [...]}, flat, or {"refused": "..."}. With "states", and of a model
// without a head, these are its last states, of an encoder-decoder without "target" the encoder's. With "save" it is
// written there, too.
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "heed/image_encoder.h"
#include "heed/io.h"
#include "heed/load.h"
#include "heed/speech_transformer.h"
#include "heed/text_encoder.h"
#include "load/adapters.h"
#include "pretrained/family.h"
#include "pretrained/generation.h"
#include "pretrained/tables.h"

namespace heed {
namespace {

using nlohmann::json;

json as_json(const KeyTable& table) {
  const char* const kKinds[] = {"applied", "only", "harmless", "alias"};
  json all = json::object();
  for (const KeyRule& rule : table.rules())
    all[rule.key] = {{"kind", kKinds[static_cast<int>(rule.kind)]}, {"value", rule.value}, {"text", rule.text}};
  return all;
}

json as_json(std::span<const GenerationField> fields) {
  const char* const kUses[] = {"applied", "refused", "refused_value", "harmless"};
  json all = json::object();
  for (const GenerationField& field : fields)
    all[field.key] = {
        {"kind", kUses[static_cast<int>(field.use)]}, {"value", json::parse(field.value)}, {"text", field.what}};
  return all;
}

json tables() {
  json models = json::object();
  for (const Family* family : all_families())
    for (const std::string& type : family->model_types) models[type] = as_json(family->keys(type));
  return {{"models", models},
          {"rope", as_json(rope_keys())},
          {"image_processor", as_json(image_processor_keys(false))},
          {"module", as_json(module_keys())},
          {"sentence_transformer", as_json(sentence_transformer_keys())},
          {"prompts", as_json(prompt_keys())},
          {"pooling", as_json(pooling_keys())},
          {"dense", as_json(dense_keys())},
          {"normalize", as_json(normalize_keys())},
          {"adapter", as_json(adapter_keys())},
          {"generation", as_json(generation_fields())}};
}

TokenBatch batch_of(const json& ids) { return TokenBatch::pad({ids.get<std::vector<int32_t>>()}, 0); }

Tensor array_of(const json& asked, const char* key) { return load_npy(asked[key].get<std::string>()).tensor; }

Variable states_of(const Module& module, const json& asked) {
  if (const auto* model = dynamic_cast<const LanguageModel*>(&module)) return model->hidden(batch_of(asked["ids"]));
  if (const auto* model = dynamic_cast<const TextEncoder*>(&module)) return model->hidden(batch_of(asked["ids"]));
  if (const auto* model = dynamic_cast<const ImageEncoder*>(&module)) return model->hidden(array_of(asked, "pixels"));
  if (const auto* model = dynamic_cast<const Transformer*>(&module)) {
    const TokenBatch source = batch_of(asked["ids"]);
    const Variable memory = model->encode(source);
    return model->config().num_decoder_layers > 0 && asked.contains("target")
               ? model->decode(batch_of(asked["target"]), memory, source)
               : memory;
  }
  const auto& model = dynamic_cast<const SpeechTransformer&>(module);
  return model.decode(batch_of(asked["target"]), model.encode(array_of(asked, "mel")));
}

// The output of the head for `states`, or `states` if the model has no head.
Variable compute(const PretrainedModel& loaded, const json& asked) {
  const Module& module = *loaded.module;
  const Variable states = states_of(module, asked);
  if (asked.value("states", false) || !loaded.head.missing.empty()) return states;
  if (const auto* model = dynamic_cast<const LanguageModel*>(&module)) {
    if (loaded.head.task == HeadTask::text_classes) return model->class_scores(states, batch_of(asked["ids"]));
    return model->has_logits() ? model->logits_of(states) : states;
  }
  if (const auto* model = dynamic_cast<const TextEncoder*>(&module))
    return model->config().head ? model->apply_head(states, batch_of(asked["ids"])) : states;
  if (const auto* model = dynamic_cast<const ImageEncoder*>(&module))
    return model->config().classes > 0 ? model->apply_head(states) : states;
  if (const auto* model = dynamic_cast<const Transformer*>(&module)) {
    if (loaded.head.task == HeadTask::text_classes) return model->class_scores(batch_of(asked["ids"]));
    return model->has_logits() ? model->logits_of(states) : states;
  }
  const auto& model = dynamic_cast<const SpeechTransformer&>(module);
  return model.config().has_head ? model.logits_of(states) : states;
}

json answer(const json& asked) {
  if (asked.contains("tables")) return tables();
  try {
    const NoGrad no_grad;
    const auto directory = asked["model"].get<std::string>();
    const PretrainedModel loaded =
        asked.contains("base") ? load_adapted(directory, asked["base"].get<std::string>()) : load_pretrained(directory);
    const Tensor values = compute(loaded, asked).value().to(DType::f32).contiguous();
    if (asked.contains("save")) save_pretrained(loaded, asked["save"].get<std::string>());
    return {{"logits", std::vector<float>(values.span<float>().begin(), values.span<float>().end())}};
  } catch (const Error& e) {
    return {{"refused", e.what()}};
  }
}

}  // namespace
}  // namespace heed

int main() {
  for (std::string line; std::getline(std::cin, line);)
    std::cout
        << heed::answer(nlohmann::json::parse(line)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
        << std::endl;
}
