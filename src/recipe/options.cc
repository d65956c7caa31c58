// The options of a training by name: one table for messages, files of options, help and keyword arguments.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <type_traits>
#include <variant>

#include "heed/config_fields.h"
#include "heed/recipe.h"
#include "recipe/presets.h"
#include "recipe/settings.h"

namespace heed::inline v0 {
namespace {

using R = TrainingRequest;
using S = TrainingSettings;
using Member = std::variant<std::optional<std::string> R::*, std::optional<int64_t> R::*, std::optional<uint64_t> R::*,
                            std::optional<double> R::*, std::optional<bool> R::*, std::vector<std::string> R::*>;
template <class T>
using Target = T& (*)(S&);

// An option with the places of its value.
struct Entry {
  TrainingOption option;
  Member member;
  std::function<void(const R&, S&)> resolve{};  // the value, if it is given, into the settings
};

std::string text_of(const std::string& value) { return value; }
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::general).ptr};
}
std::string text_of(int64_t value) { return std::to_string(value); }
std::string text_of(uint64_t value) { return std::to_string(value); }

std::string replaced(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Filled by statements: when an initializer throws after a nested braced one, GCC 12 destroys the nested members twice.
Entry& new_entry(std::vector<Entry>& entries, const char* field, const char* group, TrainingOption::Kind kind) {
  Entry& entry = entries.emplace_back();
  entry.option.field = field;
  entry.option.key = replaced(field, '_', '-');
  entry.option.group = group;
  entry.option.kind = kind;
  entry.option.lowest = -kInfinity;
  entry.option.highest = kInfinity;
  return entry;
}

// Sets the field of a configuration that an option is about.
class TakeShape {
 public:
  TakeShape(const char* option, const R& given) : option_(option), given_(given) {}

  void integer(const Field& field, int64_t& value, int64_t, int64_t) { take(field, value); }
  void integer(const Field&, int32_t&, int64_t, int64_t) {}
  void optional(const Field&, int64_t&, int64_t) {}
  void probability(const Field& field, double& value) { take(field, value); }
  void flag(const Field& field, bool& value) { take(field, value); }
  void choice(const Field& field, std::string& value, const std::vector<std::string>&) {
    take(field, value);
    value = replaced(value, '-', '_');  // options have hyphens, config.json has underscores
  }

 private:
  template <class T>
  void take(const Field& field, T& value);

  const std::string_view option_;
  const R& given_;
};

// Fields of the configurations as options: name and values are those of config.json, with hyphens in values.
class ShapeOptions {
 public:
  explicit ShapeOptions(std::vector<Entry>& entries) : entries_(entries) {}

  void integer(const Field& field, int64_t& value, int64_t, int64_t) { add(field, value); }
  void integer(const Field&, int32_t&, int64_t, int64_t) {}  // an id
  void optional(const Field&, int64_t&, int64_t) {}          // follows from separate_vocabularies
  void probability(const Field& field, double& value) { add(field, value); }
  void flag(const Field& field, bool& value) { add(field, value); }
  void choice(const Field& field, std::string& value, const std::vector<std::string>& names) {
    if (Entry* const entry = add(field, value))
      for (const std::string& name : names) entry->option.choices.push_back(replaced(name, '_', '-'));
  }

 private:
  static Member member(const std::string& option) {
    static const std::map<std::string, Member> all{
        {"vocab_size", &R::vocab_size},
        {"d_model", &R::d_model},
        {"heads", &R::heads},
        {"kv_heads", &R::kv_heads},
        {"encoder_layers", &R::encoder_layers},
        {"decoder_layers", &R::decoder_layers},
        {"layers", &R::layers},
        {"feed_forward", &R::feed_forward},
        {"max_positions", &R::max_positions},
        {"dropout", &R::dropout},
        {"attention_dropout", &R::attention_dropout},
        {"activation_dropout", &R::activation_dropout},
        {"activation", &R::activation},
        {"norm", &R::norm},
        {"positions", &R::positions},
        {"pre_norm", &R::pre_norm},
        {"bias", &R::bias},
        {"tie_embeddings", &R::tie_embeddings},
    };
    return all.at(option);
  }

  template <class T>
  Entry* add(const Field& field, const T& standard) {
    if (!field.option) return nullptr;
    for (const Entry& entry : entries_)
      if (std::string_view(entry.option.field) == field.option) return nullptr;  // both configurations have it
    constexpr bool whole = std::is_same_v<T, int64_t>, real = std::is_same_v<T, double>,
                   truth = std::is_same_v<T, bool>;
    using Kind = TrainingOption::Kind;
    Entry& entry = new_entry(entries_, field.option, "Model",
                             whole   ? Kind::whole
                             : real  ? Kind::number
                             : truth ? Kind::boolean
                                     : Kind::text);
    entry.option.value = whole ? "INT" : real ? "FLOAT" : truth ? "BOOLEAN" : "TEXT";
    entry.option.help = field.help;
    entry.option.standard = replaced(text_of(standard), '_', '-');
    entry.member = member(field.option);
    entry.resolve = [option = field.option](const R& given, S& s) {
      TakeShape shape(option, given);
      visit_fields(s.translator, shape);
      visit_fields(s.language_model, shape);
    };
    return &entry;
  }

  std::vector<Entry>& entries_;
};

class Table {
 public:
  Table() {
    whole(
        "threads", "", &R::threads, [](S& s) -> int64_t& { return s.threads; },
        "Threads; 0 for HEED_NUM_THREADS, else for one per hardware thread", 0, 4096);
    seed();
    data();
    model();
    training();
    report();
  }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  using Kind = TrainingOption::Kind;

  template <class T>
  Entry& add(const char* field, const char* group, Kind kind, const char* value, std::optional<T> R::*member,
             Target<T> target, const char* help) {
    S standard;
    Entry& entry = new_entry(entries_, field, group, kind);
    entry.option.value = value;
    entry.option.help = help;
    entry.option.standard = text_of(target(standard));
    entry.member = member;
    entry.resolve = [member, target](const R& given, S& s) {
      if (given.*member) target(s) = *(given.*member);
    };
    return entry;
  }
  Entry& text(const char* field, const char* group, const char* value, std::optional<std::string> R::*member,
              Target<std::string> target, const char* help) {
    return add(field, group, Kind::text, value, member, target, help);
  }
  Entry& path(const char* field, const char* group, const char* value, std::optional<std::string> R::*member,
              Target<std::string> target, const char* help) {
    Entry& entry = text(field, group, value, member, target, help);
    entry.option.path = true;
    return entry;
  }
  Entry& whole(const char* field, const char* group, std::optional<int64_t> R::*member, Target<int64_t> target,
               const char* help, double lowest = -kInfinity, double highest = kInfinity) {
    Entry& entry = add(field, group, Kind::whole, "INT", member, target, help);
    entry.option.lowest = lowest;
    entry.option.highest = highest;
    return entry;
  }
  Entry& number(const char* field, const char* group, std::optional<double> R::*member, Target<double> target,
                const char* help, double lowest = -kInfinity, double highest = kInfinity) {
    Entry& entry = add(field, group, Kind::number, "FLOAT", member, target, help);
    entry.option.lowest = lowest;
    entry.option.highest = highest;
    return entry;
  }
  Entry& flag(const char* field, const char* group, std::optional<bool> R::*member, Target<bool> target,
              const char* help) {
    Entry& entry = add(field, group, Kind::flag, "", member, target, help);
    entry.option.standard.clear();
    return entry;
  }
  Entry& choice(const char* field, const char* group, std::optional<std::string> R::*member, Target<std::string> target,
                std::vector<std::string> choices, const char* help) {
    Entry& entry = text(field, group, "TEXT", member, target, help);
    entry.option.choices = std::move(choices);
    return entry;
  }
  void files(const char* field, std::vector<std::string> R::*member, const char* help) {
    Entry& entry = new_entry(entries_, field, "Data", Kind::text);
    entry.option.several = entry.option.path = true;
    entry.option.value = "FILE ...";
    entry.option.help = help;
    entry.member = member;
  }

  void seed();
  void data();
  void model();
  void training();
  void report();

  std::vector<Entry> entries_;
};

void Table::seed() {
  add("seed", "", Kind::whole, "UINT", &R::seed, Target<uint64_t>([](S& s) -> uint64_t& { return s.options.seed; }),
      "Seed of initial weights, order and dropout");
}

void Table::data() {
  files("pairs", &R::pairs,
        "Sentence pairs, one a line, tab-separated columns. As all data: several files, also as a pattern in quotes, "
        "compressed by gzip, or - for standard input");
  text(
      "columns", "Data", "S,T", &R::columns, [](S& s) -> std::string& { return s.columns; },
      "Columns of source and target in {pairs} and {valid_pairs}, from 1");
  files("source", &R::source, "Source sentences, one a line (instead of {pairs})");
  files("target", &R::target, "Target sentences, one a line");
  files("valid_pairs", &R::valid_pairs, "Sentence pairs to validate on");
  files("valid_source", &R::valid_source, "Source sentences to validate on (instead of {valid_pairs})");
  files("valid_target", &R::valid_target, "Target sentences to validate on");
  files("text", &R::text, "Text for a language model (instead of sentence pairs)");
  files("valid_text", &R::valid_text, "Text to validate on");
  files("labelled", &R::labelled,
        "Lines of a label, a tab and a text, or an image's file, for a Hugging Face encoder: its classes (instead of "
        "sentence pairs)");
  files("valid_labelled", &R::valid_labelled, "Such lines to validate on");
  text(
      "prefix", "Data", "TEXT", &R::prefix, [](S& s) -> std::string& { return s.prefix; },
      "Text before each source, for a Hugging Face model: 'summarize: ' for T5");
  text(
      "source_language", "Data", "CODE", &R::source_language, [](S& s) -> std::string& { return s.source_language; },
      "Language of the sources, for a multilingual Hugging Face model")
      .option.key = "from";
  text(
      "target_language", "Data", "CODE", &R::target_language, [](S& s) -> std::string& { return s.target_language; },
      "Language of the targets")
      .option.key = "to";
  number(
      "valid_fraction", "Data", &R::valid_fraction, [](S& s) -> double& { return s.valid_fraction; },
      "Without data to validate on: this part of the pairs, chosen by their sources, or of the end of {text} [2 % of "
      "pairs, 100 to 2,000 of them; 0.1 for {text}]",
      0, 0.9)
      .option.standard.clear();
  choice(
      "vocab_type", "Data", &R::vocab_type, [](S& s) -> std::string& { return s.vocab_type; },
      {"subwords", "characters"}, "Pieces of {text}: subwords, or characters (each one of the text, and no other)");
  flag(
      "skip_bad_lines", "Data", &R::skip_bad_lines, [](S& s) -> bool& { return s.skip_bad_lines; },
      "Leave out lines that are empty, lack a column or are not UTF-8, and count them");
  files("exclude", &R::exclude, "Leave out training pairs whose source is a line of these files");
  path(
      "vocabulary", "Data", "FILE", &R::vocabulary, [](S& s) -> std::string& { return s.vocabulary; },
      "Use this vocabulary instead of learning one");
  flag(
      "separate_vocabularies", "Data", &R::separate_vocabularies, [](S& s) -> bool& { return s.separate_vocabularies; },
      "A separate vocabulary and embedding for the source; {vocabulary} is the target's");
  path(
      "source_vocabulary", "Data", "FILE", &R::source_vocabulary,
      [](S& s) -> std::string& { return s.source_vocabulary; },
      "With {separate_vocabularies}: use this one for the source");
  flag(
      "trust", "Data", &R::trust, [](S& s) -> bool& { return s.trust; }, "Load a vocabulary that heed did not make");
  number(
      "character_coverage", "Data", &R::character_coverage, [](S& s) -> double& { return s.character_coverage; },
      "Share of the text's characters that have their own piece; the rest become bytes",
      VocabularyOptions::kLeastCoverage, 1);
}

void Table::model() {
  path(
      "model", "Model", "DIR", &R::model, [](S& s) -> std::string& { return s.model; }, "Directory of the model");
  path(
      "init", "Model", "DIR", &R::init, [](S& s) -> std::string& { return s.init; },
      "Begin with the shape, the weights and the vocabulary of this model, heed's or a Hugging Face model");
  choice(
      "preset", "Model", &R::preset, [](S& s) -> std::string& { return s.preset; }, {"tiny", "small", "base"},
      "Shape: tiny, small or base, and fixed values for the rest; options below change parts of it. Without it, "
      "options you omit are chosen from the data and {max_minutes}")
      .option.standard.clear();
  whole(
      "lora", "Model", &R::lora, [](S& s) -> int64_t& { return s.lora; },
      "For a Hugging Face model: train low-rank adapters of this rank, and leave its weights as they are", 1, 65536);
  entries_.back().option.value = "RANK";
  entries_.back().option.standard.clear();
  number(
      "lora_alpha", "Model", &R::lora_alpha, [](S& s) -> double& { return s.lora_alpha; },
      "The products of the adapters count alpha / RANK times [twice the rank]", 1e-6, 1e6)
      .option.standard.clear();
  choice(
      "lora_layers", "Model", &R::lora_layers, [](S& s) -> std::string& { return s.lora_layers; }, {"attention", "all"},
      "Layers with adapters: attention, its queries and values, unless all is given")
      .option.standard.clear();
  S standard;
  ShapeOptions shape(entries_);
  visit_fields(standard.translator, shape);
  visit_fields(standard.language_model, shape);
  // Presets or choose_defaults() set these, so a default would mislead.
  for (Entry& entry : entries_)
    if (is_of_preset(entry.option.field)) entry.option.standard.clear();
}

void Table::training() {
  const char* const g = "Training";
  whole(
      "batch_tokens", g, &R::batch_tokens, [](S& s) -> int64_t& { return s.options.batch_tokens; },
      "Tokens a batch, on its longer side");
  whole(
      "max_length", g, &R::max_length, [](S& s) -> int64_t& { return s.options.max_length; },
      "Leave out pairs with more tokens on a side");
  number(
      "subword_dropout", g, &R::subword_dropout, [](S& s) -> double& { return s.options.subword_dropout; },
      "Merges left out of the pieces of an epoch (BPE-dropout)");
  whole(
      "batch", g, &R::batch, [](S& s) -> int64_t& { return s.options.batch; }, "Pieces of {text} a batch")
      .option.standard.clear();
  whole(
      "block", g, &R::block, [](S& s) -> int64_t& { return s.options.block; }, "Tokens of each piece of {text}")
      .option.standard.clear();
  whole(
      "accumulate", g, &R::accumulate, [](S& s) -> int64_t& { return s.options.accumulate; },
      "Batches an update, for larger ones than fit into memory");
  choice(
      "schedule", g, &R::schedule, [](S& s) -> std::string& { return s.schedule; },
      {"inverse-square-root", "cosine", "constant", "linear"},
      "Learning rate after a warm-up: linear falls to 0 as {max_minutes}, {max_updates} or {max_epochs} ends; or "
      "inverse-square-root, cosine, constant");
  number(
      "learning_rate", g, &R::learning_rate, [](S& s) -> double& { return s.options.learning_rate.peak; },
      "Peak of the learning rate");
  number(
      "min_learning_rate", g, &R::min_learning_rate, [](S& s) -> double& { return s.options.learning_rate.floor; },
      "What {schedule} cosine and linear end at [0; of a text a tenth of the peak, with cosine]");
  whole(
      "warmup", g, &R::warmup, [](S& s) -> int64_t& { return s.options.learning_rate.warmup; },
      "Updates until the peak");
  whole(
      "anneal", g, &R::anneal, [](S& s) -> int64_t& { return s.options.learning_rate.anneal; },
      "Last updates of {max_updates}, over which the rate also falls to 0");
  number(
      "beta1", g, &R::beta1, [](S& s) -> double& { return s.options.adamw.beta1; },
      "AdamW: decay of the mean gradient");
  number(
      "beta2", g, &R::beta2, [](S& s) -> double& { return s.options.adamw.beta2; },
      "AdamW: decay of the mean squared gradient");
  number(
      "epsilon", g, &R::epsilon, [](S& s) -> double& { return s.options.adamw.epsilon; },
      "AdamW: added to the root of the mean square");
  number(
      "weight_decay", g, &R::weight_decay, [](S& s) -> double& { return s.options.adamw.weight_decay; },
      "AdamW: decay of matrices");
  number(
      "clip_norm", g, &R::clip_norm, [](S& s) -> double& { return s.options.clip_norm; },
      "Largest norm of all gradients; 0 for none");
  number(
      "label_smoothing", g, &R::label_smoothing, [](S& s) -> double& { return s.options.label_smoothing; },
      "Probability spread over all pieces");
  number(
      "r_drop", g, &R::r_drop, [](S& s) -> double& { return s.options.r_drop; },
      "Alpha of R-Drop: each batch goes through twice, and the two are to agree");
  whole(
      "validate_every", g, &R::validate_every, [](S& s) -> int64_t& { return s.options.validate_every; },
      "Updates between validations; 0 for each epoch");
  choice(
      "validate_by", g, &R::validate_by, [](S& s) -> std::string& { return s.validate_by; }, {"loss", "bleu"},
      "What chooses the best weights and ends {patience}: loss or bleu");
  whole(
      "bleu_sentences", g, &R::bleu_sentences, [](S& s) -> int64_t& { return s.options.bleu_sentences; },
      "Validation pairs to translate greedily at each validation for BLEU; 0 for none", 0, 1000000);
  whole(
      "average", g, &R::average, [](S& s) -> int64_t& { return s.options.average; },
      "Checkpoints (one a validation) to average");
  whole(
      "max_updates", g, &R::max_updates, [](S& s) -> int64_t& { return s.options.max_updates; },
      "Stop after so many updates; 0 for no limit");
  whole(
      "max_epochs", g, &R::max_epochs, [](S& s) -> int64_t& { return s.options.max_epochs; },
      "Stop after so many epochs; 0 for no limit");
  number(
      "max_minutes", g, &R::max_minutes, [](S& s) -> double& { return s.options.max_minutes; },
      "Stop after so many minutes, preparation and validations included; 0 for no limit");
  whole(
      "patience", g, &R::patience, [](S& s) -> int64_t& { return s.options.patience; },
      "Stop after so many validations without better weights; 0 for no limit");
  number(
      "save_minutes", g, &R::save_minutes, [](S& s) -> double& { return s.options.save_minutes; },
      "Minutes between saves; 0 for none but at validations");
  whole(
      "save_every", g, &R::save_every, [](S& s) -> int64_t& { return s.options.save_every; },
      "Updates between saves; 0 for none by count");
  whole(
      "log_every", g, &R::log_every, [](S& s) -> int64_t& { return s.options.log_every; },
      "Updates between progress lines");
  whole(
      "context_ranks", g, &R::context_ranks, [](S& s) -> int64_t& { return s.options.context_ranks; },
      "Under mpirun: ranks that share each piece of {text}, so that none has all of its tokens; a power of two");
  number(
      "rank_timeout", g, &R::rank_timeout, [](S& s) -> double& { return s.rank_timeout; },
      "Seconds that a rank under mpirun waits for another one");
}

void Table::report() {
  const char* const g = "Report";
  path(
      "html", g, "FILE", &R::html, [](S& s) -> std::string& { return s.html; },
      "Write a page for a browser, anew at each validation: curves, and attention over time");
  text(
      "html_lines", g, "N,N", &R::html_lines, [](S& s) -> std::string& { return s.html_lines; },
      "Watch the attention in these lines of the validation data, from 1 [the first three of moderate length]");
  path(
      "tensorboard", g, "DIR", &R::tensorboard, [](S& s) -> std::string& { return s.tensorboard; },
      "Write event files for TensorBoard into this directory");
  path(
      "timeline", g, "FILE", &R::timeline, [](S& s) -> std::string& { return s.timeline; },
      "Write what each rank does when in the second update of this run, for ui.perfetto.dev");
}

const std::vector<Entry>& entries() {
  static const Table table;
  return table.entries();
}

const Entry& entry_of(const std::string& field) {
  for (const Entry& entry : entries())
    if (field == entry.option.field) return entry;
  throw UsageError("there is no option '" + field + "'");
}

template <class T>
void TakeShape::take(const Field& field, T& value) {
  if (!field.option || option_ != field.option) return;
  if (const auto& given = given_.*std::get<std::optional<T> R::*>(entry_of(field.option).member)) value = *given;
}

// The value that the text is; `what` begins messages.
template <class T>
T parsed(const std::string& text, const TrainingOption& option, const std::string& what) {
  if constexpr (std::is_same_v<T, std::string>) {
    const std::string value = option.choices.empty() ? text : replaced(text, '_', '-');
    if (option.choices.empty() ||
        std::find(option.choices.begin(), option.choices.end(), value) != option.choices.end())
      return value;
    std::string all;
    for (const std::string& choice : option.choices) all += (all.empty() ? "" : ", ") + choice;
    throw UsageError(what + ": '" + text + "' is not one of " + all + did_you_mean(value, option.choices));
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text == "true" || text == "false") return text == "true";
    throw UsageError(what + ": '" + text + "' is not true or false");
  } else {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    bool right = error == std::errc() && rest == end;
    if constexpr (std::is_same_v<T, double>) right = right && std::isfinite(value);
    if (!right && std::is_same_v<T, double>) throw UsageError(what + ": " + text + " is not a finite number");
    if (!right && std::is_same_v<T, uint64_t>)
      throw UsageError(what + ": " + text + " is not a number from 0 to 2^64 - 1");
    if (!right) throw UsageError(what + ": '" + text + "' is not a whole number");
    if (static_cast<double>(value) < option.lowest || static_cast<double>(value) > option.highest)
      throw UsageError(what + ": " + text + " is not in the range " + text_of(option.lowest) + " to " +
                       text_of(option.highest));
    return value;
  }
}

template <class F>
decltype(auto) visit_member(const Entry& entry, F&& f) {
  return std::visit(std::forward<F>(f), entry.member);
}

template <class T>
struct ValueOf;
template <class T>
struct ValueOf<std::optional<T>> {
  using type = T;
};

}  // namespace

// The help with the default, if that depends on the kind of training.
static std::string help_with_default(const TrainingOption& option) {
  std::string standard;
  if (option.help.ends_with(']')) return option.help;
  if (std::string_view(option.field) == "max_positions") {
    standard = option.standard + "; {block} for {text}";
  } else if (is_chosen(option.field)) {
    standard = "chosen";
  } else if (const std::string of_text = text_default(option.field); !of_text.empty() && of_text != option.standard) {
    standard = option.standard.empty() ? of_text : option.standard + "; " + of_text + " for {text}";
  }
  return standard.empty() ? option.help : option.help + " [" + standard + "]";
}

std::string help_of(const TrainingOption& option, std::string (*spelling)(const std::string& field)) {
  std::string text;
  for (size_t at = 0; at < option.help.size();) {
    const size_t open = std::min(option.help.find('{', at), option.help.size());
    text.append(option.help, at, open - at);
    const size_t close = open < option.help.size() ? option.help.find('}', open) : open;
    if (open < close) {
      const std::string field = option.help.substr(open + 1, close - open - 1);
      text += spelling ? spelling(field) : field;
    }
    at = close + 1;
  }
  return text;
}

std::span<const TrainingOption> training_options() {
  static const std::vector<TrainingOption> all = [] {
    std::vector<TrainingOption> options;
    for (const Entry& entry : entries()) {
      options.push_back(entry.option);
      options.back().help = help_with_default(entry.option);
    }
    return options;
  }();
  return all;
}

const TrainingOption& training_option(const std::string& field) {
  entry_of(field);  // throws
  return *std::ranges::find_if(training_options(), [&](const TrainingOption& o) { return field == o.field; });
}

void set_option(TrainingRequest& request, const std::string& field, const std::vector<std::string>& values) {
  const Entry& entry = entry_of(field);
  const std::string what = request.spelling ? request.spelling(field) : field;
  if (entry.option.path && std::ranges::count(values, std::string()) > 0) throw UsageError(what + ": it is empty");
  visit_member(entry, [&](auto member) {
    auto& place = request.*member;
    if constexpr (std::is_same_v<std::decay_t<decltype(place)>, std::vector<std::string>>) {
      place = values;
    } else {
      if (values.size() != 1)
        throw UsageError(what + " has " + std::to_string(values.size()) + " values; it takes one");
      place = parsed<typename ValueOf<std::decay_t<decltype(place)>>::type>(values.front(), entry.option, what);
    }
  });
}

std::vector<std::string> option_values(const TrainingRequest& request, const std::string& field) {
  return visit_member(entry_of(field), [&](auto member) -> std::vector<std::string> {
    const auto& place = request.*member;
    if constexpr (std::is_same_v<std::decay_t<decltype(place)>, std::vector<std::string>>) {
      return place;
    } else {
      return place ? std::vector<std::string>{text_of(*place)} : std::vector<std::string>{};
    }
  });
}

void fill_in(TrainingRequest& request, const TrainingRequest& more) {
  for (const Entry& entry : entries())
    visit_member(entry, [&](auto member) {
      auto& place = request.*member;
      if constexpr (std::is_same_v<std::decay_t<decltype(place)>, std::vector<std::string>>) {
        if (place.empty()) place = more.*member;
      } else {
        if (!place) place = more.*member;
      }
    });
}

std::string TrainingSettings::name(const std::string& field) const {
  return given.spelling ? given.spelling(field) : field;
}

void TrainingSettings::fill_in(const TrainingRequest& more) {
  for (const Entry& entry : entries()) {
    const std::string field = entry.option.field;
    if (!option_values(given, field).empty()) continue;
    if (const std::vector<std::string> values = option_values(more, field); !values.empty()) {
      set_option(given, field, values);
      if (entry.resolve) entry.resolve(given, *this);
    }
  }
}

void TrainingSettings::set(const std::string& field, const std::string& value) {
  set_option(given, field, {value});
  if (const Entry& entry = entry_of(field); entry.resolve) entry.resolve(given, *this);
}

void TrainingSettings::resolve() {
  for (const Entry& entry : entries())
    if (entry.resolve) entry.resolve(given, *this);
}

}  // namespace heed::inline v0
