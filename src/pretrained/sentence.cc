// modules.json of sentence-transformers (Reimers and Gurevych 2019, "Sentence-BERT"): the steps after a model.
#include <algorithm>
#include <filesystem>
#include <span>

#include "core/gguf.h"
#include "heed/finite.h"
#include "heed/io.h"
#include "heed/model_files.h"
#include "heed/pretrained.h"
#include "io/json.h"
#include "pretrained/keys.h"
#include "pretrained/layout.h"
#include "pretrained/tables.h"

namespace heed::inline v0 {

KeyTable pooling_keys() {
  constexpr const char* kWidth = "the width is the model's";
  return {applied("pooling_mode"),
          applied("pooling_mode_cls_token", false),
          applied("pooling_mode_max_tokens", false),
          applied("pooling_mode_mean_tokens", false),
          applied("pooling_mode_mean_sqrt_len_tokens", false),
          applied("pooling_mode_weightedmean_tokens", false),
          applied("pooling_mode_lasttoken", false),
          applied("include_prompt", true),
          harmless("word_embedding_dimension", kWidth),
          harmless("embedding_dimension", kWidth)};
}

KeyTable normalize_keys() {
  return {only("module_input_name", "sentence_embedding"), only("module_output_name", "sentence_embedding")};
}

KeyTable dense_keys() {
  return normalize_keys().with({applied("in_features"), applied("out_features"), applied("bias", true),
                                applied("activation_function", "torch.nn.modules.activation.Tanh"),
                                only("use_residual", false)});
}

KeyTable sentence_transformer_keys() {
  const nlohmann::json none = nlohmann::json::object();
  constexpr const char* kTask = "encode() has no task";
  return {applied("max_seq_length"),
          applied("do_lower_case", false),
          applied("modality_config"),
          applied("model_args"),
          applied("model_kwargs"),
          applied("tokenizer_args"),
          applied("processor_kwargs"),
          applied("config_args"),
          applied("config_kwargs"),
          only("transformer_task", "feature-extraction"),
          only("module_output_name", "token_embeddings"),
          only("processing_kwargs", none),
          only("query_expansion", nullptr),
          only("tokenizer_name_or_path", nullptr),
          harmless("unpad_inputs", "rows are not padded"),
          harmless("query_length", kTask),
          harmless("document_length", kTask),
          harmless("backend", "heed is one")};
}

KeyTable prompt_keys() {
  return {applied("prompts"),
          applied("default_prompt_name"),
          applied("truncate_dim"),
          only("model_type", "SentenceTransformer"),
          applied("similarity_fn_name"),
          harmless("requirements", "they are of Python packages"),
          harmless("__version__", "it says what wrote the file")};
}

KeyTable module_keys() {
  return {applied("type"), applied("path"), only("kwargs", nlohmann::json::array()),
          harmless("idx", "the list has the order"), harmless("name", "modules are known by their types")};
}

namespace {

using Pooling = SentenceModules::Pooling;
using Step = SentenceModules::Step;

constexpr uint64_t kLargest = 1 << 20;  // bytes of a configuration
constexpr size_t kMostModules = 16;
constexpr const char* kPromptsFile = "config_sentence_transformers.json";
constexpr const char* kTokenizerFile = "tokenizer_config.json";

// Reads the first of the files that exists; if none does, all keys have their defaults.
Keys keys_of(const std::string& directory, const std::vector<std::string>& names, const KeyTable& table) {
  const DirectorySnapshot files(directory, names);
  for (const std::string& name : names)
    if (files.contains(name)) {
      const std::string where = directory + "/" + name;
      nlohmann::json json = parse_json(files.read(name, kLargest), where);
      if (!json.is_object()) throw FormatError(where + ": it is not a JSON object");
      return {std::move(json), where, table};
    }
  return {nlohmann::json::object(), directory + "/" + names[0], table};
}

// Newer files have one name or a list of names; older ones a flag for each kind, and the vectors have the order of
// kKinds.
std::vector<Pooling> pooling_of(const Keys& config) {
  struct Kind {
    const char* name;
    const char* flag;
    Pooling pooling;
  };
  constexpr Kind kKinds[] = {{"cls", "pooling_mode_cls_token", Pooling::first},
                             {"max", "pooling_mode_max_tokens", Pooling::maximum},
                             {"mean", "pooling_mode_mean_tokens", Pooling::mean},
                             {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", Pooling::mean_sqrt_length},
                             {"weightedmean", "pooling_mode_weightedmean_tokens", Pooling::weighted_mean},
                             {"lasttoken", "pooling_mode_lasttoken", Pooling::last}};
  std::vector<Pooling> all;
  for (const std::string& mode : config.text_or_texts("pooling_mode")) {
    const auto* const kind =
        std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.name == mode; });
    if (kind == std::end(kKinds))
      config.fail("pooling_mode", "heed has cls, max, mean, mean_sqrt_len_tokens, weightedmean and lasttoken");
    all.push_back(kind->pooling);
  }
  if (!all.empty()) return all;
  for (const Kind& kind : kKinds)
    if (config.flag(kind.flag)) all.push_back(kind.pooling);
  if (all.empty()) all.push_back(Pooling::mean);
  return all;
}

// As in sentence-transformers' Dense.load without trust_remote_code, a class outside of torch counts as Tanh.
std::optional<Activation> activation_of_dense(const Keys& config) {
  const std::string full = config.text("activation_function", "torch.nn.Identity");  // the default for null
  if (!full.starts_with("torch.")) return Activation::tanh;
  const size_t dot = full.rfind('.');
  const std::string module = full.substr(0, dot), name = full.substr(dot + 1);
  const bool of_torch = module == "torch.nn" || module == "torch.nn.modules";
  if (name == "Identity" && (of_torch || module == "torch.nn.modules.linear")) return {};
  constexpr std::pair<const char*, Activation> kNames[] = {
      {"Tanh", Activation::tanh}, {"ReLU", Activation::relu}, {"GELU", Activation::gelu}, {"SiLU", Activation::silu}};
  if (of_torch || module == "torch.nn.modules.activation")
    for (const auto& [known, activation] : kNames)
      if (name == known) return activation;
  config.fail("activation_function", "heed has Identity, Tanh, ReLU, GELU and SiLU");
}

Step dense(const std::string& directory) {
  const Keys config = keys_of(directory, {kConfigFile}, dense_keys());
  const int64_t in = config.integer("in_features", 1, 1 << 24), out = config.integer("out_features", 1, 1 << 24);
  const DirectorySnapshot files(directory, {kModelFile});
  if (!files.contains(kModelFile)) throw FormatError(directory + ": there is no " + kModelFile);
  const SafetensorsFile file = files.safetensors(kModelFile);
  Step step{.weight = file.tensor("linear.weight").to(DType::f32), .activation = activation_of_dense(config)};
  if (config.flag("bias")) step.bias = file.tensor("linear.bias").to(DType::f32);
  if (step.weight.shape() != Dims{out, in} || (step.bias.defined() && step.bias.shape() != Dims{out}))
    throw FormatError(file.path() + ": its layer is " + to_string(step.weight.shape()) + ", " + config.where() +
                      " says " + to_string(Dims{out, in}));
  const std::pair<std::string, Tensor> parts[] = {{"linear.weight", step.weight}, {"linear.bias", step.bias}};
  if (const auto found = first_non_finite(std::span(parts).first(step.bias.defined() ? 2 : 1)))
    throw FormatError(file.path() + ": " + *found);
  return step;
}

// Whether a path is the name of a directory beside modules.json.
bool is_name(const std::string& path) {
  return !path.empty() && path != "." && path != ".." && path.find('/') == std::string::npos;
}

// The directory of a module, inside that of the model.
std::string path_of(const std::string& directory, const Keys& module) {
  const std::string path = module.text("path");
  if (!is_name(path)) module.fail("path", "it must be the name of a directory beside " + std::string(kModulesFile));
  return directory + "/" + path;
}

// The directory of a module that has files.
std::string files_of(const std::string& directory, const Keys& module) {
  std::string path = path_of(directory, module);
  if (!std::filesystem::is_directory(path))
    module.fail("path", "there is no such directory; copy it from the original model");
  return path;
}

void read_modules(const std::string& directory, const nlohmann::json& list, SentenceModules& result) {
  const std::string where = directory + "/" + kModulesFile;
  if (!list.is_array() || list.size() < 2 || list.size() > kMostModules)
    throw FormatError(where + ": it must be a list of up to " + std::to_string(kMostModules) +
                      " modules: a Transformer, a Pooling, then Dense and Normalize");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = where + ": module " + std::to_string(i + 1);
    if (!list[i].is_object()) throw FormatError(place + " is not a JSON object");
    const Keys module(list[i], place, module_keys());
    const std::string full = module.text("type"), type = full.substr(full.rfind('.') + 1);
    // sentence-transformers runs code of the repository for other packages, which heed does not.
    if (!full.starts_with("sentence_transformers.")) module.fail("type", "heed has no modules of other packages");
    const bool fits = i == 0   ? type == "Transformer"
                      : i == 1 ? type == "Pooling"
                               : type == "Dense" || type == "Normalize";
    if (!fits) module.fail("type", "heed takes a Transformer, a Pooling, then Dense and Normalize");
    if (i == 0) {
      if (!module.text("path").empty()) module.fail("path", "the Transformer must be in the directory itself");
    } else if (i == 1) {
      const Keys config = keys_of(files_of(directory, module), {kConfigFile}, pooling_keys());
      result.pooling = pooling_of(config);
      result.pools_prompt = config.flag("include_prompt");
    } else if (type == "Dense") {
      result.steps.push_back(dense(files_of(directory, module)));
    } else {
      // Normalize has no configuration, so its directory is often missing.
      if (const std::string path = path_of(directory, module); std::filesystem::is_directory(path))
        keys_of(path, {kConfigFile}, normalize_keys());
      result.steps.push_back({});
    }
  }
}

// Refuses arguments of Python's classes, except trust_remote_code, which is ignored there, too.
void check_arguments(const Keys& config, const std::string& key) {
  const std::optional<Keys> given = config.object(key);
  if (given && given->size() > (given->is_given("trust_remote_code") ? 1 : 0))
    config.fail(key, "heed does not support these arguments");
}

// The limit in tokenizer_config.json; 0: none.
int64_t longest_of_tokenizer(const std::string& directory) {
  constexpr double kNone = 1e30;  // transformers' value for no limit
  const Keys tokenizer = keys_of(directory, {kTokenizerFile}, {applied("model_max_length")});
  const double most = tokenizer.number("model_max_length", 1, 1e300, kNone);
  return most < INT32_MAX ? static_cast<int64_t>(most) : 0;
}

void read_transformer(const std::string& directory, SentenceModules& result) {
  const Keys config =
      keys_of(directory,
              {"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json",
               "sentence_camembert_config.json", "sentence_albert_config.json", "sentence_xlm-roberta_config.json",
               "sentence_xlnet_config.json"},
              sentence_transformer_keys());
  for (const char* key :
       {"model_args", "model_kwargs", "tokenizer_args", "processor_kwargs", "config_args", "config_kwargs"})
    check_arguments(config, key);
  if (const std::optional<Keys> modalities = config.object("modality_config")) {
    const KeyTable states{only("method", "forward"), only("method_output_name", "last_hidden_state")};
    if (const std::optional<Keys> text = modalities->object("text"))
      text->under(states);
    else
      config.fail("modality_config", "heed reads text");
  }
  result.longest = config.integer("max_seq_length", 1, INT32_MAX, 0);
  result.lower_case = config.flag("do_lower_case");
  if (result.longest == 0) result.longest = longest_of_tokenizer(directory);
}

Similarity similarity_of(const Keys& config) {
  constexpr std::pair<const char*, Similarity> kNames[] = {{"cosine", Similarity::cosine},
                                                           {"dot", Similarity::dot},
                                                           {"dot_product", Similarity::dot},
                                                           {"euclidean", Similarity::euclidean},
                                                           {"manhattan", Similarity::manhattan}};
  const std::string given = config.text("similarity_fn_name", "cosine");
  for (const auto& [name, similarity] : kNames)
    if (given == name) return similarity;
  config.fail("similarity_fn_name", "it must be cosine, dot, euclidean or manhattan");
}

void read_prompts(const std::string& directory, SentenceModules& result) {
  const Keys config = keys_of(directory, {kPromptsFile}, prompt_keys());
  // A prompt that is null is empty (sentence-transformers, base/model.py, _validate_prompts).
  if (const std::optional<Keys> prompts = config.object("prompts"))
    for (const std::string& name : prompts->names())
      result.prompts[name] = prompts->has(name) ? prompts->text(name) : "";
  if (const std::string name = config.text("default_prompt_name", ""); !name.empty()) {
    if (!result.prompts.contains(name)) config.fail("default_prompt_name", "it must name one of \"prompts\"");
    result.prompt = result.prompts[name];
  }
  result.width = config.integer("truncate_dim", 1, INT32_MAX, 0);
  result.similarity = similarity_of(config);
}

// The pooling that a GGUF file names by llama.cpp's numbers; 0 and none leave the mean.
Pooling pooling_of_gguf(const std::string& path) {
  const GgufFile file(path);
  const std::string key = std::string(file.text("general.architecture").value_or("")) + ".pooling_type";
  const int64_t type = file.integer(key).value_or(0);
  switch (type) {
    case 0:
    case 1:
      return Pooling::mean;
    case 2:
      return Pooling::first;
    case 3:
      return Pooling::last;
    default:
      file.fail(key, "is " + std::to_string(type) + "; heed has 1 (mean), 2 (first token) and 3 (last token)");
  }
}

// The default of sentence-transformers without modules.json: a decoder's last token, else the mean.
Pooling pooling_of_model(const std::string& directory) {
  const DirectorySnapshot files(directory, {kConfigFile});
  if (!files.contains(kConfigFile)) return Pooling::mean;
  const Keys config = read_keys(files, kConfigFile);
  const std::vector<std::string> classes =
      config.has("model_type") ? config.texts("architectures") : std::vector<std::string>();
  return !classes.empty() && classes[0].ends_with("ForCausalLM") && config.flag("is_causal", true) ? Pooling::last
                                                                                                   : Pooling::mean;
}

}  // namespace

Modules modules_beside(const DirectorySnapshot& files, const std::string& directory) {
  Modules found;
  if (!files.contains(kModulesFile)) return found;
  nlohmann::json list = nlohmann::json::array();
  try {
    list = parse_json(files.read(kModulesFile, kLargest), files.path(kModulesFile));
  } catch (const FormatError&) {
    return found;
  }
  for (const nlohmann::json& module : list) {
    const auto path = module.is_object() ? module.find("path") : module.end();
    if (path == module.end() || !path->is_string()) continue;
    const std::string name = *path;
    std::error_code error;
    // A name of the model's own files is that of no directory.
    if (is_name(name) && !is_model_file(name) && std::filesystem::is_directory(directory + "/" + name, error))
      found.emplace(name, DirectorySnapshot(directory + "/" + name, {kConfigFile, kModelFile}));
  }
  return found;
}

SentenceModules load_sentence_modules(const std::string& directory) {
  SentenceModules result;
  result.prompts = {{"query", ""}, {"document", ""}};  // unless the files have others, as in sentence-transformers
  if (is_gguf(directory)) result.pooling = {pooling_of_gguf(directory)};
  if (!std::filesystem::is_directory(directory)) return result;
  const DirectorySnapshot files(directory, {kModulesFile});
  if (!files.contains(kModulesFile)) {
    result.pooling = {pooling_of_model(directory)};
    result.longest = longest_of_tokenizer(directory);
    return result;
  }
  const std::string where = directory + "/" + kModulesFile;
  read_modules(directory, parse_json(files.read(kModulesFile, kLargest), where), result);
  read_transformer(directory, result);
  read_prompts(directory, result);
  return result;
}

}  // namespace heed::inline v0
