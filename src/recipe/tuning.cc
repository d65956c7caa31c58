#include "recipe/tuning.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/adapters.h"
#include "heed/communicator.h"
#include "heed/corpus.h"
#include "heed/labelled.h"
#include "heed/load.h"
#include "heed/pages.h"
#include "heed/random.h"
#include "heed/text_encoder.h"
#include "heed/translator.h"
#include "recipe/held_out.h"
#include "recipe/run.h"

namespace heed::inline v0 {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUsualBlock = 512;  // tokens: models may take more than anybody wants to train with

bool holds_state(const std::string& directory) {
  std::error_code error;
  return fs::is_regular_file(directory + "/" + kStateFile, error);
}

// All that a training begins with is written with its first save: before, there may be a log.
void expect_new(const TrainingSettings& a) {
  const std::string& directory = a.model;
  const std::string given = a.named("model", directory);
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status)) throw IoError(given + " is not a directory; name another");
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    if (const std::string name = it->path().filename().string();
        !name.starts_with('.') && name != "lost+found" && name != kLogFile)
      throw UsageError(given + " holds files (" + name +
                       ", for one) and no training of a Hugging Face model; name a new or empty directory");
  if (error) throw IoError("list " + directory + ": " + error.message());
}

// What the training is of.
struct Tuning {
  TrainingSettings& a;
  TrainingObserver& watcher;
  const StoredModel& stored;
  const std::string from;  // its directory
  std::unique_ptr<LowRankAdapters> adapters{};

  Module& trained() const { return adapters ? static_cast<Module&>(*adapters) : stored.module(); }
  Say say() const {
    return [this](const std::string& text) { watcher.say(text); };
  }
  std::string name() const { return stored.model_type() + " of " + a.tuned; }
};

template <class Model>
Model& model_for(const Tuning& t, const char* field, const char* what) {
  if (auto* const model = t.stored.get_if<Model>()) return *model;
  throw UsageError(t.a.name(field) + " is for " + what + ", and " + t.a.tuned + " holds a " + t.stored.model_type());
}

// The directory gets what the model had beside its weights, and these in its layout.
TrainHooks hooks_of(const Tuning& t) {
  TrainHooks hooks{.files = {{kTrainOptionsFile, options_to_keep(t.a)}}};
  const PretrainedModel& model = t.stored.pretrained();
  if (t.from != t.a.model)
    for (auto& [name, text] : pretrained_texts(model)) hooks.files.emplace_back(name, std::move(text));
  if (t.adapters) {
    hooks.adapters = t.adapters.get();
    hooks.files.emplace_back(kAdapterConfigFile, adapter_config(model, *t.adapters, t.from));
    hooks.model_file = {kAdapterFile, [&model](FileWriter& file, const NamedTensors& parameters) {
                          write_adapters(file, model, parameters);
                        }};
    return hooks;
  }
  hooks.model_file = {kModelFile, [&model](FileWriter& file, const NamedTensors& parameters) {
                        write_pretrained(file, model, parameters);
                      }};
  return hooks;
}

template <class Train>
TrainResult run(const Tuning& t, WatchedTraining training, const NextUse& next, TrainHooks hooks, Train&& train) {
  training.data = t.name() + ", " + training.data;
  training.file = t.adapters ? kAdapterFile : kModelFile;
  const TrainResult result = run_watched(t.a, t.watcher, training, std::move(hooks), {},
                                         [&](const TrainOptions& options, const TrainHooks& all) {
                                           manual_seed(options.seed);
                                           return train(options, all);
                                         });
  if (t.a.leads() && result.reason != StopReason::interrupted) t.watcher.next(next);
  return result;
}

TrainResult tune_on_text(const Tuning& t) {
  auto& model = model_for<LanguageModel>(t, "text", "language models");
  TextParts texts =
      read_text_parts(t.a.given.text, t.a.given.valid_text, t.a.valid_fraction, t.say(), t.a.skip_bad_lines);
  warn_of_overlap(t.a, texts, t.say());
  const auto encode = [&](const std::string& text) {
    return t.stored.tokenizer().encode(text, /*special_tokens=*/false).ids;
  };
  const std::vector<int32_t> training = encode(texts.training), validation = encode(texts.validation);
  TrainOptions& o = t.a.options;
  o.bleu_sentences = 0;
  if (o.block == 0)
    o.block = std::max<int64_t>(
        std::min({kUsualBlock, model.config().max_positions, static_cast<int64_t>(training.size()) - 1}), 1);
  return run(t,
             {.model = t.trained(),
              .words = {.tokens = "tokens", .sequences = "blocks"},
              .data = std::to_string(training.size()) + " training and " + std::to_string(validation.size()) +
                      " validation tokens in blocks of " + std::to_string(o.block),
              .validates = !validation.empty()},
             {.use = NextUse::Use::generate, .model = t.a.model, .example = first_words(lines_of(texts.training))},
             hooks_of(t), [&](const TrainOptions& options, const TrainHooks& hooks) {
               return train(model, training, validation, options, t.a.model, hooks);
             });
}

// Data and data to validate on.
std::pair<TextPairs, TextPairs> read_both(TrainingSettings& a, const PairFiles& files, const PairFiles& valid,
                                          std::pair<int, int> columns, const Say& say) {
  TextPairs texts =
      a.given.pairs_in_memory ? *a.given.pairs_in_memory : read_pairs(files, columns, say, "training data");
  TextPairs validation = a.given.valid_pairs_in_memory ? *a.given.valid_pairs_in_memory
                                                       : read_pairs(valid, columns, say, "validation data");
  if (!a.given.exclude.empty()) exclude_sources(texts, a.given.exclude, say);
  expect_validation(a.name(a.of_labels()         ? "valid_labelled"
                           : valid.pairs.empty() ? "valid_source"
                                                 : "valid_pairs"),
                    !valid.empty(), validation.source.empty());
  warn_of_overlap(texts, validation, say);
  if (texts.source.empty()) throw FormatError("the training data has no lines to learn from");
  if (!a.of_labels() || a.valid_fraction > 0)
    hold_out_validation(a, texts, validation, say);
  else if (validation.source.empty())  // one label more or less may be missing in a part
    say("no validation: give " + a.name("valid_labelled") + ", or " + a.named("valid_fraction", "0.1") +
        ", for the accuracy on other data");
  return {std::move(texts), std::move(validation)};
}

// Of so many pairs from all over the texts, translated greedily.
double greedy_bleu(const Tuning& t, const Transformer& model, const TextPairs& texts, int64_t count,
                   const TranslateOptions& languages, SampleTranslations& samples) {
  if (t.adapters) t.adapters->apply();
  TextPairs some;
  const int64_t all = std::ssize(texts.source);
  for (int64_t i = 0; i < std::min(count, all); ++i) {
    some.source.push_back(texts.source[static_cast<size_t>(i * all / count)]);
    some.target.push_back(texts.target[static_cast<size_t>(i * all / count)]);
  }
  TranslateOptions options = languages;
  options.beam = t.stored.completed(BeamOptions{.beam = 1});
  options.split = t.stored.takes_sentences();
  options.ranks = t.a.ranks();
  std::vector<std::string> translations;
  for (TranslatedLine& line :
       translate_lines(std::array{&model}, t.stored.source_tokenizer(), t.stored.tokenizer(), some.source, options))
    translations.push_back(std::move(line.best.front().text));
  if (t.a.leads()) samples.take(some, translations);
  const double score = t.a.leads() ? bleu(translations, some.target).score : 0;
  return t.a.ranks() ? of_lead(*t.a.ranks(), score) : score;
}

TrainResult tune_on_pairs(const Tuning& t) {
  auto& model = model_for<Transformer>(t, "pairs", "models with an encoder and a decoder");
  TrainingSettings& a = t.a;
  check_pair_files(a);
  check_valid_pair_files(a);
  const auto [texts, valid_texts] = read_both(a, a.pairs(), a.valid_pairs(), parse_columns(a), t.say());
  const TranslateOptions languages{
      .prefix = a.prefix, .source_language = a.source_language, .target_language = a.target_language};
  const SentencePairs training = encode_pairs(t.stored, texts, languages),
                      validation = encode_pairs(t.stored, valid_texts, languages);
  a.options.bleu_sentences = std::min(a.options.bleu_sentences, std::ssize(valid_texts.source));
  TrainHooks hooks = hooks_of(t);
  SampleTranslations samples;
  hooks.bleu = [&, &valid = valid_texts](int64_t count) {
    return greedy_bleu(t, model, valid, count, languages, samples);
  };
  const NextUse next{.use = NextUse::Use::translate,
                     .model = a.model,
                     .example = example_of(texts.source),
                     .prefix = a.prefix,
                     .source_language = a.source_language,
                     .target_language = a.target_language};
  return run(t,
             {.model = t.trained(),
              .data = std::to_string(training.source.size()) + " training and " +
                      std::to_string(validation.source.size()) + " validation pairs",
              .validates = !validation.source.empty(),
              .samples = &samples},
             next, std::move(hooks), [&](const TrainOptions& options, const TrainHooks& all) {
               return train(model, training, validation, options, a.model, all);
             });
}

// Lines of labels, and texts or files of pictures: those are the sources.
struct LabelledLines {
  TextPairs training, validation;
};

LabelledLines read_labelled(TrainingSettings& a, const Say& say) {
  const auto [label, text] = parse_columns(a);
  const PairFiles files{.pairs = a.given.labelled, .skip_bad_lines = a.skip_bad_lines},
      valid{.pairs = a.given.valid_labelled, .skip_bad_lines = a.skip_bad_lines};
  auto [training, validation] = read_both(a, files, valid, std::pair(text, label), say);
  return {std::move(training), std::move(validation)};
}

// All labels in the order of their bytes.
std::vector<std::string> labels_in(const TrainingSettings& a, const TextPairs& lines) {
  std::vector<std::string> labels = lines.target;
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  if (labels.front().empty()) throw FormatError(a.name("labelled") + ": a line has no label; give each its own");
  return labels;
}

std::vector<int32_t> numbers_of(const Tuning& t, const std::vector<std::string>& labels,
                                const std::vector<std::string>& names, const char* what) {
  std::vector<int32_t> numbers;
  for (const std::string& label : labels) {
    const auto name = std::find(names.begin(), names.end(), label);
    if (name == names.end())
      throw FormatError("the " + std::string(what) + " data has the label " + in_quotes(label) +
                        ", which the model does not have; its labels are those of " + t.a.name("labelled") +
                        " in its first run");
    numbers.push_back(static_cast<int32_t>(name - names.begin()));
  }
  return numbers;
}

// Texts that are too long lose their ends, but for special tokens.
LabelledTexts encode(const Tuning& t, const TextEncoder& model, const TextPairs& lines,
                     const std::vector<std::string>& names, const char* what) {
  LabelledTexts texts{.labels = numbers_of(t, lines.target, names, what)};
  const int64_t longest = model.config().max_positions;
  int64_t cut = 0;
  for (const std::string& line : lines.source) {
    Encoding tokens = t.stored.tokenizer().encode(line);
    if (std::ssize(tokens.ids) > longest) {
      const auto last = std::find(tokens.added.rbegin(), tokens.added.rend(), 0);
      const auto behind = last - tokens.added.rbegin();
      tokens.ids.erase(tokens.ids.begin() + std::max<int64_t>(longest - behind, 0), tokens.ids.end() - behind);
      ++cut;
    }
    texts.ids.push_back(std::move(tokens.ids));
  }
  if (cut > 0)
    t.watcher.say(std::to_string(cut) + " of " + std::to_string(lines.source.size()) + " texts of the " + what +
                  " data were longer than " + std::to_string(longest) + " tokens and are cut");
  return texts;
}

// Files are read when their pictures are needed; that they are there is looked at before.
LabelledPictures encode(const Tuning& t, const ImageEncoder& model, const TextPairs& lines,
                        const std::vector<std::string>& names, const char* what) {
  for (const std::string& path : lines.source)
    if (std::error_code error; !fs::is_regular_file(path, error))
      throw IoError("the " + std::string(what) + " data names " + in_quotes(path) +
                    ", which is no file; paths are absolute, or begin where the program is started");
  return {.names = lines.source,
          .labels = numbers_of(t, lines.target, names, what),
          .pixels = [&t, &model, files = lines.source](int64_t i) {
            return read_pixels(files[static_cast<size_t>(i)], t.from, model.config());
          }};
}

template <class Model>
TrainResult tune_on_labels(const Tuning& t, Model& model, const LabelledLines& lines, const char* things) {
  const std::vector<std::string> names = labels_of(t.stored.pretrained());
  const auto training = encode(t, model, lines.training, names, "training"),
             validation = encode(t, model, lines.validation, names, "validation");
  t.a.options.bleu_sentences = 0;
  TrainHooks hooks = hooks_of(t);
  if (!validation.labels.empty())
    hooks.examine = [&](const Validation&) {
      if (t.adapters) t.adapters->apply();
      const double share = accuracy(model, validation);
      t.watcher.line("accuracy " + std::to_string(share));
      return Examination{.figures = {{"accuracy", share}}};
    };
  const bool pictures = std::is_same_v<Model, ImageEncoder>;
  return run(
      t,
      {.model = t.trained(),
       .words = {.tokens = things, .sequences = things},
       .data = std::to_string(training.labels.size()) + " training and " + std::to_string(validation.labels.size()) +
               " validation " + things + ", " + std::to_string(names.size()) + " labels",
       .validates = !validation.labels.empty()},
      {.use = pictures ? NextUse::Use::classify_images : NextUse::Use::classify_texts,
       .model = t.a.model,
       .example = pictures ? lines.training.source.front() : example_of(lines.training.source)},
      std::move(hooks), [&](const TrainOptions& options, const TrainHooks& all) {
        return train(model, training, validation, options, t.a.model, all);
      });
}

TrainResult tune_on_labels(const Tuning& t, const LabelledLines& lines) {
  if (auto* const pictures = t.stored.get_if<ImageEncoder>()) return tune_on_labels(t, *pictures, lines, "pictures");
  return tune_on_labels(t, model_for<TextEncoder>(t, "labelled", "encoders"), lines, "texts");
}

// The model that labelled lines are for. What is drawn for a new head depends on the seed alone.
StoredModel classifier_for(const TrainingSettings& a, const std::string& directory, const LabelledLines& lines) {
  manual_seed(a.options.seed);
  PretrainedModel model = load_classifier(directory, labels_in(a, lines.training));
  if (dynamic_cast<const ImageEncoder*>(model.module.get())) return {std::move(model), std::nullopt};
  return {std::move(model), load_tokenizer(directory)};
}

// Where the weights that are to be trained, or adapted, lie.
std::string base_of(const TrainingSettings& a) {
  if (a.tuned != a.model || !holds_state(a.model)) {
    if (std::error_code error; fs::is_regular_file(a.tuned, error))
      throw UsageError(a.named("init", a.tuned) +
                       " is a GGUF file, which has no layout that a training could be saved in; " +
                       "name the directory that it was made of");
    if ((a.lora > 0 || a.of_labels()) && !adapted_base(a.tuned).empty())
      throw UsageError(a.named("init", a.tuned) +
                       " holds adapters; merge them by heed export, and begin with what that wrote");
    if (!a.leads()) return a.tuned;
    expect_new(a);
    return a.lora > 0 ? fs::absolute(a.tuned).lexically_normal().string() : a.tuned;
  }
  const std::string base = adapted_base(a.model);
  if (base.empty() == (a.lora > 0))
    throw UsageError(a.model + " holds a training " + (base.empty() ? "of all weights" : "of adapters") + "; " +
                     (base.empty() ? "leave out" : "give the same") + " " + a.name("lora") + " to resume, or another " +
                     a.name("model") + " to start over");
  return base.empty() ? a.model : base;
}

}  // namespace

std::string tuned_directory(const TrainingSettings& a) {
  if (!a.model.empty() && holds_state(a.model)) {
    check_program_files(a.model);  // before what is damaged is taken for another kind
    if (is_pretrained(a.model)) return a.model;
  }
  return !a.init.empty() && is_pretrained(a.init) ? a.init : "";
}

TrainResult run_tuning(TrainingSettings& a, TrainingObserver& watcher) {
  const std::string from = base_of(a);
  LabelledLines lines;
  if (a.of_labels()) lines = read_labelled(a, [&](const std::string& text) { watcher.say(text); });
  const StoredModel stored = a.of_labels() ? classifier_for(a, from, lines) : load(from, {.trust = a.trust});
  expect_finite(stored.module());
  stored.module().to(DType::f32);  // steps are smaller than what a half has digits for
  Tuning tuning{a, watcher, stored, from};
  if (a.lora > 0) {
    manual_seed(a.options.seed);
    tuning.adapters =
        make_adapters(stored.pretrained(), a.lora_layers == "all" ? LowRankLayers::all : LowRankLayers::attention,
                      {.rank = a.lora, .alpha = a.lora_alpha});
  }
  if (a.of_labels()) return tune_on_labels(tuning, lines);
  if (a.of_text()) return tune_on_text(tuning);
  return tune_on_pairs(tuning);
}

}  // namespace heed::inline v0
