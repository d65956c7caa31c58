#include "cli/train_directory.h"

#include <filesystem>
#include <sstream>
#include <utility>

#include "cli/checkpoint.h"
#include "heed/io.h"

namespace heed::cli {
namespace {

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

}  // namespace

template <class Config>
Prepared prepare_directory(const TrainArguments& a, Config& shape, const std::function<Vocabulary()>& learn) {
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
template Prepared prepare_directory(const TrainArguments&, TransformerConfig&, const std::function<Vocabulary()>&);
template Prepared prepare_directory(const TrainArguments&, LanguageModelConfig&, const std::function<Vocabulary()>&);

void forget_directory(const std::string& directory) {
  DirectoryTransaction transaction(directory);
  transaction.remove(kConfigFile);
  transaction.remove(kVocabularyFile);
  transaction.commit();
  std::error_code kept_where_not_empty;
  std::filesystem::remove(directory, kept_where_not_empty);
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
template void begin_with(Transformer&, const TrainArguments&, bool);
template void begin_with(LanguageModel&, const TrainArguments&, bool);

}  // namespace heed::cli
