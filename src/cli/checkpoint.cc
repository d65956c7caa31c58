#include "cli/checkpoint.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <type_traits>
#include <utility>

#include "core/checked.h"
#include "heed/io.h"
#include "heed/random.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMost = int64_t{1} << 24;
constexpr const char* kArchitectures[] = {"transformer", "language_model"};  // in the order of ModelConfig

// Before memory is taken for what a lying config.json asks for.
template <class Config>
void check_size(const Config& config, const SafetensorsFile& file) {
  uint64_t held = 0;
  for (const TensorInfo& info : file.tensors()) held += *checked_product(info.shape);  // SafetensorsFile checked it
  if (const auto needed = static_cast<uint64_t>(parameter_count(config)); held != needed)
    throw FormatError(file.path() + ": it holds " + std::to_string(held) + " parameters, but a model as in " +
                      kConfigFile + " has " + std::to_string(needed) + "; the two files belong to different models");
}

// Fields that all models have, in the order of the file: those before the numbers of layers, and those behind.
template <class Config>
void write_width(ConfigWriter& w, const Config& c) {
  w.set("vocab_size", c.vocab_size).set("d_model", c.d_model).set("nhead", c.nhead);
}
template <class Config>
void write_layers(ConfigWriter& w, const Config& c) {
  w.set("dim_feedforward", c.dim_feedforward)
      .set("dropout", c.dropout)
      .set("attention_dropout", c.attention_dropout)
      .set("activation_dropout", c.activation_dropout)
      .set("activation", c.activation)
      .set("norm", c.norm)
      .set("norm_first", c.norm_first)
      .set("bias", c.bias)
      .set("positions", c.positions)
      .set("max_positions", c.max_positions)
      .set("tie_embeddings", c.tie_embeddings);
}

void write_fields(ConfigWriter& w, const TransformerConfig& c) {
  write_width(w, c);
  w.set("num_encoder_layers", c.num_encoder_layers).set("num_decoder_layers", c.num_decoder_layers);
  write_layers(w, c);
  w.set("pad_id", c.pad_id).set("bos_id", c.bos_id).set("eos_id", c.eos_id);
}

void write_fields(ConfigWriter& w, const LanguageModelConfig& c) {
  write_width(w, c);
  w.set("num_kv_heads", c.num_kv_heads).set("num_layers", c.num_layers);
  write_layers(w, c);
}

template <class Config>
void read_common(ConfigReader& r, Config& c) {
  c.vocab_size = r.integer("vocab_size", 1, kMost);
  c.d_model = r.integer("d_model", 1, kMost);
  c.nhead = r.integer("nhead", 1, kMost);
  c.dim_feedforward = r.integer("dim_feedforward", 1, kMost);
  c.dropout = r.number("dropout", 0, 1);
  c.attention_dropout = r.number("attention_dropout", 0, 1);
  c.activation_dropout = r.number("activation_dropout", 0, 1);
  c.activation = r.one_of("activation", {"relu", "gelu", "gelu_tanh", "silu", "swiglu"});
  c.norm = r.one_of("norm", {"layer_norm", "rms_norm"});
  c.norm_first = r.boolean("norm_first");
  c.bias = r.boolean("bias");
  c.positions = r.one_of("positions", {"sinusoidal", "learned", "rotary"});
  c.tie_embeddings = r.boolean("tie_embeddings");
}

TransformerConfig read_transformer(ConfigReader& r) {
  TransformerConfig c;
  read_common(r, c);
  c.num_encoder_layers = r.integer("num_encoder_layers", 1, 1000);
  c.num_decoder_layers = r.integer("num_decoder_layers", 1, 1000);
  c.max_positions = r.integer("max_positions", 2, kMost);
  c.pad_id = static_cast<int32_t>(r.integer("pad_id", 0, kMost));
  c.bos_id = static_cast<int32_t>(r.integer("bos_id", 0, kMost));
  c.eos_id = static_cast<int32_t>(r.integer("eos_id", 0, kMost));
  return c;
}

LanguageModelConfig read_language_model(ConfigReader& r) {
  LanguageModelConfig c;
  read_common(r, c);
  c.num_kv_heads = r.integer("num_kv_heads", 0, kMost);
  c.num_layers = r.integer("num_layers", 1, 1000);
  c.max_positions = r.integer("max_positions", 1, kMost);
  return c;
}

}  // namespace

std::string write_config(const ModelConfig& config) {
  ConfigWriter w;
  w.set("architecture", kArchitectures[config.index()]);
  std::visit([&](const auto& c) { write_fields(w, c); }, config);
  return w.text();
}

ModelConfig read_config(const std::string& json, const std::string& where) {
  ConfigReader r(json, where);
  ModelConfig config;
  if (r.one_of("architecture", {kArchitectures[0], kArchitectures[1]}) == kArchitectures[0])
    config = read_transformer(r);
  else
    config = read_language_model(r);
  r.finish();
  try {
    std::visit([](const auto& c) { validate(c); }, config);
  } catch (const ShapeError& e) {
    throw FormatError(where + ": " + e.what());
  }
  return config;
}

ModelConfig load_config(const std::string& directory) {
  DirectoryTransaction::recover(directory);
  const std::string path = directory + "/" + kConfigFile;
  return read_config(read_file(path, 1 << 20), path);
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
  const auto config =
      expect_config<std::decay_t<decltype(std::declval<Model>().config())>>(load_config(directory), directory);
  Vocabulary vocabulary = Vocabulary::load(directory + "/" + kVocabularyFile, trust);
  if (vocabulary.size() != config.vocab_size)
    throw FormatError(directory + ": " + kVocabularyFile + " has " + std::to_string(vocabulary.size()) + " pieces, " +
                      kConfigFile + " says " + std::to_string(config.vocab_size));
  const SafetensorsFile file(directory + "/" + kModelFile);
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
  return {std::move(model), std::move(vocabulary)};
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
    const fs::path whole = fs::weakly_canonical(fs::absolute(p), unknown);
    const fs::path plain = unknown ? fs::absolute(p).lexically_normal() : whole;
    return plain.has_filename() ? plain : plain.parent_path();
  };
  std::error_code not_there;
  return fs::equivalent(path, other, not_there) || place(path) == place(other);
}

}  // namespace heed::cli
