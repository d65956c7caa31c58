// heed train: a translator from sentence pairs.
#include "heed/train.h"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <unordered_set>

#include "cli/checkpoint.h"
#include "cli/commands.h"
#include "cli/model_card.h"
#include "cli/progress.h"
#include "cli/translator.h"
#include "heed/executor.h"
#include "heed/io.h"
#include "heed/random.h"
#include "heed/text.h"

namespace heed::cli {
namespace {

struct TrainArguments {
  std::string pairs, source, target, valid_pairs, valid_source, valid_target, exclude;
  std::string columns = "1,2";
  std::string model, vocabulary, init, preset = "small", config;
  bool dump_config = false, trust = false;
  int threads = 0;
  int64_t vocab_size = 0;
  double character_coverage = 0.9995;
  std::string schedule = "inverse-square-root";
  TransformerConfig shape;
  TrainOptions options;
};

// Named sets of shape options; what is given by name wins.
struct Preset {
  const char* name;
  std::vector<std::pair<const char*, const char*>> values;
};
const std::vector<Preset>& presets() {
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

void give(CLI::Option* option, const std::vector<std::string>& values) {
  for (const std::string& value : values) option->add_result(value);
  option->run_callback();
}

// Command line over --config over --preset over defaults.
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
  for (const Preset& preset : presets())
    if (arguments.preset == preset.name)
      for (const auto& [name, value] : preset.values)
        if (CLI::Option* option = command.get_option(name); option->empty()) give(option, {value});
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

void say(const std::string& text) { warn("train", text); }

std::pair<int, int> parse_columns(const std::string& text) {
  int source = 0, target = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%d,%d%c", &source, &target, &rest) != 2 || source < 1 || target < 1)
    throw ShapeError("--columns " + text + ": give the columns of source and target, counted from 1, as in 2,1");
  return {source, target};
}

TextPairs read_texts(const std::string& pairs, const std::string& columns, const std::string& source,
                     const std::string& target, const char* prefix) {
  const std::string dashes = std::string("--") + prefix;
  TextPairs texts;
  if (!pairs.empty()) {
    if (!source.empty() || !target.empty())
      throw ShapeError("give either " + dashes + "pairs, or " + dashes + "source and " + dashes + "target");
    const auto [source_column, target_column] = parse_columns(columns);
    texts = read_pairs_tsv(pairs, source_column, target_column);
  } else if (!source.empty() || !target.empty()) {
    if (source.empty() || target.empty()) throw ShapeError("give both " + dashes + "source and " + dashes + "target");
    texts.source = read_lines(source, &texts.replaced);
    texts.target = read_lines(target, &texts.replaced);
    if (texts.source.size() != texts.target.size())
      throw FormatError(source + " has " + std::to_string(texts.source.size()) + " lines but " + target + " has " +
                        std::to_string(texts.target.size()) + "; each line of one must belong to a line of the other");
  }
  if (texts.replaced > 0)
    say("replaced malformed UTF-8 by U+FFFD in " + std::to_string(texts.replaced) + " places of the " +
        (*prefix ? "validation" : "training") + " data");
  return texts;
}

void exclude_sources(TextPairs& texts, const std::string& path) {
  const std::vector<std::string> lines = read_lines(path);
  const std::unordered_set<std::string> excluded(lines.begin(), lines.end());
  TextPairs kept;
  for (size_t i = 0; i < texts.source.size(); ++i) {
    if (excluded.contains(texts.source[i])) continue;
    kept.source.push_back(std::move(texts.source[i]));
    kept.target.push_back(std::move(texts.target[i]));
  }
  say("left out " + std::to_string(texts.source.size() - kept.source.size()) + " pairs whose source is in " + path);
  texts = std::move(kept);
}

SentencePairs encode(const Vocabulary& vocabulary, const TextPairs& texts) {
  SentencePairs pairs;
  for (const std::string& line : texts.source) pairs.source.push_back(vocabulary.encode(line));
  for (const std::string& line : texts.target) pairs.target.push_back(vocabulary.encode(line));
  return pairs;
}

// The first difference between the shape asked for and the one the directory has.
void check_same_shape(const TransformerConfig& asked, const TransformerConfig& has, const std::string& directory) {
  const auto same = [&](const char* option, const auto& a, const auto& b) {
    if (a == b) return;
    std::ostringstream text;
    text << std::boolalpha << directory << " has a model with " << option << " " << b << ", not " << a
         << "; give the same shape to go on, or another --model to start anew";
    throw ShapeError(text.str());
  };
  same("--vocab-size", asked.vocab_size, has.vocab_size);
  same("--d-model", asked.d_model, has.d_model);
  same("--heads", asked.nhead, has.nhead);
  same("--encoder-layers", asked.num_encoder_layers, has.num_encoder_layers);
  same("--decoder-layers", asked.num_decoder_layers, has.num_decoder_layers);
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

// Vocabulary and shape of the directory, made on the first run.
Vocabulary prepare_directory(TrainArguments& a, const TextPairs& texts) {
  namespace fs = std::filesystem;
  DirectoryTransaction::recover(a.model);
  const std::string config_path = a.model + "/" + kConfigFile, vocabulary_path = a.model + "/" + kVocabularyFile;
  if (fs::exists(config_path) && fs::exists(vocabulary_path)) {
    Vocabulary vocabulary = Vocabulary::load(vocabulary_path, a.trust);
    if (!a.vocabulary.empty()) a.shape.vocab_size = Vocabulary::load(a.vocabulary, a.trust).size();
    a.shape.pad_id = vocabulary.pad_id();
    a.shape.bos_id = vocabulary.bos_id();
    a.shape.eos_id = vocabulary.eos_id();
    check_same_shape(a.shape, read_config(read_file(config_path, 1 << 20), config_path), a.model);
    return vocabulary;
  }
  std::vector<std::string> lines = texts.source;
  lines.insert(lines.end(), texts.target.begin(), texts.target.end());
  Vocabulary vocabulary =
      a.vocabulary.empty()
          ? Vocabulary::train(lines, {.size = a.shape.vocab_size, .character_coverage = a.character_coverage})
          : Vocabulary::load(a.vocabulary, a.trust);
  a.shape.vocab_size = vocabulary.size();
  a.shape.pad_id = vocabulary.pad_id();
  a.shape.bos_id = vocabulary.bos_id();
  a.shape.eos_id = vocabulary.eos_id();
  validate(a.shape);
  DirectoryTransaction transaction(a.model);
  transaction.write(kConfigFile, write_config(a.shape));
  transaction.write(kVocabularyFile, vocabulary.to_text());
  transaction.commit();
  return vocabulary;
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
  void progress(const TrainProgress& p) {
    sentences_ += p.sentences;
    char text[320];
    std::snprintf(text, sizeof text,
                  "epoch %lld  update %lld  sentences %lld  loss %.4f  words/s %.0f  gradient %.3f  rate %.2e  "
                  "%.1f GFLOP/s  left %s",
                  static_cast<long long>(p.epoch), static_cast<long long>(p.update), static_cast<long long>(sentences_),
                  p.loss, p.words_per_second, p.gradient_norm, p.learning_rate, p.gflops,
                  p.minutes_left < 0 ? "?" : duration(p.minutes_left).c_str());
    line_.update(kPrefix + text);
  }
  void validation(const Validation& v) {
    char text[256];
    char mean[64] = "";
    if (v.average_nll >= 0) std::snprintf(mean, sizeof mean, ", of the average %.4f", v.average_nll);
    std::snprintf(text, sizeof text, "validation: epoch %lld  update %lld  loss %.4f%s  %s",
                  static_cast<long long>(v.epoch), static_cast<long long>(v.update), v.nll, mean,
                  v.better ? "best" : ("no better for " + std::to_string(v.without_progress)).c_str());
    line(text);
  }
  void line(const std::string& text) { line_.print(kPrefix + text); }

 private:
  ProgressLine line_{/*seconds=*/0};  // the trainer already reports seldom
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

std::string shape_in_words(const TransformerConfig& c) {
  return std::to_string(c.num_encoder_layers) + " encoder and " + std::to_string(c.num_decoder_layers) +
         " decoder layers, width " + std::to_string(c.d_model) + ", " + std::to_string(c.nhead) +
         " heads, feed-forward " + std::to_string(c.dim_feedforward) + ", " + c.activation + ", " + c.norm +
         (c.norm_first ? " before" : " after") + " each sub-layer, " + c.positions + " positions" +
         (c.tie_embeddings ? ", one matrix for source, target and output" : "");
}

// Written at the end of a run. The scores are those of the files in the directory, read anew.
void write_model_card(const CLI::App& command, const TrainArguments& a, const TrainResult& result,
                      const Transformer& model, const SentencePairs& training, const TextPairs& validation) {
  const auto tokens = [](const std::vector<std::vector<int32_t>>& sentences) {
    int64_t count = 0;
    for (const auto& sentence : sentences) count += static_cast<int64_t>(sentence.size());
    return with_commas(count);
  };
  ModelCard card;
  card.title = std::filesystem::path(a.model + "/").parent_path().filename().string();
  card.summary = "A Transformer that translates, trained by heed " HEED_VERSION ".";
  card.options = command.config_to_str();
  card.sections.push_back({"Model",
                           {{"Shape", shape_in_words(a.shape)},
                            {"Parameters", with_commas(model.parameter_count())},
                            {"Vocabulary", with_commas(a.shape.vocab_size) + " pieces for both languages"}}});
  card.sections.push_back(
      {"Data",
       {{"Training", file_names({a.pairs, a.source, a.target}) + ": " +
                         with_commas(static_cast<int64_t>(training.source.size())) + " sentence pairs, " +
                         tokens(training.source) + " source and " + tokens(training.target) + " target tokens"}}});
  if (!validation.source.empty())
    card.sections.back().rows.emplace_back(
        "Validation", file_names({a.valid_pairs, a.valid_source, a.valid_target}) + ": " +
                          with_commas(static_cast<int64_t>(validation.source.size())) + " sentence pairs");
  card.sections.push_back(
      {"Training",
       {{"Updates", with_commas(result.update) + " in " + std::to_string(result.epoch) + " epochs; the weights are " +
                        (result.average_is_best ? "the average of checkpoints up to update " : "those of update ") +
                        with_commas(result.best_update)},
        {"Minutes",
         fixed(result.minutes, "%.1f") + " on " + std::to_string(threads()) + " threads of " + processor_name()},
        {"Seed", std::to_string(a.options.seed)}}});
  if (!validation.source.empty()) {
    const BeamOptions beam;
    CardRows rows{
        {"Loss", fixed(result.best_nll, "%.4f nats a token")},
        {"Search", "beam " + std::to_string(beam.beam) + ", length penalty " + fixed(beam.length_penalty, "%g")}};
    std::vector<std::string> translations;
    for (TranslatedLine& line : Translator(a.model, a.trust).translate(validation.source, beam))
      translations.push_back(std::move(line.best.front().text));
    for (auto& row : score_rows(translations, validation.target)) rows.push_back(std::move(row));
    card.sections.push_back({"Scores on the validation pairs", std::move(rows)});
  }
  DirectoryTransaction transaction(a.model);
  transaction.write(kModelCardFile, to_markdown(card));
  transaction.commit();
}

void run_training(CLI::App& command, TrainArguments& a) {
  apply_config(command, a);
  if (a.dump_config) {
    std::cout << command.config_to_str(/*default_also=*/true, /*write_description=*/true);
    return;
  }
  if (a.model.empty()) throw ShapeError("--model is missing: the directory to write");
  if (a.pairs.empty() && a.source.empty() && a.target.empty())
    throw ShapeError("give --pairs, or --source and --target: the sentences to learn from");
  set_threads(a.threads);
  a.shape.vocab_size = a.vocab_size;
  TrainOptions& options = a.options;
  LearningRate& rate = options.learning_rate;
  rate.schedule = a.schedule == "cosine"     ? Schedule::cosine
                  : a.schedule == "constant" ? Schedule::constant
                                             : Schedule::inverse_square_root;
  rate.total = options.max_updates;
  validate(options);
  {
    TransformerConfig shape = a.shape;  // wrong numbers are found before the data is read
    if (!a.vocabulary.empty()) shape.vocab_size = 1000;
    validate(shape);
  }

  TextPairs texts = read_texts(a.pairs, a.columns, a.source, a.target, "");
  const TextPairs valid_texts = read_texts(a.valid_pairs, a.columns, a.valid_source, a.valid_target, "valid-");
  if (!a.exclude.empty()) exclude_sources(texts, a.exclude);
  if (texts.source.empty())
    throw FormatError((a.pairs.empty() ? a.source : a.pairs) + " holds no sentence pairs to train on");
  if (a.vocabulary.empty() && !a.init.empty()) a.vocabulary = a.init + "/" + kVocabularyFile;
  const Vocabulary vocabulary = prepare_directory(a, texts);
  const SentencePairs training = encode(vocabulary, texts), validation = encode(vocabulary, valid_texts);

  manual_seed(options.seed);
  Transformer model(a.shape);
  if (!a.init.empty()) {  // where the directory holds a state, train() goes on from that instead
    std::vector<std::pair<std::string, Tensor>> values;
    for (const auto& [name, parameter] : load_checkpoint(a.init, a.trust).model->named_parameters())
      values.emplace_back(name, parameter.value());
    model.load(values);
  }
  Display display;
  display.line(std::to_string(training.source.size()) + " training and " + std::to_string(validation.source.size()) +
               " validation pairs, " + std::to_string(vocabulary.size()) + " pieces, " +
               std::to_string(model.parameter_count()) + " parameters, " + std::to_string(threads()) + " threads");
  catch_signals();
  const TrainResult result = train(model, training, validation, options, a.model,
                                   {.progress = [&](const TrainProgress& p) { display.progress(p); },
                                    .validation =
                                        [&](const Validation& v) {
                                          if (!validation.source.empty()) display.validation(v);
                                        },
                                    .message = [&](const std::string& text) { display.line(text); },
                                    .stop = [] { return caught_signal != 0; }});
  if (result.reason == StopReason::interrupted) {
    display.line("saved after update " + std::to_string(result.update) + "; the same command goes on from here");
    throw ExitStatus{128 + caught_signal};
  }
  char best[160] = "";
  if (!validation.source.empty()) std::snprintf(best, sizeof best, ", validation loss %.4f", result.best_nll);
  display.line((result.nothing_done ? "finished already: " : "finished: ") + describe(result.reason) + " after " +
               std::to_string(result.update) + " updates in " + duration(result.minutes) + "; " + a.model + "/" +
               kModelFile + " is " + (result.average_is_best ? "the average of checkpoints up to" : "that of") +
               " update " + std::to_string(result.best_update) + best);
  if (result.nothing_done && std::filesystem::exists(a.model + "/" + kModelCardFile)) return;
  write_model_card(command, a, result, model, training, valid_texts);
  display.line("wrote " + a.model + "/" + kModelCardFile);
}

}  // namespace

void add_train(CLI::App& program) {
  const auto a = std::make_shared<TrainArguments>();
  a->shape.max_positions = 512;
  CLI::App* command = program.add_subcommand("train", "Train a translator on sentence pairs");
  command->description(
      "Trains a Transformer on sentence pairs. Killed or interrupted, the same command goes on where it was and ends\n"
      "with the same weights. Everything is kept in the --model directory.");
  command->option_defaults()->always_capture_default();
  command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);

  command->add_option("--config", a->config, "Take options from a TOML file; the command line wins")
      ->configurable(false)
      ->type_name("FILE");
  command->add_flag("--dump-config", a->dump_config, "Print all options as TOML and leave")->configurable(false);
  command->add_option("--threads", a->threads, "Threads; 0 for one per hardware thread")->check(CLI::Range(0, 4096));
  command->add_option("--seed", a->options.seed, "Seed of initial weights, order and dropout");

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
  file("--exclude", a->exclude, "Leave out training pairs whose source is a line of this file");
  file("--vocabulary", a->vocabulary, "Use this vocabulary instead of learning one");
  command->add_flag("--trust", a->trust, "Load a vocabulary that heed did not make")->group("Data");
  command
      ->add_option("--character-coverage", a->character_coverage,
                   "Share of the text's characters with a piece of their own; the rest become bytes")
      ->check(CLI::Range(0.5, 1.0))
      ->group("Data");

  command->add_option("--model", a->model, "Directory of the model")->type_name("DIR")->group("Model");
  command->add_option("--init", a->init, "Begin with the weights and the vocabulary of this model")
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
       {std::tuple{"--vocab-size", &a->vocab_size, "Pieces of the joint vocabulary (by preset)"},
        std::tuple{"--d-model", &a->shape.d_model, "Width (by preset)"},
        std::tuple{"--heads", &a->shape.nhead, "Attention heads (by preset)"},
        std::tuple{"--feed-forward", &a->shape.dim_feedforward, "Hidden width of the feed-forward (by preset)"},
        std::tuple{"--encoder-layers", &a->shape.num_encoder_layers, "Encoder layers (by preset)"},
        std::tuple{"--decoder-layers", &a->shape.num_decoder_layers, "Decoder layers (by preset)"}})
    shape(name, *value, help)->default_str("");
  shape("--pre-norm", a->shape.norm_first, "Normalise before each sub-layer, not after (by preset)")->default_str("");
  shape("--norm", a->shape.norm, "layer_norm or rms_norm")->check(CLI::IsMember({"layer_norm", "rms_norm"}));
  shape("--activation", a->shape.activation, "relu, gelu, gelu_tanh, silu or swiglu")
      ->check(CLI::IsMember({"relu", "gelu", "gelu_tanh", "silu", "swiglu"}));
  shape("--positions", a->shape.positions, "sinusoidal, learned or rotary")
      ->check(CLI::IsMember({"sinusoidal", "learned", "rotary"}));
  shape("--max-positions", a->shape.max_positions, "Longest sentence in tokens");
  shape("--bias", a->shape.bias, "Biases in all layers");
  shape("--tie-embeddings", a->shape.tie_embeddings, "One matrix for source, target and output");
  shape("--dropout", a->shape.dropout, "Dropout of embeddings and sub-layers");
  shape("--attention-dropout", a->shape.attention_dropout, "Dropout of attention weights");
  shape("--activation-dropout", a->shape.activation_dropout, "Dropout inside the feed-forward");

  TrainOptions& o = a->options;
  const auto training = [&](const char* name, auto& value, const char* help) {
    return command->add_option(name, value, help)->group("Training");
  };
  training("--batch-tokens", o.batch_tokens, "Padded tokens a batch, on its longer side");
  training("--max-length", o.max_length, "Leave out pairs with more tokens on a side");
  training("--pool-size", o.pool_size, "Sentences that are sorted by length together");
  training("--schedule", a->schedule, "Learning rate: inverse-square-root, cosine or constant, all after a warm-up")
      ->check(CLI::IsMember({"inverse-square-root", "cosine", "constant"}));
  training("--learning-rate", o.learning_rate.peak, "Peak of the learning rate");
  training("--warmup", o.learning_rate.warmup, "Updates until the peak");
  training("--anneal", o.learning_rate.anneal, "Last updates of --max-updates, over which the rate also falls to 0");
  training("--beta1", o.adamw.beta1, "AdamW: decay of the mean gradient");
  training("--beta2", o.adamw.beta2, "AdamW: decay of the mean squared gradient");
  training("--epsilon", o.adamw.epsilon, "AdamW: added to the root of the mean square");
  training("--weight-decay", o.adamw.weight_decay, "AdamW: decay of matrices");
  training("--clip-norm", o.clip_norm, "Largest norm of all gradients; 0 for none");
  training("--label-smoothing", o.label_smoothing, "Probability spread over all pieces");
  training("--validate-every", o.validate_every, "Updates between validations; 0 for each epoch");
  training("--average", o.average, "Checkpoints (one a validation) to average");
  training("--max-updates", o.max_updates, "Stop after so many updates; 0 for no limit");
  training("--max-epochs", o.max_epochs, "Stop after so many epochs; 0 for no limit");
  training("--max-minutes", o.max_minutes, "Stop after so many minutes of training; 0 for no limit");
  training("--patience", o.patience, "Stop after so many validations without a better loss; 0 for no limit");
  training("--save-minutes", o.save_minutes, "Minutes between saves; 0 for none but at validations");
  training("--save-every", o.save_every, "Updates between saves; 0 for none by count");
  training("--log-every", o.log_every, "Updates between progress lines");
  command->footer(
      "Example (spa-eng's columns are English and Spanish; this learns Spanish to English):\n"
      "  heed train --pairs spa-eng.tsv --columns 2,1 --valid-pairs dev.tsv --model my-model --max-minutes 60");
  command->callback([command, a] { run_training(*command, *a); });
}

}  // namespace heed::cli
