// heed train: a translator from sentence pairs, or a language model from a text.
#include "heed/train.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <numbers>
#include <optional>
#include <utility>

#include "cli/checkpoint.h"
#include "cli/commands.h"
#include "cli/corpus.h"
#include "cli/model_card.h"
#include "cli/progress.h"
#include "cli/train_directory.h"
#include "cli/train_options.h"
#include "cli/training_report.h"
#include "cli/translator.h"
#include "heed/executor.h"
#include "heed/io.h"
#include "heed/random.h"
#include "heed/text.h"
#include "train/state.h"
#include "train/task.h"

namespace heed::cli {
namespace {

volatile std::sig_atomic_t caught_signal = 0;

// The first signal lets the update finish; a second one ends the process as ever.
void catch_signals() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { caught_signal = signal; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

std::string duration(double minutes) {
  const auto seconds = static_cast<int64_t>(minutes * 60 + 0.5);
  char text[32];
  std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", static_cast<long long>(seconds / 3600),
                static_cast<long long>(seconds / 60 % 60), static_cast<long long>(seconds % 60));
  return text;
}

// Progress on standard error: one line that is overwritten on a terminal, plain lines elsewhere.
const std::string kPrefix = "heed train: ";

class Display {
 public:
  /// Bits a byte are `bits` times the loss; 0 where they say nothing.
  Display(const char* rate, double bits) : rate_(rate), bits_(bits) {}
  std::string loss(double nll) const {
    char text[64];
    std::snprintf(text, sizeof text, bits_ > 0 ? "%.4f (%.4f bits/byte)" : "%.4f", nll, bits_ * nll);
    return text;
  }
  void progress(const TrainProgress& p) {
    sentences_ += p.sentences;
    char text[320];
    std::snprintf(text, sizeof text,
                  "epoch %lld  update %lld  sentences %lld  loss %.4f  %s %.0f  gradient %.3f  rate %.2e  "
                  "%.1f GFLOP/s  left %s",
                  static_cast<long long>(p.epoch), static_cast<long long>(p.update), static_cast<long long>(sentences_),
                  p.loss, rate_, p.words_per_second, p.gradient_norm, p.learning_rate, p.gflops,
                  p.minutes_left < 0 ? "?" : duration(p.minutes_left).c_str());
    line_.update(kPrefix + text);
  }
  void validation(const Validation& v) {
    line("validation: epoch " + std::to_string(v.epoch) + "  update " + std::to_string(v.update) + "  loss " +
         loss(v.nll) + (v.average_nll < 0 ? "" : ", of the average " + loss(v.average_nll)) + "  " +
         (v.better ? "best" : "no better for " + std::to_string(v.without_progress)));
  }
  void line(const std::string& text) { line_.print(kPrefix + text); }

 private:
  ProgressLine line_{/*seconds=*/0};  // the trainer already reports seldom
  const char* rate_;
  double bits_;
  int64_t sentences_ = 0;
};

std::string describe(StopReason reason) {
  switch (reason) {
    case StopReason::max_updates:
      return "--max-updates reached";
    case StopReason::max_epochs:
      return "--max-epochs reached";
    case StopReason::max_minutes:
      return "--max-minutes reached";
    case StopReason::patience:
      return "--patience ran out";
    case StopReason::interrupted:
      return "interrupted";
  }
  return "";
}

std::string fixed(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string file_names(std::initializer_list<std::string> paths) {
  std::string names;
  for (const std::string& path : paths)
    if (!path.empty()) names += (names.empty() ? "" : ", ") + std::filesystem::path(path).filename().string();
  return names;
}

std::string name_of_directory(const std::string& path) {
  return std::filesystem::path(path + "/").parent_path().filename().string();
}

std::string layers_in_words(const TransformerConfig& c) {
  return std::to_string(c.num_encoder_layers) + " encoder and " + std::to_string(c.num_decoder_layers) +
         " decoder layers";
}
std::string layers_in_words(const LanguageModelConfig& c) { return std::to_string(c.num_layers) + " layers"; }

template <class Config>
std::string shape_in_words(const Config& c) {
  return layers_in_words(c) + ", width " + std::to_string(c.d_model) + ", " + std::to_string(c.nhead) +
         " heads, feed-forward " + std::to_string(c.dim_feedforward) + ", " + c.activation + ", " + c.norm +
         (c.norm_first ? " before" : " after") + " each sub-layer, " + c.positions + " positions" +
         (c.tie_embeddings ? ", one matrix for embeddings and output" : "");
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
void write_model_card(const CLI::App& command, const TrainArguments& a, const TrainResult& result, const Model& model,
                      CardParts parts) {
  ModelCard card;
  card.title = name_of_directory(a.model);
  card.summary = std::move(parts.summary);
  card.options = command.config_to_str();
  card.sections.push_back({"Model",
                           {{"Shape", shape_in_words(model.config())},
                            {"Parameters", with_commas(model.parameter_count())},
                            {"Vocabulary", with_commas(model.config().vocab_size) + " " + parts.vocabulary}}});
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

// The page of --html while training goes on: what fails there is said, and training goes on.
class HtmlReport {
 public:
  /// Nothing happens where `report` is empty.
  HtmlReport(std::optional<ReportOnTraining> report, const std::string& path, Display& display)
      : report_(std::move(report)), path_(path), display_(display) {}

  void attach(TrainHooks& hooks) {
    if (!report_) return;
    hooks.examine = [this](const Validation& v) { return report_->examine(v); };
    // Written at each validation, and as soon as there is something to see.
    hooks.validation = [this, next = std::move(hooks.validation)](const Validation& v) {
      next(v);
      write();
    };
    hooks.progress = [this, next = std::move(hooks.progress)](const TrainProgress& p) {
      next(p);
      if (!written_) write();
    };
  }
  void finish(Module& model, int64_t update) {
    if (!report_) return;
    const Evaluation evaluation(model);
    if (try_to([&] { report_->finish(update); })) display_.line("wrote " + path_);
  }

 private:
  void write() {
    written_ = true;
    try_to([&] { report_->write(); });
  }
  template <class Write>
  bool try_to(Write&& write) {
    try {
      write();
      return true;
    } catch (const Error& e) {
      display_.line("the report was not written: " + std::string(e.what()));
      return false;
    }
  }

  std::optional<ReportOnTraining> report_;
  const std::string& path_;
  Display& display_;
  bool written_ = false;
};

// What --html asks for, with the model as it is before training.
template <class Model>
std::optional<ReportOnTraining> begin_report(const TrainArguments& a, Model& model, const Vocabulary& vocabulary,
                                             std::vector<WatchedSentence> sentences, const std::string& data,
                                             const std::function<void(Watched&)>& complete = {}) {
  if (a.html.empty()) return {};
  const Evaluation evaluation(model);
  const Generator before = default_generator();
  Watched watched = watch(model, vocabulary, std::move(sentences));
  if (complete) complete(watched);
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

// Trains, says how it goes, and writes the card with what `parts` makes of the result. `data` begins the first line.
// `hooks` may hold what else the training needs.
template <class Model, class Data, class Parts>
void run(const CLI::App& command, const TrainArguments& a, bool fresh, Model& model, const Data& training,
         const Data& validation, bool validates, Display& display, const std::string& data, TrainHooks hooks,
         std::optional<ReportOnTraining> report, Parts&& parts) {
  display.line(data + ", " + std::to_string(model.config().vocab_size) + " pieces, " +
               std::to_string(model.parameter_count()) + " parameters, " + std::to_string(threads()) + " threads");
  catch_signals();
  hooks.progress = [&](const TrainProgress& p) { display.progress(p); };
  hooks.validation = [&](const Validation& v) {
    if (validates) display.validation(v);
  };
  hooks.message = [&](const std::string& text) { display.line(text); };
  hooks.stop = [] { return caught_signal != 0; };
  HtmlReport html(std::move(report), a.html, display);
  html.attach(hooks);
  TrainResult result;
  try {
    result = train(model, training, validation, a.options, a.model, hooks);
  } catch (const ShapeError&) {
    const bool learned = std::filesystem::exists(a.model + "/" + kStateFile);
    if (fresh && !learned) forget_directory(a.model);
    throw;
  }
  html.finish(model, result.update);
  if (result.reason == StopReason::interrupted) {
    display.line("saved after update " + std::to_string(result.update) + "; the same command goes on from here");
    throw ExitStatus{128 + caught_signal};
  }
  display.line((result.nothing_done ? "finished already: " : "finished: ") + describe(result.reason) + " after " +
               std::to_string(result.update) + " updates in " + duration(result.minutes) + "; " + a.model + "/" +
               kModelFile + " is " + (result.average_is_best ? "the average of checkpoints up to" : "that of") +
               " update " + std::to_string(result.best_update) +
               (validates ? ", validation loss " + display.loss(result.best_nll) : ""));
  if (result.nothing_done && std::filesystem::exists(a.model + "/" + kModelCardFile)) return;
  write_model_card(command, a, result, model, parts(result));
  display.line("wrote " + a.model + "/" + kModelCardFile);
}

// Wrong numbers are found before the data is read.
template <class Config>
void check_early(Config shape, const TrainArguments& a) {
  if (!a.vocabulary.empty() || (a.of_text() && a.vocab_type == "characters")) shape.vocab_size = 1000;
  validate(shape);
}

// The first validation pairs, decoded greedily.
void watch_bleu(const TrainArguments& a, const Transformer& model, const Vocabulary& vocabulary,
                const TextPairs& validation, Watched& watched) {
  const auto count = std::min(static_cast<size_t>(a.html_bleu), validation.source.size());
  if (count == 0) return;
  const auto first = [&](const std::vector<std::string>& lines) {
    return std::vector<std::string>(lines.begin(), lines.begin() + static_cast<int64_t>(count));
  };
  watched.bleu_note = "The first " + with_commas(static_cast<int64_t>(count)) +
                      " validation pairs, decoded greedily with the weights as they are.";
  watched.bleu = [&model, &vocabulary, sources = first(validation.source), references = first(validation.target)] {
    std::vector<std::string> translations;
    for (TranslatedLine& line : translate_lines(model, vocabulary, sources, {.beam = 1}))
      translations.push_back(std::move(line.best.front().text));
    return bleu(translations, references).score;
  };
}

void train_on_pairs(const CLI::App& command, const TrainArguments& a) {
  TransformerConfig shape = a.shape;
  check_early(shape, a);
  TextPairs texts = read_pairs(a.pairs, a.columns, a.source, a.target, "");
  const TextPairs valid_texts = read_pairs(a.valid_pairs, a.columns, a.valid_source, a.valid_target, "valid-");
  if (!a.exclude.empty()) exclude_sources(texts, a.exclude);
  if (texts.source.empty())
    throw FormatError((a.pairs.empty() ? a.source : a.pairs) + " holds no sentence pairs to train on");
  const TextPairs& watched_texts = valid_texts.source.empty() ? texts : valid_texts;
  const std::vector<int64_t> watched =
      parse_line_numbers(a.html_lines, std::ssize(watched_texts.source),
                         valid_texts.source.empty() ? "the training data" : "the validation data");
  const Prepared prepared = prepare_directory(a, shape, [&] {
    std::vector<std::string> lines = texts.source;
    lines.insert(lines.end(), texts.target.begin(), texts.target.end());
    return Vocabulary::train(lines, {.size = a.vocab_size, .character_coverage = a.character_coverage});
  });
  const Vocabulary& vocabulary = prepared.vocabulary;
  const SentencePairs training = encode(vocabulary, texts), validation = encode(vocabulary, valid_texts);

  manual_seed(a.options.seed);
  Transformer model(shape);
  begin_with(model, a, prepared.fresh);
  Display display("words/s", 0);
  const std::string data = std::to_string(training.source.size()) + " training and " +
                           std::to_string(validation.source.size()) + " validation pairs";
  auto report = begin_report(a, model, vocabulary,
                             watched_pairs(watched_texts, valid_texts.source.empty() ? training : validation, watched),
                             data, [&](Watched& w) { watch_bleu(a, model, vocabulary, valid_texts, w); });
  run(command, a, prepared.fresh, model, training, validation, !validation.source.empty(), display, data,
      {.encode = [&](double dropout, uint64_t seed) { return encode(vocabulary, texts, dropout, seed); }},
      std::move(report), [&](const TrainResult& result) {
        const auto tokens = [](const std::vector<std::vector<int32_t>>& sentences) {
          int64_t count = 0;
          for (const auto& sentence : sentences) count += static_cast<int64_t>(sentence.size());
          return with_commas(count);
        };
        CardParts parts{.summary = "A Transformer that translates, trained by heed " HEED_VERSION ".",
                        .vocabulary = "pieces for both languages",
                        .data = {{"Training", file_names({a.pairs, a.source, a.target}) + ": " +
                                                  with_commas(static_cast<int64_t>(training.source.size())) +
                                                  " sentence pairs, " + tokens(training.source) + " source and " +
                                                  tokens(training.target) + " target tokens"}},
                        .scored_on = "validation pairs"};
        if (valid_texts.source.empty()) return parts;
        parts.data.emplace_back("Validation", file_names({a.valid_pairs, a.valid_source, a.valid_target}) + ": " +
                                                  with_commas(static_cast<int64_t>(valid_texts.source.size())) +
                                                  " sentence pairs");
        // The scores are those of the files in the directory, read anew.
        const BeamOptions beam;
        parts.scores = {
            {"Loss", fixed(result.best_nll, "%.4f nats a token")},
            {"Search", "beam " + std::to_string(beam.beam) + ", length penalty " + fixed(beam.length_penalty, "%g")}};
        std::vector<std::string> translations;
        for (TranslatedLine& line : Translator(a.model, a.trust).translate(valid_texts.source, beam))
          translations.push_back(std::move(line.best.front().text));
        for (auto& row : score_rows(translations, valid_texts.target)) parts.scores.push_back(std::move(row));
        return parts;
      });
}

LanguageModelConfig language_model_shape(const TrainArguments& a) {
  const TransformerConfig& s = a.shape;
  return {.vocab_size = s.vocab_size,
          .d_model = s.d_model,
          .nhead = s.nhead,
          .num_kv_heads = a.kv_heads,
          .num_layers = a.layers,
          .dim_feedforward = s.dim_feedforward,
          .dropout = s.dropout,
          .attention_dropout = s.attention_dropout,
          .activation_dropout = s.activation_dropout,
          .activation = s.activation,
          .norm = s.norm,
          .norm_first = s.norm_first,
          .bias = s.bias,
          .positions = s.positions,
          .max_positions = s.max_positions,
          .tie_embeddings = s.tie_embeddings};
}

void train_on_text(const CLI::App& command, const TrainArguments& a) {
  LanguageModelConfig shape = language_model_shape(a);
  check_early(shape, a);
  const TextParts texts = read_text_parts(a.text, a.valid_text, a.valid_fraction);
  const std::vector<std::string> watched_text = lines_of(texts.validation.empty() ? texts.training : texts.validation);
  const std::vector<int64_t> watched = parse_line_numbers(
      a.html_lines, std::ssize(watched_text), texts.validation.empty() ? "the training text" : "the validation text");
  for (const int64_t number : watched)
    if (watched_text[static_cast<size_t>(number - 1)] == "\n")
      throw ShapeError("--html-lines: line " + std::to_string(number) + " is empty; choose one with words");
  const Prepared prepared = prepare_directory(a, shape, [&] {
    if (a.vocab_type == "characters") return Vocabulary::characters(texts.training);
    return Vocabulary::train(
        lines_of(texts.training),
        {.size = a.vocab_size, .character_coverage = a.character_coverage, .spaces = Spaces::verbatim});
  });
  const Vocabulary& vocabulary = prepared.vocabulary;
  const std::vector<int32_t> training = encode_text(vocabulary, texts.training, "training text"),
                             validation = encode_text(vocabulary, texts.validation, "validation text");
  // The first token is not predicted. A loss of what the vocabulary cannot write says nothing of its bytes.
  double bits = 0;
  const bool written = std::find(validation.begin(), validation.end(), vocabulary.unk_id()) == validation.end();
  if (validation.size() > 1 && written)
    bits = static_cast<double>(validation.size() - 1) / std::numbers::ln2 /
           static_cast<double>(texts.validation.size() - vocabulary.bytes(validation[0]).size());

  manual_seed(a.options.seed);
  LanguageModel model(shape);
  begin_with(model, a, prepared.fresh);
  Display display("tokens/s", bits);
  const std::string data =
      std::to_string(training.size()) + " training and " + std::to_string(validation.size()) + " validation tokens";
  auto report =
      begin_report(a, model, vocabulary, watched_lines(watched_text, vocabulary, watched, shape.max_positions), data);
  run(command, a, prepared.fresh, model, training, validation, !validation.empty(), display, data, {},
      std::move(report), [&](const TrainResult& result) {
        const auto amount = [](const std::string& text, const std::vector<int32_t>& ids) {
          return with_commas(static_cast<int64_t>(text.size())) + " bytes, " +
                 with_commas(static_cast<int64_t>(ids.size())) + " tokens";
        };
        CardParts parts{.summary = "A language model, trained by heed " HEED_VERSION ".",
                        .vocabulary = vocabulary.of_characters() ? "characters" : "pieces",
                        .data = {{"Training", file_names({a.text}) + ": " + amount(texts.training, training)}},
                        .scored_on = "validation text"};
        if (validation.empty()) return parts;
        parts.data.emplace_back(
            "Validation", (a.valid_text.empty() ? "the end of " + file_names({a.text}) : file_names({a.valid_text})) +
                              ": " + amount(texts.validation, validation));
        parts.scores = {{"Loss", fixed(result.best_nll, "%.4f nats a token")}};
        if (bits > 0) parts.scores.emplace_back("Bits", fixed(bits * result.best_nll, "%.4f a byte"));
        return parts;
      });
}

void run_training(CLI::App& command, TrainArguments& a) {
  apply_config(command, a);
  if (a.dump_config) {
    std::cout << command.config_to_str(/*default_also=*/true, /*write_description=*/true);
    return;
  }
  if (a.model.empty()) throw ShapeError("--model is missing: the directory to write");
  if (!a.of_text() && a.pairs.empty() && a.source.empty() && a.target.empty())
    throw ShapeError("give --pairs, or --source and --target, or --text: what to learn from");
  if (a.html.empty() && !a.html_lines.empty())
    throw ShapeError("--html-lines chooses sentences for --html; give --html, the page to write");
  if (!a.html.empty())
    check_report_path(a.html, a.model,
                      {a.pairs, a.source, a.target, a.valid_pairs, a.valid_source, a.valid_target, a.text, a.valid_text,
                       a.exclude, a.vocabulary, a.config});
  set_threads(a.threads);
  a.shape.vocab_size = a.vocab_size;
  TrainOptions& options = a.options;
  LearningRate& rate = options.learning_rate;
  rate.schedule = a.schedule == "cosine"     ? Schedule::cosine
                  : a.schedule == "constant" ? Schedule::constant
                                             : Schedule::inverse_square_root;
  rate.total = options.max_updates;
  validate(options);
  if (a.vocabulary.empty() && !a.init.empty()) a.vocabulary = a.init + "/" + kVocabularyFile;
  if (a.of_text())
    train_on_text(command, a);
  else
    train_on_pairs(command, a);
}

}  // namespace

void add_train(CLI::App& program) {
  const auto a = std::make_shared<TrainArguments>();
  CLI::App* command =
      program.add_subcommand("train", "Train a translator on sentence pairs, or a language model on a text");
  command->description(
      "Trains a translator on sentence pairs (--pairs), or a language model on a text (--text). Killed or "
      "interrupted,\n"
      "the same command goes on where it was and ends with the same weights. Everything is kept in the --model\n"
      "directory.");
  add_train_options(*command, *a);
  command->footer(
      "Examples (spa-eng's columns are English and Spanish; this learns Spanish to English):\n"
      "  heed train --pairs spa-eng.tsv --columns 2,1 --valid-pairs dev.tsv --model my-model --max-minutes 60\n"
      "  heed train --text book.txt --model my-writer");
  command->callback([command, a] { run_training(*command, *a); });
}

}  // namespace heed::cli
