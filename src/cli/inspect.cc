// heed inspect: what a checkpoint or a file holds, from the headers alone.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/checkpoint.h"
#include "cli/commands.h"
#include "cli/model_card.h"
#include "core/checked.h"
#include "heed/io.h"
#include "heed/text.h"
#include "io/json.h"
#include "io/load.h"
#include "view/label.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

struct Entry {
  std::string name, dtype;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
};

/// A file of tensors.
struct Holding {
  std::string file, format;
  std::vector<Entry> tensors;
  Metadata metadata;
  uint64_t numbers = 0, bytes = 0;
};

void add_entry(Holding& holding, Entry entry) {
  holding.numbers += checked_product(entry.shape).value_or(0);  // checked against the length of the file already
  holding.bytes += entry.bytes;
  holding.tensors.push_back(std::move(entry));
}

Entry entry_of(const std::string& name, const NpyInfo& info) {
  return {name, info.descr + (info.fortran_order ? " Fortran order" : ""), info.shape, info.data_bytes};
}

void add_safetensors(Holding& holding, const SafetensorsFile& file) {
  holding.format = "safetensors";
  holding.metadata = file.metadata();
  for (const TensorInfo& info : file.tensors())
    add_entry(holding, {info.name, info.dtype_name, info.shape, info.end - info.begin});
}

Holding hold(const fs::path& path) {
  Holding holding;
  holding.file = path.filename().string();
  if (path.extension() == ".npy") {
    holding.format = "npy";
    add_entry(holding, entry_of(path.stem().string(), read_npy_info(path.string())));
  } else if (path.extension() == ".npz") {
    holding.format = "npz";
    for (const auto& [name, info] : read_npz_info(path.string())) add_entry(holding, entry_of(name, info));
  } else {
    add_safetensors(holding, SafetensorsFile(path.string()));
  }
  return holding;
}

struct HeldVocabulary {
  std::string file;
  int64_t pieces = 0;  // 0 for a foreign one, which is not loaded
  uint64_t bytes = 0;
};

// What a checkpoint's directory holds beside tensors.
struct Held {
  std::vector<Holding> holdings;  // model.safetensors first
  std::string config;             // text of config.json
  bool configured = false;        // there is one
  std::vector<HeldVocabulary> vocabularies;
  std::vector<std::pair<std::string, uint64_t>> others;  // name, bytes
};

// 0 for a foreign vocabulary, which is not loaded.
int64_t own_pieces(std::string text, const std::string& path) {
  try {
    return Vocabulary::from_bytes(std::move(text), path).size();
  } catch (const UntrustedError&) {
    return 0;
  }
}

Held read_checkpoint(const fs::path& directory) {
  Held checkpoint;
  std::vector<std::string> names = list_files(directory.string());
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name == "model.safetensors"; });
  const auto opened = [](const std::string& name) {
    return name.ends_with(".safetensors") || name == kConfigFile || name == kVocabularyFile ||
           name == kSourceVocabularyFile;
  };
  const auto others = std::stable_partition(names.begin(), names.end(), opened);
  for (auto it = others; it != names.end(); ++it) {
    std::error_code gone;
    if (const auto bytes = fs::file_size(directory / *it, gone); !gone) checkpoint.others.emplace_back(*it, bytes);
  }
  names.erase(others, names.end());
  const DirectorySnapshot files(directory.string(), names);
  for (const std::string& name : names) {
    if (!files.contains(name)) continue;  // gone since it was listed
    if (name.ends_with(".safetensors")) {
      Holding& holding = checkpoint.holdings.emplace_back();
      holding.file = name;
      add_safetensors(holding, files.safetensors(name));
    } else if (name == kConfigFile) {
      checkpoint.config = files.read(name, 1 << 16);
      checkpoint.configured = true;
    } else {
      std::string text = files.read(name, kLargestVocabulary);
      const uint64_t bytes = text.size();
      checkpoint.vocabularies.push_back({name, own_pieces(std::move(text), (directory / name).string()), bytes});
    }
  }
  if (checkpoint.holdings.empty() && !checkpoint.configured)
    throw FormatError(directory.string() + ": no .safetensors and no config.json; is this a checkpoint?");
  return checkpoint;
}

std::string grouped(uint64_t value) { return with_commas(static_cast<int64_t>(value)); }

std::string readable(uint64_t bytes) {
  std::string text = grouped(bytes) + " bytes";
  if (bytes < 1024) return text;
  double amount = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (amount < 1024) break;
    amount /= 1024;
    unit = next;
  }
  char rounded[32];
  std::snprintf(rounded, sizeof rounded, " (%.1f ", amount);
  return text + rounded + unit + ")";
}

/// A name as it is where that is harmless; in quotes where a terminal could take part of it for a command.
std::string shown(const std::string& name) {
  const bool plain = !name.empty() && name.size() <= 80 && std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F || c == '"' || (c & 0x80);
  });
  return plain ? name : printable(in_quotes(name));
}

void print_tensors(const Holding& holding) {
  std::vector<std::array<std::string, 4>> rows = {{"tensor", "dtype", "shape", "bytes"}};
  for (const Entry& t : holding.tensors)
    rows.push_back({shown(t.name), t.dtype, shape_text(t.shape), grouped(t.bytes)});
  std::array<size_t, 4> widths{};
  for (const auto& row : rows)
    for (size_t c = 0; c < 4; ++c) widths[c] = std::max(widths[c], row[c].size());
  for (const auto& row : rows) {
    for (size_t c = 0; c < 3; ++c) std::cout << row[c] << std::string(widths[c] - row[c].size() + 2, ' ');
    std::cout << std::string(widths[3] - row[3].size(), ' ') << row[3] << '\n';
  }
}

void print_line(const std::string& label, const std::string& value) {
  std::cout << label << std::string(label.size() < 12 ? 12 - label.size() : 1, ' ') << value << '\n';
}

void print_totals(const Holding& holding) {
  print_line("file", shown(holding.file) + ", " + holding.format);
  print_line("tensors", grouped(holding.tensors.size()));
  print_line("parameters", grouped(holding.numbers));
  print_line("data", readable(holding.bytes));
  for (const auto& [key, value] : holding.metadata)
    print_line("metadata", shown(key) + " = " + printable(in_quotes(value)));
}

void print_text(const Held& checkpoint) {
  for (size_t i = 0; i < checkpoint.holdings.size(); ++i) {
    if (i > 0) std::cout << '\n';
    // The other files of a training run repeat the model's tensors: their totals say enough.
    if (i == 0) {
      print_tensors(checkpoint.holdings[i]);
      std::cout << '\n';
    }
    print_totals(checkpoint.holdings[i]);
  }
  if (!checkpoint.config.empty()) std::cout << "\nconfig.json\n";
  for (const std::string& line : CLI::detail::split(checkpoint.config, '\n'))
    if (!line.empty()) std::cout << printable(line) << '\n';
  if (!checkpoint.vocabularies.empty() || !checkpoint.others.empty()) std::cout << '\n';
  for (const HeldVocabulary& v : checkpoint.vocabularies)
    print_line("vocabulary",
               v.file + ", " +
                   (v.pieces > 0 ? grouped(static_cast<uint64_t>(v.pieces)) + " pieces, " : std::string("foreign, ")) +
                   readable(v.bytes));
  for (const auto& [name, bytes] : checkpoint.others) print_line("other", shown(name) + ", " + readable(bytes));
}

nlohmann::ordered_json to_json(const Holding& holding) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const Entry& t : holding.tensors)
    tensors.push_back({{"name", t.name}, {"dtype", t.dtype}, {"shape", t.shape}, {"bytes", t.bytes}});
  return {{"file", holding.file},          {"format", holding.format}, {"tensors", std::move(tensors)},
          {"parameters", holding.numbers}, {"bytes", holding.bytes},   {"metadata", holding.metadata}};
}

void print_json(const Held& checkpoint) {
  using Json = nlohmann::ordered_json;
  Json out = {{"files", Json::array()}};
  for (const Holding& holding : checkpoint.holdings) out["files"].push_back(to_json(holding));
  if (!checkpoint.config.empty()) out["config"] = Json::parse(checkpoint.config);
  for (const HeldVocabulary& v : checkpoint.vocabularies) {
    Json& held = out[v.file == kVocabularyFile ? "vocabulary" : "source_vocabulary"];
    held = {{"file", v.file}, {"bytes", v.bytes}};
    if (v.pieces > 0) held["pieces"] = v.pieces;
  }
  if (!checkpoint.others.empty()) out["others"] = Json::array();
  for (const auto& [name, bytes] : checkpoint.others) out["others"].push_back({{"file", name}, {"bytes", bytes}});
  std::cout << out.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

// That the files are those of one model of heed.
void check(const fs::path& directory, const Held& checkpoint) {
  const ModelConfig config = read_config(checkpoint.config, (directory / kConfigFile).string());
  const auto check_vocabulary = [&](const char* file, int64_t pieces) {
    const auto held = std::find_if(checkpoint.vocabularies.begin(), checkpoint.vocabularies.end(),
                                   [&](const HeldVocabulary& v) { return v.file == file; });
    if (held == checkpoint.vocabularies.end())
      throw FormatError(directory.string() + " lacks " + file + ", which belongs to its " + kConfigFile);
    if (held->pieces > 0) check_pieces(directory.string(), file, held->pieces, pieces);
  };
  std::visit([&](const auto& c) { check_vocabulary(kVocabularyFile, c.vocab_size); }, config);
  if (const auto* c = std::get_if<TransformerConfig>(&config); c && c->source_vocab_size > 0)
    check_vocabulary(kSourceVocabularyFile, c->source_vocab_size);
  for (const Holding& holding : checkpoint.holdings)
    if (holding.file == kModelFile) check_parameters((directory / kModelFile).string(), holding.numbers, config);
}

void inspect(const std::string& path, bool json) {
  std::error_code error;  // whatever it is, opening the file says it better
  Held checkpoint;
  // What is not there and looks like a directory's name: what became of it is said where directories are read.
  if (fs::is_directory(path, error) || (!fs::exists(path, error) && !fs::path(path).has_extension()))
    checkpoint = read_checkpoint(path);
  else
    checkpoint.holdings.push_back(hold(path));
  if (checkpoint.configured) parse_json(checkpoint.config, (fs::path(path) / kConfigFile).string());
  if (json)
    print_json(checkpoint);
  else
    print_text(checkpoint);
  finish_output();
  if (checkpoint.configured) check(path, checkpoint);
}

}  // namespace

void add_inspect(CLI::App& program) {
  struct Options {
    std::string path;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("inspect", "What a checkpoint or a file of tensors holds");
  command->description(
      "What a checkpoint or a file of tensors holds\n\n"
      "Lists the tensors, their types and sizes, the metadata and the configuration of a checkpoint (a directory), or\n"
      "of one .safetensors, .npy or .npz file. Checks the headers in full and that the files of a model belong "
      "together; does not load\n"
      "the data.");
  command->add_option("path", options->path, "Directory or file")->required()->type_name("DIR|FILE");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer("Example:\n  heed inspect models/spa-eng");
  command->callback([options] { inspect(options->path, options->json); });
}

}  // namespace heed::cli
