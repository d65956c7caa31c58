// What a killed run needs to go on: small numbers in training.json, weights and moments in training.safetensors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/io.h"
#include "heed/model_files.h"
#include "heed/random.h"
#include "heed/task.h"
#include "heed/train.h"

namespace heed::inline v0 {

/// What programs keep in the directory: a state stands with those that are there.
inline constexpr const char* kProgramFiles[] = {kConfigFile, kVocabularyFile, kSourceVocabularyFile,
                                                kAdapterConfigFile};
bool is_program_file(std::string_view name);
std::string checkpoint_file(int64_t update);

/// Sums since the last progress report.
struct Progress {
  double loss = 0, nll = 0;
  int64_t target_tokens = 0, sentences = 0, updates = 0;
};

struct TrainState {
  int64_t update = 0;  // done
  int64_t epoch = 1;   // of the next batch
  int64_t batch = 0;   // the next one within the epoch
  double seconds = 0;  // of training, all runs
  int64_t validated_at = -1;
  std::optional<double> best_nll{}, best_bleu{};
  int64_t best_update = 0;
  bool average_is_best = false;
  int64_t without_progress = 0;
  std::vector<int64_t> checkpoints{};  // updates, oldest first: the files that will be averaged
  double ended_minutes = 0;            // TrainOptions::max_minutes that ended a run; 0: none did
  int64_t log_bytes = 0;
  std::map<std::string, Checksum> files{};  // that the state stands with, by name; states of before have none
  Progress window{};
  Generator generator{};
};

Recipe recipe_of(const Task& task, const TrainOptions& options);
/// Those of so many pairs and of a text; `block` as the training uses it.
Recipe settings_of_pairs(const TrainOptions& options, int64_t pairs);
Recipe settings_of_text(const TrainOptions& options, int64_t block);

/// FNV-1a over lengths and ids, or bytes: tells whether a directory belongs to this data, no more.
class Fingerprint {
 public:
  void add(const std::vector<int32_t>& ids);
  void add(std::string_view bytes);
  std::string text() const;  // 16 hexadecimal digits

 private:
  void add(uint64_t value);
  uint64_t hash_ = 0xcbf29ce484222325u;
};
std::string fingerprint(const std::vector<int32_t>& text);

/// Its last field, crc32, is the CRC-32 of the text without that field.
std::string write_state(const TrainState& state, const Recipe& recipe);
/// Throws FormatError for a broken state, and TrainingDiffers for another recipe, naming the first difference. States
/// of before have no checksum of their own.
TrainState read_state(const std::string& json, const std::string& where, const Recipe& recipe);

/// Throws FormatError for the first file that is not as it was saved.
void check_files(const std::map<std::string, Checksum>& files, const std::string& directory);
/// Of those of kProgramFiles that are there.
std::map<std::string, Checksum> checksums_of_program_files(const std::string& directory);

/// The log of a directory: appended to, cut back on resuming.
class TrainLog {
 public:
  /// Opens the log and keeps its first `bytes` bytes. Throws IoError, and FormatError for a file that is no such log.
  TrainLog(const std::string& directory, int64_t bytes);
  ~TrainLog();
  TrainLog(const TrainLog&) = delete;
  TrainLog& operator=(const TrainLog&) = delete;
  void write(std::string line);  // without the newline
  void sync() const;
  int64_t bytes() const { return bytes_; }

 private:
  std::string path_;
  int fd_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace heed::inline v0
