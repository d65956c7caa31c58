// Models of other makers on the tape: heed/text_encoder.h, heed/image_encoder.h, heed/speech_transformer.h and
// heed/lora.h for Python. heed.load() makes them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "heed/image_encoder.h"
#include "heed/lora.h"
#include "heed/speech_transformer.h"
#include "heed/text_encoder.h"
#include "nn.h"
#include "options.h"
#include "values.h"

namespace heed::python {
namespace {

using namespace nb::literals;

/// Calls compute(record) without the GIL; the record of Python's is filled, where there is one.
template <class Compute>
Variable recorded(nb::handle record, Compute&& compute) {
  Filled<AttentionRecord> filled(record);
  const Variable y = computed([&] { return compute(filled.get()); });
  filled.keep();
  return y;
}

// ---- TextEncoder

Variable hidden_of_text(const TextEncoder& model, nb::handle text_, nb::handle types_, nb::handle record) {
  const TokenBatch text = token_batch("hidden: text", text_);
  const Tensor types = whole_numbers("hidden: types", types_);
  return recorded(record, [&](AttentionRecord* into) { return model.hidden(text, types, into); });
}

Variable head_of_text(const TextEncoder& model, Operand states_, nb::handle text_) {
  const Variable states = variable("apply_head: states", states_);
  const TokenBatch text = token_batch("apply_head: text", text_);
  return computed([&] { return model.apply_head(states, text); });
}

Variable logits_of_text(const TextEncoder& model, nb::handle text_, nb::handle types_) {
  const TokenBatch text = token_batch("logits: text", text_);
  const Tensor types = whole_numbers("logits: types", types_);
  return computed([&] { return model.logits(text, types); });
}

void define_text_encoder(nb::module_& m) {
  nb::class_<TextEncoder, Module>(
      m, "TextEncoder",
      "A model that reads a text at once (Devlin et al. 2019), on token ids: the module of a heed.TextEncoder.")
      .def(
          "hidden", &hidden_of_text, "text"_a, "types"_a.none() = nb::none(), "record"_a.none() = nb::none(),
          nb::sig("def hidden(self, text: " HEED_BATCH
                  ", types: Array | None = None, record: AttentionRecord | None = None) -> Variable"),
          "text (B, L) -> the last states (B, L, E); packed -> (1, T, E). types are whole numbers shaped like the ids, "
          "0 in the first text of a pair and 1 in the second; default 0. A record gets its encoder lists.")
      .def(
          "apply_head", &head_of_text, "states"_a.none(), "text"_a,
          nb::sig("def apply_head(self, states: Array, text: " HEED_BATCH ") -> Variable"),
          "What the head makes of states of that text: (B, L, outputs), packed (1, T, outputs), or of the first tokens "
          "(B, outputs). Raises UsageError without a head.")
      .def("logits", &logits_of_text, "text"_a, "types"_a.none() = nb::none(),
           nb::sig("def logits(self, text: " HEED_BATCH ", types: Array | None = None) -> Variable"),
           "apply_head() of hidden().");
}

// ---- ImageEncoder

Variable hidden_of_image(const ImageEncoder& model, nb::handle pixels_, nb::handle record) {
  const Tensor pixels = take("hidden: pixels", pixels_);
  return recorded(record, [&](AttentionRecord* into) { return model.hidden(pixels, into); });
}

Variable head_of_image(const ImageEncoder& model, Operand states_) {
  const Variable states = variable("apply_head: states", states_);
  return computed([&] { return model.apply_head(states); });
}

Variable logits_of_image(const ImageEncoder& model, nb::handle pixels_) {
  const Tensor pixels = take("logits: pixels", pixels_);
  return computed([&] { return model.logits(pixels); });
}

void define_image_encoder(nb::module_& m) {
  nb::class_<ImageEncoder, Module>(
      m, "ImageEncoder",
      "A model that reads a picture as a row of patches (Dosovitskiy et al. 2021): the module of a heed.ImageEncoder.")
      .def(
          "hidden", &hidden_of_image, "pixels"_a.none(), "record"_a.none() = nb::none(),
          nb::sig("def hidden(self, pixels: Array, record: AttentionRecord | None = None) -> Variable"),
          "pixels (B, channels, height, width) as heed.ImageEncoder.prepare() gives them -> the last states (B, 1 + P, "
          "E), the class token's first. A record gets its encoder lists.")
      .def("apply_head", &head_of_image, "states"_a.none(), nb::sig("def apply_head(self, states: Array) -> Variable"),
           "What the head makes of states: (B, classes). Raises UsageError without a head.")
      .def("logits", &logits_of_image, "pixels"_a.none(), nb::sig("def logits(self, pixels: Array) -> Variable"),
           "apply_head() of hidden().");
}

// ---- SpeechTransformer

Variable encode_speech(const SpeechTransformer& model, nb::handle mel_, nb::handle record) {
  const Tensor mel = take("encode: mel", mel_);
  return recorded(record, [&](AttentionRecord* into) { return model.encode(mel, into); });
}

Variable decode_speech(const SpeechTransformer& model, nb::handle target_, Operand memory_, nb::handle record) {
  const TokenBatch target = token_batch("decode: target", target_);
  const Variable memory = variable("decode: memory", memory_);
  return recorded(record, [&](AttentionRecord* into) { return model.decode(target, memory, into); });
}

Variable logits_of_speech(const SpeechTransformer& model, nb::handle mel_, nb::handle target_) {
  const Tensor mel = take("logits: mel", mel_);
  const TokenBatch target = token_batch("logits: target", target_);
  return computed([&] { return model.logits(mel, target); });
}

std::vector<int32_t> transcribe(const SpeechTransformer& model, nb::handle mel_, nb::handle prompt, int64_t max_tokens,
                                double temperature, int64_t top_k, double top_p, double min_p, nb::handle seed_,
                                nb::handle stop, nb::handle never, nb::handle never_first) {
  check_eval("transcribe", model);
  const Tensor mel = take("transcribe: mel", mel_);
  const TranscribeOptions options{
      .prompt = ids("transcribe: prompt", prompt),
      .max_tokens = max_tokens,
      .sampling = sampling_with("transcribe", temperature, top_k, top_p, min_p, seed("transcribe: seed", seed_)),
      .stop = ids("transcribe: stop", stop),
      .never = ids("transcribe: never", never),
      .never_first = ids("transcribe: never_first", never_first)};
  const Computing running;
  return model.transcribe(mel, options);
}

void define_speech_transformer(nb::module_& m) {
  nb::class_<SpeechTransformer, Module>(
      m, "SpeechTransformer",
      "A model that reads the spectrum of speech and writes it down (Radford et al. 2022): the module of a "
      "heed.SpeechTransformer.")
      .def("encode", &encode_speech, "mel"_a.none(), "record"_a.none() = nb::none(),
           nb::sig("def encode(self, mel: Array, record: AttentionRecord | None = None) -> Variable"),
           "mel (B, bins, frames), the log-mel spectrum -> memory (B, frames / 2, E). A record gets its encoder lists.")
      .def("decode", &decode_speech, "target"_a, "memory"_a.none(), "record"_a.none() = nb::none(),
           nb::sig("def decode(self, target: TokenBatch, memory: Array, record: AttentionRecord | None = None) -> "
                   "Variable"),
           "target (B, Lt), padded -> the last states (B, Lt, E). A record gets its decoder and cross lists.")
      .def(
          "logits_of",
          [](const SpeechTransformer& model, Operand states_) {
            const Variable states = variable("logits_of: states", states_);
            return computed([&] { return model.logits_of(states); });
          },
          "states"_a.none(), nb::sig("def logits_of(self, states: Array) -> Variable"), "(..., E) -> (..., V).")
      .def("logits", &logits_of_speech, "mel"_a.none(), "target"_a,
           nb::sig("def logits(self, mel: Array, target: TokenBatch) -> Variable"),
           "(B, Lt, V) of encode() and decode().")
      .def("transcribe", &transcribe, "mel"_a.none(), "prompt"_a, nb::kw_only(), "max_tokens"_a = 224,
           "temperature"_a = 0.0, "top_k"_a = 0, "top_p"_a = 1.0, "min_p"_a = 0.0, "seed"_a = 0,
           "stop"_a = nb::make_tuple(), "never"_a = nb::make_tuple(), "never_first"_a = nb::make_tuple(),
           nb::sig("def transcribe(self, mel: Array, prompt: collections.abc.Iterable[int], *, max_tokens: int = 224, "
                   "temperature: float = 0.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0, seed: int = 0, "
                   "stop: collections.abc.Iterable[int] = (), never: collections.abc.Iterable[int] = (), "
                   "never_first: collections.abc.Iterable[int] = ()) -> list[int]"),
           "heed.SpeechTransformer.transcribe(), which says what the options are. The model must be in eval().");
}

// ---- Low-rank adapters

/// compute is Python's: it is called with the GIL, and what it calls takes its own locks.
Variable adapted(const LowRankAdapters& adapters, nb::callable compute) {
  return adapters([&] {
    const nb::object result = compute();
    if (!nb::isinstance<Variable>(result) || !nb::inst_ready(result))
      throw nb::type_error(
          ("LowRankAdapters: compute returned " + shown(result) + "; return the loss, a Variable").c_str());
    return nb::cast<Variable>(result);
  });
}

void define_adapters(nb::module_& m) {
  nb::class_<LowRankAdapters, Module>(
      m, "LowRankAdapters",
      R"(W + (alpha / rank) B A in linear layers of a model, whose own numbers stay (Hu et al. 2021).

    adapters = model.make_adapters(rank=8)
    optimiser = heed.nn.AdamW(adapters)
    loss = adapters(lambda: model.module.loss(texts))
    loss.backward()                                # gradients of A and B alone
    optimiser.step(1e-3)
    adapters.eval()
    adapters.apply()                               # the model is the adapted one now

Its parameters are named "NAME.lora_A.weight" and "NAME.lora_B.weight"; a head that tells classes is trained whole.)")
      .def("__call__", &adapted, "compute"_a,
           nb::sig("def __call__(self, compute: collections.abc.Callable[[], Variable]) -> Variable"),
           "What `compute` makes of the adapted model, a loss, with gradients for the adapters.")
      .def("apply", &LowRankAdapters::apply,
           "Writes the sums into the model, which computes with them from then on. The model is in training where this "
           "is.")
      .def_prop_ro("rank", [](const LowRankAdapters& a) { return a.options().rank; })
      .def_prop_ro("alpha", [](const LowRankAdapters& a) { return a.options().alpha; });
}

}  // namespace

void define_pretrained(nb::module_& m) {
  define_text_encoder(m);
  define_image_encoder(m);
  define_speech_transformer(m);
  define_adapters(m);
}

}  // namespace heed::python
