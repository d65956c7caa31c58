// Models for Python: heed/_models.py has the signatures and the documentation.
#include "heed/models.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "define.h"
#include "heed/attended.h"
#include "heed/chat.h"
#include "heed/image_encoder.h"
#include "heed/load.h"
#include "heed/speech_transformer.h"
#include "heed/text_encoder.h"
#include "heed/text_generator.h"
#include "heed/text_reader.h"
#include "heed/translator.h"
#include "interrupt.h"
#include "nn.h"
#include "options.h"
#include "values.h"

namespace heed::python {
namespace {

using H = nb::handle;
using List = nb::typed<nb::list, nb::any>;
using Tuple = nb::typed<nb::tuple, nb::any, nb::ellipsis>;
constexpr auto kCount = "a number of at most 63 bits";

/// Ends a computation that Interrupt knows the reason of.
struct Ended {};

// ---- A model and its parts

StoredModel load_model(H directory, H trust, H dtype, H base) {
  constexpr std::array kTypes{DType::f32, DType::f16, DType::bf16, DType::q8};
  const std::string place = path("load: path", directory);
  LoadOptions options{.trust = flag("load: trust", trust)};
  if (!dtype.is_none())
    options.dtype = kTypes[choice("load: dtype", dtype, {"float32", "float16", "bfloat16", "int8"})];
  if (!base.is_none()) options.base = path("load: base", base);
  const nb::gil_scoped_release others_may_run;
  return load(place, options);
}

/// The name of its class in Python.
const char* kind_of(const StoredModel& model) {
  switch (model.kind()) {
    case ModelKind::translator:
      return "Translator";
    case ModelKind::language_model:
      return "LanguageModel";
    case ModelKind::text_encoder:
      return "TextEncoder";
    case ModelKind::image_encoder:
      return "ImageEncoder";
    case ModelKind::speech:
      return "SpeechTransformer";
    case ModelKind::other:
      break;
  }
  throw UsageError("load: the model is of a kind that has no class in Python; use it from C++");
}

/// JSON, as its maker has it.
std::string config_of(const StoredModel& model) {
  return model.is_own() ? write_parts(model).config : model.pretrained().config;
}

/// Another maker's keeps its layout and its dtypes.
void save_model(const StoredModel& model, H directory, H dtype, H overwrite) {
  constexpr std::array kTypes{DType::f32, DType::f16, DType::bf16};
  const std::string place = path("save: directory", directory);
  const bool own = model.is_own();
  if (!own && !dtype.is_none())
    throw UsageError("save: dtype is " + shown(dtype) + ", and a " + model.model_type() +
                     " of another maker keeps the dtypes that it came in; leave it out");
  const DType as =
      dtype.is_none() ? DType::f32 : kTypes[choice("save: dtype", dtype, {"float32", "float16", "bfloat16"})];
  const Existing existing = flag("save: overwrite", overwrite) ? Existing::replace : Existing::refuse;
  const Computing running;
  if (own)
    save(model, place, as, existing);
  else
    save_pretrained(model.pretrained(), place, existing);
}

/// NumPy has no blocks: these become float32.
Tensor array_of(const Tensor& tensor) { return is_quantised(tensor.dtype()) ? tensor.to(DType::f32) : tensor; }

/// [(name, array, whether it is bfloat16, whose bits the array has)], but for blocks without copies, and read-only.
List parameters_of(const StoredModel& model) {
  List all;
  for (const auto& [name, parameter] : model.module().named_parameters())
    all.append(nb::make_tuple(name, view(array_of(parameter.value()), Access::read), parameter.dtype() == DType::bf16));
  return all;
}

/// Of the texts and of what parameters_of() gave.
StoredModel restored(const std::string& config, std::vector<std::string> vocabularies, const List& parameters) {
  ModelParts parts{config, std::move(vocabularies), {}};
  for (const nb::handle item : parameters) {
    const auto [name, array, is_bfloat16] = nb::cast<std::tuple<std::string, nb::object, bool>>(item);
    Tensor tensor = take("unpickle", array);
    if (is_bfloat16 && tensor.dtype() == DType::u16)
      tensor =
          Tensor::borrow(tensor.raw(), DType::bf16, tensor.shape(), tensor.strides(), std::make_shared<Tensor>(tensor));
    parts.tensors.emplace_back(name, std::move(tensor));
  }
  const nb::gil_scoped_release others_may_run;
  return make_model(parts, "unpickle", /*trust=*/true);
}

std::vector<std::string> vocabulary_texts(const StoredModel& model) { return write_parts(model).vocabularies; }

// ---- Translating

/// Nothing where the caller gave None.
std::optional<double> number_if(const std::string& what, H value) {
  return value.is_none() ? std::nullopt : std::optional(number(what.c_str(), value));
}

std::optional<int64_t> integer_if(const std::string& what, H value) {
  return value.is_none() ? std::nullopt : std::optional(integer(what.c_str(), value, kCount));
}

Sampling sampling_of(const std::string& operation, H temperature, H top_k, H top_p, H min_p, H seed_value) {
  return {
      .temperature = number_if(operation + ": temperature", temperature),
      .top_k = integer_if(operation + ": top_k", top_k),
      .top_p = number_if(operation + ": top_p", top_p),
      .min_p = number_if(operation + ": min_p", min_p),
      .seed = seed_value.is_none() ? std::nullopt : std::optional(seed((operation + ": seed").c_str(), seed_value))};
}

TokenRules rules_of(const std::string& operation, const char* shortest, H least, H repetition_penalty,
                    H no_repeat_ngram_size) {
  return {.repetition_penalty = number_if(operation + ": repetition_penalty", repetition_penalty),
          .no_repeat_ngram_size = integer_if(operation + ": no_repeat_ngram_size", no_repeat_ngram_size),
          .min_tokens = integer_if(operation + ": " + shortest, least)};
}

/// What stands in front of texts and translations.
void take_languages(const char* operation, H prefix, H source, H target, TranslateOptions& options) {
  const auto take = [&](const char* name, H value) { return text((operation + std::string(name)).c_str(), value); };
  options.prefix = take(": prefix", prefix);
  options.source_language = take(": source_language", source);
  options.target_language = take(": target_language", target);
}

/// What translate() takes beside the texts. The hook of a call is its own.
struct TranslateCall {
  TranslateCall(H beam, H length_penalty, H max_length, H min_length, H repetition_penalty, H no_repeat_ngram_size,
                H n_best, H alignment, H sample, H temperature, H top_k, H top_p, H min_p, H seed_value, H batch,
                H split, H prefix, H source_language, H target_language) {
    options.beam.beam = integer_if("translate: beam", beam);
    options.beam.length_penalty = number_if("translate: length_penalty", length_penalty);
    options.beam.max_length = integer_if("translate: max_length", max_length);
    options.beam.rules = rules_of("translate", "min_length", min_length, repetition_penalty, no_repeat_ngram_size);
    if (!n_best.is_none()) options.beam.n_best = integer("translate: n_best", n_best, kCount);
    options.beam.want_alignment = flag("translate: alignment", alignment);
    sampling = sampling_of("translate", temperature, top_k, top_p, min_p, seed_value);
    if (!sample.is_none()) drawn = flag("translate: sample", sample);
    options.batch = integer("translate: batch", batch, kCount);
    if (!split.is_none()) options.split = flag("translate: split", split);
    take_languages("translate", prefix, source_language, target_language, options);
  }
  /// As the model is searched where the call does not say how.
  void complete(const StoredModel& model) {
    options.split = options.split.value_or(model.takes_sentences());
    BeamOptions& b = options.beam;
    b = model.drawn_or_searched(std::move(b), drawn, sampling);
    b = model.completed(std::move(b));
  }
  TranslateOptions options;
  Sampling sampling;
  std::optional<bool> drawn;  // or searched
};

nb::tuple as_tuple(const Translation& t, bool cut) {
  return nb::make_tuple(t.text, t.score, t.log_probability, t.tokens, t.alignment, cut);
}

/// Calls `compute` without the GIL, and raises what Ctrl-C or another signal led to meanwhile.
template <class Compute>
auto interruptible(TranslateOptions& options, Compute&& compute) {
  Interrupt interrupt;
  options.on_batch = [&] {
    if (interrupt.pending()) throw Ended();
  };
  std::vector<TranslatedLine> lines;
  try {
    const Computing running;
    lines = compute();
  } catch (const Ended&) {
    interrupt.raise();
  }
  return lines;
}

/// The texts of the best ones, or with `details` all of each line as tuples.
List translate_texts(const StoredModel& model, H line_list, TranslateCall call, bool details) {
  check_eval("translate", model.module());
  const std::vector<std::string> lines = texts("translate: texts", line_list);
  const Transformer* const models[] = {&model.as<Transformer>()};
  call.complete(model);
  List all;
  for (const TranslatedLine& line : interruptible(call.options, [&] {
         return translate_lines(models, model.source_tokenizer(), model.tokenizer(), lines, call.options);
       })) {
    if (!details) {
      all.append(nb::cast(line.best.at(0).text));
      continue;
    }
    nb::list best;
    for (const Translation& t : line.best) best.append(as_tuple(t, line.cut));
    all.append(best);
  }
  return all;
}

List score_translations(const StoredModel& model, H line_list, H given_list, H length_penalty, H alignment, H batch,
                        H prefix, H source_language, H target_language) {
  check_eval("score", model.module());
  const std::vector<std::string> lines = texts("score: texts", line_list),
                                 given = texts("score: translations", given_list);
  const Transformer* const models[] = {&model.as<Transformer>()};
  TranslateOptions options;
  options.beam.length_penalty = number_if("score: length_penalty", length_penalty);
  options.beam.want_alignment = flag("score: alignment", alignment);
  options.beam = model.completed(options.beam);
  options.batch = integer("score: batch", batch, kCount);
  take_languages("score", prefix, source_language, target_language, options);
  List all;
  for (const TranslatedLine& line : interruptible(options, [&] {
         return score_lines(models, model.source_tokenizer(), model.tokenizer(), lines, given, options);
       }))
    all.append(as_tuple(line.best.at(0), line.cut));
  return all;
}

// ---- Going on with a text

/// A Continuation that Ctrl-C ends.
class Text {
 public:
  Text(const StoredModel& model, const std::string& prompt, ContinueOptions options) : model_(model) {
    options.tokens.on_token = [this](int32_t) { return !interrupt_->pending(); };
    continuation_.emplace(model, prompt, std::move(options));
  }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  /// The next characters, or all of them where `whole`. Empty at the end.
  std::string next(bool whole) {
    check_eval("generate", model_.module());
    Interrupt interrupt;  // of the thread that asks now
    interrupt_ = &interrupt;
    std::string text;
    {
      const Computing running;
      for (std::string piece; !(piece = continuation_->next()).empty();) {
        text += piece;
        if (!whole) break;
      }
    }
    interrupt.raise();
    return text;
  }

 private:
  const StoredModel& model_;
  Interrupt* interrupt_ = nullptr;
  std::optional<Continuation> continuation_;
};

ContinueOptions continue_options(const std::string& operation, H stop, H max_tokens, H min_tokens, H temperature,
                                 H top_k, H top_p, H min_p, H repetition_penalty, H no_repeat_ngram_size,
                                 H seed_value) {
  ContinueOptions options;
  options.tokens.max_tokens = integer_if(operation + ": max_tokens", max_tokens);
  options.tokens.sampling = sampling_of(operation, temperature, top_k, top_p, min_p, seed_value);
  options.tokens.rules = rules_of(operation, "min_tokens", min_tokens, repetition_penalty, no_repeat_ngram_size);
  options.stop = texts((operation + ": stop").c_str(), stop);
  for (const std::string& end : options.stop)
    if (end.empty()) throw ShapeError(operation + ": stop is empty; pass the text that ends the output");
  return options;
}

std::unique_ptr<Text> continued(const StoredModel& model, H prompt, H stop, H max_tokens, H min_tokens, H temperature,
                                H top_k, H top_p, H min_p, H repetition_penalty, H no_repeat_ngram_size, H seed_value) {
  check_eval("generate", model.module());
  const std::string begun = text("generate: prompt", prompt);
  return std::make_unique<Text>(model, begun,
                                continue_options("generate", stop, max_tokens, min_tokens, temperature, top_k, top_p,
                                                 min_p, repetition_penalty, no_repeat_ngram_size, seed_value));
}

/// A Chat that Ctrl-C ends: what was said until then stays.
std::string base_directory(H base) { return base.is_none() ? std::string() : path("Chat: base", base); }

class Conversation {
 public:
  /// `form`: the name of a template, a function that writes [(role, content)], or None for that of the model at
  /// `place`.
  Conversation(const StoredModel& model, H form, H place, H base, const std::string& system, ContinueOptions options)
      : model_(model) {
    options.tokens.on_token = [this](int32_t) { return !interrupt_->pending(); };
    chat_.emplace(model, template_of(form, place, base), system, options);
  }
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  std::string answer(H said) {
    check_eval("answer", model_.module());
    const std::string whole = text("answer: text", said);
    Interrupt interrupt;
    std::unique_lock one_at_a_time(talking_, std::defer_lock);
    {
      const nb::gil_scoped_release others_may_run;
      one_at_a_time.lock();
    }
    if (writer_.is_valid()) write_with(whole);
    std::string answered;
    {
      const Computing running;
      interrupt_ = &interrupt;
      answered = chat_->answer(whole);
    }
    interrupt.raise();
    return answered;
  }

  /// [(role, content)]
  List messages() {
    std::vector<ChatMessage> messages;
    {
      const nb::gil_scoped_release others_may_run;
      const std::lock_guard one_at_a_time(talking_);
      messages = chat_->messages();
    }
    return as_list(messages);
  }

 private:
  static List as_list(const std::vector<ChatMessage>& messages) {
    constexpr std::array kRoles{"system", "user", "assistant"};
    List all;
    for (const ChatMessage& m : messages) all.append(nb::make_tuple(kRoles[static_cast<size_t>(m.role)], m.content));
    return all;
  }

  ChatTemplate template_of(H form, H place, H base) {
    if (form.is_none()) return chat_template_of(path("Chat: path", place), base_directory(base));
    if (!PyCallable_Check(form.ptr())) return text("Chat: template", form);
    writer_ = nb::borrow(form);
    return ChatTemplate([this](std::span<const ChatMessage>) { return written_; });
  }

  /// Before anything computes, since the function may run Python's threads.
  void write_with(const std::string& said) {
    std::vector<ChatMessage> messages = chat_->messages();
    messages.push_back({ChatRole::user, said});
    written_ = text("Chat: what the template writes", writer_(as_list(messages)));
  }

  const StoredModel& model_;
  std::mutex talking_;
  Interrupt* interrupt_ = nullptr;
  nb::object writer_{};
  std::string written_{};
  std::optional<Chat> chat_;
};

std::unique_ptr<Conversation> conversation(const StoredModel& model, H chat_template, H place, H base, H system, H stop,
                                           H max_tokens, H min_tokens, H temperature, H top_k, H top_p, H min_p,
                                           H repetition_penalty, H no_repeat_ngram_size, H seed_value) {
  const std::string told = text("Chat: system", system);
  return std::make_unique<Conversation>(
      model, chat_template, place, base, told,
      continue_options("Chat", stop, max_tokens, min_tokens, temperature, top_k, top_p, min_p, repetition_penalty,
                       no_repeat_ngram_size, seed_value));
}

/// (text, {token: text}, whether these are all tokens, names of no token) of the model's own template.
Tuple chat_source(H place, H base) {
  const ChatSource source = chat_source_of(path("Chat: path", place), base_directory(base));
  nb::dict tokens;
  for (const auto& [name, token] : source.tokens) tokens[name.c_str()] = token;
  nb::set none;
  for (const std::string& name : source.none) none.add(name);
  return nb::make_tuple(source.text, tokens, source.complete, none);
}

/// (tokens, bytes, nats)
Tuple score_text_of(const StoredModel& model, H given) {
  check_eval("score", model.module());
  const std::string whole = text("score: text", given);
  TextScore score;
  {
    const Computing running;
    score = score_text(model, whole);
  }
  return nb::make_tuple(score.tokens, score.bytes, score.nats);
}

// ---- Inside

/// (L, V) of a batch of one.
nb::any only_row(const Variable& batch) {
  return nb::borrow<nb::any>(give(batch.value().to(DType::f32).select(0, 0), nb::none()));
}

void check_ids(const char* what, const std::vector<int32_t>& ids, int64_t pieces) {
  for (const int32_t id : ids)
    if (id < 0 || id >= pieces)
      throw ShapeError(what + (" has the id " + std::to_string(id)) + "; pass ids in 0.." + std::to_string(pieces - 1));
}

nb::any logits_of_text(const StoredModel& model, H text) {
  check_eval("logits", model.module());
  const std::vector<int32_t> tokens = ids("logits: ids", text);
  const auto& language_model = model.as<LanguageModel>();
  if (tokens.empty()) throw ShapeError("logits: ids is empty; pass one id at least");
  check_ids("logits: ids", tokens, language_model.config().vocab_size);
  Variable logits;
  {
    const Computing running;
    const NoGrad no_grad;
    logits = language_model.logits(TokenBatch::pad({tokens}, 0));
  }
  return only_row(logits);
}

/// The beginning is added before the target; the end behind the source, but for another maker's, which has it.
nb::any logits_of_pair(const StoredModel& model, H source, H target) {
  check_eval("logits", model.module());
  std::vector<int32_t> from = ids("logits: source", source), to = ids("logits: target", target);
  const auto& translator = model.as<Transformer>();
  const TransformerConfig& config = translator.config();
  check_ids("logits: source", from, config.source_pieces());
  check_ids("logits: target", to, config.vocab_size);
  if (!translator.details()) from.push_back(config.eos_id);
  to.insert(to.begin(), config.bos_id);
  Variable logits;
  {
    const Computing running;
    const NoGrad no_grad;
    logits = translator.logits(TokenBatch::pad({from}, config.pad_id), TokenBatch::pad({to}, config.pad_id));
  }
  return only_row(logits);
}

/// Of a batch, packed (1, T, E) or padded (B, L, E): a translator's behind its encoder, others' last ones.
Tensor states_of(const StoredModel& model, const TokenBatch& batch) {
  Variable states;
  if (const auto* translator = model.get_if<Transformer>())
    states = translator->encode(batch);
  else if (const auto* encoder = model.get_if<TextEncoder>())
    states = encoder->hidden(batch);
  else
    states = model.as<LanguageModel>().hidden(batch);
  return states.value().to(DType::f32);
}

/// For each text the hidden states (L, E) of its tokens, without the end of heed's own translators.
List hidden_states(const StoredModel& model, H line_list) {
  check_eval("embed", model.module());
  const std::vector<std::string> lines = texts("embed: texts", line_list);
  const bool own = model.is_own();
  const size_t together = own ? 32 : 1;  // relative positions are for padded batches
  const int64_t ends = own && model.get_if<Transformer>() ? 1 : 0;
  std::vector<Tensor> states;
  Interrupt interrupt;
  {
    const Computing running;
    const NoGrad no_grad;
    for (size_t begin = 0; begin < lines.size() && !interrupt.pending(); begin += together) {
      std::vector<std::vector<int32_t>> sentences;
      for (size_t i = begin; i < std::min(begin + together, lines.size()); ++i) {
        sentences.push_back(reading_ids(model, lines[i]));
        if (std::ssize(sentences.back()) == ends)
          throw ShapeError("embed: text " + std::to_string(i) + " has no tokens; pass one with words");
      }
      if (!own) {
        states.push_back(states_of(model, TokenBatch::pad(sentences, 0)).select(0, 0).clone());
        continue;
      }
      const TokenBatch batch = TokenBatch::pack(sentences);
      const Tensor all = states_of(model, batch);
      for (size_t i = 0; i < sentences.size(); ++i) {
        const auto first = int64_t{batch.offsets.at<int32_t>(i)}, end = int64_t{batch.offsets.at<int32_t>(i + 1)};
        states.push_back(all.select(0, 0).slice(0, first, end - ends).clone());
      }
    }
  }
  interrupt.raise();
  List arrays;
  for (const Tensor& one : states) arrays.append(give(one, nb::none()));
  return arrays;
}

// ---- Looking at attention

/// [(name, title, weights (N, H, Lq, Lk), labels of queries, of keys)]
List as_list(const std::vector<SeenAttention>& attentions) {
  List all;
  for (const SeenAttention& a : attentions)
    all.append(
        nb::make_tuple(a.name, a.title, give(a.weights, nb::none()), marked_labels(a.queries), marked_labels(a.keys)));
  return all;
}

/// (translation, attention of each kind) of a sentence, whose translation may be given: not empty.
Tuple attended_translating(const StoredModel& model, H sentence, H given, H beam) {
  check_eval("attend", model.module());
  const std::string whole = text("attend: text", sentence);
  const std::string wanted = given.is_none() ? "" : text("attend: translation", given);
  if (!given.is_none() && wanted.empty())
    throw ShapeError("attend: translation is empty; leave it out, or pass a text");
  const int64_t width = beam.is_none() ? model.pretrained().beam.beam.value_or(BeamOptions::kBeam)
                                       : integer("attend: beam", beam, kCount);
  SeenTranslation seen;
  std::vector<SeenAttention> attentions;
  {
    const Computing running;
    seen = see_translation(model, whole, wanted, width);
    attentions = attention_of(seen, model);
  }
  return nb::make_tuple(seen.translation, as_list(attentions));
}

/// (text with what was generated, attention) of a text.
Tuple attended_reading(const StoredModel& model, H given, H max_tokens) {
  check_eval("attend", model.module());
  const std::string whole = text("attend: text", given);
  const int64_t more = integer("attend: max_tokens", max_tokens, kCount);
  if (const int64_t longest = longest_text(model); more < 0 || more > longest)
    throw ShapeError("attend: max_tokens is " + std::to_string(more) + "; pass 0 to " + std::to_string(longest));
  SeenText seen;
  std::vector<SeenAttention> attentions;
  {
    const Computing running;
    seen = see_text(model, whole, more);
    attentions = attention_of(seen, model);
  }
  return nb::make_tuple(seen.text, as_list(attentions));
}

}  // namespace

void define_models(nb::module_& m) {
  const auto any = [](const char* name) { return nb::arg(name).none(); };
  nb::class_<TranslateCall>(m, "TranslateCall", "What translate() takes beside the texts.")
      .def(nb::init<H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H>(), any("beam"), any("length_penalty"),
           any("max_length"), any("min_length"), any("repetition_penalty"), any("no_repeat_ngram_size"), any("n_best"),
           any("alignment"), any("sample"), any("temperature"), any("top_k"), any("top_p"), any("min_p"), any("seed"),
           any("batch"), any("split"), any("prefix"), any("source_language"), any("target_language"));
  nb::class_<Text>(m, "Text", "A text that a language model writes.").def("next", &Text::next, nb::arg("whole"));
  nb::class_<Conversation>(m, "Conversation", "A conversation with a language model.")
      .def("answer", &Conversation::answer, any("text"))
      .def("messages", &Conversation::messages);
  nb::class_<StoredModel>(m, "Model", "A model with its tokenizers.")
      .def("kind", &kind_of)
      .def("config", [](const StoredModel& model) { return config_of(model); })
      .def("model_type", &StoredModel::model_type)
      .def("module", &StoredModel::module, nb::rv_policy::reference_internal)
      .def("stop", [](const StoredModel& model) { return model.pretrained().generate.stop; })
      .def("tokenizer", &StoredModel::tokenizer, nb::rv_policy::copy)
      .def("source_tokenizer", &StoredModel::source_tokenizer, nb::rv_policy::copy)
      .def("num_parameters", [](const StoredModel& model) { return model.module().parameter_count(); })
      .def("vocabulary", &StoredModel::vocabulary, nb::rv_policy::copy)
      .def("source_vocabulary", &StoredModel::source_vocabulary, nb::rv_policy::copy)
      .def("vocabulary_texts", &vocabulary_texts)
      .def("parameters", &parameters_of)
      .def("save", &save_model, any("directory"), any("dtype"), any("overwrite"))
      .def("translate", &translate_texts, any("lines"), nb::arg("call"), nb::arg("details"))
      .def("score_translations", &score_translations, any("lines"), any("given"), any("length_penalty"),
           any("alignment"), any("batch"), any("prefix"), any("source_language"), any("target_language"))
      .def("continued", &continued, nb::keep_alive<0, 1>(), any("prompt"), any("stop"), any("max_tokens"),
           any("min_tokens"), any("temperature"), any("top_k"), any("top_p"), any("min_p"), any("repetition_penalty"),
           any("no_repeat_ngram_size"), any("seed"))
      .def("conversation", &conversation, nb::keep_alive<0, 1>(), any("template"), any("path"), any("base"),
           any("system"), any("stop"), any("max_tokens"), any("min_tokens"), any("temperature"), any("top_k"),
           any("top_p"), any("min_p"), any("repetition_penalty"), any("no_repeat_ngram_size"), any("seed"))
      .def("score_text", &score_text_of, any("text"))
      .def("logits", &logits_of_text, any("ids"))
      .def("logits_of_pair", &logits_of_pair, any("source"), any("target"))
      .def("hidden_states", &hidden_states, any("lines"))
      .def("attended_translating", &attended_translating, any("text"), any("translation"), any("beam"))
      .def("attended_reading", &attended_reading, any("text"), any("max_tokens"));
  m.def("load", &load_model, any("path"), any("trust"), any("dtype"), any("base"));
  m.def("chat_source_of", &chat_source, any("path"), any("base"));
  m.def("restored", &restored, nb::arg("config"), nb::arg("vocabularies"), nb::arg("parameters"));
}

}  // namespace heed::python
