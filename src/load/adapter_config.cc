#include "load/adapter_config.h"

#include <algorithm>
#include <cmath>

#include "heed/adapters.h"
#include "heed/model_files.h"
#include "pretrained/tables.h"
#include "text/unicode.h"
#include "tokenizer/json.h"

namespace heed::inline v0 {

KeyTable adapter_keys() {
  constexpr const char* kBegins = "it is for the start of training";
  constexpr const char* kBookkeeping = "internal to PEFT";
  KeyTable table{applied("peft_type"),
                 applied("base_model_name_or_path"),
                 applied("task_type"),
                 applied("r", 8),
                 applied("lora_alpha", 8),
                 applied("use_rslora", false),
                 applied("use_dora", false),
                 applied("rank_pattern"),
                 applied("alpha_pattern"),
                 applied("init_lora_weights", true),
                 harmless("bias", "biases that were trained are tensors"),
                 applied("target_modules"),
                 applied("exclude_modules"),
                 applied("layers_to_transform"),
                 applied("layers_pattern"),
                 applied("modules_to_save"),
                 harmless("fan_in_fan_out", "the base determines which matrices are transposed"),
                 harmless("lora_dropout", "it is for training"),
                 harmless("inference_mode", "heed merges adapters"),
                 harmless("runtime_config", "heed merges adapters"),
                 harmless("loftq_config", kBegins),
                 harmless("eva_config", kBegins),
                 harmless("corda_config", kBegins),
                 harmless("lora_ga_config", kBegins),
                 harmless("velora_config", "it saves memory in training"),
                 harmless("qalora_group_size", "it only applies with use_qalora"),
                 harmless("auto_mapping", "the base has its class"),
                 harmless("revision", "the base is a directory"),
                 harmless("peft_version", kBookkeeping)};
  for (const char* flag : {"lora_bias", "use_qalora", "ensure_weight_tying"}) table = table.with({only(flag, false)});
  for (const char* none :
       {"layer_replication", "trainable_token_indices", "target_parameters", "alora_invocation_tokens",
        "megatron_config", "use_bdlora", "arrow_config", "kasa_config", "monteclora_config"})
    table = table.with({only(none, nullptr)});
  // They only apply if megatron_config is given.
  return table.with({harmless("megatron_core", kBookkeeping)});
}

namespace {

// PEFT compares this value of target_modules in lower case.
constexpr const char* kAllLinear = "all-linear";

// Whether all-linear leaves out a Linear: the output embedding, or the head of a classifier.
bool is_output(const std::string& module, bool classifier) {
  constexpr const char* kOutputs[] = {"lm_head", "lm_head.decoder", "cls.predictions.decoder", "vocab_projector",
                                      "proj_out"};
  if (std::find(std::begin(kOutputs), std::end(kOutputs), module) != std::end(kOutputs)) return true;
  return classifier && (module == "classifier" || module == "score");
}

bool matches(const Regex& pattern, const std::string& text) {
  Regex::Finder finder(pattern);
  finder.begin(text);
  std::pair<size_t, size_t> match;
  return finder.next(&match);
}

std::string whole(const std::string& pattern) { return "^(?:" + pattern + ")$"; }

}  // namespace

AdapterConfig::AdapterConfig(const std::string& directory)
    : AdapterConfig(
          directory,
          DirectorySnapshot(directory, {kAdapterConfigFile}).read(kAdapterConfigFile, kLargestAdapterConfig)) {}

AdapterConfig::AdapterConfig(const std::string& directory, const std::string& text)
    : where_(directory + "/" + kAdapterConfigFile),
      keys_(keys_in(text, where_).under(adapter_keys())),
      ranks_(patterns("rank_pattern", text)),
      alphas_(patterns("alpha_pattern", text)),
      all_linear_(keys_.is_text("target_modules") && to_lower(keys_.text("target_modules")) == kAllLinear),
      targets_(modules("target_modules")),
      excluded_(modules("exclude_modules")) {
  if (keys_.text("peft_type") != "LORA") keys_.fail("peft_type", "heed has LORA");
  if (keys_.is_text("init_lora_weights"))
    if (const std::string begun = keys_.text("init_lora_weights");
        begun != "gaussian" && begun != "orthogonal" && begun != "eva")
      keys_.fail("init_lora_weights", "adapters with this initialisation change their base");
  rank_ = keys_.integer("r", 1, 1 << 16);
  alpha_ = keys_.number("lora_alpha", 1e-30, 1e30);
  for (const std::string& name : keys_.texts("modules_to_save"))
    saved_.emplace_back("^(?:.*\\.)?" + name + "(?:$|\\.)", where_);
  for (const std::string& name : keys_.text_or_texts("layers_pattern"))
    layers_.emplace_back("^(?:.*?\\.)?" + name + "\\.[0-9]+\\.", where_);
  if (layers_.empty()) layers_.emplace_back("^.*?\\.[^.]*\\.[0-9]+\\.", where_);
}

double AdapterConfig::scale(const std::string& module, int64_t rank) const {
  const auto value_of = [&](const Patterns& patterns, double otherwise) {
    const auto found =
        std::find_if(patterns.begin(), patterns.end(), [&](const auto& one) { return matches(one.first, module); });
    return found == patterns.end() ? otherwise : found->second;
  };
  const double wanted = value_of(ranks_, static_cast<double>(rank_)), alpha = value_of(alphas_, alpha_);
  if (wanted != static_cast<double>(rank))
    throw FormatError(where_ + ": it sets the rank of '" + module + "' to " +
                      std::to_string(static_cast<int64_t>(wanted)) + ", but " + kAdapterFile + " has rank " +
                      std::to_string(rank) + "; correct \"r\" or \"rank_pattern\"");
  return alpha / (keys_.flag("use_rslora") ? std::sqrt(wanted) : wanted);
}

void AdapterConfig::expect_target(const std::string& module, bool embedding) const {
  const auto refuse = [&](const char* key) {
    keys_.fail(key, std::string("it leaves out '") + module + "', for which " + kAdapterFile +
                        " has adapters: PEFT would ignore them; correct the key, or remove these tensors");
  };
  const bool is_target = all_linear_ ? !embedding && !is_output(module, task() == "SEQ_CLS") : targets_.match(module);
  if (!is_target) refuse("target_modules");
  if (excluded_.match(module)) refuse("exclude_modules");
  if (std::any_of(saved_.begin(), saved_.end(), [&](const Regex& one) { return matches(one, module); }))
    refuse("modules_to_save");
  // layers_to_transform counts for lists of names, except full names.
  const bool by_name = all_linear_ || targets_.pattern || targets_.names.contains(module);
  if (!by_name && !in_layers(module)) refuse("layers_to_transform");
}

bool AdapterConfig::Modules::match(const std::string& module) const {
  if (pattern) return matches(*pattern, module);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return module == name || module.ends_with("." + name); });
}

AdapterConfig::Modules AdapterConfig::modules(const std::string& key) const {
  if (keys_.is_text(key)) return {Regex(whole(keys_.text(key)), where_), {}};
  const std::vector<std::string> names = keys_.text_or_texts(key);
  return {{}, {names.begin(), names.end()}};
}

bool AdapterConfig::in_layers(const std::string& module) const {
  if (!keys_.has("layers_to_transform")) return true;
  const std::vector<int32_t> wanted = keys_.ids_or_none("layers_to_transform");
  if (wanted.empty()) return true;
  for (const Regex& one : layers_) {
    Regex::Finder finder(one);
    finder.begin(module);
    std::pair<size_t, size_t> match;
    if (!finder.next(&match)) continue;
    const size_t dot = match.second - 1, begin = module.rfind('.', dot - 1) + 1;  // the number is before the last dot
    const std::string number = module.substr(begin, dot - begin);
    return std::any_of(wanted.begin(), wanted.end(), [&](int32_t n) { return std::to_string(n) == number; });
  }
  return false;
}

/// In the order of the file; the first match applies.
AdapterConfig::Patterns AdapterConfig::patterns(const std::string& key, const std::string& text) const {
  Patterns all;
  if (!keys_.has(key)) return all;
  const JsonDocument document(text, where_);
  const JsonValue given = document.root().at(key);
  if (!given.is_object()) keys_.fail(key, "it must be an object");
  given.each_member([&](std::string_view pattern, const JsonValue& value) {
    const bool is_number = value.type() == JsonValue::Type::integer || value.type() == JsonValue::Type::real;
    if (!is_number || !(value.number() > 0)) keys_.fail(key, "it must have numbers above 0");
    all.emplace_back(Regex("^(?:.*\\.)?(?:" + std::string(pattern) + ")$", where_), value.number());
  });
  return all;
}

}  // namespace heed::inline v0
