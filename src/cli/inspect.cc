// heed inspect: what a checkpoint or a file holds, from the headers alone.
#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "heed/label.h"
#include "heed/load.h"

namespace heed::cli {
namespace {

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

void print_tensors(const StoredTensors& file) {
  std::vector<std::array<std::string, 4>> rows = {{"tensor", "dtype", "shape", "bytes"}};
  for (const StoredTensor& t : file.tensors)
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

void print_totals(const StoredTensors& file) {
  print_line("file", shown(file.file) + ", " + file.format);
  print_line("tensors", grouped(file.tensors.size()));
  print_line("parameters", grouped(file.numbers));
  print_line("data", readable(file.bytes));
  for (const auto& [key, value] : file.metadata)
    print_line("metadata", shown(key) + " = " + printable(in_quotes(value)));
}

void print_text(const StoredFiles& files) {
  for (size_t i = 0; i < files.tensors.size(); ++i) {
    if (i > 0) std::cout << '\n';
    // The other files of a training run repeat the model's tensors: their totals say enough.
    if (i == 0) {
      print_tensors(files.tensors[i]);
      std::cout << '\n';
    }
    print_totals(files.tensors[i]);
  }
  if (files.config) std::cout << "\nconfig.json\n";
  for (const std::string& line : CLI::detail::split(files.config.value_or(""), '\n'))
    if (!line.empty()) std::cout << printable(line) << '\n';
  if (!files.vocabularies.empty() || !files.others.empty()) std::cout << '\n';
  for (const StoredVocabulary& v : files.vocabularies)
    print_line("vocabulary",
               v.file + ", " +
                   (v.pieces > 0 ? grouped(static_cast<uint64_t>(v.pieces)) + " pieces, " : std::string("foreign, ")) +
                   readable(v.bytes));
  for (const auto& [name, bytes] : files.others) print_line("other", shown(name) + ", " + readable(bytes));
}

nlohmann::ordered_json to_json(const StoredTensors& file) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const StoredTensor& t : file.tensors)
    tensors.push_back({{"name", t.name}, {"dtype", t.dtype}, {"shape", t.shape}, {"bytes", t.bytes}});
  return {{"file", file.file},          {"format", file.format}, {"tensors", std::move(tensors)},
          {"parameters", file.numbers}, {"bytes", file.bytes},   {"metadata", file.metadata}};
}

void print_json(const StoredFiles& files) {
  using Json = nlohmann::ordered_json;
  Json out = {{"files", Json::array()}};
  for (const StoredTensors& file : files.tensors) out["files"].push_back(to_json(file));
  if (files.config) out["config"] = Json::parse(*files.config);
  for (const StoredVocabulary& v : files.vocabularies) {
    Json& held = out[v.file == kVocabularyFile ? "vocabulary" : "source_vocabulary"];
    held = {{"file", v.file}, {"bytes", v.bytes}};
    if (v.pieces > 0) held["pieces"] = v.pieces;
  }
  if (!files.others.empty()) out["others"] = Json::array();
  for (const auto& [name, bytes] : files.others) out["others"].push_back({{"file", name}, {"bytes", bytes}});
  std::cout << out.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void print(const std::string& path, bool json) {
  const StoredFiles files = inspect(path);
  if (json)
    print_json(files);
  else
    print_text(files);
  finish_output();
  if (files.config) check(files, path);
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
      "of one .safetensors, .gguf, .npy or .npz file. Checks the headers in full and that the files of a model belong "
      "together; does not load\n"
      "the data.");
  command->add_option("path", options->path, "Directory or file")->required()->type_name("DIR|FILE");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer("Example:\n  heed inspect models/spa-eng");
  command->callback([options] { print(options->path, options->json); });
}

}  // namespace heed::cli
