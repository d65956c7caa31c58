// Low-rank adapters of other makers' models as PEFT keeps them: adapter_config.json, adapter_model.safetensors.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "heed/adapters.h"
#include "heed/image_encoder.h"
#include "heed/model_files.h"
#include "heed/text_encoder.h"
#include "io/json.h"
#include "load/adapters.h"
#include "pretrained/classifier.h"
#include "pretrained/keys.h"
#include "pretrained/layout.h"

namespace heed::inline v0 {
namespace {

constexpr uint64_t kLargestConfig = 1 << 20;  // bytes
constexpr const char* kPrefix = "base_model.model.";
constexpr const char* kEnding = ".weight";
constexpr const char* kOfA = ".lora_A.weight";
constexpr const char* kOfB = ".lora_B.weight";
// q and v, in whatever matrix a family has them.
constexpr const char* kQueriesAndValues[] = {"q_proj", "v_proj", "query", "value",    "q_lin",
                                             "v_lin",  "q",      "v",     "qkv_proj", "c_attn"};

using Json = nlohmann::ordered_json;

std::vector<std::string> stored_names(const PretrainedLayout& layout) {
  if (!layout.anew) return layout.tensors.names();
  std::vector<std::string> names;
  for (const auto& [name, shape] : layout.anew->shapes) names.push_back(name);
  return names;
}

std::vector<int64_t> stored_shape(const PretrainedLayout& layout, const std::string& name) {
  return layout.anew ? layout.anew->shapes.at(name) : layout.tensors.info(name).shape;
}

const PretrainedLayout& layout_of(const PretrainedModel& model) {
  if (!model.layout) throw UsageError("lora: the model was not loaded by load_pretrained");
  return *model.layout;
}

// GPT2Model and BertModel have no prefix of their own, GPT2LMHeadModel and MarianMTModel do.
bool is_bare(const PretrainedLayout& layout) {
  const std::string config = layout.anew ? layout.anew->config : layout.files.read(kConfigFile, kLargestConfig);
  const std::vector<std::string> classes = Keys(parse_json(config, kConfigFile), kConfigFile).texts("architectures");
  if (classes.empty()) return true;
  return classes[0].ends_with("Model") && !classes[0].ends_with("LMHeadModel") && !classes[0].ends_with("MTModel");
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

bool tells_classes(const Module& module) {
  if (const auto* pictures = dynamic_cast<const ImageEncoder*>(&module)) return pictures->config().classes > 0;
  const auto* texts = dynamic_cast<const TextEncoder*>(&module);
  return texts && texts->config().head && texts->config().head->of_first_token;
}

std::vector<std::string> head_of(const PretrainedModel& model) {
  std::vector<std::string> names;
  if (!tells_classes(*model.module)) return names;
  for (const auto& [name, parameter] : model.module->named_parameters())
    if (name.starts_with("head.")) names.push_back(name);
  return names;
}

// "pooler" of "bert.pooler.dense.weight", "classifier" of "classifier.out_proj.weight".
std::string saved_module(std::string name, const Names& names) {
  if (!names.prefixes[0].empty() && name.starts_with(names.prefixes[0])) name = name.substr(names.prefixes[0].size());
  return name.substr(0, name.find('.'));
}

}  // namespace

std::vector<AdaptedRows> linear_layers(const PretrainedModel& model, LowRankLayers which) {
  const PretrainedLayout& layout = layout_of(model);
  const bool bare = is_bare(layout);
  std::vector<AdaptedRows> layers;
  for (const StackedRows& rows : stacked_rows(layout.names, *model.module, stored_names(layout),
                                              [&](const auto& name) { return stored_shape(layout, name); })) {
    std::string name = (bare ? "" : layout.names.prefixes[0]) + rows.plain;
    name = name.substr(0, name.size() - std::string(kEnding).size());
    const std::string last = last_part(name);
    const bool wanted =
        which == LowRankLayers::all ||
        std::find(std::begin(kQueriesAndValues), std::end(kQueriesAndValues), last) != std::end(kQueriesAndValues);
    if (wanted) layers.push_back({name, rows.own, rows.begin, rows.end});
  }
  return layers;
}

std::unique_ptr<LowRankAdapters> make_adapters(const PretrainedModel& model, LowRankLayers which,
                                               const LowRankOptions& options) {
  return std::make_unique<LowRankAdapters>(*model.module, linear_layers(model, which), options, head_of(model));
}

std::string adapter_config(const PretrainedModel& model, const LowRankAdapters& adapters, const std::string& base) {
  const PretrainedLayout& layout = layout_of(model);
  std::set<std::string> targets, saved;
  for (const AdaptedRows& rows : adapters.layers()) targets.insert(last_part(rows.name));
  NamedTensors whole;
  for (const auto& [name, parameter] : adapters.named_parameters())
    if (!name.ends_with(kOfA) && !name.ends_with(kOfB)) whole.emplace_back(name, parameter.value());
  for (const auto& [name, tensor] : write_named(layout.names, whole, stored_names(layout),
                                                [&](const auto& stored) { return stored_shape(layout, stored); }))
    saved.insert(saved_module(name, layout.names));
  const Module* const module = model.module.get();
  std::string task;  // none of pictures, for which PEFT has no word
  if (dynamic_cast<const LanguageModel*>(module)) task = "CAUSAL_LM";
  if (dynamic_cast<const Transformer*>(module)) task = "SEQ_2_SEQ_LM";
  if (dynamic_cast<const TextEncoder*>(module)) task = "SEQ_CLS";
  Json json{{"peft_type", "LORA"},
            {"task_type", task.empty() ? Json() : Json(task)},
            {"base_model_name_or_path", base},
            {"r", adapters.options().rank},
            {"lora_alpha", adapters.options().alpha},
            {"lora_dropout", 0.0},
            {"bias", "none"},
            {"fan_in_fan_out", model.model_type == "gpt2"},
            {"inference_mode", true},
            {"target_modules", targets},
            {"modules_to_save", nullptr}};
  if (!saved.empty()) json["modules_to_save"] = saved;
  return json.dump(2) + "\n";
}

void write_adapters(FileWriter& file, const PretrainedModel& model, const NamedTensors& parameters) {
  const PretrainedLayout& layout = layout_of(model);
  NamedTensors all, whole;
  for (const auto& [name, tensor] : parameters)
    if (name.ends_with(kOfA) || name.ends_with(kOfB))
      all.emplace_back(kPrefix + name, tensor);
    else
      whole.emplace_back(name, tensor);
  for (const auto& [name, tensor] : write_named(layout.names, whole, stored_names(layout),
                                                [&](const auto& stored) { return stored_shape(layout, stored); }))
    all.emplace_back(kPrefix + name, tensor);
  write_safetensors(file, all, {{"format", "pt"}});
}

namespace {

struct AdapterConfig {
  std::string base;
  LowRankOptions options;
};

AdapterConfig read_adapter_config(const std::string& directory) {
  const std::string where = directory + "/" + kAdapterConfigFile;
  const nlohmann::json json =
      parse_json(DirectorySnapshot(directory, {kAdapterConfigFile}).read(kAdapterConfigFile, kLargestConfig), where);
  if (!json.is_object()) throw FormatError(where + ": it is no JSON object");
  const Keys keys(json, where);
  if (keys.text("peft_type") != "LORA") keys.fail("peft_type", "heed has LORA");
  keys.require_text("bias", "none");
  for (const char* key : {"use_rslora", "use_dora"}) keys.require_flag(key, false);
  if (const auto begun = json.find("init_lora_weights");
      begun != json.end() && begun->is_string() && *begun != "gaussian")
    keys.fail("init_lora_weights", "adapters that begin so change their base");
  for (const char* key : {"rank_pattern", "alpha_pattern"})
    if (const auto pattern = keys.object(key); pattern && pattern->size() > 0)
      keys.fail(key, "heed has one rank and one alpha for all layers");
  const std::string base = keys.text("base_model_name_or_path");
  if (std::error_code error; !std::filesystem::is_directory(base, error))
    throw IoError(where + ": its base_model_name_or_path, " + in_quotes(base) +
                  ", is no directory; put the model back, or write its new place there");
  return {base, {.rank = keys.integer("r", 1, 1 << 16), .alpha = keys.number("lora_alpha", 1e-30, 1e30)}};
}

}  // namespace

std::string adapted_base(const std::string& directory) {
  if (!DirectorySnapshot(directory, {kAdapterConfigFile}).contains(kAdapterConfigFile)) return "";
  return read_adapter_config(directory).base;
}

PretrainedModel load_adapted(const std::string& directory) {
  const auto [base, options] = read_adapter_config(directory);
  const DirectorySnapshot files(directory, {kAdapterFile, kConfigFile});
  if (!files.contains(kAdapterFile)) throw FormatError(directory + ": there is no " + kAdapterFile);
  if (!adapted_base(base).empty())
    throw FormatError(directory + "/" + kAdapterConfigFile + ": its base_model_name_or_path, " + base +
                      ", has adapters itself; merge them by heed export");
  const SafetensorsFile file = files.safetensors(kAdapterFile);
  std::vector<std::string> labels;
  if (files.contains(kConfigFile)) labels = classifier_labels(files.read(kConfigFile, kLargestConfig), directory);
  PretrainedModel model = labels.empty() ? load_pretrained(base) : load_classifier(base, labels);
  model.module->to(DType::f32);
  const PretrainedLayout& layout = *model.layout;
  std::vector<AdaptedRows> layers = linear_layers(model, LowRankLayers::all);
  std::erase_if(layers, [&](const AdaptedRows& rows) { return !file.contains(kPrefix + rows.name + kOfA); });
  const std::vector<std::string> whole = head_of(model);
  LowRankAdapters adapters(*model.module, layers, options, whole);
  NamedTensors values;
  std::set<std::string> used;
  const auto take = [&](const std::string& name) {
    if (!file.contains(name)) throw FormatError(file.path() + ": there is no tensor '" + name + "'");
    used.insert(name);
    return file.tensor(name);
  };
  for (const AdaptedRows& rows : layers)
    for (const char* part : {kOfA, kOfB}) values.emplace_back(rows.name + part, take(kPrefix + rows.name + part));
  const std::vector<std::string> stored = stored_names(layout);
  for (const std::string& own : whole) {
    const std::string* const name = find_named(layout.names, own, stored);
    if (!name) throw FormatError(directory + ": the base has no tensor for '" + own + "'");
    values.emplace_back(own, take(kPrefix + *name));
  }
  for (const TensorInfo& info : file.tensors())
    if (!used.contains(info.name))
      throw FormatError(file.path() + ": tensor '" + info.name + "' has no place in " + base +
                        "; results would differ");
  try {
    adapters.load(values);
  } catch (const FormatError& e) {
    throw FormatError(file.path() + ": " + e.what());
  }
  adapters.eval();
  adapters.apply();
  return model;
}

}  // namespace heed::inline v0
