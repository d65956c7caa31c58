#include "cli/checkpoint.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <type_traits>
#include <utility>

#include "cli/model_card.h"
#include "core/checked.h"
#include "heed/io.h"
#include "heed/random.h"
#include "models/fields.h"
#include "train/state.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kArchitectures[] = {"transformer", "language_model"};  // in the order of ModelConfig

class FieldWriter {
 public:
  explicit FieldWriter(ConfigWriter& to) : to_(to) {}
  template <class T>
  void integer(const char* name, T value, int64_t, int64_t) const {
    to_.set(name, value);
  }
  void optional(const char* name, int64_t value, int64_t) const {
    if (value > 0) to_.set(name, value);
  }
  void probability(const char* name, double value) const { to_.set(name, value); }
  void choice(const char* name, const std::string& value, const std::vector<std::string>&) const {
    to_.set(name, value);
  }
  void flag(const char* name, bool value) const { to_.set(name, value); }

 private:
  ConfigWriter& to_;
};

class FieldReader {
 public:
  explicit FieldReader(ConfigReader& from) : from_(from) {}
  template <class T>
  void integer(const char* name, T& value, int64_t low, int64_t high) const {
    value = static_cast<T>(from_.integer(name, low, high));
  }
  void optional(const char* name, int64_t& value, int64_t high) const { value = from_.integer(name, 1, high, 0); }
  void probability(const char* name, double& value) const { value = from_.number(name, 0, 1); }
  void choice(const char* name, std::string& value, const std::vector<std::string>& names) const {
    value = from_.one_of(name, names);
  }
  void flag(const char* name, bool& value) const { value = from_.boolean(name); }

 private:
  ConfigReader& from_;
};

template <class Config>
Config read_fields(ConfigReader& from) {
  Config c;
  visit_fields(c, FieldReader(from));
  return c;
}

}  // namespace

template <class Config>
void check_size(const Config& config, const SafetensorsFile& file) {
  uint64_t held = 0;
  for (const TensorInfo& info : file.tensors()) held += *checked_product(info.shape);  // SafetensorsFile checked it
  check_parameters(file.path(), held, config);
}
template void check_size(const TransformerConfig&, const SafetensorsFile&);
template void check_size(const LanguageModelConfig&, const SafetensorsFile&);

void check_parameters(const std::string& path, uint64_t has, const ModelConfig& config) {
  const int64_t needs = std::visit([](const auto& c) { return parameter_count(c); }, config);
  if (has != static_cast<uint64_t>(needs))
    throw FormatError(path + ": it holds " + std::to_string(has) + " parameters, but a model as in " + kConfigFile +
                      " has " + std::to_string(needs) + "; the two files belong to different models");
}

void check_pieces(const std::string& directory, const char* file, int64_t has, int64_t needs) {
  if (has != needs)
    throw FormatError(directory + ": " + file + " has " + std::to_string(has) + " pieces, " + kConfigFile + " says " +
                      std::to_string(needs));
}

std::string write_config(const ModelConfig& config) {
  ConfigWriter w;
  w.set("architecture", kArchitectures[config.index()]);
  std::visit([&](const auto& c) { visit_fields(c, FieldWriter(w)); }, config);
  return w.text();
}

ModelConfig read_config(const std::string& json, const std::string& where) {
  ConfigReader r(json, where);
  ModelConfig config;
  if (r.one_of("architecture", {kArchitectures[0], kArchitectures[1]}) == kArchitectures[0])
    config = read_fields<TransformerConfig>(r);
  else
    config = read_fields<LanguageModelConfig>(r);
  r.finish();
  try {
    std::visit([](const auto& c) { validate(c); }, config);
  } catch (const ShapeError& e) {
    throw FormatError(where + ": " + e.what());
  }
  return config;
}

namespace {

ModelConfig config_in(const DirectorySnapshot& files, const std::string& directory) {
  return read_config(files.read(kConfigFile, kLargestConfig), directory + "/" + kConfigFile);
}

}  // namespace

ModelConfig load_config(const std::string& directory) {
  return config_in(DirectorySnapshot(directory, {kConfigFile}), directory);
}

Vocabulary read_vocabulary(const DirectorySnapshot& files, const std::string& directory, const char* name, bool trust) {
  return Vocabulary::from_bytes(files.read(name, kLargestVocabulary), directory + "/" + name, trust);
}

namespace {

Vocabulary loaded(const VocabularyText& vocabulary, const std::string& directory, bool trust) {
  Vocabulary result = Vocabulary::from_bytes(vocabulary.text, directory + "/" + vocabulary.file, trust);
  check_pieces(directory, vocabulary.file.c_str(), result.size(), vocabulary.pieces);
  return result;
}

}  // namespace

std::vector<VocabularyText> read_vocabularies(const DirectorySnapshot& files, const ModelConfig& config) {
  std::vector<VocabularyText> all;
  const auto add = [&](const char* file, int64_t pieces) {
    all.push_back({file, pieces, files.read(file, kLargestVocabulary)});
  };
  add(kVocabularyFile, std::visit([](const auto& c) { return c.vocab_size; }, config));
  if (const auto* translator = std::get_if<TransformerConfig>(&config); translator && translator->source_vocab_size > 0)
    add(kSourceVocabularyFile, translator->source_vocab_size);
  return all;
}

void check_vocabularies(const std::vector<VocabularyText>& vocabularies, const std::string& directory, bool trust) {
  for (const VocabularyText& vocabulary : vocabularies) loaded(vocabulary, directory, trust);
}

Vocabulary load_vocabulary(const std::string& path, bool trust) {
  const fs::path file = path;
  const std::string directory = file.has_parent_path() ? file.parent_path().string() : ".";
  for (const char* name : {kVocabularyFile, kSourceVocabularyFile})
    if (file.filename() == name) return read_vocabulary(DirectorySnapshot(directory, {name}), directory, name, trust);
  return Vocabulary::load(path, trust);
}

void write_model(DirectoryTransaction& transaction, const std::string& directory,
                 const std::map<std::string, std::string>& texts, const NamedTensors& tensors,
                 const Metadata& metadata) {
  for (const char* name : {kConfigFile, kVocabularyFile, kSourceVocabularyFile, kModelCardFile}) {
    if (const auto text = texts.find(name); text != texts.end()) {
      transaction.write(name, text->second);
      continue;
    }
    std::error_code error;
    const std::string path = directory + "/" + name;
    const fs::file_status old = fs::symlink_status(path, error);
    if (!fs::exists(old)) continue;
    if (!fs::is_regular_file(old))
      throw IoError("remove " + path +
                    ": it belongs to another model, but is no regular file, which heed does not touch; remove it or "
                    "choose another directory");
    transaction.remove(name);
  }
  transaction.write(kModelFile, [&](FileWriter& file) { write_safetensors(file, tensors, metadata); });
  transaction.commit();
}

Holds expect_own(const char* option, const std::string& directory) {
  const std::string given = std::string(option) + " " + directory;
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (!fs::exists(status)) return Holds::nothing;
  if (!fs::is_directory(status)) throw IoError(given + " is not a directory; name another");
  std::string other;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    if (const std::string name = it->path().filename().string(); !name.starts_with('.') && name != "lost+found")
      other = name;
  if (error) throw IoError("list " + directory + ": " + error.message());
  const DirectorySnapshot files(directory, {kConfigFile, kModelFile, kVocabularyFile, kStateFile, kLogFile});
  std::string reason = other + ", for one";
  if (files.contains(kConfigFile)) {
    try {
      config_in(files, directory);
      if (files.contains(kStateFile) || files.contains(kLogFile)) return Holds::training;
      if (files.contains(kModelFile)) return Holds::model;
      if (files.contains(kVocabularyFile)) return Holds::training;
    } catch (const FormatError& e) {
      reason = e.what();
    }
  } else if (other.empty()) {
    return Holds::nothing;
  }
  throw ShapeError(given + " holds files that heed did not make (" + reason +
                   "); name a new or empty directory, or one that heed made");
}

template <>
TransformerConfig expect_config(const ModelConfig& config, const std::string& directory) {
  if (const auto* c = std::get_if<TransformerConfig>(&config)) return *c;
  throw ShapeError(directory + " holds a language model, which does not translate; heed generate lets it write");
}

template <>
LanguageModelConfig expect_config(const ModelConfig& config, const std::string& directory) {
  if (const auto* c = std::get_if<LanguageModelConfig>(&config)) return *c;
  throw ShapeError(directory + " holds a translator, not a language model; heed translate runs it");
}

template <class Model>
Checkpoint<Model> load_checkpoint(const std::string& directory, bool trust) {
  const DirectorySnapshot files(directory, kModelFiles);
  const auto config =
      expect_config<std::decay_t<decltype(std::declval<Model>().config())>>(config_in(files, directory), directory);
  const std::vector<VocabularyText> texts = read_vocabularies(files, config);
  Vocabulary vocabulary = loaded(texts.front(), directory, trust);
  const SafetensorsFile file = files.safetensors(kModelFile);
  check_size(config, file);
  NamedTensors tensors;
  for (const TensorInfo& info : file.tensors()) tensors.emplace_back(info.name, file.tensor(info.name));
  const NoInit no_init;
  auto model = std::make_unique<Model>(config);
  // Matrices stay in half precision where the file has all of them so: the same bits, read in half the time.
  for (const DType half : {DType::f16, DType::bf16})
    if (std::all_of(tensors.begin(), tensors.end(),
                    [&](const auto& t) { return t.second.shape().rank() != 2 || t.second.dtype() == half; }))
      model->keep_matrices_as(half);
  try {
    model->load(tensors);
  } catch (const FormatError& e) {
    throw FormatError(file.path() + ": " + e.what());
  }
  model->eval();
  if constexpr (std::is_same_v<Model, Transformer>) {
    Vocabulary source = texts.size() == 1 ? vocabulary : loaded(texts[1], directory, trust);
    return {std::move(model), std::move(vocabulary), std::move(source)};
  } else {
    return {std::move(model), std::move(vocabulary)};
  }
}

template Checkpoint<Transformer> load_checkpoint(const std::string&, bool);
template Checkpoint<LanguageModel> load_checkpoint(const std::string&, bool);

std::string find_model(const std::string& given) {
  if (!given.empty()) return given;
  if (const char* named = std::getenv("HEED_MODEL"); named && *named) return named;
  std::error_code error;
  std::string looked;
  fs::path directory = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int up = 0; up <= 4 && !directory.empty(); ++up) {
    for (const char* place : {"models/spa-eng", "share/heed/models/spa-eng"}) {
      const fs::path candidate = directory / place;
      if (fs::exists(candidate / kConfigFile, error)) return candidate.string();
      looked += (looked.empty() ? "" : ", ") + candidate.string();
    }
    if (directory == directory.parent_path()) break;
    directory = directory.parent_path();
  }
  throw IoError("no model: give --model DIR or set HEED_MODEL (the bundled one is not in " + looked + ")");
}

bool same_file(const std::string& path, const std::string& other) {
  const auto place = [](const std::string& p) {
    std::error_code unknown;
    fs::path at = fs::absolute(p);
    // weakly_canonical() leaves a link to what is not there yet as it is.
    for (int links = 0; links < 40 && fs::is_symlink(at, unknown) && !fs::exists(at, unknown); ++links)
      at = at.parent_path() / fs::read_symlink(at, unknown);
    const fs::path whole = fs::weakly_canonical(at, unknown);
    const fs::path plain = unknown ? at.lexically_normal() : whole;
    return plain.has_filename() ? plain : plain.parent_path();
  };
  std::error_code not_there;
  return fs::equivalent(path, other, not_there) || place(path) == place(other);
}

void expect_other_file(const char* option, const std::string& output, const std::vector<std::string>& inputs) {
  std::error_code error;
  const fs::file_status status = fs::status(output, error);
  if (output.empty() || (fs::exists(status) && !fs::is_regular_file(status))) return;
  for (const std::string& input : inputs)
    if (!input.empty() && same_file(output, input))
      throw ShapeError(std::string(option) + " " + output + " is what the command reads; give another file");
}

std::vector<std::string> model_paths(const std::string& directory) {
  std::vector<std::string> paths;
  for (const std::string& name : kModelFiles) paths.push_back(directory + "/" + name);
  return paths;
}

}  // namespace heed::cli
