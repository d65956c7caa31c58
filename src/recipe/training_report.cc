#include "recipe/training_report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "heed/attended.h"
#include "heed/corpus.h"
#include "heed/load.h"
#include "heed/model_files.h"
#include "heed/paths.h"
#include "heed/random.h"
#include "recipe/model_card.h"

namespace heed::inline v0 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t kSentences = 3;                      // unless they are chosen
constexpr int64_t kModerate = 6, kModerateMost = 24;  // tokens of a sentence
constexpr int64_t kModerateLine = 12, kModerateLineMost = 32;

void cut(std::vector<int32_t>& ids, int64_t longest, bool* shortened) {
  if (std::ssize(ids) <= longest) return;
  ids.resize(static_cast<size_t>(longest));
  *shortened = true;
}

std::string with_note(std::string text, bool shortened) {
  return shortened ? std::move(text) + " (its first tokens)" : std::move(text);
}

// Of the first sentences those whose length is nearest to moderate, in their order. `length` is 0 for what is of no
// use.
template <class Take, class Length>
std::vector<WatchedSentence> first_that_fit(size_t count, const Take& take, int64_t least, int64_t most,
                                            const Length& length) {
  constexpr size_t kLookedAt = 1000;
  std::vector<std::pair<int64_t, size_t>> off;  // by so many tokens
  for (size_t i = 0; i < std::min(count, kLookedAt); ++i)
    if (const int64_t n = length(take(i)); n > 0) off.emplace_back(std::max({least - n, n - most, int64_t{0}}), i);
  std::stable_sort(off.begin(), off.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (off.size() > kSentences) off.resize(kSentences);
  std::sort(off.begin(), off.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<WatchedSentence> sentences;
  for (const auto& chosen : off) sentences.push_back(take(chosen.second));
  return sentences;
}

// u8, relative to the largest weight of a row: what page and report pack, too.
Tensor levels_of(const Tensor& weights) {
  const Tensor from = weights.to(DType::f32).contiguous(), levels = Tensor::zeros(weights.shape(), DType::u8);
  const int64_t keys = weights.size(-1), rows = keys > 0 ? weights.numel() / keys : 0;
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = from.data<float>() + i * keys;
    uint8_t* out = levels.data<uint8_t>() + i * keys;
    const float largest = *std::max_element(row, row + keys);
    if (!(largest > 0)) continue;  // nothing may be seen
    for (int64_t j = 0; j < keys; ++j)
      out[j] = static_cast<uint8_t>(std::lround(255 * std::sqrt(std::max(row[j], 0.0F) / largest)));
  }
  return levels;
}

// Rows that sum to 1, or to 0 where nothing may be seen.
Tensor weights_of(const Tensor& levels) {
  const Tensor weights = Tensor::zeros(levels.shape(), DType::f32);
  const int64_t keys = levels.size(-1), rows = keys > 0 ? levels.numel() / keys : 0;
  for (int64_t i = 0; i < rows; ++i) {
    const uint8_t* row = levels.data<uint8_t>() + i * keys;
    float* out = weights.data<float>() + i * keys;
    int64_t sum = 0;
    for (int64_t j = 0; j < keys; ++j) sum += int64_t{row[j]} * row[j];
    for (int64_t j = 0; j < keys && sum > 0; ++j)
      out[j] = static_cast<float>(row[j]) * static_cast<float>(row[j]) / static_cast<float>(sum);
  }
  return weights;
}

// Name of the maps of a kind of a sentence at an update.
std::string map_name(size_t sentence, int64_t update, size_t kind) {
  return std::to_string(sentence) + "/" + std::to_string(update) + "/" + std::to_string(kind);
}

// The three numbers of a map_name.
bool parse_map_name(const std::string& name, size_t* sentence, int64_t* update, size_t* kind) {
  const char *at = name.data(), *const end = at + name.size();
  const auto number = [&](auto* value) {
    const auto [rest, error] = std::from_chars(at, end, *value);
    if (error != std::errc()) return false;
    at = rest;
    return true;
  };
  const auto slash = [&] { return at != end && *at++ == '/'; };
  return number(sentence) && slash() && number(update) && slash() && number(kind) && at == end && *update >= 0;
}

template <class... Arguments>
std::string formatted(const char* format, Arguments... arguments) {
  char text[128];
  std::snprintf(text, sizeof text, format, arguments...);
  return text;
}

}  // namespace

// ---------------------------------------------------------------------------------------------- what is watched

std::vector<WatchedSentence> watched_pairs(const TextPairs& texts, const SentencePairs& ids,
                                           const std::vector<int64_t>& numbers) {
  const auto take = [&](size_t i) {
    bool shortened = false;
    WatchedSentence sentence{.source = ids.source[i], .target = ids.target[i]};
    // One more for the end token.
    cut(sentence.source, kMostWatchedTokens - 1, &shortened);
    cut(sentence.target, kMostWatchedTokens - 1, &shortened);
    sentence.text = with_note(texts.source[i] + " \u2192 " + texts.target[i], shortened);
    return sentence;
  };
  if (numbers.empty())
    return first_that_fit(ids.source.size(), take, kModerate, kModerateMost, [](const WatchedSentence& sentence) {
      const auto [shorter, longer] = std::minmax({std::ssize(sentence.source), std::ssize(sentence.target)});
      return shorter < kModerate ? shorter : longer;
    });
  std::vector<WatchedSentence> sentences;
  for (const int64_t number : numbers) sentences.push_back(take(static_cast<size_t>(number - 1)));
  return sentences;
}

std::vector<WatchedSentence> watched_lines(const std::vector<std::string>& lines, const Vocabulary& vocabulary,
                                           const std::vector<int64_t>& numbers, int64_t longest) {
  longest = std::min(longest, kMostWatchedTokens);
  const auto take = [&](size_t i) {
    std::string content = lines[i].substr(0, lines[i].find('\n'));
    bool shortened = false;
    WatchedSentence sentence{.target = vocabulary.encode(content)};
    cut(sentence.target, longest, &shortened);
    sentence.text = with_note(std::move(content), shortened);
    return sentence;
  };
  if (numbers.empty()) {
    const int64_t most = vocabulary.of_characters() ? kMostWatchedTokens : kModerateLineMost;
    return first_that_fit(lines.size(), take, std::min(kModerateLine, longest), most,
                          [](const WatchedSentence& sentence) { return std::ssize(sentence.target); });
  }
  std::vector<WatchedSentence> sentences;
  for (const int64_t number : numbers) {
    sentences.push_back(take(static_cast<size_t>(number - 1)));
    if (sentences.back().target.empty())
      throw UsageError("html_lines: line " + std::to_string(number) + " is empty; choose one with words");
  }
  return sentences;
}

std::vector<int64_t> parse_line_numbers(const std::string& name, const std::string& list, int64_t count,
                                        const std::string& of) {
  constexpr size_t kMost = 8;
  std::vector<int64_t> numbers;
  const char *at = list.data(), *const end = at + list.size();
  while (at != end || !numbers.empty()) {
    int64_t number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (rest != end && *rest != ','))
      throw UsageError(name + " " + list + ": give numbers of lines as in 3,17");
    if (number < 1 || number > count)
      throw UsageError(name + " " + list + ": " + of + " has lines 1.." + std::to_string(count));
    if (numbers.size() == kMost)
      throw UsageError(name + " " + list + ": at most " + std::to_string(kMost) + " sentences can be watched");
    numbers.push_back(number);
    if (rest == end) break;
    at = rest + 1;
  }
  return numbers;
}

void check_report_path(const std::string& option, const std::string& path, const std::string& directory,
                       const std::vector<std::string>& inputs) {
  const fs::path parent = fs::absolute(path).lexically_normal().parent_path();
  const bool beside_model = same_file(parent.string(), directory);
  if (beside_model && fs::path(path).extension() != ".html")
    throw UsageError(option + " " + path + " stands among the files of the model; give it a name that ends in .html");
  if (beside_model && !fs::exists(parent)) return;  // the training makes it
  expect_other_file(option, path, inputs);
  struct Enough {};
  try {
    // The file is made beside the old one, then thrown away.
    if (fs::exists(path) && !fs::is_regular_file(path) && !fs::is_directory(path)) return;  // a pipe or a device
    write_file_atomically(path, [](FileWriter&) { throw Enough(); });
  } catch (const Enough&) {
  }
}

Watched watch(const Transformer& model, const Vocabulary& of_source, const Vocabulary& of_target,
              std::vector<WatchedSentence> sentences) {
  const TransformerConfig& config = model.config();
  Watched watched{.sentences = std::move(sentences)};
  for (WatchedSentence& sentence : watched.sentences)
    for (std::vector<int32_t>* side : {&sentence.source, &sentence.target})
      if (std::ssize(*side) >= config.max_positions) side->resize(static_cast<size_t>(config.max_positions - 1));
  const auto with = [](std::vector<int32_t> ids, int32_t before, int32_t behind) {
    if (before >= 0) ids.insert(ids.begin(), before);
    if (behind >= 0) ids.push_back(behind);
    return ids;
  };
  const Tokenizer source_tokens(of_source), target_tokens(of_target);
  for (const auto& [source, target, text] : watched.sentences) {
    const std::vector<std::string> read = tokens_of(source_tokens, with(source, -1, config.eos_id)).labels,
                                   input = tokens_of(target_tokens, with(target, config.bos_id, -1)).labels,
                                   output = tokens_of(target_tokens, with(target, -1, config.eos_id)).labels;
    watched.kinds.push_back(
        {{"Encoder", "Each token of the input looks at the input.", read, read},
         {"Decoder", "Each token of the reference looks at itself and those before it, to find the next one.", input,
          input},
         {"Cross", "Where the decoder looks in the input while it is to produce each token of the reference.", output,
          read}});
  }
  watched.look = [&model, with, kept = watched.sentences](size_t at) {
    const TransformerConfig& c = model.config();
    AttentionRecord record;
    const TokenBatch source = TokenBatch::pad({with(kept[at].source, -1, c.eos_id)}, c.pad_id);
    const Variable memory = model.encode(source, &record);
    model.decode(TokenBatch::pad({with(kept[at].target, c.bos_id, -1)}, c.pad_id), memory, source, &record);
    return std::vector<Tensor>{stacked(record.encoder), stacked(record.decoder), stacked(record.cross)};
  };
  return watched;
}

Watched watch(const LanguageModel& model, const Vocabulary& vocabulary, std::vector<WatchedSentence> sentences) {
  Watched watched{.sentences = std::move(sentences), .perplexity = true};
  const Tokenizer tokens(vocabulary);
  for (const WatchedSentence& sentence : watched.sentences) {
    const std::vector<std::string> labels = tokens_of(tokens, sentence.target).labels;
    watched.kinds.push_back(
        {{"Self-attention", "Each token looks at itself and those before it, to find the next one.", labels, labels}});
  }
  watched.look = [&model, kept = watched.sentences](size_t at) {
    AttentionRecord record;
    model.hidden(TokenBatch::pad({kept[at].target}, 0), &record);
    return std::vector<Tensor>{stacked(record.decoder)};
  };
  return watched;
}

// ---------------------------------------------------------------------------------------------- maps over time

MapsOverTime::MapsOverTime(const std::string& path, const std::vector<WatchedSentence>& sentences, size_t kinds) {
  for (const WatchedSentence& sentence : sentences) tracks_.push_back({.sentence = sentence});
  if (!fs::exists(path)) return;
  const auto broken = [&](const std::string& how) {
    return FormatError(path + ": " + how + "; remove it to start the maps over");
  };
  const SafetensorsFile file = [&] {
    try {
      return SafetensorsFile(path);
    } catch (const FormatError& error) {
      throw FormatError(std::string(error.what()) + "; remove it to start the maps over");
    }
  }();
  std::vector<Track> kept;
  const auto text = file.metadata().find("sentences");
  const Json json = Json::parse(text == file.metadata().end() ? "" : text->second, nullptr, /*allow_exceptions=*/false);
  try {
    for (const Json& sentence : json.at("sentences"))
      kept.push_back({.sentence = {.source = sentence.at(0), .target = sentence.at(1)}});
  } catch (const Json::exception&) {
    throw broken("it does not say which sentences its maps are of");
  }
  for (const TensorInfo& info : file.tensors()) {
    size_t sentence = 0, kind = 0;
    int64_t update = 0;
    if (!parse_map_name(info.name, &sentence, &update, &kind) || sentence >= kept.size() || kind >= kinds ||
        info.dtype != DType::u8 || info.shape.size() != 4)
      throw broken("'" + info.name + "' is no map");
    std::vector<Moment>& moments = kept[sentence].moments;
    auto at = std::find_if(moments.begin(), moments.end(), [&](const Moment& m) { return m.update >= update; });
    if (at == moments.end() || at->update != update)
      at = moments.insert(at, {.update = update, .levels = std::vector<Tensor>(kinds)});
    at->levels[kind] = file.tensor(info.name).contiguous().clone();
  }
  for (const Track& track : kept)
    for (const Moment& moment : track.moments)
      for (const Tensor& levels : moment.levels)
        if (!levels.defined()) throw broken("maps of update " + std::to_string(moment.update) + " are missing");
  for (Track& old : kept) {
    const auto same = std::find_if(tracks_.begin(), tracks_.end(), [&](const Track& track) {
      return old.sentence.source == track.sentence.source && old.sentence.target == track.sentence.target;
    });
    if (same == tracks_.end())
      tracks_.push_back(std::move(old));
    else
      same->moments = std::move(old.moments);
  }
}

bool MapsOverTime::has(size_t sentence, int64_t update) const {
  const std::vector<Moment>& moments = tracks_[sentence].moments;
  return std::any_of(moments.begin(), moments.end(), [&](const Moment& m) { return m.update == update; });
}

void MapsOverTime::add(size_t sentence, int64_t update, const std::vector<Tensor>& weights) {
  std::vector<Moment>& moments = tracks_[sentence].moments;
  auto at = std::find_if(moments.begin(), moments.end(), [&](const Moment& m) { return m.update >= update; });
  if (at == moments.end() || at->update != update) at = moments.insert(at, Moment{});
  *at = {.update = update, .levels = {}};
  for (const Tensor& w : weights) at->levels.push_back(levels_of(w));
}

int64_t MapsOverTime::bytes() const {
  int64_t sum = 0;
  for (const Track& track : tracks_)
    for (const Moment& moment : track.moments)
      for (const Tensor& levels : moment.levels) sum += levels.nbytes();
  return sum;
}

void MapsOverTime::thin(int64_t most) {
  while (bytes() > most) {
    bool any = false;
    for (Track& track : tracks_) {
      std::vector<Moment>& moments = track.moments;
      size_t closest = 0;
      int64_t gap = std::numeric_limits<int64_t>::max();
      for (size_t i = 1; i + 1 < moments.size(); ++i)
        if (moments[i + 1].update - moments[i - 1].update < gap) {
          closest = i;
          gap = moments[i + 1].update - moments[i - 1].update;
        }
      if (closest == 0) continue;
      moments.erase(moments.begin() + static_cast<int64_t>(closest));
      any = true;
    }
    if (!any) return;
  }
}

FillFile MapsOverTime::file() const {
  NamedTensors tensors;
  Json sentences = Json::array();
  for (size_t s = 0; s < tracks_.size(); ++s) {
    sentences.push_back({tracks_[s].sentence.source, tracks_[s].sentence.target});
    for (const Moment& moment : tracks_[s].moments)
      for (size_t kind = 0; kind < moment.levels.size(); ++kind)
        tensors.emplace_back(map_name(s, moment.update, kind), moment.levels[kind]);
  }
  const std::string json = Json{{"sentences", sentences}}.dump();
  return [tensors, json](FileWriter& file) {
    write_safetensors(file, tensors,
                      {{"format", "heed"},
                       {"sentences", json},
                       {"about", "sentence/update/kind: round(255 sqrt(weight / largest weight of the row))"}});
  };
}

// ---------------------------------------------------------------------------------------------- the report

ReportOnTraining::ReportOnTraining(About about, Watched watched)
    : about_(std::move(about)),
      watched_(std::move(watched)),
      maps_(about_.directory + "/" + kAttentionFile, watched_.sentences,
            watched_.kinds.empty() ? 0 : watched_.kinds.front().size()) {
  for (size_t i = 0; i < watched_.sentences.size(); ++i) {
    const std::vector<Tensor> now = watched_.look(i);
    for (const MapsOverTime::Moment& moment : maps_.tracks()[i].moments)
      for (size_t kind = 0; kind < now.size(); ++kind)
        if (!(moment.levels[kind].shape() == now[kind].shape()))
          throw FormatError(about_.directory + "/" + kAttentionFile + ": maps " +
                            to_string(moment.levels[kind].shape()) + ", the model makes " +
                            to_string(now[kind].shape()) + "; remove the file to start the maps over");
    if (!maps_.has(i, 0)) maps_.add(i, 0, now);
  }
}

void ReportOnTraining::record(int64_t update) {
  for (size_t i = 0; i < watched_.sentences.size(); ++i) maps_.add(i, update, watched_.look(i));
  maps_.thin();
}

Examination ReportOnTraining::examine(const Validation& validation) {
  Examination examination;
  record(validation.update);
  if (!watched_.sentences.empty()) examination.files.emplace_back(kAttentionFile, maps_.file());
  return examination;
}

void ReportOnTraining::finish(int64_t update) {
  bool missing = false;
  for (size_t i = 0; i < watched_.sentences.size(); ++i) missing = missing || !maps_.has(i, update);
  if (missing) {
    record(update);
    DirectoryTransaction transaction(about_.directory);
    transaction.write(kAttentionFile, maps_.file());
    transaction.commit();
  }
  write();
}

void ReportOnTraining::write() {
  read_log();
  write_file_atomically(about_.path, render_report(report()));
}

// What was written since the last time; the log only grows while a run goes on.
void ReportOnTraining::read_log() {
  const std::string path = about_.directory + "/" + kLogFile;
  std::ifstream log(path, std::ios::binary);
  log.seekg(log_bytes_);
  for (std::string line; std::getline(log, line) && !log.eof();) {
    log_bytes_ += std::ssize(line) + 1;
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto value = [&](const char* name) {
      return json.contains(name) && json[name].is_number() ? json[name].get<double>() : std::nan("");
    };
    if (!std::isfinite(value("update")) || !std::isfinite(value("minutes")) || !(std::abs(value("update")) < 1e15)) {
      ++broken_lines_;
      continue;
    }
    const auto update = static_cast<int64_t>(value("update"));
    if (update < update_) {
      ++broken_lines_;
      continue;
    }
    update_ = update;
    minutes_ = value("minutes");
    if (const double epoch = value("epoch"); std::abs(epoch) < 1e15) epoch_ = static_cast<int64_t>(epoch);
    const auto add = [&](std::vector<ReportPoint>& curve, const char* name) {
      if (const double x = value(name); std::isfinite(x)) curve.push_back({update_, minutes_, x});
    };
    if (json.contains("type") && json["type"] == "train") {
      add(training_loss_, "nll");
      add(learning_rate_, "learning_rate");
      add(gradient_norm_, "gradient_norm");
    } else {
      add(validation_loss_, "nll");
      add(average_loss_, "average_nll");
      add(bleu_, "bleu");
    }
  }
}

TrainingReport ReportOnTraining::report() const {
  TrainingReport report{.title = about_.title, .text = about_.text};
  report.facts = {{"Update", with_commas(update_)},
                  {"Epoch", with_commas(epoch_)},
                  {"Minutes of training", formatted("%.1f", minutes_)}};
  const auto smaller = [](const ReportPoint& a, const ReportPoint& b) { return a.value < b.value; };
  const ReportPoint* best = nullptr;
  for (const auto* curve : {&validation_loss_, &average_loss_})
    if (!curve->empty())
      if (const ReportPoint& lowest = *std::min_element(curve->begin(), curve->end(), smaller);
          !best || lowest.value < best->value)
        best = &lowest;
  if (best)
    report.facts.emplace_back("Best validation loss",
                              formatted("%.4f", best->value) + " at update " + with_commas(best->update));
  if (!bleu_.empty()) {
    const ReportPoint& highest = *std::max_element(bleu_.begin(), bleu_.end(), smaller);
    report.facts.emplace_back("Best BLEU",
                              formatted("%.1f", highest.value) + " at update " + with_commas(highest.update));
  }
  if (broken_lines_ > 0) report.facts.emplace_back("Lines of the log that cannot be read", with_commas(broken_lines_));

  const auto figure = [&](const char* name, std::string note, std::vector<ReportCurve> curves) {
    std::erase_if(curves, [](const ReportCurve& curve) { return curve.points.empty(); });
    if (!curves.empty()) report.figures.push_back({name, std::move(note), std::move(curves)});
  };
  figure("Loss",
         std::string("Nats a token, without label smoothing; in training with dropout.") +
             (average_loss_.empty() ? "" : " Averaged: of the mean of the last checkpoints."),
         {{"training", training_loss_}, {"validation", validation_loss_}, {"averaged", average_loss_}});
  if (!watched_.bleu_note.empty() || !bleu_.empty()) figure("Validation BLEU", watched_.bleu_note, {{"BLEU", bleu_}});
  if (watched_.perplexity) {
    const auto exponential = [](std::vector<ReportPoint> points) {
      for (ReportPoint& point : points) point.value = std::exp(point.value);
      return points;
    };
    figure("Perplexity", "exp(loss) of the validation text, a token.",
           {{"validation", exponential(validation_loss_)}, {"averaged", exponential(average_loss_)}});
    if (!report.figures.empty() && report.figures.back().name == "Perplexity") report.figures.back().logarithmic = true;
  }
  figure("Learning rate", "", {{"learning rate", learning_rate_}});
  figure("Gradient norm",
         about_.clip_norm > 0 ? formatted("Of all gradients together, before they are clipped to %g.", about_.clip_norm)
                              : "Of all gradients together.",
         {{"gradient norm", gradient_norm_}});

  for (size_t s = 0; s < watched_.sentences.size(); ++s) {
    ReportSentence sentence{.text = watched_.sentences[s].text, .kinds = watched_.kinds[s], .moments = {}};
    for (const MapsOverTime::Moment& moment : maps_.tracks()[s].moments) {
      ReportMoment& to = sentence.moments.emplace_back(ReportMoment{.update = moment.update, .weights = {}});
      for (const Tensor& levels : moment.levels) to.weights.push_back(weights_of(levels));
    }
    report.sentences.push_back(std::move(sentence));
  }
  return report;
}

}  // namespace heed::inline v0
