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
#include "load/adapters.h"
#include "pretrained/classifier.h"
#include "pretrained/keys.h"
#include "pretrained/layout.h"
#include "pretrained/tables.h"
#include "tokenizer/regex.h"

namespace heed::inline v0 {

KeyTable adapter_keys() {
  constexpr const char* kBegins = "it is for the start of training";
  constexpr const char* kNames = "the tensors show which layers have adapters";
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
                 harmless("target_modules", kNames),
                 harmless("exclude_modules", kNames),
                 harmless("layers_to_transform", kNames),
                 harmless("layers_pattern", kNames),
                 harmless("modules_to_save", kNames),
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

constexpr uint64_t kLargestConfig = 1 << 20;  // bytes
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

// adapter_config.json, with the scale of each layer.
class AdapterConfig {
 public:
  AdapterConfig(const std::string& directory, const std::string& text)
      : where_(directory + "/" + kAdapterConfigFile),
        keys_(keys_in(text, where_).under(adapter_keys())),
        ranks_(patterns("rank_pattern", text)),
        alphas_(patterns("alpha_pattern", text)) {
    if (keys_.text("peft_type") != "LORA") keys_.fail("peft_type", "heed has LORA");
    if (keys_.is_text("init_lora_weights"))
      if (const std::string begun = keys_.text("init_lora_weights");
          begun != "gaussian" && begun != "orthogonal" && begun != "eva")
        keys_.fail("init_lora_weights", "adapters with this initialisation change their base");
    rank_ = keys_.integer("r", 1, 1 << 16);
    alpha_ = keys_.number("lora_alpha", 1e-30, 1e30);
  }

  const std::string& where() const { return where_; }
  std::string base() const { return keys_.text("base_model_name_or_path", ""); }
  std::string task() const { return keys_.text("task_type", ""); }
  bool has_magnitudes() const { return keys_.flag("use_dora"); }

  /// The factor of B A for a module whose A has `rank` rows.
  double scale(const std::string& module, int64_t rank) const {
    const double wanted = value_of(ranks_, module, static_cast<double>(rank_)),
                 alpha = value_of(alphas_, module, alpha_);
    if (wanted != static_cast<double>(rank))
      throw FormatError(where_ + ": it sets the rank of '" + module + "' to " +
                        std::to_string(static_cast<int64_t>(wanted)) + ", " + kAdapterFile + " has " +
                        std::to_string(rank));
    return alpha / (keys_.flag("use_rslora") ? std::sqrt(wanted) : wanted);
  }

 private:
  using Patterns = std::vector<std::pair<Regex, double>>;

  // In the order of the file; the first match applies.
  Patterns patterns(const std::string& key, const std::string& text) const {
    Patterns all;
    const auto json = nlohmann::ordered_json::parse(text);
    const auto given = json.find(key);
    if (given == json.end() || given->is_null()) return all;
    if (!given->is_object()) keys_.fail(key, "it must be an object");
    for (const auto& [pattern, value] : given->items()) {
      if (!value.is_number() || !(value.get<double>() > 0)) keys_.fail(key, "it must have numbers above 0");
      all.emplace_back(Regex("^(?:.*\\.)?(?:" + pattern + ")$", where_), value.get<double>());
    }
    return all;
  }

  static double value_of(const Patterns& patterns, const std::string& module, double otherwise) {
    for (const auto& [pattern, value] : patterns) {
      Regex::Finder finder(pattern);
      finder.begin(module);
      if (std::pair<size_t, size_t> match; finder.next(&match)) return value;
    }
    return otherwise;
  }

  std::string where_;
  Keys keys_;
  Patterns ranks_, alphas_;
  int64_t rank_ = 0;
  double alpha_ = 0;
};

AdapterConfig read_adapter_config(const std::string& directory) {
  return {directory, DirectorySnapshot(directory, {kAdapterConfigFile}).read(kAdapterConfigFile, kLargestConfig)};
}

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

 private:
  void take(const std::string& name) {
    for (const char* ending : {kOfB, kOfEmbeddingB, kMagnitudes, kOfBase})
      if (const auto module = module_of(name, ending)) {
        if (!file_.contains(kPrefix + *module + kOfA) && !file_.contains(kPrefix + *module + kOfEmbeddingA))
          no_place(name);
        return;
      }
    if (const auto layer = module_of(name, kOfA)) {
      merge(*layer, as_matrix(file_, kPrefix + *layer + kOfB), as_matrix(file_, name), is_turned(*layer));
    } else if (const auto table = module_of(name, kOfEmbeddingA)) {
      merge(*table, as_matrix(file_, kPrefix + *table + kOfEmbeddingB), as_matrix(file_, name), /*turned=*/true);
    } else if (const auto biased = module_of(name, ".base_layer.bias")) {
      changed_[own_name(plain_of(*biased) + ".bias")] = file_.tensor(name);
    } else if (const auto whole = module_of(name, "")) {
      changed_[own_name(plain_of(*whole))] = file_.tensor(name);
    } else {
      no_place(name);
    }
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
    if (const std::string magnitudes = kPrefix + module + kMagnitudes; config_.has_magnitudes())
      set_lengths(merged, file_.tensor(magnitudes).to(DType::f32).contiguous(), magnitudes);
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

  // A changed table is no longer tied.
  void untie() {
    for (const auto& [target, source] : names_.ties) {
      const std::string* const table = find_stored(names_, source, base_.names());
      if (!table || !changed_.contains(*table) || changed_.contains(own_name(target))) continue;
      if (find_stored(names_, target, base_.names()) == table) changed_[own_name(target)] = base_.tensor(*table);
    }
  }

  const SafetensorsFile& file_;
  const AdapterConfig& config_;
  const Names& names_;
  const TensorFiles& base_;
  std::map<std::string, Tensor> changed_;
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
  Json json = Json::parse(text);
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

}  // namespace

std::string adapted_base(const std::string& directory, const std::string& base) {
  if (!DirectorySnapshot(directory, {kAdapterConfigFile}).contains(kAdapterConfigFile)) {
    if (base.empty()) return "";
    throw UsageError("--base " + base + ": " + directory + " has no " + kAdapterConfigFile +
                     "; --base is for adapters only");
  }
  const AdapterConfig config = read_adapter_config(directory);
  const std::string named = base.empty() ? config.base() : base;
  if (std::error_code error; !std::filesystem::is_directory(named, error))
    throw IoError(config.where() + ": its base_model_name_or_path, " + in_quotes(named) +
                  ", is not a directory; name the base with --base DIR (a command without it takes what heed export " +
                  "--base DIR writes), or correct the key");
  return named;
}

PretrainedModel load_adapted(const std::string& directory, const std::string& base) {
  const AdapterConfig config = read_adapter_config(directory);
  const DirectorySnapshot own(directory, {kAdapterFile, kConfigFile}), files = files_of_model(base);
  if (!own.contains(kAdapterFile)) throw FormatError(directory + ": there is no " + kAdapterFile);
  if (DirectorySnapshot(base, {kAdapterConfigFile}).contains(kAdapterConfigFile))
    throw FormatError(config.where() + ": its base, " + base + ", has adapters itself; merge them with heed export");
  const SafetensorsFile file = own.safetensors(kAdapterFile);
  const std::string of_base = files.read(kConfigFile, kLargestConfig);
  Overrides overrides{.config = own.contains(kConfigFile)
                                    ? own.read(kConfigFile, kLargestConfig)
                                    : config_for(config, file, of_base, base + "/" + kConfigFile)};
  const TensorFiles tensors(files);
  const Names names = names_of_files(overrides.config, base + "/" + kConfigFile, tensors);
  overrides.tensors = Merging(file, config, names, tensors).tensors();
  // Drops heads of another class than the adapters'.
  const auto classes = [](const std::string& text) { return keys_in(text, kConfigFile).texts("architectures"); };
  if (classes(overrides.config) != classes(of_base))
    for (const std::string& name : tensors.names())
      if (!overrides.tensors.contains(name) &&
          std::any_of(names.without_prefix.begin(), names.without_prefix.end(),
                      [&](const std::string& beginning) { return name.starts_with(beginning); }))
        overrides.without.push_back(name);
  PretrainedModel model = load_with_overrides(files, overrides);
  model.module->to(DType::f32);
  return model;
}

}  // namespace heed::inline v0
