// Gives an encoder a head that classifies texts or images, whatever head its directory has.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "heed/model_files.h"
#include "heed/pretrained.h"
#include "heed/random.h"
#include "heed/text_encoder.h"
#include "io/json.h"
#include "pretrained/classifier.h"
#include "pretrained/family.h"
#include "pretrained/layout.h"

namespace heed::inline v0 {
namespace {

constexpr uint64_t kLargestConfig = 1 << 20;  // bytes

using Json = nlohmann::ordered_json;

constexpr const char* kOfTexts = "ForSequenceClassification";
constexpr const char* kOfPictures = "ForImageClassification";

// Names of a family's classes in transformers.
struct Classifier {
  const char* begins;
  const char* ends = kOfTexts;
  const char* matrix = "embedding.weight";  // its dtype becomes that of a new head
};
const std::map<std::string, Classifier> kClassifiers{
    {"bert", {"Bert"}},       {"distilbert", {"DistilBert"}},
    {"roberta", {"Roberta"}}, {"xlm-roberta", {"XLMRoberta"}},
    {"mpnet", {"MPNet"}},     {"vit", {"ViT", kOfPictures, "patches.weight"}}};

bool is_classifier(const std::vector<std::string>& classes) {
  return !classes.empty() && (classes[0].ends_with(kOfTexts) || classes[0].ends_with(kOfPictures));
}

// The configuration with another head.
std::string with_head(const std::string& config, const std::string& head, const std::vector<std::string>& labels) {
  Json json = parse_ordered_json(config, kConfigFile);
  json["architectures"] = {kClassifiers.at(json["model_type"].get<std::string>()).begins + head};
  if (labels.empty()) return json.dump(2) + "\n";
  for (const char* key : {"num_labels", "_num_labels", "problem_type", "id2label", "label2id"}) json.erase(key);
  json["id2label"] = json["label2id"] = Json::object();
  for (size_t i = 0; i < labels.size(); ++i) {
    json["id2label"][std::to_string(i)] = labels[i];
    json["label2id"][labels[i]] = i;
  }
  return json.dump(2) + "\n";
}

// `config` with the key table of its family.
Keys known_keys(const std::string& config, const std::string& where) {
  const Keys keys(parse_json(config, where), where);
  return keys.under(family_of(keys).keys(keys.text("model_type")));
}

std::vector<std::string> labels_in(const std::string& config, const std::string& where) {
  const Keys keys = known_keys(config, where);
  return is_classifier(keys.texts("architectures")) || keys.has("id2label") ? class_labels(keys)
                                                                            : std::vector<std::string>();
}

}  // namespace

std::vector<std::string> labels_of(const PretrainedModel& model) {
  if (!model.layout) throw UsageError("labels_of: the model was not loaded by load_pretrained");
  return labels_in(model.layout->config, model.layout->tensors.where() + "/" + kConfigFile);
}

std::vector<std::string> classifier_labels(const std::string& config, const std::string& directory) {
  const std::string where = directory + "/" + kConfigFile;
  const std::vector<std::string> classes = Keys(parse_json(config, where), where).texts("architectures");
  if (!is_classifier(classes)) return {};
  return labels_in(config, where);
}

PretrainedModel load_classifier(const std::string& directory, const std::vector<std::string>& labels) {
  if (labels.empty()) throw ShapeError("load_classifier: there are no labels; give one for each class");
  const std::string where = directory + "/" + kConfigFile;
  auto layout = std::make_shared<PretrainedLayout>(files_of_model(directory));
  const std::string config = DirectorySnapshot(directory, {kConfigFile}).read(kConfigFile, kLargestConfig);
  const Keys keys = known_keys(config, where);
  const Family& family = family_of(keys);
  const std::string type = keys.text("model_type");
  const auto classifier = kClassifiers.find(type);
  if (classifier == kClassifiers.end())
    throw FormatError(
        where + ": a " + type +
        " tells no classes; bert, distilbert, roberta, xlm-roberta and mpnet do of texts, vit of pictures");
  const std::vector<std::string>& all = layout->tensors.names();
  const TensorSource tensors{all, [&](const std::string& name) { return layout->tensors.tensor(name); }};
  const std::vector<std::string> classes = keys.texts("architectures");
  if (is_classifier(classes)) {
    PretrainedModel model = load_pretrained(directory);
    const std::vector<std::string> has = labels_of(model);
    if (model.head.missing.empty() && has.size() > 1 &&
        std::all_of(labels.begin(), labels.end(),
                    [&](const std::string& label) { return std::find(has.begin(), has.end(), label) != has.end(); }))
      return model;
  }
  // With a single class there is nothing to learn.
  if (labels.size() < 2)
    throw ShapeError("load_classifier: '" + labels[0] + "' is the only label; give lines of two labels at least");
  // Keeps the encoder and drops heads of any kind.
  const Keys bare = known_keys(with_head(config, "Model", {}), where);
  std::vector<std::string> stored = all;
  std::erase_if(stored, [names = family.describe(bare, tensors).names](const std::string& name) {
    return is_of_head(names, name);
  });
  const Described body = family.describe(bare, {stored, tensors.read});
  NamedTensors values;
  try {
    const ShapesOnly shapes_only;
    values = read_named(body.names, *body.make(), stored, tensors.read, directory);
  } catch (const ShapeError& e) {
    throw FormatError(where + ": " + e.what());
  }
  const std::string new_config = with_head(config, classifier->second.ends, labels);
  const Described described = family.describe(known_keys(new_config, where), {all, tensors.read, /*makes_head=*/true});
  PretrainedModel result{.model_type = type, .config = new_config, .module = described.make(), .head = described.head};
  for (const auto& [own, parameter] : result.module->named_parameters()) {
    if (!own.starts_with("head.")) continue;
    const std::string* const there = own.starts_with("head.dense.") ? find_named(described.names, own, all) : nullptr;
    values.emplace_back(own, there ? tensors.read(*there) : parameter.value());
  }
  result.module->load(values);
  result.module->eval();
  layout->names = described.names;
  const TensorInfo& first = layout->tensors.info(*find_named(body.names, classifier->second.matrix, stored));
  const auto shape = [&](const std::string& name) { return layout->tensors.info(name).shape; };
  layout->config = new_config;
  layout->rewritten = {rewritten_shapes(described.names, *result.module, all, shape), *first.dtype};
  result.layout = layout;
  return result;
}

}  // namespace heed::inline v0
