// Texts as tokens in one file, for a training whose data does not fit into memory.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <unordered_set>
#include <utility>

#include "heed/corpus.h"
#include "heed/executor.h"
#include "heed/load.h"
#include "heed/paths.h"
#include "heed/token_file.h"
#include "recipe/settings.h"

namespace heed::inline v0 {
namespace {

bool learns(const TrainingSettings& a) {
  return a.vocabulary.empty() || (a.separate_vocabularies && a.source_vocabulary.empty());
}

// Lines from all over a text, all of them where they fit: the same ones each time.
class Sample {
 public:
  void add(const std::string& line) {
    const uint64_t rank = mixed(++count_);
    if (rank > highest_) return;
    ranks_.push_back(rank);
    lines_.push_back(line);
    bytes_ += line.size();
    while (bytes_ > kMost) halve();
  }
  bool whole() const { return lines_.size() == count_; }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  static constexpr uint64_t kMost = uint64_t{1} << 25;  // bytes
  // splitmix64
  static uint64_t mixed(uint64_t x) {
    x *= 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }
  void halve() {
    highest_ /= 2;
    size_t kept = 0;
    bytes_ = 0;
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (ranks_[i] > highest_) continue;
      bytes_ += lines_[i].size();
      ranks_[kept] = ranks_[i];
      std::swap(lines_[kept++], lines_[i]);
    }
    ranks_.resize(kept);
    lines_.resize(kept);
  }

  std::vector<uint64_t> ranks_;
  std::vector<std::string> lines_;
  uint64_t count_ = 0, bytes_ = 0, highest_ = ~uint64_t{0};
};

// The texts one line or pair after the other, without what --exclude names. Of a text the lines are targets.
class Texts {
 public:
  explicit Texts(const TrainingSettings& a) : excluded_(lines_in(a.given.exclude)) {
    if (a.of_text())
      text_.emplace(a.given.text, a.skip_bad_lines);
    else
      pairs_.emplace(a.pairs(), parse_columns(a));
  }
  bool next(std::string& source, std::string& target) {
    if (text_) return text_->next(target);
    while (pairs_->next(source, target)) {
      if (!excluded_.contains(source)) return true;
      ++left_out_;
    }
    return false;
  }
  int64_t replaced() const { return text_ ? text_->replaced() : pairs_->replaced(); }
  const SkippedLines& skipped() const { return text_ ? text_->skipped() : pairs_->skipped(); }
  int64_t left_out() const { return left_out_; }
  const std::unordered_set<std::string>& excluded() const { return excluded_; }

 private:
  const std::unordered_set<std::string> excluded_;
  std::optional<TextReader> text_;
  std::optional<PairReader> pairs_;
  int64_t left_out_ = 0;
};

// The result of the first reading.
struct Survey {
  TrainFacts facts;
  Sample source, target;   // the second of both sides, unless they have vocabularies of their own
  std::string characters;  // lines that have each one
};

Survey survey(const TrainingSettings& a, PrepareObserver& observer) {
  Survey found;
  Texts texts(a);
  TextFacts facts;
  int64_t lines = 0;
  for (std::string source, target; texts.next(source, target); ++lines) {
    if (!a.of_text()) {
      facts.add(source);
      (a.separate_vocabularies ? found.source : found.target).add(source);
    }
    const bool has_new = facts.add(target);
    if (a.vocab_type == "subwords") found.target.add(target);
    if (a.vocab_type == "characters" && has_new) found.characters += target;
    if (lines % 1000 == 0) observer.progress("reading  " + with_commas(lines) + " lines");
  }
  found.facts = facts.completed({.text = a.of_text(), .pairs = a.of_text() ? 0 : lines});
  observer.progress("");
  return found;
}

// Those of --vocabulary and --source-vocabulary, else learned as heed train learns them.
class Vocabularies {
 public:
  Vocabularies(const TrainingSettings& a, PrepareObserver& observer) : a_(a), observer_(observer) {
    if (!a.vocabulary.empty()) target_ = load_vocabulary(a.vocabulary, a.trust);
    if (!a.source_vocabulary.empty()) source_ = load_vocabulary(a.source_vocabulary, a.trust);
    if (learns(a)) learn(survey(a, observer));
    if (!a.separate_vocabularies) source_ = target_;
  }
  const Vocabulary& target() const { return *target_; }
  const Vocabulary& source() const { return *source_; }

 private:
  void learn(const Survey& found) {
    if (found.facts.bytes == 0) throw FormatError("the files hold nothing to prepare; give others");
    if (a_.vocab_type == "characters") {
      target_ = Vocabulary::characters(found.characters);
      return;
    }
    if (!found.source.whole() || !found.target.whole())
      observer_.say("the vocabulary is learned from a sample of the lines");
    int64_t size = a_.given.vocab_size.value_or(0);
    if (size == 0) {
      const Choice choice = choose_defaults(found.facts, {}).front();
      observer_.say(to_line(choice, a_.given.spelling));
      size = *choice.options.vocab_size;
    }
    const auto make = [&](const Sample& sample, bool fewer_will_do) {
      return learn_vocabulary(a_.name("vocab_size"), sample.lines(),
                              {.size = size,
                               .fewer_will_do = fewer_will_do,
                               .character_coverage = a_.character_coverage,
                               .spaces = a_.of_text() ? Spaces::verbatim : Spaces::collapse});
    };
    const bool open = !a_.given.vocab_size, no_target = !target_, no_source = a_.separate_vocabularies && !source_;
    if (no_target) target_ = make(found.target, open);
    if (no_source) source_ = make(found.source, open);
    // Those of both sides are of one size, as heed train makes them.
    size = std::min(no_target ? target_->size() : size, no_source ? source_->size() : size);
    if (no_target && target_->size() != size) target_ = make(found.target, false);
    if (no_source && source_->size() != size) source_ = make(found.source, false);
  }

  const TrainingSettings& a_;
  PrepareObserver& observer_;
  std::optional<Vocabulary> target_, source_;
};

// So many lines as are encoded at once.
struct Chunk {
  std::vector<std::string> source, target;
  std::vector<std::vector<int32_t>> source_ids, target_ids;
  size_t size = 0;

  // False where there are none left.
  bool read(Texts& texts) {
    constexpr size_t kLines = 4096, kBytes = size_t{1} << 23;
    source.resize(kLines);
    target.resize(kLines);
    size_t bytes = 0;
    for (size = 0; size < kLines && bytes < kBytes && texts.next(source[size], target[size]); ++size)
      bytes += source[size].size() + target[size].size();
    return size > 0;
  }
  // Returns how many lines of a text the vocabulary changes.
  int64_t encode(const Vocabularies& vocabularies, bool of_text) {
    constexpr size_t kTogether = 64;
    source_ids.resize(size);
    target_ids.resize(size);
    std::vector<char> changed(size);
    parallel_for(default_executor(), static_cast<int64_t>((size + kTogether - 1) / kTogether), [&](int64_t tile) {
      const size_t begin = static_cast<size_t>(tile) * kTogether;
      for (size_t i = begin; i < std::min(begin + kTogether, size); ++i) {
        bool changes = false;
        if (!of_text) source_ids[i] = vocabularies.source().encode(source[i]);
        target_ids[i] =
            of_text ? encode_line(vocabularies.target(), target[i], &changes) : vocabularies.target().encode(target[i]);
        changed[i] = changes;
      }
    });
    return std::count(changed.begin(), changed.end(), 1);
  }
};

// Says of the texts what heed train says of them.
void say_of(const TrainingSettings& a, const Texts& texts, int64_t lines, int64_t changed, PrepareObserver& observer) {
  if (texts.replaced() > 0) observer.say(replaced_in_words(texts.replaced()));
  if (texts.skipped().count() > 0) observer.say(texts.skipped().in_words());
  if (!a.given.exclude.empty()) observer.say(left_out_in_words(texts.left_out(), texts.excluded(), a.given.exclude));
  if (changed > 0)
    observer.say("the vocabulary cannot write " + std::to_string(changed) + " of " + std::to_string(lines) +
                 " lines as they are");
}

TokenFileInfo write_tokens(const TrainingSettings& a, const Vocabularies& vocabularies, FileWriter& file,
                           PrepareObserver& observer) {
  Texts texts(a);
  TextFacts facts;
  TokenWriter writer(file, a.of_text(), std::max(vocabularies.target().size(), vocabularies.source().size()));
  Chunk chunk;
  int64_t lines = 0, changed = 0;
  while (chunk.read(texts)) {
    changed += chunk.encode(vocabularies, a.of_text());
    for (size_t i = 0; i < chunk.size; ++i) {
      facts.add(chunk.target[i]);
      if (a.of_text()) {
        writer.write_text(chunk.target_ids[i]);
      } else {
        facts.add(chunk.source[i]);
        writer.write_pair(chunk.source_ids[i], chunk.target_ids[i]);
      }
    }
    lines += static_cast<int64_t>(chunk.size);
    observer.progress("writing  " + with_commas(lines) + " lines");
  }
  observer.progress("");
  if (lines == 0) throw FormatError("the files hold nothing to prepare; give others");
  say_of(a, texts, lines, changed, observer);
  const TrainFacts found = facts.completed({});
  return writer.finish({.bytes = found.bytes,
                        .characters = found.characters,
                        .vocabulary = vocabularies.target().to_text(),
                        .source_vocabulary = a.separate_vocabularies ? vocabularies.source().to_text() : ""});
}

void check(const TrainingSettings& a, const std::string& to) {
  const TrainingRequest& given = a.given;
  if (a.of_text() == !a.pairs().empty())
    throw UsageError("give " + a.name("pairs") + ", or " + a.name("source") + " and " + a.name("target") + ", or " +
                     a.name("text") + ": what to prepare");
  check_pair_files(a);
  parse_columns(a);
  const auto refuse = [&](bool refused, const char* field, const std::string& why) {
    if (refused) throw UsageError(a.name(field) + why);
  };
  const std::string of_pairs =
      " is for sentence pairs, " + a.name("text") + " for a language model; give one kind of data";
  refuse(a.of_text() && !given.exclude.empty(), "exclude", of_pairs);
  refuse(a.of_text() && a.separate_vocabularies, "separate_vocabularies", of_pairs);
  refuse(!a.of_text() && a.vocab_type == "characters", "vocab_type", " is for " + a.name("text"));
  refuse(!a.source_vocabulary.empty() && !a.separate_vocabularies, "source_vocabulary",
         " is the source's alone; give " + a.name("separate_vocabularies") + " with it");
  refuse(!a.vocabulary.empty() && a.vocab_type == "characters", "vocab_type",
         " makes a vocabulary, and " + a.name("vocabulary") + " names one; give either");
  for (const char* const field : {"vocab_size", "character_coverage"}) {
    const bool is_given = !option_values(given, field).empty();
    refuse(is_given && !learns(a), field,
           " is of a vocabulary that is learned, and " + a.name("vocabulary") + " names one; give either");
    refuse(is_given && a.vocab_type == "characters", field,
           " is of subwords, and " + a.named("vocab_type", "characters") + " takes every character; give either");
  }
  refuse(given.columns && given.pairs.empty(), "columns", " is of " + a.name("pairs") + "; leave it out");

  const std::vector<std::string> inputs = inputs_of(a);
  for (const std::string& file : inputs) {
    struct stat status {};
    const bool once = file == "-" || (::stat(file.c_str(), &status) == 0 && S_ISFIFO(status.st_mode));
    if (once && (learns(a) || std::count(inputs.begin(), inputs.end(), file) > 1))
      throw UsageError(name_of_data(file) + " can be read once, and a vocabulary is learned before; give a file, or " +
                       (a.separate_vocabularies ? "both vocabularies" : a.name("vocabulary")));
  }
  const std::string option = given.spelling ? given.spelling("to") : "to";
  expect_other_file(option, to, inputs);
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::status(to, error)) && !is_token_file(to))
    throw UsageError(option + " " + to + " is there and holds no tokens of heed's; name another file, or remove it");
}

}  // namespace

TokenFileInfo prepare_tokens(const TrainingRequest& request, const std::string& path, PrepareObserver* observer) {
  TrainingSettings settings{.given = request};
  settings.resolve();
  check(settings, path);
  PrepareObserver silent;
  PrepareObserver& watcher = observer ? *observer : silent;
  watcher.begin();
  const Vocabularies vocabularies(settings, watcher);
  TokenFileInfo made;
  write_file_atomically(path, [&](FileWriter& file) { made = write_tokens(settings, vocabularies, file, watcher); });
  return made;
}

}  // namespace heed::inline v0
