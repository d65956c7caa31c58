#include "train/state.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <sstream>

#include "heed/file_kind.h"
#include "io/mapped_file.h"
#include "train/batches.h"

namespace heed::inline v0 {
namespace {

constexpr int64_t kFormat = 1;
constexpr const char* kFloor = "learning_rate_floor";
constexpr const char* kSubwordDropout = "subword_dropout";
constexpr const char* kRDrop = "r_drop";
constexpr const char* kScheduleEpochs = "schedule_epochs";
constexpr const char* kAccumulate = "accumulate";
constexpr const char* kCriterion = "criterion";
constexpr const char* kContextRanks = "context_ranks";
constexpr const char* kShuffled = "shuffled";
// What states say that are older than these options.
const std::map<std::string, std::string> kBefore{{kFloor, "0"},          {kSubwordDropout, "0"}, {kRDrop, "0"},
                                                 {kScheduleEpochs, "0"}, {kAccumulate, "1"},     {kCriterion, "loss"},
                                                 {kContextRanks, "1"},   {kShuffled, "all"}};
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr double kLargest = std::numeric_limits<double>::max();

std::string shortest(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

void Fingerprint::add(const std::vector<int32_t>& ids) {
  add(ids.size());
  for (const int32_t id : ids) add(static_cast<uint32_t>(id));
}

void Fingerprint::add(std::string_view bytes) {
  for (const char byte : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
}

void Fingerprint::add(uint64_t value) {
  char bytes[8];
  for (int byte = 0; byte < 8; ++byte) bytes[byte] = static_cast<char>(value >> 8 * byte & 0xff);
  add(std::string_view(bytes, sizeof bytes));
}

std::string Fingerprint::text() const {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash_));
  return text;
}

std::string fingerprint(const std::vector<int32_t>& ids) {
  Fingerprint print;
  print.add(ids);
  return print.text();
}

namespace {

uint64_t parse_unsigned(const std::string& text, const std::string& where, const char* key) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw FormatError(where + ": " + key + " is '" + text + "', not a whole number");
  return value;
}

constexpr const char* kRemedy = "; put back a copy of the directory, or start over in another one";

FormatError damaged(const std::string& path) {
  return FormatError(path + ": damaged since it was saved (its checksum is another)" + kRemedy);
}

// A state without its own checksum, which is checked; nothing for one of before, which has none. Looks at the text, so
// that damage is found before anything is made of it.
std::optional<std::string> without_checksum(const std::string& json, const std::string& where) {
  const std::string field = ",\n  \"crc32\": ", end = "\n}\n";  // as ConfigWriter has it
  const size_t at = json.rfind(field);
  if (at == json.npos) return {};
  std::string rest = json.substr(0, at) + end;
  if (json.substr(at + field.size()) != std::to_string(checksum_of(rest).crc32) + end) throw damaged(where);
  return rest;
}

// What the field "files" says of these names.
std::map<std::string, Checksum> read_checksums(ConfigReader& files, const std::vector<std::string>& names) {
  constexpr int64_t kLargestSum = std::numeric_limits<uint32_t>::max();
  std::map<std::string, Checksum> sums;
  for (const std::string& name : names) {
    if (!files.has(name)) continue;
    ConfigReader file = files.object(name);
    sums[name] = {.bytes = static_cast<uint64_t>(file.integer("bytes", 0, kMost)),
                  .crc32 = static_cast<uint32_t>(file.integer("crc32", 0, kLargestSum))};
    file.finish();
  }
  return sums;
}

std::vector<std::string> program_files() { return {std::begin(kProgramFiles), std::end(kProgramFiles)}; }

}  // namespace

bool is_program_file(std::string_view name) {
  return std::find(std::begin(kProgramFiles), std::end(kProgramFiles), name) != std::end(kProgramFiles);
}

std::string checkpoint_file(int64_t update) {
  char name[64];
  std::snprintf(name, sizeof name, "checkpoint-%08lld.safetensors", static_cast<long long>(update));
  return name;
}

Recipe recipe_of(const Task& task, const TrainOptions& o) {
  static constexpr const char* schedules[] = {"inverse_square_root", "cosine", "constant", "linear"};
  const LearningRate& rate = o.learning_rate;
  const bool linear = rate.schedule == Schedule::linear;
  const Task::Data data = task.data();
  Recipe recipe = task.settings();
  recipe.insert(recipe.end(),
                {{"seed", std::to_string(o.seed)},
                 {"beta1", shortest(o.adamw.beta1)},
                 {"beta2", shortest(o.adamw.beta2)},
                 {"epsilon", shortest(o.adamw.epsilon)},
                 {"weight_decay", shortest(o.adamw.weight_decay)},
                 {"schedule", schedules[static_cast<int>(rate.schedule)]},
                 {"learning_rate", shortest(rate.peak)},
                 {kFloor, shortest(rate.floor)},
                 {"warmup", std::to_string(rate.warmup)},
                 {"schedule_total", std::to_string(linear                                             ? o.max_updates
                                                   : rate.schedule == Schedule::cosine || rate.anneal ? rate.total
                                                                                                      : 0)},
                 {kScheduleEpochs, std::to_string(linear ? o.max_epochs : 0)},
                 {"anneal", std::to_string(rate.anneal)},
                 {"clip_norm", shortest(o.clip_norm)},
                 {"label_smoothing", shortest(o.label_smoothing)},
                 {kRDrop, shortest(o.r_drop)},
                 {"validate_every", std::to_string(o.validate_every)},
                 {"average", std::to_string(o.average)},
                 {kAccumulate, std::to_string(o.accumulate)},
                 {kCriterion, o.criterion == Criterion::loss ? "loss" : "bleu of " + std::to_string(o.bleu_sentences)},
                 {"training_data", data.training},
                 {"validation_data", data.validation}});
  return recipe;
}

Recipe settings_of_pairs(const TrainOptions& o, int64_t pairs) {
  const Windows windows;
  return {{"batch_tokens", std::to_string(o.batch_tokens)},
          {"max_length", std::to_string(o.max_length)},
          {kSubwordDropout, shortest(o.subword_dropout)},
          {kShuffled, windows.count(pairs) > 1
                          ? std::to_string(windows.blocks) + " x " + std::to_string(windows.pairs_of_block)
                          : "all"}};
}

Recipe settings_of_text(const TrainOptions& o, int64_t block) {
  return {{"batch", std::to_string(o.batch)},
          {"block", std::to_string(block)},
          {kContextRanks, std::to_string(o.context_ranks)}};
}

std::string write_state(const TrainState& s, const Recipe& recipe) {
  ConfigWriter json, options, window;
  for (const auto& [name, value] : recipe) options.set(name, value);
  window.set("loss", s.window.loss)
      .set("nll", s.window.nll)
      .set("target_tokens", s.window.target_tokens)
      .set("sentences", s.window.sentences)
      .set("updates", s.window.updates);
  std::string checkpoints;
  for (const int64_t update : s.checkpoints) checkpoints += (checkpoints.empty() ? "" : " ") + std::to_string(update);
  json.set("format", kFormat)
      .set("recipe", options)
      .set("update", s.update)
      .set("epoch", s.epoch)
      .set("batch", s.batch)
      .set("seconds", s.seconds)
      .set("validated_at", s.validated_at)
      .set("best_update", s.best_update)
      .set("average_is_best", s.average_is_best)
      .set("without_progress", s.without_progress)
      .set("checkpoints", checkpoints)
      .set("log_bytes", s.log_bytes)
      .set("window", window)
      .set("generator_seed", std::to_string(s.generator.seed))
      .set("generator_stream", std::to_string(s.generator.stream));
  if (s.best_nll) json.set("best_nll", *s.best_nll);
  if (s.ended_minutes > 0) json.set("ended_minutes", s.ended_minutes);
  if (!s.files.empty()) {
    ConfigWriter files;
    for (const auto& [name, sum] : s.files)
      files.set(name, ConfigWriter().set("bytes", static_cast<int64_t>(sum.bytes)).set("crc32", int64_t{sum.crc32}));
    json.set("files", files);
  }
  if (s.best_bleu) json.set("best_bleu", *s.best_bleu);
  json.set("crc32", checksum_of(json.text()).crc32);
  return json.text();
}

namespace {

TrainState parse_state(const std::string& json, const std::string& where, const Recipe& recipe) {
  ConfigReader reader(json, where);
  reader.integer("format", kFormat, kFormat);
  ConfigReader options = reader.object("recipe");
  for (const auto& [name, value] : recipe) {
    const auto younger = kBefore.find(name);
    const std::string before = younger == kBefore.end() ? options.string(name) : options.string(name, younger->second);
    if (before == value) continue;
    if (name == "training_data" || name == "validation_data")
      throw TrainingDiffers(where + ": this run began with other " +
                            (name == "training_data" ? "training" : "validation") +
                            " data; give the same files to resume, or another directory to start over");
    throw TrainingDiffers(where + ": this run began with " + name + " " + before + ", not " + value +
                          "; give the same to resume, or another directory to start over");
  }
  options.finish();
  TrainState s;
  s.update = reader.integer("update", 0, kMost / 2);
  s.epoch = reader.integer("epoch", 1, kMost / 2);
  s.batch = reader.integer("batch", 0, kMost);
  s.seconds = reader.number("seconds", 0, 1e12);
  s.validated_at = reader.integer("validated_at", -1, kMost);
  s.best_update = reader.integer("best_update", 0, kMost);
  s.average_is_best = reader.boolean("average_is_best");
  s.without_progress = reader.integer("without_progress", 0, kMost);
  std::istringstream checkpoints(reader.string("checkpoints"));
  for (std::string update; checkpoints >> update;)
    s.checkpoints.push_back(static_cast<int64_t>(parse_unsigned(update, where, "checkpoints")));
  s.log_bytes = reader.integer("log_bytes", 0, kMost);
  ConfigReader window = reader.object("window");
  s.window.loss = window.number("loss", -kLargest, kLargest);
  s.window.nll = window.number("nll", -kLargest, kLargest);
  s.window.target_tokens = window.integer("target_tokens", 0, kMost);
  s.window.sentences = window.integer("sentences", 0, kMost);
  s.window.updates = window.integer("updates", 0, kMost);
  window.finish();
  s.generator.seed = parse_unsigned(reader.string("generator_seed"), where, "generator_seed");
  s.generator.stream = parse_unsigned(reader.string("generator_stream"), where, "generator_stream");
  if (reader.has("best_nll")) s.best_nll = reader.number("best_nll", -kLargest, kLargest);
  if (reader.has("ended_minutes")) s.ended_minutes = reader.number("ended_minutes", 0, 1e12);
  if (reader.has("best_bleu")) s.best_bleu = reader.number("best_bleu", 0, 100);
  if (reader.has("files")) {
    ConfigReader files = reader.object("files");
    std::vector<std::string> names = program_files();
    names.insert(names.end(), {kModelFile, kAdapterFile, kTensorsFile});
    for (const int64_t update : s.checkpoints) names.push_back(checkpoint_file(update));
    s.files = read_checksums(files, names);
    files.finish();
  }
  reader.finish();
  return s;
}

}  // namespace

TrainState read_state(const std::string& json, const std::string& where, const Recipe& recipe) {
  const std::optional<std::string> rest = without_checksum(json, where);
  try {
    return parse_state(rest.value_or(json), where, recipe);
  } catch (const TrainingDiffers&) {
    throw;
  } catch (const FormatError& e) {
    throw FormatError(e.what() + std::string(kRemedy));
  }
}

void check_files(const std::map<std::string, Checksum>& files, const std::string& directory) {
  for (const auto& [name, sum] : files) {
    const std::string path = directory + "/" + name;
    expect_regular_file(path, std::numeric_limits<uint64_t>::max());
    if (checksum_of_file(path) != sum) throw damaged(path);
  }
}

void check_program_files(const std::string& directory) {
  const std::string path = directory + "/" + kStateFile;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return;
  const std::optional<std::string> json = without_checksum(read_file(path), path);
  if (!json) return;
  ConfigReader reader(*json, path);
  if (!reader.has("files")) return;
  ConfigReader files = reader.object("files");
  check_files(read_checksums(files, program_files()), directory);
}

std::map<std::string, Checksum> checksums_of_program_files(const std::string& directory) {
  std::map<std::string, Checksum> sums;
  std::error_code error;
  for (const std::string& name : program_files())
    if (const std::string path = directory + "/" + name; std::filesystem::is_regular_file(path, error))
      sums[name] = checksum_of_file(path);
  return sums;
}

TrainLog::TrainLog(const std::string& directory, int64_t bytes) : path_(directory + "/" + kLogFile) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (fd_ < 0) throw_errno("open", path_, errno);
  try {
    struct stat status {};
    if (::fstat(fd_, &status) != 0) throw_errno("open", path_, errno);
    constexpr std::string_view kBegin = "{\"type\":";
    char begin[kBegin.size()] = {};
    const bool other = status.st_size > 0 && (::pread(fd_, begin, sizeof begin, 0) != std::ssize(kBegin) ||
                                              std::string_view(begin, sizeof begin) != kBegin);
    if (!S_ISREG(status.st_mode) || other)
      throw FormatError(path_ + ": not the log of a training; move it away, or choose another directory");
    bytes_ = std::min<int64_t>(bytes, status.st_size);
    if (::ftruncate(fd_, bytes_) != 0) throw_errno("write", path_, errno);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

TrainLog::~TrainLog() { ::close(fd_); }

void TrainLog::write(std::string line) {
  line += '\n';
  for (size_t done = 0; done < line.size();) {
    const ssize_t written = ::write(fd_, line.data() + done, line.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_errno("write", path_, errno);
    done += static_cast<size_t>(written);
  }
  bytes_ += static_cast<int64_t>(line.size());
}

void TrainLog::sync() const {
  if (::fsync(fd_) != 0 && errno != EINVAL && errno != EROFS) throw_errno("write", path_, errno);
}

}  // namespace heed::inline v0
