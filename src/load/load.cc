// Reading and writing of a model's directory.
#include "heed/load.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <future>
#include <utility>

#include "core/gguf.h"
#include "heed/adapters.h"
#include "heed/checked.h"
#include "heed/executor.h"
#include "heed/random.h"
#include "heed/speech_transformer.h"
#include "heed/text_encoder.h"
#include "io/json.h"
#include "load/adapters.h"
#include "load/configuration.h"
#include "load/stop_texts.h"

namespace heed::inline v0 {
namespace {

namespace fs = std::filesystem;

Vocabulary loaded(const VocabularyText& vocabulary, const std::string& directory, bool trust) {
  Vocabulary result = Vocabulary::from_bytes(vocabulary.text, directory + "/" + vocabulary.file, trust);
  check_pieces(directory, vocabulary.file, result.size(), vocabulary.pieces);
  return result;
}

std::vector<VocabularyText> texts_of(const DirectorySnapshot& files, const std::vector<int64_t>& pieces) {
  std::vector<VocabularyText> all;
  for (size_t i = 0; i < pieces.size(); ++i)
    all.push_back({vocabulary_file(i), pieces[i], files.read(vocabulary_file(i), kLargestVocabulary)});
  return all;
}

void check_size(int64_t parameters, const SafetensorsFile& file) {
  uint64_t held = 0;
  for (const TensorInfo& info : file.tensors()) held += *checked_product(info.shape);  // checked by SafetensorsFile
  check_parameters(file.path(), held, parameters);
}

// Special tokens may have no rows, as <mask> in bart-large-cnn: no other text is written with them.
void check_ids(const std::string& directory, const Tokenizer& tokenizer, int64_t rows) {
  for (int64_t id = rows; id < tokenizer.size() - tokenizer.rules().appended; ++id)
    if (!tokenizer.special(static_cast<int32_t>(id)))
      throw FormatError(directory + ": the tokenizer's ids go to " + std::to_string(tokenizer.size() - 1) +
                        ", but the model embeds " + std::to_string(rows) +
                        "; the two belong to different models, or tokens were added without rows for them");
}

using LoadTokenizer = std::function<Tokenizer(TokenizerSide side)>;

// Calls that take ids work without a supported tokenizer.
StoredModel with_tokenizers(PretrainedModel model, const std::string& directory, const LoadTokenizer& load_side) {
  const Module* const module = model.module.get();
  if (dynamic_cast<const ImageEncoder*>(module)) return {std::move(model), std::nullopt};
  const auto* const transformer = dynamic_cast<const Transformer*>(module);
  std::optional<Tokenizer> tokenizer, source;
  try {
    tokenizer = load_side(TokenizerSide::target);
    if (transformer) source = load_side(TokenizerSide::source);
  } catch (const FormatError& e) {
    return {std::move(model), std::string(e.what())};
  }
  if (transformer) {
    check_ids(directory, *source, transformer->config().source_pieces());
    check_ids(directory, *tokenizer, transformer->config().vocab_size);
  } else if (const auto* encoder = dynamic_cast<const TextEncoder*>(module)) {
    check_ids(directory, *tokenizer, encoder->config().vocab_size);
  } else if (const auto* language_model = dynamic_cast<const LanguageModel*>(module)) {
    check_ids(directory, *tokenizer, language_model->config().vocab_size);
  } else if (const auto* speech = dynamic_cast<const SpeechTransformer*>(module)) {
    check_ids(directory, *tokenizer, speech->config().vocab_size);
  }
  return {std::move(model), std::move(tokenizer), std::move(source)};
}

bool has_tokenizer(const std::string& directory) {
  const std::vector<std::string> names = list_files(directory);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    constexpr const char* kNames[] = {
        "tokenizer.json",         "vocab.json", "vocab.txt", "source.spm", "tokenizer.model", "spiece.model",
        "sentencepiece.bpe.model"};
    return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
  });
}

StoredModel loaded_pretrained(const std::string& directory, const std::string& named_base) {
  if (is_gguf(directory) && !named_base.empty())
    throw UsageError("--base " + named_base + ": " + directory + " is a GGUF file; --base is for adapters only");
  const std::string base = is_gguf(directory) ? "" : adapted_base(directory, named_base);
  const std::string of_tokenizer = base.empty() ? directory : tokenizer_directory(directory, base);
  // Reads tokenizer and weights at the same time: either may take a tenth of a second.
  const auto beside = default_executor().threads() > 1 ? std::launch::async : std::launch::deferred;
  std::future<Tokenizer> tokenizer =
      std::async(beside, [&] { return load_tokenizer(of_tokenizer, TokenizerSide::target); });
  PretrainedModel model = base.empty() ? load_pretrained(directory) : load_adapted(directory, base);
  return with_tokenizers(std::move(model), of_tokenizer, [&](TokenizerSide side) {
    return side == TokenizerSide::target ? tokenizer.get() : load_tokenizer(of_tokenizer, side);
  });
}

StoredModel loaded_pretrained(const DirectorySnapshot& files) {
  const TokenizerFiles of_tokenizer{.where = files.where(),
                                    .contains = [&](const std::string& name) { return files.contains(name); },
                                    .read = [&](const std::string& name) { return files.read(name); }};
  return with_tokenizers(load_pretrained(files), files.where(),
                         [&](TokenizerSide side) { return load_tokenizer(of_tokenizer, side); });
}

// `where` names the tensors in messages.
StoredModel assembled(const ModelPlan& plan, std::vector<Vocabulary> vocabularies, const NamedTensors& tensors,
                      const std::string& where) {
  const NoInit no_init;
  std::unique_ptr<Module> model = plan.make();
  // Matrices stay in half precision if all of them are stored so: equal results, read in half the time.
  for (const DType half : {DType::f16, DType::bf16})
    if (std::all_of(tensors.begin(), tensors.end(),
                    [&](const auto& t) { return t.second.shape().rank() != 2 || t.second.dtype() == half; }))
      model->keep_matrices_as(half);
  try {
    model->load(tensors);
  } catch (const FormatError& e) {
    throw FormatError(where + ": " + e.what());
  }
  model->eval();
  std::optional<Vocabulary> source;
  if (vocabularies.size() > 1) source = std::move(vocabularies[1]);
  return {std::move(model), std::move(vocabularies.at(0)), std::move(source)};
}

}  // namespace

std::string tokenizer_directory(const std::string& directory, const std::string& named_base) {
  if (has_tokenizer(directory)) return directory;
  const std::string base = adapted_base(directory, named_base);
  return base.empty() ? directory : base;
}

void check_parameters(const std::string& path, uint64_t has, int64_t needs) {
  if (has != static_cast<uint64_t>(needs))
    throw FormatError(path + ": it holds " + std::to_string(has) + " parameters, but a model as in " + kConfigFile +
                      " has " + std::to_string(needs) + "; the two files belong to different models");
}

void check_pieces(const std::string& directory, const std::string& file, int64_t has, int64_t needs) {
  if (has != needs)
    throw FormatError(directory + ": " + file + " has " + std::to_string(has) + " pieces, " + kConfigFile + " says " +
                      std::to_string(needs));
}

void check_size(const ModelConfig& config, const SafetensorsFile& file) {
  check_size(std::visit([](const auto& c) { return parameter_count(c); }, config), file);
}

std::vector<VocabularyText> read_vocabularies(const DirectorySnapshot& files, const ModelConfig& config) {
  std::vector<int64_t> pieces{std::visit([](const auto& c) { return c.vocab_size; }, config)};
  if (const auto* translator = std::get_if<TransformerConfig>(&config); translator && translator->source_vocab_size > 0)
    pieces.push_back(translator->source_vocab_size);
  return texts_of(files, pieces);
}

void check_vocabularies(const std::vector<VocabularyText>& vocabularies, const std::string& directory, bool trust) {
  for (const VocabularyText& vocabulary : vocabularies) loaded(vocabulary, directory, trust);
}

Vocabulary load_vocabulary(const std::string& path, bool trust) {
  const fs::path file = path;
  const std::string directory = file.has_parent_path() ? file.parent_path().string() : ".";
  for (const char* name : {kVocabularyFile, kSourceVocabularyFile}) {
    if (file.filename() != name) continue;
    const DirectorySnapshot files(directory, {name});
    return Vocabulary::from_bytes(files.read(name, kLargestVocabulary), directory + "/" + name, trust);
  }
  return Vocabulary::load(path, trust);
}

StoredModel::StoredModel(std::unique_ptr<Module> module, Vocabulary vocabulary, std::optional<Vocabulary> source)
    : model_{.model_type = {}, .module = std::move(module)},
      vocabulary_(std::move(vocabulary)),
      source_vocabulary_(std::move(source)),
      tokenizer_(Tokenizer(*vocabulary_)) {
  if (source_vocabulary_) source_tokenizer_.emplace(*source_vocabulary_);
}

StoredModel::StoredModel(PretrainedModel model, std::optional<Tokenizer> tokenizer, std::optional<Tokenizer> source)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)), source_tokenizer_(std::move(source)) {}

StoredModel::StoredModel(PretrainedModel model, std::string no_tokenizer)
    : model_(std::move(model)), no_tokenizer_(std::move(no_tokenizer)) {}

const Tokenizer& StoredModel::tokenizer() const {
  if (tokenizer_) return *tokenizer_;
  if (!no_tokenizer_.empty()) throw FormatError(no_tokenizer_);
  throw UsageError("the model is a " + model_type() + ", which reads no text and has no tokenizer");
}

const Vocabulary& StoredModel::vocabulary() const {
  if (vocabulary_) return *vocabulary_;
  throw UsageError("StoredModel::vocabulary: the model is a third-party " + model_type() +
                   ", which has a tokenizer; use tokenizer()");
}

namespace {

// The caller's options take precedence over those of the model's directory.
template <class Option>
void fill(std::optional<Option>& given, const std::optional<Option>& own) {
  if (!given) given = own;
}

template <class Item>
void append(std::vector<Item>& given, const std::vector<Item>& own) {
  given.insert(given.end(), own.begin(), own.end());
}

void fill(Sampling& given, const Sampling& own) {
  fill(given.temperature, own.temperature);
  fill(given.top_k, own.top_k);
  fill(given.top_p, own.top_p);
  fill(given.min_p, own.min_p);
  fill(given.typical_p, own.typical_p);
  fill(given.epsilon_cutoff, own.epsilon_cutoff);
  fill(given.eta_cutoff, own.eta_cutoff);
  fill(given.seed, own.seed);
}

void fill(TokenRules& given, const TokenRules& own) {
  append(given.sequence_bias, own.sequence_bias);
  fill(given.encoder_repetition_penalty, own.encoder_repetition_penalty);
  fill(given.repetition_penalty, own.repetition_penalty);
  fill(given.no_repeat_ngram_size, own.no_repeat_ngram_size);
  fill(given.encoder_no_repeat_ngram_size, own.encoder_no_repeat_ngram_size);
  append(given.bad_words, own.bad_words);
  if (!given.min_length && !given.min_tokens) {
    given.min_length = own.min_length;
    given.min_tokens = own.min_tokens;
  }
  fill(given.first_token, own.first_token);
  if (given.last_tokens.empty()) given.last_tokens = own.last_tokens;
  given.finite_scores = given.finite_scores || own.finite_scores;
  fill(given.length_decay, own.length_decay);
  append(given.never, own.never);
  append(given.never_first, own.never_first);
  fill(given.renormalize, own.renormalize);
}

// Throws UsageError if the shortest text that the caller asks for is longer than the longest: `given`, else `own` of
// the model. Without either the limit depends on the text.
void check_shortest(const std::string& shortest, const std::optional<int64_t>& least, const std::string& longest,
                    const std::optional<int64_t>& given, const std::optional<int64_t>& own) {
  const std::optional<int64_t>& most = given ? given : own;
  if (!least || !most || *least <= *most) return;
  throw UsageError(shortest + " " + std::to_string(*least) + " is more than the longest text, " +
                   std::to_string(*most) + " tokens" + (given ? "" : " unless you choose it") + "; give a smaller " +
                   shortest + " or a larger " + longest);
}

void check_lengths(const GenerateOptions& options, const GenerateOptions& own) {
  const bool with_prompt = !options.max_tokens && (options.max_length || (!own.max_tokens && own.max_length));
  // The prompt has one token at least.
  const auto after_prompt = [](const std::optional<int64_t>& all) { return all ? std::optional(*all - 1) : all; };
  if (with_prompt)
    return check_shortest("min_tokens", options.rules.min_tokens, "max_tokens", after_prompt(options.max_length),
                          after_prompt(own.max_length));
  check_shortest("min_tokens", options.rules.min_tokens, "max_tokens", options.max_tokens,
                 own.max_tokens.value_or(GenerateOptions::kMaxTokens));
}

void check_lengths(const BeamOptions& options, const BeamOptions& own) {
  constexpr int64_t kBySource = 0;
  if (options.max_length.value_or(own.max_length.value_or(kBySource)) == kBySource) return;
  check_shortest("min_length", options.rules.min_tokens, "max_length", options.max_length, own.max_length);
}

}  // namespace

GenerateOptions StoredModel::completed(GenerateOptions options) const {
  expect_effect(options.sampling, "generate");
  check_lengths(options, model_.generate);
  if (vocabulary_) {
    for (const int32_t id : {vocabulary_->pad_id(), vocabulary_->unk_id(), vocabulary_->bos_id()})
      if (id >= 0) options.rules.never.push_back(id);
    if (vocabulary_->eos_id() >= 0) options.stop.push_back(vocabulary_->eos_id());
    fill(options.sampling, kReadableSampling);
    return options;
  }
  const GenerateOptions& own = model_.generate;
  const char* const given = first_given(options.sampling);
  if (given && !options.sampling.temperature && own.sampling.temperature == 0)
    throw UsageError(std::string("generate: ") + given +
                     " is for sampling, but the model's generation_config.json asks " +
                     "for the most probable tokens (do_sample is not true); give a temperature, too");
  if (!(options.sampling.temperature && model_.refused_unless_chosen)) options.refused = own.refused;
  if (!options.max_tokens && !options.max_length) {
    options.max_tokens = own.max_tokens;
    options.max_length = own.max_length;
  }
  fill(options.sampling, own.sampling);
  fill(options.rules, own.rules);
  append(options.stop, own.stop);
  return options;
}

BeamOptions StoredModel::drawn_or_searched(BeamOptions options, std::optional<bool> sample,
                                           const Sampling& sampling) const {
  if (sample.value_or(!options.beam && model_.beam.sampling.has_value())) {
    if (options.beam) throw UsageError("translate: beam is for a search, and sample draws; leave one of them out");
    if (options.length_penalty && options.n_best <= 1)
      throw UsageError(
          "translate: length_penalty compares translations, and sample draws one; leave it out, or ask for several by "
          "n_best");
    expect_effect(sampling, "translate");
    options.sampling = sampling;
    return options;
  }
  if (const char* const given = first_given(sampling))
    throw UsageError("translate: " + std::string(given) + " is for sampling; set sample, too");
  if (sample && !options.beam)  // a search, even if the model's directory asks for sampling
    options.beam = model_.beam.beam.value_or(BeamOptions::kBeam);
  if (options.beam && *options.beam > 0) options.beam = std::max(*options.beam, options.n_best);
  return options;
}

BeamOptions StoredModel::completed(BeamOptions options) const {
  const BeamOptions& own = model_.beam;
  check_lengths(options, own);
  const bool chosen = options.beam || options.sampling;
  if (!(chosen && model_.refused_unless_chosen)) options.refused = own.refused;
  if (options.sampling)
    fill(*options.sampling, model_.sampling);
  else if (!chosen)
    options.sampling = own.sampling;
  if (options.sampling && options.n_best > 1 && always_greedy(*options.sampling))
    throw UsageError(
        "translate: n_best " + std::to_string(options.n_best) + " would be one translation several times: " +
        (options.sampling->top_k == 1 ? "top_k 1 always takes the most probable token; give a higher top_k"
                                      : "temperature 0 always takes the most probable token; give a higher "
                                        "temperature") +
        ", or n_best 1");
  if (!options.beam) options.beam = std::max(own.beam.value_or(BeamOptions::kBeam), options.n_best);
  fill(options.length_penalty, own.length_penalty);
  fill(options.max_length, own.max_length);
  fill(options.early_stopping, own.early_stopping);
  fill(options.rules, own.rules);
  fill(options.start, own.start);
  fill(options.ends, own.ends);
  if (options.is_end || model_.stop_texts.empty()) return options;
  options.is_end = [stops = StopStrings(model_.stop_texts, tokenizer())](const std::vector<int32_t>& ids) {
    return stops.ends(ids);
  };
  return options;
}

static bool is_pretrained(const DirectorySnapshot& files) {
  const nlohmann::json config = parse_json(files.read(kConfigFile, kLargestConfig), files.path(kConfigFile));
  return config.is_object() && config.contains("model_type") && !config.contains("architecture");
}

bool is_pretrained(const std::string& directory) {
  if (is_gguf(directory)) return true;
  const DirectorySnapshot files(directory, {kConfigFile, kAdapterConfigFile});
  return files.contains(kAdapterConfigFile) || is_pretrained(files);
}

static StoredModel loaded_own(const DirectorySnapshot& files, bool trust) {
  const ModelPlan plan = read_plan(files.read(kConfigFile, kLargestConfig), files.path(kConfigFile));
  std::vector<Vocabulary> vocabularies;
  for (const VocabularyText& text : texts_of(files, plan.pieces))
    vocabularies.push_back(loaded(text, files.where(), trust));
  const SafetensorsFile file = files.safetensors(kModelFile);
  check_size(plan.parameters, file);
  NamedTensors tensors;
  for (const TensorInfo& info : file.tensors()) tensors.emplace_back(info.name, file.tensor(info.name));
  StoredModel model = assembled(plan, std::move(vocabularies), tensors, file.path());
  // The file is opened again: it is not held, and the model may have been trained since.
  model.module().set_search_files([path = file.path()]() -> std::optional<std::string> {
    try {
      return SafetensorsFile(path).first_non_finite();
    } catch (const Error&) {
      return std::nullopt;  // it has gone, or was in memory
    }
  });
  return model;
}

static StoredModel with_dtype(StoredModel model, const std::optional<DType>& dtype, const std::string& path) {
  if (!path.empty()) model.set_path(fs::absolute(path).string());
  if (dtype) model.module().keep_matrices_as(*dtype);
  return model;
}

ModelKind StoredModel::kind() const {
  if (get_if<Transformer>()) return ModelKind::translator;
  if (get_if<LanguageModel>()) return ModelKind::language_model;
  if (get_if<TextEncoder>()) return ModelKind::text_encoder;
  if (get_if<ImageEncoder>()) return ModelKind::image_encoder;
  if (get_if<SpeechTransformer>()) return ModelKind::speech;
  return ModelKind::other;
}

StoredModel load(const std::string& directory, const LoadOptions& options) {
  const bool pretrained = is_pretrained(directory);
  if (!pretrained && !options.base.empty())
    throw UsageError("--base " + options.base + ": " + directory + " holds a model of heed's own, not adapters");
  return with_dtype(pretrained ? loaded_pretrained(directory, options.base)
                               : loaded_own(DirectorySnapshot(directory, kModelFiles), options.trust),
                    options.dtype, directory);
}

StoredModel load(const DirectorySnapshot& files, const LoadOptions& options) {
  return with_dtype(is_pretrained(files) ? loaded_pretrained(files) : loaded_own(files, options.trust), options.dtype,
                    /*path=*/"");
}

StoredModel make_model(const ModelParts& parts, const std::string& where, bool trust) {
  const ModelPlan plan = read_plan(parts.config, where + ": " + kConfigFile);
  if (parts.vocabularies.size() != plan.pieces.size())
    throw FormatError(where + ": it has " + std::to_string(parts.vocabularies.size()) + " vocabularies, but a model " +
                      "as in " + kConfigFile + " has " + std::to_string(plan.pieces.size()));
  std::vector<Vocabulary> vocabularies;
  for (size_t i = 0; i < plan.pieces.size(); ++i)
    vocabularies.push_back(loaded({vocabulary_file(i), plan.pieces[i], parts.vocabularies[i]}, where, trust));
  uint64_t held = 0;
  for (const auto& [name, tensor] : parts.tensors) held += static_cast<uint64_t>(tensor.numel());
  check_parameters(where, held, plan.parameters);
  return assembled(plan, std::move(vocabularies), parts.tensors, where);
}

ModelParts write_parts(const StoredModel& model) {
  ModelParts parts{describe(model.module()), {model.vocabulary().to_text()}, {}};
  if (model.has_source_vocabulary()) parts.vocabularies.push_back(model.source_vocabulary().to_text());
  for (const auto& [name, parameter] : model.module().named_parameters())
    parts.tensors.emplace_back(name, parameter.value());
  return parts;
}

StoredModel with_weights(const StoredModel& model, const std::string& file) {
  if (!model.is_own())
    throw UsageError(file + ": the model is a third-party " + model.model_type() + ", which is loaded as a whole; " +
                     "name a directory");
  ModelParts parts = write_parts(model);
  parts.tensors.clear();
  const SafetensorsFile weights(file);
  for (const TensorInfo& info : weights.tensors()) parts.tensors.emplace_back(info.name, weights.tensor(info.name));
  return make_model(parts, file, /*trust=*/true);  // the vocabulary of a loaded model was checked
}

Tensor converted(const Tensor& from, const std::string& name, DType dtype, const std::string& path) {
  const Tensor to = from.to(dtype), before = from.to(DType::f32), after = to.to(DType::f32);
  const std::span<float> old_values = before.span<float>(), new_values = after.span<float>();
  for (size_t i = 0; i < new_values.size(); ++i) {
    if (std::isfinite(new_values[i])) continue;
    const std::string where = path + ": tensor '" + name + "' ";
    if (!std::isfinite(old_values[i]))
      throw FormatError(where + "holds " + (std::isnan(old_values[i]) ? "NaN" : "an infinite value") +
                        "; such a model cannot be used, train it again");
    throw FormatError(where + "holds " + std::to_string(old_values[i]) + ", which is too large for " + name_of(dtype) +
                      "; store it as bf16 or f32");
  }
  return to;
}

void check_target(const std::string& given, const std::string& directory, Existing existing,
                  const std::string& to_replace) {
  const Holds holds = expect_own(given, directory);
  if (holds == Holds::training)
    throw UsageError(given + " holds a training, which could not resume with another model; name another directory");
  if (holds == Holds::model && existing == Existing::refuse)
    throw UsageError(given + " holds a model; " + to_replace + " to replace it, or name another directory");
}

// The texts of a directory that stay true of its model when that is trained further.
static std::map<std::string, std::string> lasting_texts(const std::string& directory) {
  std::map<std::string, std::string> texts;
  std::vector<std::string> names = list_files(directory);
  std::erase_if(names, [](const std::string& name) { return !is_lasting_text(name); });
  const DirectorySnapshot files(directory, names);
  for (const std::string& name : files.names()) texts[name] = files.read(name);
  return texts;
}

void save(const StoredModel& model, const std::string& directory, DType dtype, Existing existing) {
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    throw ShapeError("save: dtype is " + std::string(name_of(dtype)) + "; it must be f32, f16 or bf16");
  const auto check_directory = [&] {
    check_target("save: " + directory, directory, existing, "pass Existing::replace");
  };
  check_directory();
  const ModelParts parts = write_parts(model);
  std::map<std::string, std::string> texts = {{kConfigFile, parts.config}};
  for (size_t i = 0; i < parts.vocabularies.size(); ++i) texts[vocabulary_file(i)] = parts.vocabularies[i];
  NamedTensors tensors;
  for (const auto& [name, tensor] : parts.tensors)
    tensors.emplace_back(name, converted(tensor.contiguous(), name, dtype, "save"));
  DirectoryTransaction transaction(directory);
  check_directory();  // again, now that no other process writes there
  std::error_code elsewhere;
  if (fs::equivalent(model.path(), directory, elsewhere)) texts.merge(lasting_texts(directory));
  write_model(transaction, texts, tensors, {{"format", "heed"}});
}

void write_model(DirectoryTransaction& transaction, const std::map<std::string, std::string>& texts,
                 const NamedTensors& tensors, const Metadata& metadata) {
  for (const auto& [name, text] : texts) transaction.write(name, text);
  transaction.write(kModelFile, [&](FileWriter& file) { write_safetensors(file, tensors, metadata); });
  transaction.remove_others();
  transaction.commit();
}

Holds expect_own(const std::string& given, const std::string& directory) {
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (!fs::exists(status)) return Holds::nothing;
  if (!fs::is_directory(status)) throw IoError(given + " is not a directory; name another");
  std::string other;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    if (const std::string name = it->path().filename().string(); !name.starts_with('.') && name != "lost+found")
      other = name;
  if (error) throw IoError("list " + directory + ": " + error.message());
  const DirectorySnapshot files(directory, {kConfigFile, kModelFile, kVocabularyFile, kStateFile, kLogFile});
  std::string reason = other + ", for one";
  if (files.contains(kConfigFile)) {
    try {
      read_plan(files.read(kConfigFile, kLargestConfig), directory + "/" + kConfigFile);
      if (files.contains(kStateFile) || files.contains(kLogFile)) return Holds::training;
      if (files.contains(kModelFile)) return Holds::model;
      if (files.contains(kVocabularyFile)) return Holds::training;
    } catch (const FormatError& e) {
      reason = e.what();
    }
  } else if (other.empty()) {
    return Holds::nothing;
  }
  throw UsageError(given + " holds files that heed did not make (" + reason +
                   "); name a new or empty directory, or one that heed made");
}

}  // namespace heed::inline v0
