// heed prepare: texts as tokens in one file, for a training whose data does not fit into memory.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/model_card.h"
#include "cli/paths.h"
#include "cli/progress.h"
#include "cli/train_defaults.h"
#include "cli/train_options.h"
#include "heed/corpus.h"
#include "heed/executor.h"
#include "heed/load.h"
#include "heed/token_file.h"

namespace heed::cli {
namespace {

struct PrepareArguments {
  PairFiles pairs;
  std::string columns = "1,2";
  std::vector<std::string> text, exclude;
  std::string vocabulary, source_vocabulary, vocab_type = "subwords", to;
  bool separate_vocabularies = false, trust = false, skip_bad_lines = false;
  int64_t vocab_size = 0;  // 0: chosen
  double character_coverage = 0.9995;

  bool of_text() const { return !text.empty(); }
  bool learns() const { return vocabulary.empty() || (separate_vocabularies && source_vocabulary.empty()); }
};

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
  explicit Texts(const PrepareArguments& a) : excluded_(lines_in(a.exclude)) {
    if (a.of_text())
      text_.emplace(a.text, a.skip_bad_lines);
    else
      pairs_.emplace(a.pairs, parse_columns(a.columns));
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

// What a first reading finds.
struct Survey {
  TrainFacts facts;
  Sample source, target;   // the second of both sides, unless they have vocabularies of their own
  std::string characters;  // lines that have each one
};

Survey survey(const PrepareArguments& a, ProgressLine& progress) {
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
    if (lines % 1000 == 0) progress.bar(-1, "reading  " + with_commas(lines) + " lines");
  }
  found.facts = facts.completed({.text = a.of_text(), .pairs = a.of_text() ? 0 : lines});
  progress.clear();
  return found;
}

// Those of --vocabulary and --source-vocabulary, else learned as heed train learns them.
class Vocabularies {
 public:
  Vocabularies(const PrepareArguments& a, ProgressLine& progress) : a_(a) {
    if (!a.vocabulary.empty()) target_ = load_vocabulary(a.vocabulary, a.trust);
    if (!a.source_vocabulary.empty()) source_ = load_vocabulary(a.source_vocabulary, a.trust);
    if (a.learns()) learn(survey(a, progress));
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
      warn("prepare", "the vocabulary is learned from a sample of the lines");
    int64_t size = a_.vocab_size;
    if (size == 0) {
      const Choice choice = choose_defaults(found.facts, {}).front();
      warn("prepare", to_line(choice));
      size = std::stoll(choice.options.front().second);
    }
    const auto make = [&](const Sample& sample, bool fewer_will_do) {
      return learn_vocabulary(sample.lines(), {.size = size,
                                               .fewer_will_do = fewer_will_do,
                                               .character_coverage = a_.character_coverage,
                                               .spaces = a_.of_text() ? Spaces::verbatim : Spaces::collapse});
    };
    const bool open = a_.vocab_size == 0, no_target = !target_, no_source = a_.separate_vocabularies && !source_;
    if (no_target) target_ = make(found.target, open);
    if (no_source) source_ = make(found.source, open);
    // Those of both sides are of one size, as heed train makes them.
    size = std::min(no_target ? target_->size() : size, no_source ? source_->size() : size);
    if (no_target && target_->size() != size) target_ = make(found.target, false);
    if (no_source && source_->size() != size) source_ = make(found.source, false);
  }

  const PrepareArguments& a_;
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
void say_of(const PrepareArguments& a, const Texts& texts, int64_t lines, int64_t changed) {
  if (texts.replaced() > 0) warn("prepare", replaced_in_words(texts.replaced()));
  if (texts.skipped().count() > 0) warn("prepare", texts.skipped().in_words());
  if (!a.exclude.empty()) warn("prepare", left_out_in_words(texts.left_out(), texts.excluded(), a.exclude));
  if (changed > 0)
    warn("prepare", "the vocabulary cannot write " + std::to_string(changed) + " of " + std::to_string(lines) +
                        " lines as they are");
}

TokenFileInfo write_tokens(const PrepareArguments& a, const Vocabularies& vocabularies, FileWriter& file,
                           ProgressLine& progress) {
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
    progress.bar(-1, "writing  " + with_commas(lines) + " lines");
  }
  progress.clear();
  if (lines == 0) throw FormatError("the files hold nothing to prepare; give others");
  say_of(a, texts, lines, changed);
  const TrainFacts found = facts.completed({});
  return writer.finish({.bytes = found.bytes,
                        .characters = found.characters,
                        .vocabulary = vocabularies.target().to_text(),
                        .source_vocabulary = a.separate_vocabularies ? vocabularies.source().to_text() : ""});
}

void check(const CLI::App& command, const PrepareArguments& a) {
  if (a.of_text() == !a.pairs.empty())
    throw UsageError("give --pairs, or --source and --target, or --text: what to prepare");
  check_pair_files(a.pairs);
  parse_columns(a.columns);
  const auto refuse = [](bool given, const char* option, const char* why) {
    if (given) throw UsageError(std::string(option) + why);
  };
  const char* const of_pairs = " is for sentence pairs, --text for a language model; give one kind of data";
  refuse(a.of_text() && !a.exclude.empty(), "--exclude", of_pairs);
  refuse(a.of_text() && a.separate_vocabularies, "--separate-vocabularies", of_pairs);
  refuse(!a.of_text() && a.vocab_type == "characters", "--vocab-type", " is for --text");
  refuse(!a.source_vocabulary.empty() && !a.separate_vocabularies, "--source-vocabulary",
         " is the source's alone; give --separate-vocabularies with it");
  refuse(!a.vocabulary.empty() && a.vocab_type == "characters", "--vocab-type",
         " makes a vocabulary, and --vocabulary names one; give either");
  const auto given = [&](const char* option) { return !command.get_option(option)->empty(); };
  for (const char* const option : {"--vocab-size", "--character-coverage"}) {
    refuse(given(option) && !a.learns(), option,
           " is of a vocabulary that is learned, and --vocabulary names one; give either");
    refuse(given(option) && a.vocab_type == "characters", option,
           " is of subwords, and --vocab-type characters takes every character; give either");
  }
  refuse(given("--columns") && a.pairs.pairs.empty(), "--columns", " is of --pairs; leave it out");

  std::vector<std::string> inputs = {a.vocabulary, a.source_vocabulary};
  for (const std::vector<std::string>& list : {a.pairs.pairs, a.pairs.source, a.pairs.target, a.text, a.exclude})
    for (std::string& file : files_of(list)) inputs.push_back(std::move(file));
  for (const std::string& file : inputs) {
    struct stat status {};
    const bool once = file == "-" || (::stat(file.c_str(), &status) == 0 && S_ISFIFO(status.st_mode));
    if (once && (a.learns() || std::count(inputs.begin(), inputs.end(), file) > 1))
      throw UsageError(name_of_data(file) + " can be read once, and a vocabulary is learned before; give a file, or " +
                       (a.separate_vocabularies ? "both vocabularies" : "--vocabulary"));
  }
  expect_other_file("--to", a.to, inputs);
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::status(a.to, error)) && !is_token_file(a.to))
    throw UsageError("--to " + a.to + " is there and holds no tokens of heed's; name another file, or remove it");
  if (std::find(inputs.begin(), inputs.end(), "-") != inputs.end()) say_that_it_waits(STDIN_FILENO);
}

void prepare(const CLI::App& command, const PrepareArguments& a) {
  check(command, a);
  ProgressLine progress;
  const Vocabularies vocabularies(a, progress);
  TokenFileInfo made;
  write_file_atomically(a.to, [&](FileWriter& file) { made = write_tokens(a, vocabularies, file, progress); });
  note("wrote " + a.to + ": " +
       (a.of_text() ? with_commas(made.target_tokens) + " tokens"
                    : with_commas(made.pairs) + " pairs, " + with_commas(made.source_tokens) + " source and " +
                          with_commas(made.target_tokens) + " target tokens") +
       ", " + with_commas(vocabularies.target().size()) + " pieces");
}

}  // namespace

void add_prepare(CLI::App& program) {
  const auto a = std::make_shared<PrepareArguments>();
  CLI::App* command =
      program.add_subcommand("prepare", "Turn texts into one file of tokens, for data larger than memory");
  command->description(
      "Turn texts into one file of tokens, for data larger than memory\n\n"
      "heed train takes the file where it takes texts, and reads it as it goes: its memory does not grow with the "
      "data.\n"
      "The vocabulary is learned as heed train learns it, of long texts from a sample of their lines, and is part of\n"
      "the file.");
  const auto files = [&](const char* name, std::vector<std::string>& value, const char* help) {
    command->add_option(name, value, help)->type_name("FILE ...")->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  files("--pairs", a->pairs.pairs,
        "Sentence pairs, one a line, tab-separated columns: files, patterns in quotes, compressed by gzip or not");
  command->add_option("--columns", a->columns, "Columns of source and target in --pairs, from 1")
      ->type_name("S,T")
      ->capture_default_str();
  files("--source", a->pairs.source, "Source sentences, one a line (instead of --pairs)");
  files("--target", a->pairs.target, "Target sentences, one a line");
  files("--text", a->text, "Text for a language model (instead of sentence pairs)");
  files("--exclude", a->exclude, "Leave out pairs whose source is a line of these files");
  command->add_flag("--skip-bad-lines", a->skip_bad_lines,
                    "Leave out lines that are empty, lack a column or are not UTF-8, and count them");
  command->add_option("-o,--to,--output", a->to, "File to write")->required()->type_name("FILE");
  command->add_option("--vocabulary", a->vocabulary, "Use this vocabulary instead of learning one")->type_name("FILE");
  command->add_flag("--separate-vocabularies", a->separate_vocabularies,
                    "A vocabulary of its own for the source; --vocabulary is the target's");
  command
      ->add_option("--source-vocabulary", a->source_vocabulary,
                   "With --separate-vocabularies: use this one for the source")
      ->type_name("FILE");
  command->add_flag("--trust", a->trust, "Load a vocabulary that heed did not make");
  command->add_option("--vocab-size", a->vocab_size, "Pieces to learn [chosen by the data]")
      ->check(CLI::Range(1, 1 << 24));
  command
      ->add_option("--vocab-type", a->vocab_type,
                   "Pieces of --text: subwords, or characters (each one of the text, and no other)")
      ->transform(one_of({"subwords", "characters"}))
      ->capture_default_str();
  command
      ->add_option("--character-coverage", a->character_coverage,
                   "Share of the text's characters with a piece of their own; the rest become bytes")
      ->check(finite_number())
      ->check(in_range(VocabularyOptions::kLeastCoverage, 1))
      ->capture_default_str();
  set_usage(*command,
            {"--pairs FILE ... --to FILE [OPTIONS]", "--source FILE ... --target FILE ... --to FILE [OPTIONS]",
             "--text FILE ... --to FILE [OPTIONS]"});
  command->footer(
      "Example:\n"
      "  heed prepare --pairs 'part-*.tsv' --to corpus.tokens\n"
      "  heed train --pairs corpus.tokens --valid-pairs dev.tsv --model my-model");
  command->callback([command, a] {
    a->pairs.skip_bad_lines = a->skip_bad_lines;
    prepare(*command, *a);
  });
}

}  // namespace heed::cli
