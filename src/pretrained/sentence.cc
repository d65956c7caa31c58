// What sentence-transformers (Reimers and Gurevych 2019, "Sentence-BERT") puts behind a model: modules.json.
#include <algorithm>
#include <span>

#include "heed/finite.h"
#include "heed/io.h"
#include "heed/model_files.h"
#include "heed/pretrained.h"
#include "io/json.h"
#include "pretrained/keys.h"

namespace heed::inline v0 {
namespace {

using Pooling = SentenceModules::Pooling;
using Step = SentenceModules::Step;

constexpr uint64_t kLargest = 1 << 20;  // bytes of a configuration
constexpr size_t kMostModules = 16;
constexpr const char* kModulesFile = "modules.json";
constexpr const char* kPromptsFile = "config_sentence_transformers.json";
constexpr const char* kTokenizerFile = "tokenizer_config.json";

// The first of the files that is there.
std::optional<Keys> keys_of(const std::string& directory, const std::vector<std::string>& names) {
  const DirectorySnapshot files(directory, names);
  for (const std::string& name : names)
    if (files.contains(name)) {
      const std::string where = directory + "/" + name;
      nlohmann::json json = parse_json(files.read(name, kLargest), where);
      if (!json.is_object()) throw FormatError(where + ": it is no JSON object");
      return Keys(std::move(json), where);
    }
  return {};
}

// Modules that say nothing of themselves stand for their defaults.
Keys config_of(const std::string& directory) {
  std::optional<Keys> keys = keys_of(directory, {kConfigFile});
  return keys ? std::move(*keys) : Keys(nlohmann::json::object(), directory + "/" + kConfigFile);
}

// Newer files have one name or a list of them; older ones a flag each, whose order is that of the vectors.
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
    if (std::find(all.begin(), all.end(), kind->pooling) != all.end()) config.fail("pooling_mode", "name each once");
    all.push_back(kind->pooling);
  }
  if (!all.empty()) return all;
  for (const Kind& kind : kKinds)
    if (config.flag(kind.flag, false)) all.push_back(kind.pooling);
  if (all.empty()) all.push_back(Pooling::mean);
  return all;
}

std::optional<Activation> activation_of_dense(const Keys& config) {
  const std::string full = config.text("activation_function", "torch.nn.modules.activation.Tanh");
  const std::string name = full.substr(full.rfind('.') + 1);
  if (name == "Identity") return {};
  if (name == "Tanh") return Activation::tanh;
  if (name == "ReLU") return Activation::relu;
  if (name == "GELU") return Activation::gelu;
  if (name == "SiLU") return Activation::silu;
  config.fail("activation_function", "heed has Identity, Tanh, ReLU, GELU and SiLU");
}

Step dense(const std::string& directory) {
  const Keys config = config_of(directory);
  config.require_flag("use_residual", false);
  for (const char* key : {"module_input_name", "module_output_name"}) config.require_text(key, "sentence_embedding");
  const int64_t in = config.integer("in_features", 1, 1 << 24), out = config.integer("out_features", 1, 1 << 24);
  const DirectorySnapshot files(directory, {kModelFile});
  if (!files.contains(kModelFile)) throw FormatError(directory + ": there is no " + kModelFile);
  const SafetensorsFile file = files.safetensors(kModelFile);
  Step step{.weight = file.tensor("linear.weight").to(DType::f32), .activation = activation_of_dense(config)};
  if (config.flag("bias", true)) step.bias = file.tensor("linear.bias").to(DType::f32);
  if (step.weight.shape() != Dims{out, in} || (step.bias.defined() && step.bias.shape() != Dims{out}))
    throw FormatError(file.path() + ": its layer is " + to_string(step.weight.shape()) + ", " + config.where() +
                      " says " + to_string(Dims{out, in}));
  const std::pair<std::string, Tensor> parts[] = {{"linear.weight", step.weight}, {"linear.bias", step.bias}};
  if (const auto found = first_non_finite(std::span(parts).first(step.bias.defined() ? 2 : 1)))
    throw FormatError(file.path() + ": " + *found);
  return step;
}

// The directory of a module, which stands in that of the model.
std::string path_of(const std::string& directory, const Keys& module) {
  const std::string path = module.text("path");
  if (path.empty() || path == "." || path == ".." || path.find('/') != std::string::npos)
    module.fail("path", "it must be the name of a directory beside " + std::string(kModulesFile));
  return directory + "/" + path;
}

// Whether a prompt is pooled with the text.
bool read_modules(const std::string& directory, const nlohmann::json& list, SentenceModules& result) {
  bool pools_prompt = true;
  const std::string where = directory + "/" + kModulesFile;
  if (!list.is_array() || list.size() < 2 || list.size() > kMostModules)
    throw FormatError(where + ": it must be a list of up to " + std::to_string(kMostModules) +
                      " modules: a Transformer, a Pooling, then Dense and Normalize");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = where + ": module " + std::to_string(i + 1);
    if (!list[i].is_object()) throw FormatError(place + " is no JSON object");
    const Keys module(list[i], place);
    const std::string full = module.text("type"), type = full.substr(full.rfind('.') + 1);
    const bool fits = i == 0   ? type == "Transformer"
                      : i == 1 ? type == "Pooling"
                               : type == "Dense" || type == "Normalize";
    if (!fits) module.fail("type", "heed takes a Transformer, a Pooling, then Dense and Normalize");
    if (i == 0) {
      if (!module.text("path").empty()) module.fail("path", "the Transformer must stand in the directory itself");
    } else if (i == 1) {
      const Keys config = config_of(path_of(directory, module));
      result.pooling = pooling_of(config);
      pools_prompt = config.flag("include_prompt", true);
    } else {
      result.steps.push_back(type == "Dense" ? dense(path_of(directory, module)) : Step{});
    }
  }
  return pools_prompt;
}

void read_lengths(const std::string& directory, SentenceModules& result) {
  if (const auto config = keys_of(directory, {"sentence_bert_config.json", "sentence_roberta_config.json",
                                              "sentence_distilbert_config.json", "sentence_xlm-roberta_config.json"})) {
    result.longest = config->integer("max_seq_length", 1, INT32_MAX, 0);
    result.lower_case = config->flag("do_lower_case", false);
  }
  if (result.longest > 0) return;
  constexpr double kNone = 1e30;  // stands for no limit
  if (const auto config = keys_of(directory, {kTokenizerFile}))
    if (const double most = config->number("model_max_length", 1, 1e300, kNone); most < INT32_MAX)
      result.longest = static_cast<int64_t>(most);
}

}  // namespace

SentenceModules load_sentence_modules(const std::string& directory) {
  SentenceModules result;
  const DirectorySnapshot files(directory, {kModulesFile});
  if (!files.contains(kModulesFile)) return result;
  const std::string where = directory + "/" + kModulesFile;
  const bool pools_prompt = read_modules(directory, parse_json(files.read(kModulesFile, kLargest), where), result);
  read_lengths(directory, result);
  if (const auto config = keys_of(directory, {kPromptsFile}))
    if (const std::string name = config->text("default_prompt_name", ""); !name.empty()) {
      const std::optional<Keys> prompts = config->object("prompts");
      if (!prompts) config->fail("default_prompt_name", "it must name one of \"prompts\"");
      result.prompt = prompts->text(name);
      if (!pools_prompt && !result.prompt.empty())
        config->fail("default_prompt_name", "heed pools a prompt with the text, which this model does not");
    }
  return result;
}

}  // namespace heed::inline v0
