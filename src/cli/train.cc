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
#include <sstream>
#include <utility>

#include "cli/checkpoint.h"
#include "cli/commands.h"
#include "cli/corpus.h"
#include "cli/model_card.h"
#include "cli/progress.h"
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

struct TrainArguments {
  std::string pairs, source, target, valid_pairs, valid_source, valid_target, exclude;
  std::string columns = "1,2";
  std::string text, valid_text;
  double valid_fraction = 0.1;
  std::string model, vocabulary, init, preset = "small", config;
  bool dump_config = false, trust = false;
  int threads = 0;
  std::string vocab_type = "subwords";
  int64_t vocab_size = 0;
  double character_coverage = 0.9995;
  std::string html, html_lines;
  int64_t html_bleu = 100;
  std::string schedule = "inverse-square-root";
  TransformerConfig shape;
  int64_t layers = 0, kv_heads = 0;  // of a language model, which has the rest from `shape`
  TrainOptions options;
  bool of_text() const { return !text.empty(); }
};

// Named sets of shape options; what is given by name wins.
struct Preset {
  const char* name;
  std::vector<std::pair<std::string, std::string>> values;
};
const std::vector<Preset>& pairs_presets() {
  static const std::vector<Preset> all{
      {"tiny",
       {{"--d-model", "64"},
        {"--heads", "2"},
        {"--feed-forward", "128"},
        {"--encoder-layers", "1"},
        {"--decoder-layers", "1"},
        {"--vocab-size", "1000"},
        {"--pre-norm", "true"}}},
      {"small",
       {{"--d-model", "256"},
        {"--heads", "4"},
        {"--feed-forward", "512"},
        {"--encoder-layers", "3"},
        {"--decoder-layers", "2"},
        {"--vocab-size", "2400"},
        {"--pre-norm", "true"}}},
      {"base",  // Vaswani et al. 2017, table 3
       {{"--d-model", "512"},
        {"--heads", "8"},
        {"--feed-forward", "2048"},
        {"--encoder-layers", "6"},
        {"--decoder-layers", "6"},
        {"--vocab-size", "16000"},
        {"--pre-norm", "false"}}},
  };
  return all;
}

const std::vector<Preset>& text_presets() {
  static const std::vector<Preset> all{
      {"tiny",
       {{"--d-model", "64"},
        {"--heads", "2"},
        {"--feed-forward", "256"},
        {"--layers", "2"},
        {"--vocab-size", "512"},
        {"--block", "64"},
        {"--batch", "12"},
        {"--max-updates", "1000"}}},
      {"small",
       {{"--d-model", "256"},
        {"--heads", "4"},
        {"--feed-forward", "1024"},
        {"--layers", "4"},
        {"--vocab-size", "2000"},
        {"--block", "128"},
        {"--batch", "32"},
        {"--max-updates", "5000"}}},
      {"base",  // Radford et al. 2019, table 2, first row
       {{"--d-model", "768"},
        {"--heads", "12"},
        {"--feed-forward", "3072"},
        {"--layers", "12"},
        {"--vocab-size", "16000"},
        {"--block", "1024"},
        {"--batch", "8"},
        {"--max-updates", "100000"}}},
  };
  return all;
}
// What is usual for language models, whatever the preset.
const Preset kTextDefaults{"",
                           {{"--kv-heads", "0"},
                            {"--pre-norm", "true"},
                            {"--activation", "gelu"},
                            {"--positions", "learned"},
                            {"--vocab-type", "subwords"},
                            {"--schedule", "cosine"},
                            {"--learning-rate", "0.001"},
                            {"--warmup", "100"},
                            {"--beta2", "0.99"},
                            {"--epsilon", "1e-8"},
                            {"--weight-decay", "0.1"},
                            {"--label-smoothing", "0"},
                            {"--average", "1"}}};

// Options that mean something for one kind of training only.
constexpr const char* kPairsOnly[] = {"--pairs",           "--source",         "--target",         "--valid-pairs",
                                      "--valid-source",    "--valid-target",   "--columns",        "--exclude",
                                      "--batch-tokens",    "--encoder-layers", "--decoder-layers", "--max-length",
                                      "--subword-dropout", "--html-bleu"};
constexpr const char* kTextOnly[] = {"--valid-text", "--valid-fraction", "--vocab-type", "--layers",
                                     "--kv-heads",   "--block",          "--batch"};

void give(CLI::Option* option, const std::vector<std::string>& values) {
  for (const std::string& value : values) option->add_result(value);
  option->run_callback();
}

// The shape options of a model, but not its dropout, which is no part of its weights.
template <class Config>
Preset shape_of(const Config& c) {
  const auto yes = [](bool value) { return value ? "true" : "false"; };
  Preset shape{"",
               {{"--d-model", std::to_string(c.d_model)},
                {"--heads", std::to_string(c.nhead)},
                {"--feed-forward", std::to_string(c.dim_feedforward)},
                {"--activation", c.activation},
                {"--norm", c.norm},
                {"--pre-norm", yes(c.norm_first)},
                {"--bias", yes(c.bias)},
                {"--positions", c.positions},
                {"--max-positions", std::to_string(c.max_positions)},
                {"--tie-embeddings", yes(c.tie_embeddings)}}};
  if constexpr (std::is_same_v<Config, TransformerConfig>) {
    shape.values.emplace_back("--encoder-layers", std::to_string(c.num_encoder_layers));
    shape.values.emplace_back("--decoder-layers", std::to_string(c.num_decoder_layers));
  } else {
    shape.values.emplace_back("--layers", std::to_string(c.num_layers));
    shape.values.emplace_back("--kv-heads", std::to_string(c.num_kv_heads));
    shape.values.emplace_back("--block", std::to_string(c.max_positions));
  }
  return shape;
}

// Command line over --config over the shape of --init over --preset over defaults.
void apply_config(CLI::App& command, const TrainArguments& arguments) {
  if (!arguments.config.empty()) {
    if (!std::filesystem::is_regular_file(arguments.config))
      throw IoError("cannot read the configuration " + arguments.config);
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_file(arguments.config)) {
      if (item.name == "++" || item.name == "--") continue;  // section marks
      CLI::Option* option = command.get_option_no_throw("--" + item.name);
      if (!item.parents.empty() || !option || !option->get_configurable())
        throw FormatError(arguments.config + ": there is no option '" + item.fullname() +
                          "'; heed train --help lists them");
      if (option->empty()) give(option, item.inputs);
    }
  }
  const auto fill_in = [&](const Preset& preset) {
    for (const auto& [name, value] : preset.values)
      if (CLI::Option* option = command.get_option(name); option->empty()) give(option, {value});
  };
  const auto refuse = [&](const auto& names, const std::string& why) {
    for (const char* name : names) {
      CLI::Option* option = command.get_option(name);
      if (!option->empty()) throw ShapeError(name + why);
      option->configurable(false);  // not for --dump-config
    }
  };
  if (arguments.of_text())
    refuse(kPairsOnly, " is for sentence pairs, --text for a language model; give one kind of data");
  else
    refuse(kTextOnly, " is for language models; give --text, the text to learn from");
  if (!arguments.init.empty()) {
    const ModelConfig config = load_config(arguments.init);
    fill_in(arguments.of_text() ? shape_of(expect_config<LanguageModelConfig>(config, arguments.init))
                                : shape_of(expect_config<TransformerConfig>(config, arguments.init)));
  }
  for (const Preset& preset : arguments.of_text() ? text_presets() : pairs_presets())
    if (arguments.preset == preset.name) fill_in(preset);
  if (!arguments.of_text()) return;
  fill_in(kTextDefaults);
  fill_in({"", {{"--max-positions", std::to_string(arguments.options.block)}}});
  char tenth[32];
  std::snprintf(tenth, sizeof tenth, "%g", arguments.options.learning_rate.peak / 10);
  fill_in({"", {{"--min-learning-rate", tenth}}});
}

volatile std::sig_atomic_t caught_signal = 0;

// The first signal lets the update finish; a second one ends the process as ever.
void catch_signals() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { caught_signal = signal; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

// Finds the first difference between the shape asked for and the one the directory has.
class SameShape {
 public:
  explicit SameShape(const std::string& directory) : directory_(directory) {}
  template <class T>
  void operator()(const char* option, const T& asked, const T& has) const {
    if (asked == has) return;
    std::ostringstream text;
    text << std::boolalpha << directory_ << " has a model with " << option << " " << has << ", not " << asked
         << "; give the same shape to go on, or another --model to start anew";
    throw ShapeError(text.str());
  }
  void layers(const TransformerConfig& asked, const TransformerConfig& has) const {
    (*this)("--encoder-layers", asked.num_encoder_layers, has.num_encoder_layers);
    (*this)("--decoder-layers", asked.num_decoder_layers, has.num_decoder_layers);
  }
  void layers(const LanguageModelConfig& asked, const LanguageModelConfig& has) const {
    (*this)("--layers", asked.num_layers, has.num_layers);
    (*this)("--kv-heads", asked.num_kv_heads, has.num_kv_heads);
  }

 private:
  const std::string& directory_;
};

template <class Config>
void check_same_shape(const Config& asked, const Config& has, const std::string& directory) {
  const SameShape same(directory);
  same("--vocab-size", asked.vocab_size, has.vocab_size);
  same("--d-model", asked.d_model, has.d_model);
  same("--heads", asked.nhead, has.nhead);
  same.layers(asked, has);
  same("--feed-forward", asked.dim_feedforward, has.dim_feedforward);
  same("--dropout", asked.dropout, has.dropout);
  same("--attention-dropout", asked.attention_dropout, has.attention_dropout);
  same("--activation-dropout", asked.activation_dropout, has.activation_dropout);
  same("--activation", asked.activation, has.activation);
  same("--norm", asked.norm, has.norm);
  same("--pre-norm", asked.norm_first, has.norm_first);
  same("--bias", asked.bias, has.bias);
  same("--positions", asked.positions, has.positions);
  same("--max-positions", asked.max_positions, has.max_positions);
  same("--tie-embeddings", asked.tie_embeddings, has.tie_embeddings);
}

void take_ids(TransformerConfig& shape, const Vocabulary& vocabulary) {
  if (vocabulary.of_characters())
    throw ShapeError("a vocabulary of characters has no piece that ends a sentence; give another --vocabulary");
  shape.pad_id = vocabulary.pad_id();
  shape.bos_id = vocabulary.bos_id();
  shape.eos_id = vocabulary.eos_id();
}
void take_ids(LanguageModelConfig&, const Vocabulary&) {}

bool fits(const TrainArguments& a, const Vocabulary& vocabulary) {
  return !a.of_text() || !a.vocabulary.empty() || vocabulary.of_characters() == (a.vocab_type == "characters");
}

struct Prepared {
  Vocabulary vocabulary;
  bool fresh;  // made by this run
};

// Vocabulary and shape of the directory, made on the first run. Completes `shape`.
template <class Config, class Learn>
Prepared prepare_directory(const TrainArguments& a, Config& shape, Learn&& learn) {
  namespace fs = std::filesystem;
  DirectoryTransaction::recover(a.model);
  if (fs::exists(a.model + "/" + kConfigFile) && fs::exists(a.model + "/" + kVocabularyFile)) {
    const auto has = expect_config<Config>(load_config(a.model), a.model);
    Vocabulary vocabulary = Vocabulary::load(a.model + "/" + kVocabularyFile, a.trust);
    if (!a.vocabulary.empty()) shape.vocab_size = Vocabulary::load(a.vocabulary, a.trust).size();
    if (!fits(a, vocabulary))
      throw ShapeError(a.model + " has a vocabulary of another kind than " + a.vocab_type +
                       "; give the same --vocab-type to go on, or another --model to start anew");
    if (vocabulary.of_characters()) shape.vocab_size = vocabulary.size();  // as many as the text has
    take_ids(shape, vocabulary);
    check_same_shape(shape, has, a.model);
    return {std::move(vocabulary), false};
  }
  Vocabulary vocabulary = a.vocabulary.empty() ? learn() : Vocabulary::load(a.vocabulary, a.trust);
  shape.vocab_size = vocabulary.size();
  take_ids(shape, vocabulary);
  validate(shape);
  DirectoryTransaction transaction(a.model);
  transaction.write(kConfigFile, write_config(shape));
  transaction.write(kVocabularyFile, vocabulary.to_text());
  transaction.commit();
  return {std::move(vocabulary), true};
}

// Of a first run that was refused: the next one may choose another shape or vocabulary.
void forget_directory(const std::string& directory) {
  DirectoryTransaction transaction(directory);
  transaction.remove(kConfigFile);
  transaction.remove(kVocabularyFile);
  transaction.commit();
  std::error_code kept_where_not_empty;
  std::filesystem::remove(directory, kept_where_not_empty);
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

template <class Model>
void begin_with(Model& model, const TrainArguments& a, bool fresh) {
  if (a.init.empty()) return;  // where the directory holds a state, train() goes on from that instead
  try {
    NamedTensors values;
    for (const auto& [name, parameter] : load_checkpoint<Model>(a.init, a.trust).model->named_parameters())
      values.emplace_back(name, parameter.value());
    model.load(values);
  } catch (...) {
    if (fresh) forget_directory(a.model);
    throw;
  }
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
  a->shape.max_positions = 512;
  CLI::App* command =
      program.add_subcommand("train", "Train a translator on sentence pairs, or a language model on a text");
  command->description(
      "Trains a translator on sentence pairs (--pairs), or a language model on a text (--text). Killed or "
      "interrupted,\n"
      "the same command goes on where it was and ends with the same weights. Everything is kept in the --model\n"
      "directory.");
  command->option_defaults()->always_capture_default();
  command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);

  command->add_option("--config", a->config, "Take options from a TOML file; the command line wins")
      ->configurable(false)
      ->type_name("FILE");
  command->add_flag("--dump-config", a->dump_config, "Print all options as TOML and leave")->configurable(false);
  command->add_option("--threads", a->threads, "Threads; 0 for one per hardware thread")->check(CLI::Range(0, 4096));
  command->add_option("--seed", a->options.seed, "Seed of initial weights, order and dropout")->check(whole_number());

  const auto file = [&](const char* name, std::string& value, const char* help) {
    command->add_option(name, value, help)->type_name("FILE")->group("Data");
  };
  file("--pairs", a->pairs, "Sentence pairs, one a line, tab-separated columns");
  command->add_option("--columns", a->columns, "Columns of source and target in --pairs and --valid-pairs, from 1")
      ->type_name("S,T")
      ->group("Data");
  file("--source", a->source, "Source sentences, one a line (instead of --pairs)");
  file("--target", a->target, "Target sentences, one a line");
  file("--valid-pairs", a->valid_pairs, "Sentence pairs to validate on");
  file("--valid-source", a->valid_source, "Source sentences to validate on (instead of --valid-pairs)");
  file("--valid-target", a->valid_target, "Target sentences to validate on");
  file("--text", a->text, "Text for a language model (instead of sentence pairs)");
  file("--valid-text", a->valid_text, "Text to validate on");
  command->add_option("--valid-fraction", a->valid_fraction, "Without --valid-text: this part of the end of --text")
      ->check(CLI::Range(0.0, 0.9))
      ->group("Data");
  command
      ->add_option("--vocab-type", a->vocab_type,
                   "Pieces of --text: subwords, or characters (each one of the text, and no other)")
      ->check(CLI::IsMember({"subwords", "characters"}))
      ->group("Data");
  file("--exclude", a->exclude, "Leave out training pairs whose source is a line of this file");
  file("--vocabulary", a->vocabulary, "Use this vocabulary instead of learning one");
  command->add_flag("--trust", a->trust, "Load a vocabulary that heed did not make")->group("Data");
  command
      ->add_option("--character-coverage", a->character_coverage,
                   "Share of the text's characters with a piece of their own; the rest become bytes")
      ->check(CLI::Range(0.5, 1.0))
      ->group("Data");

  command->add_option("--model", a->model, "Directory of the model")->type_name("DIR")->group("Model");
  command->add_option("--init", a->init, "Begin with the shape, the weights and the vocabulary of this model")
      ->type_name("DIR")
      ->group("Model");
  command->add_option("--preset", a->preset, "Shape: tiny, small or base; options below change parts of it")
      ->check(CLI::IsMember({"tiny", "small", "base"}))
      ->group("Model");
  const auto shape = [&](const char* name, auto& value, const char* help) {
    return command->add_option(name, value, help)->group("Model");
  };
  // The preset fills these in, so a default would mislead.
  for (const auto& [name, value, help] :
       {std::tuple{"--vocab-size", &a->vocab_size, "Pieces of the vocabulary, for subwords (by preset)"},
        std::tuple{"--d-model", &a->shape.d_model, "Width (by preset)"},
        std::tuple{"--heads", &a->shape.nhead, "Attention heads (by preset)"},
        std::tuple{"--feed-forward", &a->shape.dim_feedforward, "Hidden width of the feed-forward (by preset)"},
        std::tuple{"--encoder-layers", &a->shape.num_encoder_layers, "Encoder layers (by preset)"},
        std::tuple{"--decoder-layers", &a->shape.num_decoder_layers, "Decoder layers (by preset)"},
        std::tuple{"--layers", &a->layers, "Layers of a language model (by preset)"},
        std::tuple{"--kv-heads", &a->kv_heads, "Key and value heads of a language model; 0 for --heads"}})
    shape(name, *value, help)->default_str("");
  shape("--pre-norm", a->shape.norm_first, "Normalise before each sub-layer, not after (by preset)")->default_str("");
  shape("--norm", a->shape.norm, "layer_norm or rms_norm")->check(CLI::IsMember({"layer_norm", "rms_norm"}));
  shape("--activation", a->shape.activation, "relu, gelu, gelu_tanh, silu or swiglu")
      ->check(CLI::IsMember({"relu", "gelu", "gelu_tanh", "silu", "swiglu"}));
  shape("--positions", a->shape.positions, "sinusoidal, learned or rotary")
      ->check(CLI::IsMember({"sinusoidal", "learned", "rotary"}));
  shape("--max-positions", a->shape.max_positions,
        "Longest sentence in tokens; what a language model looks back on (--block)");
  shape("--bias", a->shape.bias, "Biases in all layers");
  shape("--tie-embeddings", a->shape.tie_embeddings, "One matrix for all embeddings and the output");
  shape("--dropout", a->shape.dropout, "Dropout of embeddings and sub-layers");
  shape("--attention-dropout", a->shape.attention_dropout, "Dropout of attention weights");
  shape("--activation-dropout", a->shape.activation_dropout, "Dropout inside the feed-forward");

  TrainOptions& o = a->options;
  const auto training = [&](const char* name, auto& value, const char* help) {
    return command->add_option(name, value, help)->group("Training");
  };
  training("--batch-tokens", o.batch_tokens, "Tokens a batch, on its longer side");
  training("--max-length", o.max_length, "Leave out pairs with more tokens on a side");
  training("--subword-dropout", o.subword_dropout, "Merges left out of the pieces of an epoch (BPE-dropout)");
  training("--batch", o.batch, "Pieces of --text a batch (by preset)")->default_str("");
  training("--block", o.block, "Tokens of each piece of --text (by preset)")->default_str("");
  training("--schedule", a->schedule, "Learning rate: inverse-square-root, cosine or constant, all after a warm-up")
      ->check(CLI::IsMember({"inverse-square-root", "cosine", "constant"}));
  training("--learning-rate", o.learning_rate.peak, "Peak of the learning rate");
  training("--min-learning-rate", o.learning_rate.floor, "What --schedule cosine ends at");
  training("--warmup", o.learning_rate.warmup, "Updates until the peak");
  training("--anneal", o.learning_rate.anneal, "Last updates of --max-updates, over which the rate also falls to 0");
  training("--beta1", o.adamw.beta1, "AdamW: decay of the mean gradient");
  training("--beta2", o.adamw.beta2, "AdamW: decay of the mean squared gradient");
  training("--epsilon", o.adamw.epsilon, "AdamW: added to the root of the mean square");
  training("--weight-decay", o.adamw.weight_decay, "AdamW: decay of matrices");
  training("--clip-norm", o.clip_norm, "Largest norm of all gradients; 0 for none");
  training("--label-smoothing", o.label_smoothing, "Probability spread over all pieces");
  training("--r-drop", o.r_drop, "Alpha of R-Drop: each batch goes through twice, and the two are to agree");
  training("--validate-every", o.validate_every, "Updates between validations; 0 for each epoch");
  training("--average", o.average, "Checkpoints (one a validation) to average");
  training("--max-updates", o.max_updates, "Stop after so many updates; 0 for no limit");
  training("--max-epochs", o.max_epochs, "Stop after so many epochs; 0 for no limit");
  training("--max-minutes", o.max_minutes, "Stop after so many minutes of training; 0 for no limit");
  training("--patience", o.patience, "Stop after so many validations without a better loss; 0 for no limit");
  training("--save-minutes", o.save_minutes, "Minutes between saves; 0 for none but at validations");
  training("--save-every", o.save_every, "Updates between saves; 0 for none by count");
  training("--log-every", o.log_every, "Updates between progress lines");

  command
      ->add_option("--html", a->html,
                   "Write a page for a browser, anew at each validation: curves, and attention over time")
      ->type_name("FILE")
      ->group("Report");
  command
      ->add_option("--html-lines", a->html_lines,
                   "Watch the attention in these lines of the validation data, from 1 (default: the first three of "
                   "moderate length)")
      ->type_name("N,N")
      ->group("Report");
  command
      ->add_option("--html-bleu", a->html_bleu,
                   "Validation pairs to translate greedily at each validation for BLEU; 0 for none")
      ->check(CLI::Range(0, 1000000))
      ->group("Report");
  command->footer(
      "Examples (spa-eng's columns are English and Spanish; this learns Spanish to English):\n"
      "  heed train --pairs spa-eng.tsv --columns 2,1 --valid-pairs dev.tsv --model my-model --max-minutes 60\n"
      "  heed train --text book.txt --model my-writer");
  command->callback([command, a] { run_training(*command, *a); });
}

}  // namespace heed::cli
