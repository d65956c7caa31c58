// A training from its data to the model's card.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <numbers>
#include <optional>
#include <span>
#include <utility>

#include "heed/communicator.h"
#include "heed/config_fields.h"
#include "heed/executor.h"
#include "heed/io.h"
#include "heed/load.h"
#include "heed/model_files.h"
#include "heed/paths.h"
#include "heed/random.h"
#include "heed/task.h"
#include "heed/text.h"
#include "heed/token_file.h"
#include "heed/translator.h"
#include "recipe/directory.h"
#include "recipe/held_out.h"
#include "recipe/model_card.h"
#include "recipe/reports.h"
#include "recipe/run.h"
#include "recipe/training_report.h"
#include "recipe/tuning.h"

namespace heed::inline v0 {
namespace {

std::string fixed(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string file_names(std::initializer_list<std::vector<std::string>> lists) {
  constexpr size_t kMost = 20;  // more do not fit into a line
  std::vector<std::string> files;
  for (const std::vector<std::string>& list : lists)
    for (std::string& file : files_of(list)) files.push_back(std::move(file));
  std::string names;
  for (size_t i = 0; i < std::min(files.size(), kMost); ++i)
    names += (names.empty() ? "" : ", ") + std::filesystem::path(name_of_data(files[i])).filename().string();
  return files.size() <= kMost ? names
                               : names + " and " + with_commas(static_cast<int64_t>(files.size() - kMost)) + " more";
}

// Without files they came from memory.
std::string of_files(const PairFiles& files) {
  return files.empty() ? "from memory" : file_names({files.pairs, files.source, files.target});
}

std::string name_of_directory(const std::string& path) {
  return std::filesystem::path(path + "/").parent_path().filename().string();
}

// "d_model 64, nhead 4, ..."
template <class Config>
std::string shape_in_words(const Config& c) {
  std::string text;
  for (const auto& [field, value] : field_values(c))
    if (field.option) text += (text.empty() ? "" : ", ") + std::string(field.name) + " " + value;
  return text;
}

// A row for each field. The size of the vocabulary stands with its kind.
template <class Config>
CardRows shape_rows(const Config& c) {
  CardRows rows;
  for (const auto& [field, value] : field_values(c))
    if (field.option && !std::string_view(field.name).ends_with("vocab_size")) rows.emplace_back(field.help, value);
  return rows;
}

// What a card says about one kind of model only.
struct CardParts {
  std::string summary;
  std::string vocabulary;  // behind its size
  CardRows data;
  std::string scored_on;
  CardRows scores{};  // none without validation
};

// Written at the end of a run.
template <class Model>
void write_model_card(const TrainingSettings& a, const TrainResult& result, const Model& model, CardParts parts) {
  ModelCard card;
  card.title = name_of_directory(a.model);
  card.summary = std::move(parts.summary);
  card.options = options_for_card(a);
  CardRows rows{{"Parameters", with_commas(model.parameter_count())},
                {"Vocabulary", with_commas(model.config().vocab_size) + " " + parts.vocabulary}};
  for (auto& row : shape_rows(model.config())) rows.push_back(std::move(row));
  card.sections.push_back({"Model", std::move(rows)});
  card.sections.push_back({"Data", std::move(parts.data)});
  card.sections.push_back(
      {"Training",
       {{"Updates", with_commas(result.update) + " in " + std::to_string(result.epoch) + " epochs; the weights are " +
                        (result.average_is_best ? "the average of checkpoints up to update " : "those of update ") +
                        with_commas(result.best_update)},
        {"Minutes",
         fixed(result.minutes, "%.1f") + " on " + std::to_string(threads()) + " threads of " + processor_name()},
        {"Seed", std::to_string(a.options.seed)}}});
  if (!parts.scores.empty()) card.sections.push_back({"Scores on the " + parts.scored_on, std::move(parts.scores)});
  DirectoryTransaction transaction(a.model);
  transaction.write(kModelCardFile, to_markdown(card));
  transaction.commit();
}

// What --html asks for, with the model as it is before training.
template <class Model>
std::optional<ReportOnTraining> begin_report(const TrainingSettings& a, Model& model, const std::string& data,
                                             const std::function<Watched()>& watch_it) {
  if (a.html.empty() || !a.leads()) return {};
  const Evaluation evaluation(model);
  const Generator before = default_generator();
  Watched watched = watch_it();
  std::optional<ReportOnTraining> report;
  report.emplace(ReportOnTraining::About{.path = a.html,
                                         .directory = a.model,
                                         .title = "Training of " + name_of_directory(a.model),
                                         .text = shape_in_words(model.config()) + "; " + data,
                                         .clip_norm = a.options.clip_norm},
                 std::move(watched));
  default_generator() = before;  // training draws the same with and without a report
  return report;
}

// Options as they are used.
void settle(TrainingSettings& a, TrainingObserver& watcher) {
  TrainOptions& options = a.options;
  LearningRate& rate = options.learning_rate;
  rate.schedule = a.schedule == "cosine"     ? Schedule::cosine
                  : a.schedule == "constant" ? Schedule::constant
                  : a.schedule == "linear"   ? Schedule::linear
                                             : Schedule::inverse_square_root;
  rate.total = options.max_updates;
  if (rate.total > 0 && rate.anneal > rate.total) {
    watcher.say(a.named("anneal", std::to_string(rate.anneal)) + " is more than " + a.name("max_updates") +
                ": the rate falls from the first update");
    rate.anneal = rate.total;
  }
  options.criterion = a.validate_by == "bleu" ? Criterion::bleu : Criterion::loss;
  validate(options);
}

int64_t bytes_of(const TextPairs& texts) {
  int64_t bytes = 0;
  for (const auto* side : {&texts.source, &texts.target})
    for (const std::string& line : *side) bytes += std::ssize(line);
  return bytes;
}

TrainFacts facts_of(const TextPairs& texts) {
  TextFacts facts;
  for (const auto* side : {&texts.source, &texts.target})
    for (const std::string& line : *side) facts.add(line);
  return facts.completed({.pairs = std::ssize(texts.source)});
}

TrainFacts facts_of(const std::string& text) {
  TextFacts facts;
  for (const std::string& line : lines_of(text)) facts.add(line);
  return facts.completed({.text = true});
}

TrainFacts facts_of(const TokenFileInfo& info) {
  return {.text = info.text, .pairs = info.pairs, .bytes = info.bytes, .characters = info.characters};
}

// Chooses what nobody gave, and says so. `learn` makes a vocabulary of --vocab-size pieces, or of as many as the text
// allows; what is given back makes each one that is asked for. Where the size was chosen, they are made here, since
// they may be smaller.
LearnVocabulary choose(TrainingSettings& a, TrainingObserver& watcher, TrainFacts facts,
                       const std::function<Vocabulary(Side, bool fewer_will_do)>& learn) {
  std::map<Side, Vocabulary> learned;
  const auto make = [&] {
    return [learned, learn](Side side) {
      const auto found = learned.find(side);
      return found != learned.end() ? found->second : learn(side, /*fewer_will_do=*/false);
    };
  };
  if (!a.open) return make();
  if (const double minutes = a.options.max_minutes; minutes > 0) {
    facts.flops = measure_flops(std::clamp(0.01 * 60 * minutes, 0.02, 1.0));
    facts.minutes = std::max(minutes - minutes_since_start(a), 0.1 * minutes);
    if (a.ranks()) facts = of_lead(*a.ranks(), facts);  // what is measured differs
  }
  bool sized = false;
  for (const Choice& choice : choose_options(a, facts)) {
    watcher.say(to_line(choice, a.given.spelling));
    sized = sized || choice.options.vocab_size;
  }
  if (sized) {
    const int64_t chosen = a.vocab_size();
    int64_t smallest = chosen;
    const auto add = [&](Side side) {
      smallest = std::min(smallest, learned.emplace(side, learn(side, /*fewer_will_do=*/true)).first->second.size());
    };
    if (!a.separate_vocabularies) add(Side::both);
    if (a.separate_vocabularies && a.source_vocabulary.empty()) add(Side::source);
    if (a.separate_vocabularies && a.vocabulary.empty()) add(Side::target);
    std::erase_if(learned, [&](const auto& side) { return side.second.size() != smallest; });
    a.set("vocab_size", std::to_string(smallest));
    if (smallest < chosen) watcher.say("the text gives no more than " + std::to_string(smallest) + " pieces");
  }
  settle(a, watcher);
  return make();
}

// What run() shows of one kind of training only.
struct Watching {
  std::string data;  // begins the first line
  NextUse next{};
  bool validates = true;
  TrainWords words{};
  SampleTranslations* samples = nullptr;
};

// Trains, reports progress, and writes the card with what `parts` makes of the result. `hooks` may hold what else the
// training needs.
template <class Model, class Training, class Data, class Parts>
TrainResult run(const TrainingSettings& a, TrainingObserver& watcher, const Prepared& prepared, Model& model,
                Training& training, const Data& validation, const Watching& watching, TrainHooks hooks,
                std::optional<ReportOnTraining> report, Parts&& parts) {
  const WatchedTraining watched{.model = model,
                                .words = watching.words,
                                .data = watching.data + ", " + std::to_string(model.config().vocab_size) + " pieces",
                                .validates = watching.validates,
                                .samples = watching.samples};
  const auto learn = [&](const TrainOptions& options, const TrainHooks& all) {
    try {
      return train(model, training, validation, options, a.model, all);
    } catch (const ShapeError& e) {
      if (a.ranks()) a.ranks()->fail(e.what());  // before this takes its time: others may be about to say the same
      const bool learned = a.leads() && std::filesystem::exists(a.model + "/" + kStateFile);
      if (prepared.fresh && !learned) forget_directory(a.model, prepared.made);
      throw;
    }
  };
  const TrainResult result = run_watched(a, watcher, watched, std::move(hooks), std::move(report), learn);
  if (!a.leads() || result.reason == StopReason::interrupted) return result;
  if (!result.nothing_done || !std::filesystem::exists(a.model + "/" + kModelCardFile)) {
    write_model_card(a, result, model, parts(result));
    watcher.line("wrote " + a.model + "/" + kModelCardFile);
  }
  watcher.next(watching.next);
  return result;
}

// Wrong numbers are found before the data is read.
template <class Config>
void check_early(Config shape, const TrainingSettings& a) {
  if (a.open) return;       // the data has a say
  shape.vocab_size = 1000;  // comes with the vocabulary, which has its own range
  check_shape(a, shape);
}

// So many pairs from all over the texts, which may be sorted by length.
TextPairs spread(const TextPairs& texts, int64_t count) {
  TextPairs some;
  const int64_t all = std::ssize(texts.source);
  for (int64_t i = 0; i < std::min(count, all); ++i) {
    const auto at = static_cast<size_t>(i * all / count);
    some.source.push_back(texts.source[at]);
    some.target.push_back(texts.target[at]);
  }
  return some;
}

// BLEU of what the model makes of the pairs greedily, on every rank.
double greedy_bleu(const Transformer& model, const Prepared& vocabularies, const TextPairs& texts, Communicator* ranks,
                   SampleTranslations& samples) {
  std::vector<std::string> translations;
  for (TranslatedLine& line :
       translate_lines(std::array{&model}, Tokenizer(vocabularies.source), Tokenizer(vocabularies.vocabulary),
                       texts.source, {.beam = {.beam = 1}, .ranks = ranks}))
    translations.push_back(std::move(line.best.front().text));
  const bool leads = !ranks || ranks->rank() == 0;
  if (leads) samples.take(texts, translations);
  const double score = leads ? bleu(translations, texts.target).score : 0;
  return ranks ? of_lead(*ranks, score) : score;
}

TextPairs read_training_pairs(const TrainingSettings& a, const Say& say) {
  check_pair_files(a);
  return read_pairs(a.pairs(), parse_columns(a), say, "training data");
}

TextPairs read_validation_pairs(const TrainingSettings& a, const Say& say) {
  check_valid_pair_files(a);
  return read_pairs(a.valid_pairs(), parse_columns(a), say, "validation data");
}

// The training data where it is tokens that heed prepare made.
std::optional<TokenFile> tokens_in(const std::vector<std::string>& names) {
  const std::vector<std::string> files = files_of(names);
  if (files.size() != 1 || !is_token_file(files.front())) return {};
  return TokenFile(files.front());
}

void expect_the_vocabulary(const TrainingSettings& a, const std::string& has, const std::string& expected,
                           const TokenFile& tokens, const std::string& of) {
  if (has != expected)
    throw UsageError(tokens.path() + " was prepared with another vocabulary than " + of + "; prepare it with " +
                     a.named("vocabulary", of));
}

// Lets the tokens decide what follows from them; throws UsageError for what cannot be done with tokens.
void take_over(const TokenFile& tokens, TrainingSettings& a) {
  const TokenFileInfo& info = tokens.info();
  const auto refuse = [&](bool given, const std::string& field, const std::string& remedy) {
    if (given) throw UsageError(a.name(field) + " needs texts, and " + tokens.path() + " holds tokens; " + remedy);
  };
  const std::string validation = a.name(info.text ? "valid_text" : "valid_pairs");
  refuse(!a.given.exclude.empty(), "exclude", "give it to heed prepare");
  refuse(a.options.subword_dropout > 0, "subword_dropout", "give 0 for it, or train on the texts");
  refuse(!info.text && a.valid_fraction > 0, "valid_fraction", "give " + validation);
  const bool validates =
      info.text ? !a.given.valid_text.empty() : !a.valid_pairs().empty() || a.given.valid_pairs_in_memory;
  refuse(!a.html.empty() && !validates, "html", "give " + validation + " to watch");
  if (a.separate_vocabularies && info.source_vocabulary.empty())
    throw UsageError(tokens.path() + " was prepared with one vocabulary; leave out " + a.name("separate_vocabularies") +
                     ", or give it to heed prepare");
  a.set("separate_vocabularies", info.source_vocabulary.empty() ? "false" : "true");
  for (const auto& [given, stored] :
       {std::pair{a.vocabulary, info.vocabulary}, std::pair{a.source_vocabulary, info.source_vocabulary}})
    if (!given.empty()) expect_the_vocabulary(a, load_vocabulary(given, a.trust).to_text(), stored, tokens, given);
  const Vocabulary vocabulary = Vocabulary::from_bytes(info.vocabulary, tokens.path(), a.trust);
  if (info.text) a.set("vocab_type", vocabulary.of_characters() ? "characters" : "subwords");
  a.set("vocab_size", std::to_string(vocabulary.size()));
  if (!info.text) a.set("subword_dropout", "0");
}

Vocabulary vocabulary_of(const TokenFile& tokens, Side side, bool trust) {
  const TokenFileInfo& info = tokens.info();
  return Vocabulary::from_bytes(side == Side::source ? info.source_vocabulary : info.vocabulary, tokens.path(), trust);
}

// The directory may have been there.
void expect_the_vocabularies(const TrainingSettings& a, const Prepared& prepared, const TokenFile& tokens) {
  const TokenFileInfo& info = tokens.info();
  const std::string& source = info.source_vocabulary.empty() ? info.vocabulary : info.source_vocabulary;
  expect_the_vocabulary(a, prepared.vocabulary.to_text(), info.vocabulary, tokens, a.model + "/" + kVocabularyFile);
  expect_the_vocabulary(a, prepared.source.to_text(), source, tokens, a.model + "/" + kSourceVocabularyFile);
}

// What is told of sentence pairs.
TokenFileInfo amount_of(const SentencePairs& pairs) {
  const auto tokens = [](const std::vector<std::vector<int32_t>>& sentences) {
    int64_t count = 0;
    for (const auto& sentence : sentences) count += std::ssize(sentence);
    return count;
  };
  return {
      .pairs = std::ssize(pairs.source), .source_tokens = tokens(pairs.source), .target_tokens = tokens(pairs.target)};
}

// What the model's card says of its data and scores.
CardParts translator_card(const TrainingSettings& a, const TransformerConfig& shape, const TokenFileInfo& training,
                          const TextPairs& valid_texts, const TrainResult& result) {
  CardParts parts{
      .summary = "A Transformer that translates, trained by heed " HEED_VERSION ".",
      .vocabulary = shape.source_vocab_size == 0
                        ? "pieces for both languages"
                        : "pieces for the target, " + with_commas(shape.source_vocab_size) + " for the source",
      .data = {{"Training", of_files(a.pairs()) + ": " + with_commas(training.pairs) + " sentence pairs, " +
                                with_commas(training.source_tokens) + " source and " +
                                with_commas(training.target_tokens) + " target tokens"}},
      .scored_on = "validation pairs"};
  if (valid_texts.source.empty()) return parts;
  parts.data.emplace_back("Validation", (a.valid_fraction > 0 ? "held out" : of_files(a.valid_pairs())) + ": " +
                                            with_commas(static_cast<int64_t>(valid_texts.source.size())) +
                                            " sentence pairs");
  // The scores are those of the files in the directory, read anew.
  const BeamOptions beam{.beam = BeamOptions::kBeam, .length_penalty = BeamOptions::kLengthPenalty};
  parts.scores = {
      {"Loss", fixed(result.best_nll, "%.4f nats a token")},
      {"Search", "beam " + std::to_string(*beam.beam) + ", length penalty " + fixed(*beam.length_penalty, "%g")}};
  std::vector<std::string> translations;
  for (TranslatedLine& line : Translator(a.model, {.trust = a.trust}).translate(valid_texts.source, {.beam = beam}))
    translations.push_back(std::move(line.best.front().text));
  for (auto& row : score_rows(translations, valid_texts.target)) parts.scores.push_back(std::move(row));
  return parts;
}

TrainResult train_on_pairs(TrainingSettings& a, TrainingObserver& watcher) {
  const Say say = [&](const std::string& text) { watcher.say(text); };
  check_early(a.translator, a);
  check_pair_files(a);
  const std::optional<TokenFile> tokens = tokens_in(a.given.pairs);
  const std::unique_ptr<PairCorpus> corpus = tokens ? tokens->pairs() : nullptr;
  if (tokens) take_over(*tokens, a);
  TextPairs texts;
  if (a.given.pairs_in_memory)
    texts = *a.given.pairs_in_memory;
  else if (!tokens)
    texts = read_training_pairs(a, say);
  TextPairs valid_texts =
      a.given.valid_pairs_in_memory ? *a.given.valid_pairs_in_memory : read_validation_pairs(a, say);
  if (!a.given.exclude.empty()) exclude_sources(texts, a.given.exclude, say);
  expect_validation(a.name(a.given.valid_pairs.empty() ? "valid_source" : "valid_pairs"), !a.valid_pairs().empty(),
                    valid_texts.source.empty());
  if (!tokens && texts.source.empty()) throw FormatError(of_files(a.pairs()) + " holds no sentence pairs to train on");
  if (!tokens)
    hold_out_validation(a, texts, valid_texts, say);
  else if (valid_texts.source.empty())
    say("no validation: of tokens no part is held out; give " + a.name("valid_pairs") + " for it");
  TrainOptions& options = a.options;
  if (valid_texts.source.empty() && options.criterion == Criterion::bleu)
    throw UsageError(a.named("validate_by", "bleu") + " needs validation pairs; give " + a.name("valid_pairs") +
                     " or " + a.name("valid_fraction"));
  const TextPairs& watched_texts = valid_texts.source.empty() ? texts : valid_texts;
  const std::vector<int64_t> watched =
      parse_line_numbers(a.name("html_lines"), a.html_lines, std::ssize(watched_texts.source),
                         valid_texts.source.empty() ? "the training data" : "the validation data");
  warn_of_overlap(texts, valid_texts, say);
  const auto learn = [&](Side side, bool fewer_will_do) {
    if (tokens) return vocabulary_of(*tokens, side, a.trust);
    std::vector<std::string> lines = side == Side::target ? texts.target : texts.source;
    if (side == Side::both) lines.insert(lines.end(), texts.target.begin(), texts.target.end());
    return learn_vocabulary(
        a.name("vocab_size"), lines,
        {.size = a.vocab_size(), .fewer_will_do = fewer_will_do, .character_coverage = a.character_coverage});
  };
  TrainFacts facts;
  if (a.open) {
    facts = tokens ? facts_of(tokens->info()) : facts_of(texts);
    facts.validation_bytes = bytes_of(valid_texts);
  }
  const LearnVocabulary vocabularies = choose(a, watcher, facts, learn);
  options.bleu_sentences = std::min(options.bleu_sentences, std::ssize(valid_texts.source));
  TransformerConfig shape = a.translator;
  const std::string kept_options = options_to_keep(a);
  const Prepared prepared = prepare_over_ranks(a, shape, kept_options, vocabularies);
  if (tokens) expect_the_vocabularies(a, prepared, *tokens);
  const Vocabulary& vocabulary = prepared.vocabulary;
  const SentencePairs training = encode(prepared.source, vocabulary, texts),
                      validation = encode(prepared.source, vocabulary, valid_texts);

  manual_seed(a.options.seed);
  Transformer model(shape);
  begin_with(model, a, prepared);
  const TokenFileInfo amount = tokens ? tokens->info() : amount_of(training);
  const std::string data =
      std::to_string(amount.pairs) + " training and " + std::to_string(validation.source.size()) + " validation pairs";
  auto report = begin_report(a, model, data, [&] {
    Watched w = watch(model, prepared.source, vocabulary,
                      watched_pairs(watched_texts, valid_texts.source.empty() ? training : validation, watched));
    if (options.bleu_sentences > 0)
      w.bleu_note = with_commas(options.bleu_sentences) +
                    " pairs from all over the validation data, decoded greedily with the weights as they are.";
    return w;
  });
  SampleTranslations samples;
  const auto learn_from = [&](auto& pairs) {
    return run(a, watcher, prepared, model, pairs, validation,
               {.data = data,
                .next = {.use = NextUse::Use::translate, .model = a.model, .example = example_of(watched_texts.source)},
                .validates = !validation.source.empty(),
                .samples = &samples},
               {.files = {{kTrainOptionsFile, kept_options}},
                .bleu =
                    [&](int64_t sentences) {
                      return greedy_bleu(model, prepared, spread(valid_texts, sentences), a.ranks(), samples);
                    },
                .encode = [&](double dropout,
                              uint64_t seed) { return encode(prepared.source, vocabulary, texts, dropout, seed); }},
               std::move(report),
               [&](const TrainResult& result) { return translator_card(a, shape, amount, valid_texts, result); });
  };
  return corpus ? learn_from(*corpus) : learn_from(training);
}

TrainResult train_on_text(TrainingSettings& a, TrainingObserver& watcher) {
  const Say say = [&](const std::string& text) { watcher.say(text); };
  a.options.bleu_sentences = 0;
  check_early(a.language_model, a);
  const std::optional<TokenFile> tokens = tokens_in(a.given.text);
  const std::unique_ptr<TextCorpus> corpus = tokens ? tokens->text() : nullptr;
  if (tokens) take_over(*tokens, a);
  TextParts texts;
  if (!tokens)
    texts = read_text_parts(a.given.text, a.given.valid_text, a.valid_fraction, say, a.skip_bad_lines);
  else if (!a.given.valid_text.empty())
    texts.validation = read_text(a.given.valid_text, "validation text", say, a.skip_bad_lines);
  else
    say("no validation: of tokens no part is held out; give " + a.name("valid_text") + " for one");
  const std::vector<std::string> watched_text = lines_of(texts.validation.empty() ? texts.training : texts.validation);
  const std::vector<int64_t> watched =
      parse_line_numbers(a.name("html_lines"), a.html_lines, std::ssize(watched_text),
                         texts.validation.empty() ? "the training text" : "the validation text");
  for (const int64_t number : watched)
    if (watched_text[static_cast<size_t>(number - 1)] == "\n")
      throw UsageError(a.name("html_lines") + ": line " + std::to_string(number) + " is empty; choose one with words");
  warn_of_overlap(a, texts, say);
  const auto learn = [&](Side side, bool fewer_will_do) {
    if (tokens) return vocabulary_of(*tokens, side, a.trust);
    if (a.vocab_type == "characters") return Vocabulary::characters(texts.training);
    return learn_vocabulary(a.name("vocab_size"), lines_of(texts.training),
                            {.size = a.vocab_size(),
                             .fewer_will_do = fewer_will_do,
                             .character_coverage = a.character_coverage,
                             .spaces = Spaces::verbatim});
  };
  TrainFacts facts;
  if (a.open) {
    facts = tokens ? facts_of(tokens->info()) : facts_of(texts.training);
    facts.validation_bytes = std::ssize(texts.validation);
  }
  const LearnVocabulary vocabularies = choose(a, watcher, facts, learn);
  LanguageModelConfig shape = a.language_model;
  const std::string kept_options = options_to_keep(a);
  const Prepared prepared = prepare_over_ranks(a, shape, kept_options, vocabularies);
  if (tokens) expect_the_vocabularies(a, prepared, *tokens);
  const Vocabulary& vocabulary = prepared.vocabulary;
  const std::vector<int32_t> training = encode_text(vocabulary, texts.training, "training text", say),
                             validation = encode_text(vocabulary, texts.validation, "validation text", say);
  // The first token is not predicted. A loss of what the vocabulary cannot write says nothing of its bytes.
  double bits = 0;
  const bool written = std::find(validation.begin(), validation.end(), vocabulary.unk_id()) == validation.end();
  if (validation.size() > 1 && written)
    bits = static_cast<double>(validation.size() - 1) / std::numbers::ln2 /
           static_cast<double>(texts.validation.size() - vocabulary.bytes(validation[0]).size());

  manual_seed(a.options.seed);
  LanguageModel model(shape);
  begin_with(model, a, prepared);
  const int64_t bytes = tokens ? tokens->info().bytes : std::ssize(texts.training),
                count = tokens ? tokens->info().target_tokens : std::ssize(training);
  const std::string data =
      std::to_string(count) + " training and " + std::to_string(validation.size()) + " validation tokens";
  auto report = begin_report(a, model, data, [&] {
    return watch(model, vocabulary, watched_lines(watched_text, vocabulary, watched, shape.max_positions));
  });
  const auto learn_from = [&](auto& text) {
    return run(a, watcher, prepared, model, text, validation,
               {.data = data,
                .next = {.use = NextUse::Use::generate, .model = a.model, .example = first_words(watched_text)},
                .validates = !validation.empty(),
                .words = {.tokens = "tokens", .sequences = "blocks", .bits = bits}},
               {.files = {{kTrainOptionsFile, kept_options}}}, std::move(report), [&](const TrainResult& result) {
                 const auto amount = [](int64_t of_text, int64_t ids) {
                   return with_commas(of_text) + " bytes, " + with_commas(ids) + " tokens";
                 };
                 CardParts parts{.summary = "A language model, trained by heed " HEED_VERSION ".",
                                 .vocabulary = vocabulary.of_characters() ? "characters" : "pieces",
                                 .data = {{"Training", file_names({a.given.text}) + ": " + amount(bytes, count)}},
                                 .scored_on = "validation text"};
                 if (validation.empty()) return parts;
                 parts.data.emplace_back("Validation",
                                         (a.given.valid_text.empty() ? "the end of " + file_names({a.given.text})
                                                                     : file_names({a.given.valid_text})) +
                                             ": " + amount(std::ssize(texts.validation), std::ssize(validation)));
                 parts.scores = {{"Loss", fixed(result.best_nll, "%.4f nats a token")}};
                 if (bits > 0) parts.scores.emplace_back("Bits", fixed(bits * result.best_nll, "%.4f a byte"));
                 return parts;
               });
  };
  return corpus ? learn_from(*corpus) : learn_from(training);
}

}  // namespace

std::vector<std::string> inputs_of(const TrainingSettings& a) {
  const TrainingRequest& given = a.given;
  std::vector<std::string> inputs = {a.vocabulary, a.source_vocabulary, given.config.value_or("")};
  for (const std::vector<std::string>& list :
       {given.pairs, given.source, given.target, given.valid_pairs, given.valid_source, given.valid_target, given.text,
        given.valid_text, given.labelled, given.valid_labelled, given.exclude})
    for (std::string& file : files_of(list)) inputs.push_back(std::move(file));
  if (a.init.empty()) return inputs;
  const std::vector<std::string> model = model_paths(a.init);
  inputs.insert(inputs.end(), model.begin(), model.end());
  return inputs;
}

static void check_training(const TrainingSettings& a) {
  const TrainingRequest& given = a.given;
  if (a.model.empty()) throw UsageError(a.name("model") + " is missing: the directory to write");
  if (!a.of_text() && !a.of_labels() && !a.of_pairs())
    throw UsageError("give " + a.name("pairs") + ", or " + a.name("source") + " and " + a.name("target") + ", or " +
                     a.name("text") + ": what to learn from");
  if ((given.pairs_in_memory && !a.pairs().empty()) || (given.valid_pairs_in_memory && !a.valid_pairs().empty()))
    throw UsageError("pairs and files of them are given; give one kind");
  parse_columns(a);
  const bool has_valid_pairs = !a.valid_pairs().empty() || given.valid_pairs_in_memory || !given.valid_labelled.empty();
  if (a.valid_fraction > 0 && !a.of_text() && has_valid_pairs)
    throw UsageError("give either pairs to validate on, or " + a.name("valid_fraction") + " of the others");
  if (a.html.empty() && !a.html_lines.empty())
    throw UsageError(a.name("html_lines") + " chooses sentences for " + a.name("html") + "; give " + a.name("html") +
                     ", the page to write");
  const std::vector<std::string> inputs = inputs_of(a);
  const auto piped = std::count(inputs.begin(), inputs.end(), "-");
  if (piped > 1) throw UsageError("standard input is named twice; it can be read once, give files for the rest");
  if (piped > 0 && a.ranks() && a.ranks()->size() > 1)
    throw UsageError("standard input reaches one rank of several; give files");
  const int ranks = a.ranks() ? a.ranks()->size() : 1;
  if (a.options.context_ranks > 1 && ranks % a.options.context_ranks != 0)
    throw UsageError(a.name("context_ranks") + " is " + std::to_string(a.options.context_ranks) + " and there " +
                     (ranks == 1 ? "is 1 rank" : "are " + std::to_string(ranks) + " ranks") +
                     "; start a multiple of it, as mpirun -np " + std::to_string(a.options.context_ranks));
  if (a.leads() && a.tunes()) expect_writable_directory(a.name("model"), a.model);
  if (a.leads() && !a.tunes()) check_training_directory(a);
  if (!a.html.empty()) check_report_path(a.name("html"), a.html, a.model, inputs);
  if (!a.timeline.empty()) check_timeline_path(a.name("timeline"), a.timeline, a.model, inputs);
  expect_ending(a.name("html"), a.html, ".html");
  expect_ending(a.name("timeline"), a.timeline, ".json");
}

bool reads_standard_input(const TrainingRequest& request) {
  for (const TrainingOption& option : training_options())
    if (option.several)
      for (const std::string& file : option_values(request, option.field))
        if (file == "-") return true;
  return false;
}

static TrainResult run_training(TrainingSettings& a, TrainingObserver& watcher) {
  settle(a, watcher);
  if (a.tunes()) return run_tuning(a, watcher);
  if (!a.init.empty()) {
    if (a.vocabulary.empty()) a.vocabulary = a.init + "/" + kVocabularyFile;
    if (a.separate_vocabularies && a.source_vocabulary.empty())
      a.source_vocabulary = a.init + "/" + kSourceVocabularyFile;
  }
  if (!a.source_vocabulary.empty() && !a.separate_vocabularies)
    throw UsageError(a.name("source_vocabulary") + " is the source's alone; give " + a.name("separate_vocabularies") +
                     " with it");
  return a.of_text() ? train_on_text(a, watcher) : train_on_pairs(a, watcher);
}

TrainResult train(const TrainingRequest& request, TrainingObserver* observer) {
  TrainingObserver silent;
  TrainingSettings settings = completed(request);
  if (request.ranks) request.ranks->barrier();  // all have read what the directory says before rank 0 writes there
  check_training(settings);
  TrainingObserver& watcher = observer ? *observer : silent;
  watcher.complete(settings.given);
  return run_training(settings, watcher);
}

TrainResult train_translator(const TrainingRequest& request, TrainingObserver* observer) {
  if (!request.text.empty() || !request.labelled.empty())
    throw UsageError("train_translator: text and labelled are other data; give pairs, or source and target");
  return train(request, observer);
}

TrainResult train_language_model(const TrainingRequest& request, TrainingObserver* observer) {
  if (request.text.empty() && !request.resume) throw UsageError("train_language_model: text is missing; name files");
  return train(request, observer);
}

}  // namespace heed::inline v0
