#include "cli/checkpoint.h"

#include <cstdlib>
#include <filesystem>

#include "core/checked.h"
#include "heed/io.h"
#include "heed/random.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

// Before memory is taken for what a lying config.json asks for.
void check_size(const TransformerConfig& config, const SafetensorsFile& file) {
  uint64_t held = 0;
  for (const TensorInfo& info : file.tensors()) held += *checked_product(info.shape);  // SafetensorsFile checked it
  if (const auto needed = static_cast<uint64_t>(parameter_count(config)); held != needed)
    throw FormatError(file.path() + ": it holds " + std::to_string(held) + " parameters, but a model as in " +
                      kConfigFile + " has " + std::to_string(needed) + "; the two files belong to different models");
}

}  // namespace

std::string write_config(const TransformerConfig& c) {
  return ConfigWriter()
      .set("architecture", "transformer")
      .set("vocab_size", c.vocab_size)
      .set("d_model", c.d_model)
      .set("nhead", c.nhead)
      .set("num_encoder_layers", c.num_encoder_layers)
      .set("num_decoder_layers", c.num_decoder_layers)
      .set("dim_feedforward", c.dim_feedforward)
      .set("dropout", c.dropout)
      .set("attention_dropout", c.attention_dropout)
      .set("activation_dropout", c.activation_dropout)
      .set("activation", c.activation)
      .set("norm", c.norm)
      .set("norm_first", c.norm_first)
      .set("bias", c.bias)
      .set("positions", c.positions)
      .set("max_positions", c.max_positions)
      .set("tie_embeddings", c.tie_embeddings)
      .set("pad_id", c.pad_id)
      .set("bos_id", c.bos_id)
      .set("eos_id", c.eos_id)
      .text();
}

TransformerConfig read_config(const std::string& json, const std::string& where) {
  constexpr int64_t most = int64_t{1} << 24;
  ConfigReader r(json, where);
  r.one_of("architecture", {"transformer"});
  TransformerConfig c;
  c.vocab_size = r.integer("vocab_size", 1, most);
  c.d_model = r.integer("d_model", 1, most);
  c.nhead = r.integer("nhead", 1, most);
  c.num_encoder_layers = r.integer("num_encoder_layers", 1, 1000);
  c.num_decoder_layers = r.integer("num_decoder_layers", 1, 1000);
  c.dim_feedforward = r.integer("dim_feedforward", 1, most);
  c.dropout = r.number("dropout", 0, 1);
  c.attention_dropout = r.number("attention_dropout", 0, 1);
  c.activation_dropout = r.number("activation_dropout", 0, 1);
  c.activation = r.one_of("activation", {"relu", "gelu", "gelu_tanh", "silu", "swiglu"});
  c.norm = r.one_of("norm", {"layer_norm", "rms_norm"});
  c.norm_first = r.boolean("norm_first");
  c.bias = r.boolean("bias");
  c.positions = r.one_of("positions", {"sinusoidal", "learned", "rotary"});
  c.max_positions = r.integer("max_positions", 2, most);
  c.tie_embeddings = r.boolean("tie_embeddings");
  c.pad_id = static_cast<int32_t>(r.integer("pad_id", 0, most));
  c.bos_id = static_cast<int32_t>(r.integer("bos_id", 0, most));
  c.eos_id = static_cast<int32_t>(r.integer("eos_id", 0, most));
  r.finish();
  try {
    validate(c);
  } catch (const ShapeError& e) {
    throw FormatError(where + ": " + e.what());
  }
  return c;
}

Checkpoint load_checkpoint(const std::string& directory, bool trust) {
  DirectoryTransaction::recover(directory);
  const std::string config_path = directory + "/" + kConfigFile;
  const TransformerConfig config = read_config(read_file(config_path, 1 << 20), config_path);
  Vocabulary vocabulary = Vocabulary::load(directory + "/" + kVocabularyFile, trust);
  if (vocabulary.size() != config.vocab_size)
    throw FormatError(directory + ": " + kVocabularyFile + " has " + std::to_string(vocabulary.size()) + " pieces, " +
                      kConfigFile + " says " + std::to_string(config.vocab_size));
  const SafetensorsFile file(directory + "/" + kModelFile);
  check_size(config, file);
  NamedTensors tensors;
  for (const TensorInfo& info : file.tensors()) tensors.emplace_back(info.name, file.tensor(info.name));
  const NoInit no_init;
  auto model = std::make_unique<Transformer>(config);
  try {
    model->load(tensors);
  } catch (const FormatError& e) {
    throw FormatError(file.path() + ": " + e.what());
  }
  model->eval();
  return {std::move(model), std::move(vocabulary)};
}

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

}  // namespace heed::cli
