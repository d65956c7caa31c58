#include "cli/train_options.h"

#include <cstdio>
#include <filesystem>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/checkpoint.h"
#include "cli/commands.h"
#include "heed/io.h"

namespace heed::cli {
namespace {

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

}  // namespace

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

void add_train_options(CLI::App& command, TrainArguments& a) {
  command.option_defaults()->always_capture_default();
  command.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);

  command.add_option("--config", a.config, "Take options from a TOML file; the command line wins")
      ->configurable(false)
      ->type_name("FILE");
  command.add_flag("--dump-config", a.dump_config, "Print all options as TOML and leave")->configurable(false);
  command.add_option("--threads", a.threads, "Threads; 0 for one per hardware thread")->check(CLI::Range(0, 4096));
  command.add_option("--seed", a.options.seed, "Seed of initial weights, order and dropout")->check(whole_number());

  const auto file = [&](const char* name, std::string& value, const char* help) {
    command.add_option(name, value, help)->type_name("FILE")->group("Data");
  };
  file("--pairs", a.pairs, "Sentence pairs, one a line, tab-separated columns");
  command.add_option("--columns", a.columns, "Columns of source and target in --pairs and --valid-pairs, from 1")
      ->type_name("S,T")
      ->group("Data");
  file("--source", a.source, "Source sentences, one a line (instead of --pairs)");
  file("--target", a.target, "Target sentences, one a line");
  file("--valid-pairs", a.valid_pairs, "Sentence pairs to validate on");
  file("--valid-source", a.valid_source, "Source sentences to validate on (instead of --valid-pairs)");
  file("--valid-target", a.valid_target, "Target sentences to validate on");
  file("--text", a.text, "Text for a language model (instead of sentence pairs)");
  file("--valid-text", a.valid_text, "Text to validate on");
  command.add_option("--valid-fraction", a.valid_fraction, "Without --valid-text: this part of the end of --text")
      ->check(CLI::Range(0.0, 0.9))
      ->group("Data");
  command
      .add_option("--vocab-type", a.vocab_type,
                  "Pieces of --text: subwords, or characters (each one of the text, and no other)")
      ->check(CLI::IsMember({"subwords", "characters"}))
      ->group("Data");
  file("--exclude", a.exclude, "Leave out training pairs whose source is a line of this file");
  file("--vocabulary", a.vocabulary, "Use this vocabulary instead of learning one");
  command.add_flag("--trust", a.trust, "Load a vocabulary that heed did not make")->group("Data");
  command
      .add_option("--character-coverage", a.character_coverage,
                  "Share of the text's characters with a piece of their own; the rest become bytes")
      ->check(CLI::Range(0.5, 1.0))
      ->group("Data");

  command.add_option("--model", a.model, "Directory of the model")->type_name("DIR")->group("Model");
  command.add_option("--init", a.init, "Begin with the shape, the weights and the vocabulary of this model")
      ->type_name("DIR")
      ->group("Model");
  command.add_option("--preset", a.preset, "Shape: tiny, small or base; options below change parts of it")
      ->check(CLI::IsMember({"tiny", "small", "base"}))
      ->group("Model");
  const auto shape = [&](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group("Model");
  };
  // The preset fills these in, so a default would mislead.
  for (const auto& [name, value, help] :
       {std::tuple{"--vocab-size", &a.vocab_size, "Pieces of the vocabulary, for subwords (by preset)"},
        std::tuple{"--d-model", &a.shape.d_model, "Width (by preset)"},
        std::tuple{"--heads", &a.shape.nhead, "Attention heads (by preset)"},
        std::tuple{"--feed-forward", &a.shape.dim_feedforward, "Hidden width of the feed-forward (by preset)"},
        std::tuple{"--encoder-layers", &a.shape.num_encoder_layers, "Encoder layers (by preset)"},
        std::tuple{"--decoder-layers", &a.shape.num_decoder_layers, "Decoder layers (by preset)"},
        std::tuple{"--layers", &a.layers, "Layers of a language model (by preset)"},
        std::tuple{"--kv-heads", &a.kv_heads, "Key and value heads of a language model; 0 for --heads"}})
    shape(name, *value, help)->default_str("");
  shape("--pre-norm", a.shape.norm_first, "Normalise before each sub-layer, not after (by preset)")->default_str("");
  shape("--norm", a.shape.norm, "layer_norm or rms_norm")->check(CLI::IsMember({"layer_norm", "rms_norm"}));
  shape("--activation", a.shape.activation, "relu, gelu, gelu_tanh, silu or swiglu")
      ->check(CLI::IsMember({"relu", "gelu", "gelu_tanh", "silu", "swiglu"}));
  shape("--positions", a.shape.positions, "sinusoidal, learned or rotary")
      ->check(CLI::IsMember({"sinusoidal", "learned", "rotary"}));
  shape("--max-positions", a.shape.max_positions,
        "Longest sentence in tokens; what a language model looks back on (--block)");
  shape("--bias", a.shape.bias, "Biases in all layers");
  shape("--tie-embeddings", a.shape.tie_embeddings, "One matrix for all embeddings and the output");
  shape("--dropout", a.shape.dropout, "Dropout of embeddings and sub-layers");
  shape("--attention-dropout", a.shape.attention_dropout, "Dropout of attention weights");
  shape("--activation-dropout", a.shape.activation_dropout, "Dropout inside the feed-forward");

  TrainOptions& o = a.options;
  const auto training = [&](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group("Training");
  };
  training("--batch-tokens", o.batch_tokens, "Tokens a batch, on its longer side");
  training("--max-length", o.max_length, "Leave out pairs with more tokens on a side");
  training("--subword-dropout", o.subword_dropout, "Merges left out of the pieces of an epoch (BPE-dropout)");
  training("--batch", o.batch, "Pieces of --text a batch (by preset)")->default_str("");
  training("--block", o.block, "Tokens of each piece of --text (by preset)")->default_str("");
  training("--schedule", a.schedule, "Learning rate: inverse-square-root, cosine or constant, all after a warm-up")
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
      .add_option("--html", a.html,
                  "Write a page for a browser, anew at each validation: curves, and attention over time")
      ->type_name("FILE")
      ->group("Report");
  command
      .add_option("--html-lines", a.html_lines,
                  "Watch the attention in these lines of the validation data, from 1 (default: the first three of "
                  "moderate length)")
      ->type_name("N,N")
      ->group("Report");
  command
      .add_option("--html-bleu", a.html_bleu,
                  "Validation pairs to translate greedily at each validation for BLEU; 0 for none")
      ->check(CLI::Range(0, 1000000))
      ->group("Report");
}

}  // namespace heed::cli
