#include "recipe/directory.h"

#include <filesystem>
#include <optional>
#include <type_traits>
#include <utility>

#include "heed/communicator.h"
#include "heed/config_fields.h"
#include "heed/load.h"
#include "heed/model_files.h"
#include "heed/paths.h"

namespace heed::inline v0 {
namespace {

// Names the first difference between the shape asked for and the one the directory has.
template <class Config>
void check_same_shape(const TrainingSettings& a, const Config& asked, const Config& has) {
  const std::vector<FieldValue> wanted = field_values(asked), there = field_values(has);
  for (size_t i = 0; i < there.size(); ++i) {
    const auto shown = [&](const std::string& value) {
      const bool is_switch = std::string_view(there[i].field.name) == "source_vocab_size";
      return !is_switch ? value : std::string(value == "0" ? "false" : "true");
    };
    if (const char* const option = there[i].field.option; option && shown(wanted[i].value) != shown(there[i].value))
      throw UsageError(a.model + " has a model with " + a.named(option, shown(there[i].value)) + ", not " +
                       shown(wanted[i].value) + "; give the same shape to resume, or another " + a.name("model") +
                       " to start over");
  }
}

// The ids of a translator's vocabularies.
void take_ids(const TrainingSettings& a, TransformerConfig& shape, const Vocabulary& vocabulary,
              const Vocabulary& source) {
  if (vocabulary.of_characters() || source.of_characters())
    throw UsageError("a vocabulary of characters has no piece that ends a sentence; give another " +
                     a.name("vocabulary"));
  if (source.pad_id() != vocabulary.pad_id() || source.eos_id() != vocabulary.eos_id())
    throw UsageError("the two vocabularies pad with pieces " + std::to_string(source.pad_id()) + " and " +
                     std::to_string(vocabulary.pad_id()) + " and end with " + std::to_string(source.eos_id()) +
                     " and " + std::to_string(vocabulary.eos_id()) + "; they must have the same");
  shape.pad_id = vocabulary.pad_id();
  shape.bos_id = vocabulary.bos_id();
  shape.eos_id = vocabulary.eos_id();
}
void take_ids(const TrainingSettings&, LanguageModelConfig&, const Vocabulary&, const Vocabulary&) {}

bool fits(const TrainingSettings& a, const Vocabulary& vocabulary) {
  return !a.of_text() || !a.vocabulary.empty() || !a.resume.empty() ||
         vocabulary.of_characters() == (a.vocab_type == "characters");
}

}  // namespace

Holds check_training_directory(const TrainingSettings& a) {
  check_program_files(a.model);  // before what is damaged is taken for another shape, or for somebody else's
  const Holds holds = expect_own(a.named("model", a.model), a.model);
  if (holds == Holds::model) expect_kind(a, "model", a.model, load_config(a.model));
  if (holds == Holds::model)
    throw UsageError(a.named("model", a.model) + " holds a model without its training (" + kStateFile +
                     "), which cannot be resumed; name another directory, and begin with this model by " +
                     a.named("init", a.model));
  if (holds == Holds::training && a.of_text())
    expect_config<LanguageModelConfig>(load_config(a.model), a.model);
  else if (holds == Holds::training)
    expect_config<TransformerConfig>(load_config(a.model), a.model);
  expect_writable_directory(a.name("model"), a.model);
  return holds;
}

template <class Config>
Prepared prepare_directory(const TrainingSettings& a, Config& shape, const std::string& options,
                           const LearnVocabulary& learn) {
  constexpr bool translates = std::is_same_v<Config, TransformerConfig>;
  const bool separate = translates && a.separate_vocabularies;
  check_training_directory(a);
  DirectoryTransaction transaction(a.model);        // what was cut off is completed
  const Holds holds = check_training_directory(a);  // nobody else begins a training here now
  if (holds == Holds::training) {
    const auto has = expect_config<Config>(load_config(a.model), a.model);
    Vocabulary vocabulary = Vocabulary::load(a.model + "/" + kVocabularyFile, a.trust), source = vocabulary;
    if (!a.vocabulary.empty()) shape.vocab_size = load_vocabulary(a.vocabulary, a.trust).size();
    if (!fits(a, vocabulary))
      throw UsageError(a.model + " has a vocabulary of another kind than " + a.vocab_type + "; give the same " +
                       a.name("vocab_type") + " to resume, or another " + a.name("model") + " to start over");
    if (vocabulary.of_characters()) shape.vocab_size = vocabulary.size();  // as many as the text has
    if (shape.vocab_size == 0) shape.vocab_size = has.vocab_size;          // of --init, which may be gone
    if constexpr (translates) {
      if (has.source_vocab_size > 0) source = Vocabulary::load(a.model + "/" + kSourceVocabularyFile, a.trust);
      if (separate) shape.source_vocab_size = source.size();
    }
    take_ids(a, shape, vocabulary, source);
    check_same_shape(a, shape, has);
    return {std::move(vocabulary), std::move(source), false, {}};
  }
  const auto make = [&](const std::string& given, Side side) {
    return given.empty() ? learn(side) : load_vocabulary(given, a.trust);
  };
  Vocabulary vocabulary = make(a.vocabulary, separate ? Side::target : Side::both);
  Vocabulary source = separate ? make(a.source_vocabulary, Side::source) : vocabulary;
  shape.vocab_size = vocabulary.size();
  if constexpr (translates) shape.source_vocab_size = separate ? source.size() : 0;
  take_ids(a, shape, vocabulary, source);
  check_shape(a, shape);
  transaction.write(kConfigFile, write_config(shape));
  transaction.write(kVocabularyFile, vocabulary.to_text());
  if (separate) transaction.write(kSourceVocabularyFile, source.to_text());
  transaction.write(kTrainOptionsFile, options);
  transaction.commit();
  return {std::move(vocabulary), std::move(source), true, transaction.made()};
}
template Prepared prepare_directory(const TrainingSettings&, TransformerConfig&, const std::string&,
                                    const LearnVocabulary&);
template Prepared prepare_directory(const TrainingSettings&, LanguageModelConfig&, const std::string&,
                                    const LearnVocabulary&);

template <class Config>
Prepared prepare_over_ranks(const TrainingSettings& a, Config& shape, const std::string& options,
                            const LearnVocabulary& learn) {
  if (!a.ranks()) return prepare_directory(a, shape, options, learn);
  std::optional<Prepared> prepared;
  if (a.leads()) prepared = prepare_directory(a, shape, options, learn);
  const auto shared = [&](const std::string& text) { return text_of_lead(*a.ranks(), text); };
  const std::string config = shared(prepared ? write_config(shape) : ""),
                    vocabulary = shared(prepared ? prepared->vocabulary.to_text() : ""),
                    source = shared(prepared ? prepared->source.to_text() : "");
  if (prepared) return *std::move(prepared);
  const std::string where = "rank 0's " + a.model;
  shape = expect_config<Config>(read_config(config, where), where);
  return {Vocabulary::from_bytes(vocabulary, where), Vocabulary::from_bytes(source, where), false, {}};
}
template Prepared prepare_over_ranks(const TrainingSettings&, TransformerConfig&, const std::string&,
                                     const LearnVocabulary&);
template Prepared prepare_over_ranks(const TrainingSettings&, LanguageModelConfig&, const std::string&,
                                     const LearnVocabulary&);

void forget_directory(const std::string& directory, const std::vector<std::string>& made) {
  {
    DirectoryTransaction transaction(directory);
    for (const char* name : {kConfigFile, kVocabularyFile, kSourceVocabularyFile, kTrainOptionsFile, kLogFile})
      transaction.remove(name);
    transaction.commit();
  }
  std::error_code kept_where_not_empty;
  for (auto it = made.rbegin(); it != made.rend(); ++it) std::filesystem::remove(*it, kept_where_not_empty);
}

template <class Model>
void begin_with(Model& model, const TrainingSettings& a, const Prepared& prepared) {
  // Where the directory holds a state, train() goes on from that instead.
  if (!a.leads() || a.init.empty() || std::filesystem::exists(a.model + "/" + kStateFile)) return;
  try {
    NamedTensors values;
    const StoredModel stored = load(a.init, {.trust = a.trust});
    expect_config<std::decay_t<decltype(model.config())>>(load_config(a.init), a.init);
    expect_finite(stored.module());
    for (const auto& [name, parameter] : stored.module().named_parameters())
      values.emplace_back(name, parameter.value());
    model.load(values);
  } catch (...) {
    if (prepared.fresh) forget_directory(a.model, prepared.made);
    throw;
  }
}
template void begin_with(Transformer&, const TrainingSettings&, const Prepared&);
template void begin_with(LanguageModel&, const TrainingSettings&, const Prepared&);

}  // namespace heed::inline v0
