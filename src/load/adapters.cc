// Low-rank adapters of third-party models in PEFT's layout: adapter_config.json and adapter_model.safetensors.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "heed/adapters.h"
#include "heed/image_encoder.h"
#include "heed/model_files.h"
#include "heed/text_encoder.h"
#include "io/json.h"
#include "load/adapter_config.h"
#include "load/adapters.h"
#include "pretrained/classifier.h"
#include "pretrained/keys.h"
#include "pretrained/layout.h"
#include "pretrained/tables.h"

namespace heed::inline v0 {

namespace {

constexpr const char* kPrefix = "base_model.model.";
constexpr const char* kEnding = ".weight";
constexpr const char* kOfA = ".lora_A.weight";
constexpr const char* kOfB = ".lora_B.weight";
// Names of the matrices with q and v in all families.
constexpr const char* kQueriesAndValues[] = {"q_proj", "v_proj", "query", "value",    "q_lin",
                                             "v_lin",  "q",      "v",     "qkv_proj", "c_attn"};

using Json = nlohmann::ordered_json;

std::vector<std::string> stored_names(const PretrainedLayout& layout) {
  if (!layout.rewritten) return layout.tensors.names();
  std::vector<std::string> names;
  for (const auto& [name, shape] : layout.rewritten->shapes) names.push_back(name);
  return names;
}

std::vector<int64_t> stored_shape(const PretrainedLayout& layout, const std::string& name) {
  return layout.rewritten ? layout.rewritten->shapes.at(name) : layout.tensors.info(name).shape;
}

const PretrainedLayout& layout_of(const PretrainedModel& model) {
  if (!model.layout) throw UsageError("lora: the model was not loaded by load_pretrained");
  return *model.layout;
}

// Names have no prefix in GPT2Model and BertModel; they have one in GPT2LMHeadModel and MarianMTModel.
bool is_bare(const PretrainedLayout& layout) {
  const std::string& config = layout.config;
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
  std::string task;  // empty for images, for which PEFT has no name
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

constexpr const char* kOfEmbeddingA = ".lora_embedding_A";
constexpr const char* kOfEmbeddingB = ".lora_embedding_B";
constexpr const char* kMagnitudes = ".lora_magnitude_vector";
// The matrix that an adapter changes; PEFT saves it if it is an embedding or a head.
constexpr const char* kOfBase = ".base_layer.weight";

// Splits a tensor's name after the module ("model.layers.0.self_attn.q_proj").
std::optional<std::string> module_of(const std::string& name, const char* ending) {
  if (!name.starts_with(kPrefix) || !name.ends_with(ending)) return {};
  const size_t begin = std::string(kPrefix).size();
  return name.substr(begin, name.size() - begin - std::string(ending).size());
}

Tensor as_matrix(const SafetensorsFile& file, const std::string& name) {
  if (!file.contains(name)) throw FormatError(file.path() + ": there is no tensor '" + name + "'");
  const Tensor tensor = file.tensor(name).to(DType::f32).contiguous();
  if (tensor.rank() != 2)
    throw FormatError(file.path() + ": tensor '" + name + "' has shape " + to_string(tensor.shape()) +
                      "; it must be a matrix");
  return tensor;
}

// The tensors of a base with its adapters merged.
class Merging {
 public:
  Merging(const SafetensorsFile& file, const AdapterConfig& config, const Names& names, const TensorFiles& base)
      : file_(file), config_(config), names_(names), base_(base) {
    for (const TensorInfo& info : file.tensors()) take(info.name);
    untie();
  }
  std::map<std::string, Tensor> tensors() && { return std::move(changed_); }
  /// Whether tensors that are tied in the base differ. tensors() then has all of them.
  bool untied() const { return untied_; }

 private:
  void take(const std::string& name) {
    if (is_copy(name)) return;
    for (const char* ending : {kOfB, kOfEmbeddingB, kMagnitudes, kOfBase})
      if (const auto module = module_of(name, ending)) {
        if (!file_.contains(kPrefix + *module + kOfA) && !file_.contains(kPrefix + *module + kOfEmbeddingA))
          no_place(name);
        return;
      }
    if (const auto layer = module_of(name, kOfA)) {
      config_.expect_target(*layer);
      merge(*layer, as_matrix(file_, kPrefix + *layer + kOfB), as_matrix(file_, name), is_turned(*layer));
    } else if (const auto table = module_of(name, kOfEmbeddingA)) {
      config_.expect_target(*table, /*embedding=*/true);
      merge(*table, as_matrix(file_, kPrefix + *table + kOfEmbeddingB), as_matrix(file_, name), /*turned=*/true);
    } else if (const auto biased = module_of(name, ".base_layer.bias")) {
      changed_[own_name(plain_of(*biased) + ".bias")] = file_.tensor(name);
    } else if (const auto whole = module_of(name, "")) {
      changed_[own_name(plain_of(*whole))] = file_.tensor(name);
    } else {
      no_place(name);
    }
  }

  // With bias = "all", PEFT saves the biases of modules_to_save again, under the names of both copies of the module:
  // the one that computes, and the original, which does not.
  bool is_copy(const std::string& name) const {
    constexpr std::string_view kOriginal = ".original_module.", kTrained = ".modules_to_save.";
    if (name.find(kOriginal) != std::string::npos) return true;
    const size_t at = name.find(kTrained);
    if (at == std::string::npos) return false;
    const std::string module = name.substr(0, at + 1), inner = name.substr(at + kTrained.size());
    for (const std::string& rest : {inner, inner.substr(inner.find('.') + 1)})  // with or without the adapter's name
      if (file_.contains(module + rest)) {
        if (!same_values(file_.tensor(module + rest), file_.tensor(name)))
          throw FormatError(file_.path() + ": '" + name + "' and '" + module + rest +
                            "' are copies of one tensor and differ; save the adapters again");
        return true;
      }
    return false;
  }

  [[noreturn]] void no_place(const std::string& name) const {
    throw FormatError(file_.path() + ": tensor '" + name + "' has no place in " + base_.where() +
                      "; results would differ");
  }

  // Removes the prefix that some classes of a family have.
  std::string plain_of(const std::string& name) const {
    for (const std::string& prefix : names_.prefixes)
      if (!prefix.empty() && name.starts_with(prefix)) return in_this_version(names_, name.substr(prefix.size()));
    return in_this_version(names_, name);
  }
  std::string own_name(const std::string& plain) const { return name_in_files(names_, plain, base_.names()); }
  bool is_turned(const std::string& module) const { return is_transposed(names_, plain_of(module) + kEnding); }

  // W + s B A, (out, in); `turned`: the file has it transposed. With magnitudes each row is scaled to a length (Liu et
  // al. 2024, "DoRA", section 4).
  void merge(const std::string& module, const Tensor& b, const Tensor& a, bool turned) {
    const std::string plain = plain_of(module) + kEnding;
    const std::string* const stored = find_stored(names_, plain, base_.names());
    if (!stored && is_unused(names_, plain)) return;  // a pooler, say, that the base lacks
    if (!stored) no_place(kPrefix + module);
    const std::string brought = kPrefix + module + kOfBase;
    const Tensor base = (file_.contains(brought) ? file_.tensor(brought) : base_.tensor(*stored)).to(DType::f32);
    const bool fits = base.rank() == 2 && a.size(0) == b.size(1) && b.size(0) == base.size(turned ? 1 : 0) &&
                      a.size(1) == base.size(turned ? 0 : 1);
    if (!fits)
      throw FormatError(file_.path() + ": the adapter of '" + module + "', " + to_string(b.shape()) + " times " +
                        to_string(a.shape()) + ", does not fit '" + *stored + "', " + to_string(base.shape()));
    const Tensor original = turned ? base.transpose(0, 1).contiguous() : base;
    const Tensor merged = low_rank_sum(original, b, a, config_.scale(module, a.size(0)));
    if (const std::string magnitudes = kPrefix + module + kMagnitudes; config_.has_magnitudes()) {
      if (!file_.contains(magnitudes))
        throw FormatError(config_.where() + ": \"use_dora\" is true, but " + file_.path() + " has no tensor '" +
                          magnitudes + "'; save the adapters again");
      set_lengths(merged, file_.tensor(magnitudes).to(DType::f32).contiguous(), magnitudes);
    }
    changed_[own_name(plain)] = turned ? merged.transpose(0, 1).contiguous() : merged;
  }

  void set_lengths(const Tensor& rows, const Tensor& lengths, const std::string& name) const {
    if (lengths.numel() != rows.size(0))
      throw FormatError(file_.path() + ": '" + name + "' has " + std::to_string(lengths.numel()) + " lengths for " +
                        std::to_string(rows.size(0)) + " rows");
    for (int64_t r = 0; r < rows.size(0); ++r) {
      const std::span<float> row = rows.select(0, r).span<float>();
      double squares = 0;
      for (const float x : row) squares += double{x} * double{x};
      const double factor = double{lengths.data<float>()[r]} / std::sqrt(squares);
      for (float& x : row) x = static_cast<float>(x * factor);
    }
  }

  // A table that one of two tied names changes leaves the other with the values of the base.
  void untie() {
    std::map<std::string, Tensor> kept;
    for (const auto& [target, source] : names_.ties) {
      const std::string* const table = find_stored(names_, source, base_.names());
      if (!table) continue;
      const std::string one = own_name(target), other = own_name(source);
      const auto value = [&](const std::string& name) {
        const auto changed = changed_.find(name);
        return changed == changed_.end() ? base_.tensor(*table) : changed->second;
      };
      const Tensor of_one = value(one), of_other = value(other);
      if ((changed_.contains(one) || changed_.contains(other)) && !same_values(of_one, of_other)) untied_ = true;
      kept[one] = of_one, kept[other] = of_other;
    }
    if (untied_) changed_.merge(kept);
  }

  const SafetensorsFile& file_;
  const AdapterConfig& config_;
  const Names& names_;
  const TensorFiles& base_;
  std::map<std::string, Tensor> changed_;
  bool untied_ = false;
};

// The class of a task's adapters, if it differs from that of the base in its head.
std::string class_for(const std::string& task, const std::string& wrote) {
  const std::pair<const char*, const char*> kClasses[] = {{"SEQ_CLS", "ForSequenceClassification"},
                                                          {"TOKEN_CLS", "ForTokenClassification"},
                                                          {"QUESTION_ANS", "ForQuestionAnswering"}};
  for (const auto& [name, ending] : kClasses)
    if (task == name && !wrote.ends_with(ending)) return ending;
  return "";
}

// config.json of the base with the class for the adapters' head. PEFT's users choose the class; PEFT only saves the
// task.
std::string config_for(const AdapterConfig& adapters, const SafetensorsFile& file, const std::string& text,
                       const std::string& where) {
  const std::vector<std::string> classes = keys_in(text, where).texts("architectures");
  Json json = parse_ordered_json(text, where);
  const std::string ending = class_for(adapters.task(), classes.empty() ? "" : classes[0]);
  if (ending.empty()) return text;
  json["architectures"] = {"Adapted" + ending};
  for (const char* key : {"num_labels", "id2label", "label2id", "problem_type"}) json.erase(key);
  for (const TensorInfo& info : file.tensors())
    for (const char* output :
         {".score.weight", ".classifier.weight", ".classifier.out_proj.weight", ".classification_head.out_proj.weight"})
      if (info.name.ends_with(output) && info.shape.size() == 2) json["num_labels"] = info.shape[0];
  return json.dump(2) + "\n";
}

std::string untied(const std::string& config) {
  Json json = parse_ordered_json(config, kConfigFile);
  // T5's classes take tables for tied if they are equal, and read the key for something else.
  if (json.at("model_type") == "t5") return config;
  json["tie_word_embeddings"] = false;
  return json.dump(2) + "\n";
}

}  // namespace

std::string adapted_base(const std::string& directory, const std::string& base) {
  if (!DirectorySnapshot(directory, {kAdapterConfigFile}).contains(kAdapterConfigFile)) {
    if (base.empty()) return "";
    throw UsageError("--base " + base + ": " + directory + " has no " + kAdapterConfigFile +
                     "; --base is for adapters only");
  }
  const AdapterConfig config(directory);
  const std::string named = base.empty() ? config.base() : base;
  if (std::error_code error; !std::filesystem::is_directory(named, error))
    throw IoError(config.where() + ": its base_model_name_or_path, " + in_quotes(named) +
                  ", is not a directory; name the base with --base DIR (a command without it takes what heed export " +
                  "--base DIR writes), or correct the key");
  return named;
}

PretrainedModel load_adapted(const std::string& directory, const std::string& base) {
  const AdapterConfig config(directory);
  const DirectorySnapshot own(directory, {kAdapterFile, kConfigFile}), files = files_of_model(base);
  if (!own.contains(kAdapterFile)) throw FormatError(directory + ": there is no " + kAdapterFile);
  if (DirectorySnapshot(base, {kAdapterConfigFile}).contains(kAdapterConfigFile))
    throw FormatError(config.where() + ": its base, " + base + ", has adapters itself; merge them with heed export");
  const SafetensorsFile file = own.safetensors(kAdapterFile);
  const std::string of_base = files.read(kConfigFile, kLargestAdapterConfig);
  Overrides overrides{.config = own.contains(kConfigFile) ? own.read(kConfigFile, kLargestAdapterConfig)
                                                          : config_for(config, file, of_base, base + "/" + kConfigFile),
                      .modules = modules_beside(files, base)};
  const TensorFiles tensors(files);
  const Names names = names_of_files(overrides.config, base + "/" + kConfigFile, tensors);
  Merging merging(file, config, names, tensors);
  if (merging.untied()) overrides.config = untied(overrides.config);
  overrides.tensors = std::move(merging).tensors();
  // Drops heads of another class than the adapters'.
  const auto classes = [](const std::string& text) { return keys_in(text, kConfigFile).texts("architectures"); };
  if (classes(overrides.config) != classes(of_base))
    for (const std::string& name : tensors.names())
      if (!overrides.tensors.contains(name) && is_of_head(names, name)) overrides.without.push_back(name);
  PretrainedModel model = load_with_overrides(files, overrides);
  model.module->to(DType::f32);
  return model;
}

}  // namespace heed::inline v0
