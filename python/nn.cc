// Whole models on token ids: heed/models.h for Python.
#include "nn.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <type_traits>

#include "arrays.h"
#include "define.h"
#include "heed/config_fields.h"
#include "keywords.h"
#include "options.h"

namespace heed::python {
namespace {

using namespace nb::literals;
using Sentences = std::vector<std::vector<int32_t>>;

// ---- Configurations, field by field

/// Takes each field that is given.
class FieldTaker {
 public:
  explicit FieldTaker(Keywords& given) : given_(given) {}
  template <class Integer>
  void integer(const Field& field, Integer& value, int64_t, int64_t) const {
    given_.take(field.name, value);
  }
  void optional(const Field& field, int64_t& value, int64_t) const { given_.take(field.name, value); }
  void choice(const Field& field, std::string& value, const std::vector<std::string>&) const {
    given_.take(field.name, value);
  }
  void flag(const Field& field, bool& value) const { given_.take(field.name, value); }
  void probability(const Field& field, double& value) const { given_.take(field.name, value); }

 private:
  Keywords& given_;
};

/// Writes each field down.
class FieldGiver {
 public:
  explicit FieldGiver(nb::dict& into) : into_(into) {}
  template <class Integer>
  void integer(const Field& field, Integer value, int64_t, int64_t) const {
    into_[field.name] = value;
  }
  void optional(const Field& field, int64_t value, int64_t) const { into_[field.name] = value; }
  void choice(const Field& field, const std::string& value, const std::vector<std::string>&) const {
    into_[field.name] = value;
  }
  void flag(const Field& field, bool value) const { into_[field.name] = value; }
  void probability(const Field& field, double value) const { into_[field.name] = value; }

 private:
  nb::dict& into_;
};

template <class Model>
void make(Model* self, const nb::kwargs& given) {
  std::remove_cvref_t<decltype(self->config())> config;
  Keywords keywords(nb::cast<std::string>(nb::type<Model>().attr("__name__")), given);
  visit_fields(config, FieldTaker(keywords));
  keywords.finish();
  const nb::gil_scoped_release others_may_run;
  new (self) Model(config);
}

template <class Config>
nb::dict fields_of(const Config& config) {
  nb::dict fields;
  visit_fields(config, FieldGiver(fields));
  return fields;
}

// ---- Batches

std::vector<int32_t> sentence(const char* what, nb::handle ids) {
  if (nb::isinstance<nb::str>(ids)) throw nb::type_error((what + (" is " + shown(ids)) + "; pass token ids").c_str());
  std::vector<int32_t> sentence;
  for (nb::handle id : ids) {
    const int64_t wide = integer(what, id, "ids of the vocabulary");
    if (wide != static_cast<int32_t>(wide))
      throw ShapeError(what + (" has " + std::to_string(wide)) + "; pass ids of the vocabulary");
    sentence.push_back(static_cast<int32_t>(wide));
  }
  return sentence;
}

Sentences sentences(const char* what, nb::handle lists) {
  Sentences all;
  for (nb::handle ids : lists) all.push_back(sentence(what, ids));
  return all;
}

void define_batch(nb::module_& m) {
  nb::class_<TokenBatch>(
      m, "TokenBatch",
      R"(Sentences of unlike length, as models compute them: padded to one length, or packed one after the other.

Models take lists of ids as well, which they pack. What a model gives for a packed batch is (1, T, ...), its T tokens
sentence after sentence; for a padded one (B, L, ...). Only padded ones are recorded.)")
      .def_static(
          "pad",
          [](nb::handle lists, int32_t pad_id) { return TokenBatch::pad(sentences("TokenBatch: ids", lists), pad_id); },
          "sentences"_a, "pad_id"_a,
          nb::sig(
              "def pad(sentences: collections.abc.Iterable[collections.abc.Iterable[int]], pad_id: int) -> TokenBatch"),
          "ids (B, L), L the longest, filled up with pad_id.")
      .def_static(
          "pack", [](nb::handle lists) { return TokenBatch::pack(sentences("TokenBatch: ids", lists)); }, "sentences"_a,
          nb::sig("def pack(sentences: collections.abc.Iterable[collections.abc.Iterable[int]]) -> TokenBatch"),
          "ids (1, T), sentence after sentence.")
      .def("__len__", &TokenBatch::size)
      .def_prop_ro("is_packed", &TokenBatch::is_packed)
      .def_prop_ro(
          "ids", [](const TokenBatch& b) { return as_numpy(b.ids, Access::read); },
          nb::sig("def ids(self) -> NDArray[typing.Any]"))
      .def_prop_ro(
          "lengths", [](const TokenBatch& b) { return as_numpy(b.lengths, Access::read); },
          nb::sig("def lengths(self) -> NDArray[typing.Any]"));
}

functional::CrossEntropyOptions loss_options(double label_smoothing, double r_drop) {
  return {.label_smoothing = label_smoothing, .r_drop = r_drop};
}

// ---- Transformer

Variable encode(const Transformer& model, nb::handle source_, nb::handle record) {
  const TokenBatch source = token_batch("encode: source", source_);
  Filled<AttentionRecord> filled(record);
  const Variable y = computed([&] { return model.encode(source, filled.get()); });
  filled.keep();
  return y;
}

Variable decode(const Transformer& model, nb::handle target_, Operand memory_, nb::handle source_, nb::handle record) {
  const TokenBatch target = token_batch("decode: target", target_), source = token_batch("decode: source", source_);
  const Variable memory = variable("decode: memory", memory_);
  Filled<AttentionRecord> filled(record);
  const Variable y = computed([&] { return model.decode(target, memory, source, filled.get()); });
  filled.keep();
  return y;
}

Variable logits(const Transformer& model, nb::handle source_, nb::handle target_) {
  const TokenBatch source = token_batch("logits: source", source_), target = token_batch("logits: target", target_);
  return computed([&] { return model.logits(source, target); });
}

Variable pair_loss(const Transformer& model, nb::handle source_, nb::handle target_, double label_smoothing,
                   double r_drop) {
  const TokenBatch source = token_batch("loss: source", source_), target = token_batch("loss: target", target_);
  return computed([&] { return model.loss(source, target, loss_options(label_smoothing, r_drop)); });
}

std::vector<std::vector<Hypothesis>> translate(const Transformer& model, nb::handle source_, int64_t beam,
                                               double length_penalty, int64_t max_length, int64_t n_best,
                                               bool want_alignment) {
  check_eval("translate", model);
  const TokenBatch source = token_batch("translate: source", source_);
  const BeamOptions options{.beam = beam,
                            .length_penalty = length_penalty,
                            .max_length = max_length,
                            .n_best = n_best,
                            .want_alignment = want_alignment};
  const Computing running;
  return model.translate(source, options);
}

std::vector<Hypothesis> score(const Transformer& model, nb::handle source_, nb::handle target_, double length_penalty,
                              bool want_alignment) {
  check_eval("score", model);
  const TokenBatch source = token_batch("score: source", source_), target = token_batch("score: target", target_);
  const Computing running;
  return model.score(source, target, {.length_penalty = length_penalty, .want_alignment = want_alignment});
}

void define_transformer(nb::module_& m) {
  nb::class_<Hypothesis>(m, "Hypothesis", "A translation: its ids, without begin and end, and how probable it is.")
      .def_ro("ids", &Hypothesis::ids)
      .def_ro("log_probability", &Hypothesis::log_probability)
      .def_ro("score", &Hypothesis::score, "log_probability / length ** length_penalty")
      .def_ro("token_log_probabilities", &Hypothesis::token_log_probabilities, "One for each id, and the end's.")
      .def_prop_ro(
          "alignment", [](const Hypothesis& h) { return as_numpy(h.alignment, Access::write); },
          nb::sig("def alignment(self) -> NDArray[typing.Any] | None"),
          "(target length + 1, source length), where asked for: attention of the last layer, the mean of its heads.");

  nb::class_<Transformer, Module>(
      m, "Transformer", R"(The encoder-decoder of "Attention Is All You Need" (Vaswani et al. 2017), on token ids.

vocab_size           pieces of source and target, or of the target where the source has source_vocab_size of its own
d_model, nhead       E, the width; heads of attention
dim_feedforward      hidden width of the feed-forward, whose activation is one of FeedForward's
dropout              of embeddings and sub-layer outputs; attention_dropout, activation_dropout: as the layers'
norm                 'layer_norm' or 'rms_norm'; norm_first: before each sub-layer, not after
positions            'sinusoidal', 'learned' or 'rotary'
max_positions        the longest input or output in tokens
tie_embeddings       one matrix for embeddings and output
pad_id, bos_id, eos_id  pieces that fill up, begin a target and end a sentence

These are the names of config.json; .config has all as a dict. Raises ShapeError and TypeError.)")
      .def("__init__", &make<Transformer>, "options"_a,
           nb::sig(
               "def __init__(self, *, vocab_size: int, source_vocab_size: int = 0, d_model: int = 512, nhead: int = 8, "
               "num_encoder_layers: int = 6, num_decoder_layers: int = 6, dim_feedforward: int = 2048, "
               "dropout: float = 0.1, attention_dropout: float = 0.0, activation_dropout: float = 0.0, "
               "activation: str = 'relu', norm: str = 'layer_norm', norm_first: bool = False, bias: bool = True, "
               "positions: str = 'sinusoidal', max_positions: int = 1024, tie_embeddings: bool = True, "
               "pad_id: int = 0, bos_id: int = 2, eos_id: int = 3) -> None"))
      .def_prop_ro(
          "config", [](const Transformer& t) { return config_of(t.config()); },
          nb::sig("def config(self) -> dict[str, typing.Any]"))
      .def_prop_ro(
          "output_weight", [](const Transformer& t) { return t.output_weight(); }, "(V, E), which makes logits.")
      .def("encode", &encode, "source"_a, "record"_a.none() = nb::none(),
           nb::sig("def encode(self, source: " HEED_BATCH ", record: AttentionRecord | None = None) -> Variable"),
           "source (B, Ls), each sentence with eos at its end -> memory (B, Ls, E); packed -> (1, T, E).")
      .def("decode", &decode, "target"_a, "memory"_a.none(), "source"_a, "record"_a.none() = nb::none(),
           nb::sig("def decode(self, target: " HEED_BATCH ", memory: Array, source: " HEED_BATCH
                   ", record: AttentionRecord | None = None) -> Variable"),
           "target (B, Lt), each with bos at its beginning -> hidden states (B, Lt, E), to be multiplied by "
           "output_weight. "
           "source is what memory was made of; both are padded or both packed.")
      .def("logits", &logits, "source"_a, "target"_a,
           nb::sig("def logits(self, source: " HEED_BATCH ", target: " HEED_BATCH ") -> Variable"),
           "(B, Lt, V) of encode() and decode().")
      .def(
          "loss", &pair_loss, "source"_a, "target"_a, nb::kw_only(), "label_smoothing"_a = 0.0, "r_drop"_a = 0.0,
          nb::sig("def loss(self, source: " HEED_BATCH ", target: " HEED_BATCH
                  ", *, label_smoothing: float = 0.0, r_drop: float = 0.0) -> Variable"),
          "The mean loss over the target tokens. Sentences are bare: bos and eos are added here. With r_drop each pair "
          "goes through twice (Liang et al. 2021).")
      .def("translate", &translate, "source"_a, nb::kw_only(), "beam"_a = 5, "length_penalty"_a = 1.4,
           "max_length"_a = 0, "n_best"_a = 1, "want_alignment"_a = false,
           nb::sig("def translate(self, source: " HEED_BATCH ", *, beam: int = 5, length_penalty: float = 1.4, "
                   "max_length: int = 0, n_best: int = 1, want_alignment: bool = False) -> list[list[Hypothesis]]"),
           "Beam search for each bare sentence, the n_best best first; beam 1 is greedy. max_length 0: twice the "
           "source's "
           "and 10. The model must be in eval().")
      .def("score", &score, "source"_a, "target"_a, nb::kw_only(), "length_penalty"_a = 1.4, "want_alignment"_a = false,
           nb::sig("def score(self, source: " HEED_BATCH ", target: " HEED_BATCH
                   ", *, length_penalty: float = 1.4, want_alignment: bool = False) -> list[Hypothesis]"),
           "How probable the model finds given translations, target[i] of source[i]. The model must be in eval().");
}

// ---- LanguageModel

Variable hidden(const LanguageModel& model, nb::handle text_, nb::handle record) {
  const TokenBatch text = token_batch("hidden: text", text_);
  Filled<AttentionRecord> filled(record);
  const Variable y = computed([&] { return model.hidden(text, filled.get()); });
  filled.keep();
  return y;
}

Variable next_logits(const LanguageModel& model, nb::handle text_) {
  const TokenBatch text = token_batch("logits: text", text_);
  return computed([&] { return model.logits(text); });
}

Variable text_loss(const LanguageModel& model, nb::handle texts_, double label_smoothing, double r_drop) {
  const TokenBatch texts = token_batch("loss: texts", texts_);
  return computed([&] { return model.loss(texts, loss_options(label_smoothing, r_drop)); });
}

}  // namespace

Sampling sampling_with(const char* operation, double temperature, int64_t top_k, double top_p, double min_p,
                       uint64_t seed) {
  const auto unless = [](auto value, auto default_value) {
    return value == default_value ? std::nullopt : std::optional(value);
  };
  Sampling sampling{.temperature = temperature,
                    .top_k = unless(top_k, int64_t{0}),
                    .top_p = unless(top_p, 1.0),
                    .min_p = unless(min_p, 0.0),
                    .seed = unless(seed, uint64_t{0})};
  expect_effect(sampling, operation);
  return sampling;
}

namespace {

std::vector<int32_t> generate(const LanguageModel& model, nb::handle prompt_, int64_t max_tokens, double temperature,
                              int64_t top_k, double top_p, double min_p, uint64_t seed, double repetition_penalty,
                              uint64_t sample, nb::handle stop, nb::handle never) {
  check_eval("generate", model);
  const std::vector<int32_t> prompt = sentence("generate: prompt", prompt_);
  const GenerateOptions options{
      .max_tokens = max_tokens,
      .sampling = sampling_with("generate", temperature, top_k, top_p, min_p, seed),
      .rules = {.repetition_penalty = repetition_penalty, .never = sentence("generate: never", never)},
      .sample = sample,
      .stop = sentence("generate: stop", stop)};
  const Computing running;
  return model.generate(prompt, options);
}

std::vector<float> log_probabilities(const LanguageModel& model, nb::handle text_) {
  check_eval("log_probabilities", model);
  const std::vector<int32_t> text = sentence("log_probabilities: text", text_);
  const Computing running;
  return model.log_probabilities(text);
}

void define_language_model(nb::module_& m) {
  nb::class_<LanguageModel, Module>(
      m, "LanguageModel",
      R"(A decoder-only Transformer (Radford et al. 2019): each token is predicted from those before it.

vocab_size           pieces of the vocabulary
d_model, nhead       E, the width; heads of attention; num_kv_heads: of keys and values, 0 for nhead
dim_feedforward      hidden width of the feed-forward, whose activation is one of FeedForward's
dropout              of embeddings and sub-layer outputs; attention_dropout, activation_dropout: as the layers'
norm                 'layer_norm' or 'rms_norm'; norm_first: before each sub-layer, not after
positions            'sinusoidal', 'learned' or 'rotary'
max_positions        tokens that a prediction may look back on, itself included
tie_embeddings       one matrix for input and output

These are the names of config.json; .config has all as a dict. Raises ShapeError and TypeError.)")
      .def("__init__", &make<LanguageModel>, "options"_a,
           nb::sig("def __init__(self, *, vocab_size: int, d_model: int = 768, nhead: int = 12, num_kv_heads: int = 0, "
                   "num_layers: int = 12, dim_feedforward: int = 3072, dropout: float = 0.1, "
                   "attention_dropout: float = 0.0, activation_dropout: float = 0.0, activation: str = 'gelu', "
                   "norm: str = 'layer_norm', norm_first: bool = True, bias: bool = True, positions: str = 'learned', "
                   "max_positions: int = 1024, tie_embeddings: bool = True) -> None"))
      .def_prop_ro(
          "config", [](const LanguageModel& l) { return config_of(l.config()); },
          nb::sig("def config(self) -> dict[str, typing.Any]"))
      .def_prop_ro(
          "output_weight", [](const LanguageModel& l) { return l.output_weight(); }, "(V, E), which makes logits.")
      .def("hidden", &hidden, "text"_a, "record"_a.none() = nb::none(),
           nb::sig("def hidden(self, text: " HEED_BATCH ", record: AttentionRecord | None = None) -> Variable"),
           "text (B, L) -> hidden states (B, L, E), to be multiplied by output_weight; packed -> (1, T, E). Attention "
           "is "
           "causal; a record gets its decoder lists.")
      .def("logits", &next_logits, "text"_a, nb::sig("def logits(self, text: " HEED_BATCH ") -> Variable"),
           "(B, L, V): row i predicts token i + 1.")
      .def("loss", &text_loss, "texts"_a, nb::kw_only(), "label_smoothing"_a = 0.0, "r_drop"_a = 0.0,
           nb::sig("def loss(self, texts: " HEED_BATCH
                   ", *, label_smoothing: float = 0.0, r_drop: float = 0.0) -> Variable"),
           "The mean loss over all tokens but the first of each text. With r_drop each text goes through twice "
           "(Liang et al. 2021).")
      .def("generate", &generate, "prompt"_a, nb::kw_only(), "max_tokens"_a = 256, "temperature"_a = 1.0, "top_k"_a = 0,
           "top_p"_a = 1.0, "min_p"_a = 0.0, "seed"_a = 0, "repetition_penalty"_a = 1.0, "sample"_a = 0,
           "stop"_a = nb::make_tuple(), "never"_a = nb::make_tuple(),
           nb::sig("def generate(self, prompt: collections.abc.Iterable[int], *, max_tokens: int = 256, "
                   "temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0, seed: int = 0, "
                   "repetition_penalty: float = 1.0, sample: int = 0, stop: collections.abc.Iterable[int] = (), "
                   "never: collections.abc.Iterable[int] = ()) -> list[int]"),
           R"(Goes on with the prompt, a token at least, and returns the new tokens. The model must be in eval().

temperature  scores are divided by it; 0: always the most probable token
top_k        draw among so many of the most probable; 0: all
top_p        then among the fewest whose probability reaches this; min_p: with this share of the greatest
seed, sample which draws: the same give the same tokens, for any number of threads
stop, never  ids that end the text without being part of it; that are never drawn)")
      .def("log_probabilities", &log_probabilities, "text"_a,
           nb::sig("def log_probabilities(self, text: collections.abc.Iterable[int]) -> list[float]"),
           "The natural log of the probability of each token but the first. The model must be in eval().");
}

}  // namespace

TokenBatch token_batch(const char* what, nb::handle given) {
  if (nb::isinstance<TokenBatch>(given) && nb::inst_ready(given)) return nb::cast<TokenBatch>(given);
  return TokenBatch::pack(sentences(what, given));
}

void check_eval(const char* operation, const Module& model) {
  if (model.training()) throw ShapeError(std::string(operation) + ": the model is in training; call eval() first");
}

nb::dict config_of(const TransformerConfig& config) { return fields_of(config); }
nb::dict config_of(const LanguageModelConfig& config) { return fields_of(config); }

void define_nn(nb::module_& m) {
  define_variable(m);
  define_functional(m);
  define_module(m);
  define_layers(m);
  define_optimisers(m);
  define_batch(m);
  define_transformer(m);
  define_language_model(m);
  define_pretrained(m);
}

}  // namespace heed::python
