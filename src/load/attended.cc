#include "heed/attended.h"

#include <cctype>
#include <string_view>
#include <utility>

namespace heed::inline v0 {
namespace {

std::vector<int32_t> encoded(const std::string& text, const Vocabulary& vocabulary) {
  std::vector<int32_t> ids = vocabulary.encode(sanitize_utf8(text));
  if (ids.empty()) throw UsageError("attend: the text is empty; pass one with a word");
  return ids;
}

}  // namespace

Tokens tokens_of(const Vocabulary& vocabulary, const std::vector<int32_t>& ids) {
  constexpr std::string_view kSpaceMark = "\u2581";
  Tokens tokens;
  const auto of_word = [](unsigned char first) { return first >= 0x80 || std::isalnum(first); };
  bool in_word = false;  // the token before, where each character is a token
  for (const int32_t id : ids) {
    std::string piece = vocabulary.piece(id);
    bool begins = tokens.words.empty();
    if (vocabulary.of_characters()) {
      const bool word = of_word(static_cast<unsigned char>(piece[0]));
      begins = !(word && in_word);
      in_word = word;
      if (piece == " ") piece = kSpaceMark;
    } else {
      const bool spaced = piece.starts_with(kSpaceMark) && piece != kSpaceMark;
      if (spaced) piece.erase(0, kSpaceMark.size());
      // Signs, and tokens such as </s>, are words of their own.
      begins = begins || spaced || piece == kSpaceMark || !of_word(static_cast<unsigned char>(piece[0]));
    }
    tokens.words.push_back(tokens.words.empty() ? 0 : tokens.words.back() + begins);
    tokens.labels.push_back(std::move(piece));
  }
  return tokens;
}

Tensor stacked(const std::vector<Tensor>& layers) {
  Dims shape = layers.front().shape();
  shape[0] = static_cast<int64_t>(layers.size());
  const Tensor all = Tensor::empty(shape, layers.front().dtype());
  for (size_t l = 0; l < layers.size(); ++l) all.select(0, static_cast<int64_t>(l)).copy_from(layers[l].select(0, 0));
  return all;
}

SeenTranslation see_translation(const Transformer& model, const Vocabulary& of_source, const Vocabulary& of_target,
                                const std::string& text, const std::string& given, int64_t beam, bool want_vectors) {
  const NoGrad no_grad;
  SeenTranslation seen;
  seen.text = sanitize_utf8(text);
  seen.source = encoded(text, of_source);
  seen.output = given.empty() ? model.translate({seen.source}, {.beam = beam}).at(0).at(0).ids
                              : of_target.encode(sanitize_utf8(given));
  seen.translation = of_target.decode(seen.output);
  seen.input = seen.output;
  seen.input.insert(seen.input.begin(), model.config().bos_id);
  seen.source.push_back(model.config().eos_id);
  seen.output.push_back(model.config().eos_id);
  seen.record.want_vectors = want_vectors;
  const int32_t pad = model.config().pad_id;
  const TokenBatch batch = TokenBatch::pad({seen.source}, pad);
  const Variable memory = model.encode(batch, &seen.record);
  seen.hidden = model.decode(TokenBatch::pad({seen.input}, pad), memory, batch, &seen.record);
  check_finite("attend", "what the decoder makes of the text", seen.hidden.value(), model);
  return seen;
}

SeenText see_text(const LanguageModel& model, const Vocabulary& vocabulary, const std::string& text, int64_t generate,
                  bool want_vectors) {
  const NoGrad no_grad;
  SeenText seen{.text = {}, .ids = encoded(text, vocabulary), .record = {}, .hidden = {}, .given = 0};
  if (generate > 0) {
    seen.given = static_cast<int64_t>(seen.ids.size());
    for (const int32_t id : model.generate(seen.ids, {.max_tokens = generate, .sampling = {.temperature = 0}}))
      seen.ids.push_back(id);
  }
  seen.text = vocabulary.decode(seen.ids);
  seen.record.want_vectors = want_vectors;
  seen.hidden = model.hidden(TokenBatch::pad({seen.ids}, 0), &seen.record);
  check_finite("attend", "what the model makes of the text", seen.hidden.value(), model);
  return seen;
}

std::vector<SeenAttention> attention_of(const SeenTranslation& seen, const Vocabulary& of_source,
                                        const Vocabulary& of_target) {
  const Tokens source = tokens_of(of_source, seen.source), input = tokens_of(of_target, seen.input),
               output = tokens_of(of_target, seen.output);
  std::vector<SeenAttention> all;
  const auto add = [&](const char* name, const char* title, const std::vector<Tensor>& weights, const Tokens& queries,
                       const Tokens& keys) {
    if (!weights.empty()) all.push_back({name, title, stacked(weights), queries, keys});
  };
  add("Encoder", "Self-attention of the encoder: each token of the input looks at the input.", seen.record.encoder,
      source, source);
  add("Decoder", "Self-attention of the decoder: each token looks at itself and those before it, to find the next one.",
      seen.record.decoder, input, input);
  add("Cross", "Cross-attention: where the decoder looks in the input while it produces each token.", seen.record.cross,
      output, source);
  return all;
}

std::vector<SeenAttention> attention_of(const SeenText& seen, const Vocabulary& vocabulary) {
  const Tokens tokens = tokens_of(vocabulary, seen.ids);
  return {{"Self-attention", "Self-attention: each token looks at itself and those before it, to find the next one.",
           stacked(seen.record.decoder), tokens, tokens}};
}

}  // namespace heed::inline v0
