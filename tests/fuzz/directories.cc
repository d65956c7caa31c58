// What trainings and data leave in directories: journals, states, logs, tokens, texts.
#include <cstring>
#include <sstream>

#include "fuzz/fuzz.h"
#include "heed/corpus.h"
#include "heed/io.h"
#include "heed/model_files.h"
#include "heed/text.h"
#include "heed/token_file.h"
#include "recipe/training_report.h"
#include "train/state.h"

namespace heed::fuzz {
namespace {

// --------------------------------------------------------------------------------------------------------- journal

// A journal that came with a directory touches files of heed's names in it and no others.
void run_journal(const std::string& bytes) {
  static const Directory outside;
  const std::string directory = outside.at("model");
  const std::vector<std::string> others = {"notes.txt", ".hidden", "checkpoint-of-mine.safetensors",
                                           ".notes.txt.heed-0123456789abcdef.part"};
  std::filesystem::create_directories(directory + "/folder");
  outside.write("victim", "mine");
  for (const std::string& name : others) outside.write("model/" + name, "mine");
  outside.write("model/folder/inner", "mine");
  outside.write("model/config.json", "old");
  outside.write("model/.config.json.heed-0123456789abcdef.part", "new");
  outside.write("model/.heed-journal", bytes);
  try {
    DirectorySnapshot(directory, {"config.json", "notes.txt"}).names();
    list_files(directory);
    DirectoryTransaction transaction(directory);
  } catch (const Error&) {
  }
  expect(read_file(outside.at("victim")) == "mine", "a journal does not lead out of its directory");
  expect(read_file(outside.at("model/folder/inner")) == "mine", "a journal does not lead into directories");
  for (const std::string& name : others)
    if (!name.ends_with(".part"))  // which the next transaction removes
      expect(read_file(outside.at("model/" + name)) == "mine", "a journal does not touch files of others");
}
std::vector<std::string> journal_examples() {
  const std::string part = ".config.json.heed-0123456789abcdef.part";
  return {R"({"format":1,"rename":[{"from":")" + part + R"(","to":"config.json"}],"remove":["vocabulary.txt"]})",
          R"({"format":1,"rename":[],"remove":["notes.txt","../victim","folder/inner"]})"};
}

// ---------------------------------------------------------------------------------------------------- training.json

void run_state(const std::string& bytes) {
  static const Directory directory;
  directory.write(kStateFile, bytes);
  check_program_files(directory.path());
  const TrainState state = read_state(bytes, "training.json", {});
  write_state(state, {});
}
std::vector<std::string> state_examples() {
  TrainState state;
  state.checkpoints = {4, 8};
  state.files["config.json"] = {.bytes = 3, .crc32 = 7};
  const std::string whole = write_state(state, {});
  return {whole, whole.substr(0, whole.rfind(",\n  \"crc32\"")) + "\n}\n"};
}

// --------------------------------------------------------------------------------------------------- train.log.jsonl

void run_log(const std::string& bytes) {
  static const Directory directory;
  directory.write(kLogFile, bytes);
  ReportOnTraining({.path = directory.at("report.html"), .directory = directory.path(), .title = "t", .text = "x"}, {})
      .write();
}
std::vector<std::string> log_examples() {
  return {R"({"type":"train","epoch":1,"update":4,"nll":3.5,"learning_rate":0.001,"gradient_norm":1.5,"minutes":0.1})"
          "\n"
          R"({"type":"validation","epoch":1,"update":4,"nll":3.4,"average_nll":3.3,"bleu":12.5,"minutes":0.2})"
          "\n"};
}

// ---------------------------------------------------------------------------------------------------- maps of a report

void run_maps(const std::string& bytes) {
  static const Directory directory;
  directory.write(kAttentionFile, bytes);
  const MapsOverTime maps(directory.at(kAttentionFile), {{{1, 2}, {3}, "a"}}, 2);
  maps.file();
}
std::vector<std::string> maps_examples() {
  const Directory directory;
  MapsOverTime maps(directory.at("none"), {{{1, 2}, {3}, "a"}}, 2);
  for (const int64_t update : {0, 10}) maps.add(0, update, {Tensor::zeros({1, 2, 3, 3}), Tensor::zeros({1, 1, 2, 3})});
  write_file_atomically(directory.at("maps"), maps.file());
  return {read_file(directory.at("maps"))};
}

// ----------------------------------------------------------------------------------------------------- token files

void read_tokens(const std::string& bytes) {
  static const Directory directory;
  directory.write("tokens", bytes);
  const TokenFile file(directory.at("tokens"));
  if (file.info().text) {
    const auto corpus = file.text();
    corpus->read(0, std::min<int64_t>(corpus->size(), 1000));
  } else {
    const auto corpus = file.pairs();
    const int64_t size = std::min<int64_t>(corpus->size(), 1000);
    corpus->lengths(0, size);
    for (int64_t i = 0; i < size; ++i) corpus->read(i);
  }
}

// As they are, and with the checksum at their end made right, so that what it guards is read, too.
void run_tokens(std::string bytes) {
  try {
    read_tokens(bytes);
  } catch (const Error&) {
  }
  constexpr size_t kTrailer = 32, kChecksum = 16;  // heed/token_file.h
  if (bytes.size() < kTrailer) return;
  const size_t end = bytes.size() - kTrailer;
  uint64_t begin = 0;
  std::memcpy(&begin, bytes.data() + end, sizeof begin);
  if (begin > end) return;
  const uint32_t sum = checksum_of(std::string_view(bytes).substr(begin, end - begin)).crc32;
  std::memcpy(bytes.data() + end + kChecksum, &sum, sizeof sum);
  read_tokens(bytes);
}
std::vector<std::string> tokens_examples() {
  struct Memory : FileWriter {
    using FileWriter::write;
    void write(std::span<const std::byte> more) override {
      bytes.append(reinterpret_cast<const char*>(more.data()), more.size());
    }
    std::string bytes;
  };
  Memory text, pairs;
  const std::vector<int32_t> ids = {1, 2, 3, 4};
  TokenWriter of_text(text, /*text=*/true, 5), of_pairs(pairs, /*text=*/false, 1 << 17);
  of_text.write_text(ids);
  of_text.finish({.bytes = 4, .characters = 4, .vocabulary = "v"});
  of_pairs.write_pair(ids, std::span(ids).first(2));
  of_pairs.write_pair({}, ids);
  of_pairs.finish({.vocabulary = "v", .source_vocabulary = "w"});
  return {text.bytes, pairs.bytes};
}

// ------------------------------------------------------------------------------------------------------------ texts

void run_texts(const std::string& bytes) {
  static const Directory directory;
  directory.write("data.tsv", bytes);
  std::istringstream in(bytes);
  for (const std::string& line : read_lines(in, "data.tsv")) expect(sanitize_utf8(line) == line, "lines are UTF-8");
  for (const auto& columns : {std::pair{1, 2}, std::pair{2, 1}, std::pair{1, 1}}) {
    try {
      PairReader reader({.pairs = {directory.at("data.tsv")}}, columns);
      for (std::string source, target; reader.next(source, target);)
        expect(source.find('\t') == source.npos && target.find('\n') == target.npos, "columns are apart");
    } catch (const Error&) {
    }
  }
}
std::vector<std::string> texts_examples() {
  return {"Hello.\tHola.\nOne two.\tUno dos.\n",
          "\xEF\xBB\xBF"
          "a\tb\tc\r\n\r\n\n",
          "a\tb\nno tab\n\xFF\t\xE2\x82\n",
          std::string(
              "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b\xe4\x4c\xe2\x02\x00\x4a\x9d\x8b\x9d\x04\x00\x00\x00", 24)};
}

constexpr Format kFormats[] = {{"journal", run_journal, journal_examples, /*json=*/true},
                               {"training_state", run_state, state_examples, /*json=*/true},
                               {"training_log", run_log, log_examples},
                               {"training_maps", run_maps, maps_examples},
                               {"token_file", [](const std::string& bytes) { run_tokens(bytes); }, tokens_examples},
                               {"texts", run_texts, texts_examples}};

}  // namespace

std::span<const Format> directory_formats() { return kFormats; }

}  // namespace heed::fuzz
