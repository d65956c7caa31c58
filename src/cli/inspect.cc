// heed inspect: what a checkpoint or a file holds, from the headers alone.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/checked.h"
#include "heed/io.h"
#include "heed/text.h"
#include "io/json.h"
#include "io/load.h"

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
    holding.format = "safetensors";
    const SafetensorsFile file(path.string());
    holding.metadata = file.metadata();
    for (const TensorInfo& info : file.tensors())
      add_entry(holding, {info.name, info.dtype_name, info.shape, info.end - info.begin});
  }
  return holding;
}

/// What a checkpoint's directory holds beside tensors.
struct Checkpoint {
  std::vector<Holding> holdings;  // model.safetensors first
  std::string config;             // text of config.json
  std::string vocabulary;         // name of the file; empty where there is none
  int64_t vocabulary_size = 0;    // 0 for a foreign one, which is not loaded
  uint64_t vocabulary_bytes = 0;
  std::vector<std::pair<std::string, uint64_t>> others;  // name, bytes
};

Checkpoint read_checkpoint(const fs::path& directory) {
  Checkpoint checkpoint;
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    if (it->is_regular_file()) paths.push_back(it->path());
  if (error) throw IoError("list " + directory.string() + ": " + error.message());
  std::sort(paths.begin(), paths.end());
  std::stable_partition(paths.begin(), paths.end(),
                        [](const fs::path& p) { return p.filename() == "model.safetensors"; });
  for (const fs::path& path : paths) {
    const std::string name = path.filename().string();
    if (path.extension() == ".safetensors") {
      checkpoint.holdings.push_back(hold(path));
    } else if (name == "config.json") {
      checkpoint.config = read_file(path.string(), 1 << 16);
    } else if (name.starts_with("vocabulary")) {
      checkpoint.vocabulary = name;
      const std::string text = read_file(path.string());
      checkpoint.vocabulary_bytes = text.size();
      if (text.starts_with("heed-vocabulary 1 bpe") || text.starts_with("heed-vocabulary 1 characters"))
        checkpoint.vocabulary_size = Vocabulary::from_text(text).size();
    } else {
      checkpoint.others.emplace_back(name, fs::file_size(path));
    }
  }
  if (checkpoint.holdings.empty() && checkpoint.config.empty())
    throw FormatError(directory.string() + ": no .safetensors and no config.json; is this a checkpoint?");
  return checkpoint;
}

std::string grouped(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

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
std::string printable(const std::string& name) {
  const bool plain = !name.empty() && name.size() <= 80 && std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F || c == '"' || (c & 0x80);
  });
  return plain ? name : in_quotes(name);
}

void print_tensors(const Holding& holding) {
  std::vector<std::array<std::string, 4>> rows = {{"tensor", "dtype", "shape", "bytes"}};
  for (const Entry& t : holding.tensors)
    rows.push_back({printable(t.name), t.dtype, shape_text(t.shape), grouped(t.bytes)});
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
  print_line("file", printable(holding.file) + ", " + holding.format);
  print_line("tensors", grouped(holding.tensors.size()));
  print_line("parameters", grouped(holding.numbers));
  print_line("data", readable(holding.bytes));
  for (const auto& [key, value] : holding.metadata) print_line("metadata", printable(key) + " = " + in_quotes(value));
}

void print_text(const Checkpoint& checkpoint) {
  for (size_t i = 0; i < checkpoint.holdings.size(); ++i) {
    if (i > 0) std::cout << '\n';
    // The other files of a training run repeat the model's tensors: their totals say enough.
    if (i == 0) {
      print_tensors(checkpoint.holdings[i]);
      std::cout << '\n';
    }
    print_totals(checkpoint.holdings[i]);
  }
  if (!checkpoint.config.empty()) std::cout << "\nconfig.json\n" << checkpoint.config;
  if (!checkpoint.config.empty() && checkpoint.config.back() != '\n') std::cout << '\n';
  if (!checkpoint.vocabulary.empty() || !checkpoint.others.empty()) std::cout << '\n';
  if (!checkpoint.vocabulary.empty())
    print_line("vocabulary", checkpoint.vocabulary + ", " +
                                 (checkpoint.vocabulary_size > 0
                                      ? grouped(static_cast<uint64_t>(checkpoint.vocabulary_size)) + " pieces, "
                                      : std::string("foreign, ")) +
                                 readable(checkpoint.vocabulary_bytes));
  for (const auto& [name, bytes] : checkpoint.others) print_line("other", printable(name) + ", " + readable(bytes));
}

nlohmann::ordered_json to_json(const Holding& holding) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const Entry& t : holding.tensors)
    tensors.push_back({{"name", t.name}, {"dtype", t.dtype}, {"shape", t.shape}, {"bytes", t.bytes}});
  return {{"file", holding.file},          {"format", holding.format}, {"tensors", std::move(tensors)},
          {"parameters", holding.numbers}, {"bytes", holding.bytes},   {"metadata", holding.metadata}};
}

void print_json(const Checkpoint& checkpoint) {
  nlohmann::ordered_json out;
  out["files"] = nlohmann::ordered_json::array();
  for (const Holding& holding : checkpoint.holdings) out["files"].push_back(to_json(holding));
  if (!checkpoint.config.empty()) out["config"] = nlohmann::ordered_json::parse(checkpoint.config);
  if (!checkpoint.vocabulary.empty()) {
    out["vocabulary"] = {{"file", checkpoint.vocabulary}, {"bytes", checkpoint.vocabulary_bytes}};
    if (checkpoint.vocabulary_size > 0) out["vocabulary"]["pieces"] = checkpoint.vocabulary_size;
  }
  for (const auto& [name, bytes] : checkpoint.others) out["others"].push_back({{"file", name}, {"bytes", bytes}});
  std::cout << out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

void inspect(const std::string& path, bool json) {
  std::error_code error;  // whatever it is, opening the file says it better
  if (!fs::exists(path, error)) DirectoryTransaction::recover(path);
  Checkpoint checkpoint;
  if (fs::is_directory(path, error))
    checkpoint = read_checkpoint(path);
  else
    checkpoint.holdings.push_back(hold(path));
  if (!checkpoint.config.empty()) parse_json(checkpoint.config, path + "/config.json");
  if (json)
    print_json(checkpoint);
  else
    print_text(checkpoint);
  std::cout.flush();
  if (!std::cout) throw IoError("write to standard output failed");
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
      "Lists the tensors, their types and sizes, the metadata and the configuration of a checkpoint (a directory), or\n"
      "of one .safetensors, .npy or .npz file. Checks the headers in full and does not load the data.");
  command->add_option("path", options->path, "Directory or file")->required()->type_name("DIR|FILE");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer("Example:\n  heed inspect models/spa-eng");
  command->callback([options] { inspect(options->path, options->json); });
}

}  // namespace heed::cli
