#include <algorithm>
#include <filesystem>
#include <map>

#include "heed/config_fields.h"
#include "heed/finite.h"
#include "heed/load.h"
#include "heed/pretrained.h"

namespace heed::inline v0 {
namespace {

// The parts that all models must share.
struct Likeness {
  ModelConfig config;
  std::vector<VocabularyText> vocabularies;
};

Likeness likeness_of(const DirectorySnapshot& files, const std::string& directory) {
  const ModelConfig config = read_config(files.read(kConfigFile, kLargestConfig), directory + "/" + kConfigFile);
  return {.config = config, .vocabularies = read_vocabularies(files, config)};
}

// Dropout is of a training, not of the weights.
ModelConfig without_dropout(ModelConfig config) {
  std::visit([](auto& c) { c.dropout = c.attention_dropout = c.activation_dropout = 0; }, config);
  return config;
}

[[noreturn]] void refuse(const std::string& directory, const std::string& what, const std::string& first) {
  throw UsageError(directory + " has another " + what + " than " + first +
                   "; models that are averaged need one configuration and one vocabulary");
}

void check_alike(const std::string& directory, const Likeness& l, const std::string& first, const Likeness& of_first) {
  const auto refuse_it = [&](const std::string& what) { refuse(directory, what, first); };
  if (l.config.index() != of_first.config.index()) refuse_it("architecture");
  const auto fields = [](const ModelConfig& config) {
    return std::visit([](const auto& c) { return field_values(c); }, without_dropout(config));
  };
  const std::vector<FieldValue> mine = fields(l.config), others = fields(of_first.config);
  for (size_t i = 0; i < mine.size(); ++i)
    if (mine[i].value != others[i].value)
      refuse_it(std::string(mine[i].field.name) + " (" + mine[i].value + ", not " + others[i].value + ")");
  for (size_t i = 0; i < l.vocabularies.size(); ++i)
    if (l.vocabularies[i] != of_first.vocabularies[i]) refuse_it(l.vocabularies[i].file);
}

void expect_finite(const std::optional<std::string>& non_finite) {
  if (non_finite) throw FormatError(*non_finite + "; the model is damaged: leave it out");
}

// The weights of a model, which are those of its configuration and finite.
NamedTensors weights_of(const DirectorySnapshot& files, const ModelConfig& config) {
  const SafetensorsFile file = files.safetensors(kModelFile);
  check_size(config, file);
  NamedTensors tensors;
  for (const TensorInfo& info : file.tensors()) tensors.emplace_back(info.name, file.tensor(info.name));
  expect_finite(file.first_non_finite());
  return tensors;
}

void add(NamedTensors& sums, const NamedTensors& tensors, const std::string& directory) {
  for (auto& [name, sum] : sums) {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&wanted = name](const auto& t) { return t.first == wanted; });
    if (found == tensors.end() || !(found->second.shape() == sum.shape()))
      throw FormatError(directory + "/" + kModelFile + ": tensor '" + name + "' of the other models is " +
                        (found == tensors.end() ? "missing" : "of another shape"));
    const Tensor more = found->second.to(DType::f64).contiguous();
    const std::span<double> to = sum.span<double>(), from = more.span<double>();
    for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }
}

void divide(NamedTensors& sums, size_t models) {
  for (auto& [name, sum] : sums) {
    for (double& x : sum.span<double>()) x /= static_cast<double>(models);
    sum = sum.to(DType::f32);
  }
}

NamedTensors values_of(const Module& module) {
  NamedTensors tensors;
  for (const auto& [name, parameter] : module.named_parameters()) tensors.emplace_back(name, parameter.value());
  return tensors;
}

// The files that the mean takes over, which all models must have alike.
std::map<std::string, std::string> files_of(const StoredModel& model) {
  std::map<std::string, std::string> files = pretrained_texts(model.pretrained());
  files.merge(module_files(model.pretrained()));
  return files;
}

// Hugging Face models keep their layout and their dtypes.
void average_pretrained(const std::vector<std::string>& models, const std::string& directory, bool trust) {
  const StoredModel first = load(models[0], {.trust = trust});
  expect_finite(first_non_finite(first.module()));
  const auto texts = files_of(first);
  NamedTensors sums;
  for (const auto& [name, tensor] : values_of(first.module())) sums.emplace_back(name, tensor.to(DType::f64));
  for (size_t i = 1; i < models.size(); ++i) {
    const StoredModel more = load(models[i], {.trust = trust});
    expect_finite(first_non_finite(more.module()));
    if (more.is_own()) refuse(models[i], "architecture", models[0]);
    const auto own = files_of(more);
    for (const auto& [file, text] : texts)
      if (const auto found = own.find(file); found == own.end() || found->second != text)
        refuse(models[i], file, models[0]);
    for (const auto& [file, text] : own)  // of modules, which stand in directories
      if (file.find('/') != std::string::npos && !texts.contains(file)) refuse(models[i], file, models[0]);
    add(sums, values_of(more.module()), models[i]);
  }
  divide(sums, models.size());
  first.module().to(DType::f32);
  first.module().load(sums);
  save_pretrained(first.pretrained(), directory);
}

}  // namespace

void average_models(const std::vector<std::string>& models, const std::string& directory,
                    const AverageOptions& options) {
  if (models.size() < 2) throw UsageError("average_models: one model is its own mean; name two directories or more");
  std::error_code none;
  for (size_t i = 0; i < models.size(); ++i) {
    if (std::filesystem::equivalent(models[i], directory, none))
      throw UsageError("average_models: " + directory + " is one of the models; name another directory to write");
    for (size_t j = 0; j < i; ++j)
      if (std::filesystem::equivalent(models[i], models[j], none))
        throw UsageError("average_models: " + models[i] + " is given twice; name each model once");
  }
  const std::string given = "average_models: " + directory;
  if (is_pretrained(models[0])) {
    check_pretrained_target(given, directory);
    return average_pretrained(models, directory, options.trust);
  }
  const auto expect_target = [&] { check_target(given, directory, options.existing, "pass Existing::replace"); };
  expect_target();
  Likeness first;
  NamedTensors sums;
  std::string names;
  for (const std::string& model : models) {
    const DirectorySnapshot files(model, kModelFiles);
    const Likeness l = likeness_of(files, model);
    if (names.empty()) {
      check_vocabularies(l.vocabularies, model, options.trust);  // the others must be the same
      first = l;
    }
    check_alike(model, l, models[0], first);
    const NamedTensors weights = weights_of(files, first.config);
    if (names.empty())
      for (const auto& [name, tensor] : weights) sums.emplace_back(name, Tensor::zeros(tensor.shape(), DType::f64));
    add(sums, weights, model);
    names += (names.empty() ? "" : ", ") + std::filesystem::path(model + "/").parent_path().filename().string();
  }
  divide(sums, models.size());
  std::map<std::string, std::string> texts = {
      {kConfigFile, write_config(first.config)},
      {kModelCardFile, "# " + std::filesystem::path(directory + "/").parent_path().filename().string() +
                           "\n\nThe mean of the weights of " + std::to_string(models.size()) +
                           " models, made by heed " HEED_VERSION ": " + names + ".\n"}};
  for (const VocabularyText& vocabulary : first.vocabularies) texts[vocabulary.file] = vocabulary.text;
  DirectoryTransaction transaction(directory);
  expect_target();  // again, now that no other process writes there
  write_model(transaction, texts, sums, {{"format", "heed"}});
}

}  // namespace heed::inline v0
