#include "heed/attended.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "heed/text_encoder.h"
#include "heed/text_generator.h"

namespace heed::inline v0 {
namespace {

// Letters and digits; all non-ASCII bytes count as letters.
bool of_word(char c) { return static_cast<unsigned char>(c) >= 0x80 || std::isalnum(static_cast<unsigned char>(c)); }

void expect_tokens(const Tokenizer& tokenizer, const std::string& text) {
  if (tokenizer.encode(text, /*special_tokens=*/false).ids.empty())
    throw UsageError("attend: the text is empty; pass one with a word");
}

}  // namespace

Tokens tokens_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  constexpr std::string_view kSpaceMark = "\u2581";
  Tokens tokens;
  bool goes_on = false;  // the previous token may continue
  for (const int32_t id : ids) {
    std::string text = tokenizer.written(id);
    const bool spaced = text.starts_with(' ') || text == kSpaceMark;
    if (spaced) text.erase(0, text == kSpaceMark ? kSpaceMark.size() : 1);
    const bool special = tokenizer.special(id);
    const bool begins = !goes_on || spaced || special || text.empty() || !of_word(text.front());
    goes_on = !special && !text.empty() && of_word(text.back());
    tokens.words.push_back(tokens.words.empty() ? 0 : tokens.words.back() + begins);
    tokens.labels.push_back(text.empty() ? std::string(kSpaceMark) : std::move(text));
  }
  return tokens;
}

std::vector<std::string> marked_labels(Tokens tokens) {
  const auto one_character = [](const std::string& label) {
    return std::count_if(label.begin(), label.end(), [](char c) { return (c & 0xC0) != 0x80; }) == 1;
  };
  const bool characters = std::all_of(tokens.labels.begin(), tokens.labels.end(), one_character);
  for (size_t i = 1; i < tokens.labels.size() && !characters; ++i)
    if (tokens.words[i] == tokens.words[i - 1]) tokens.labels[i].insert(0, "\u00B7");
  return std::move(tokens.labels);
}

std::vector<std::string> marked_labels(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  return marked_labels(tokens_of(tokenizer, ids));
}

Tensor stacked(const std::vector<Tensor>& layers) {
  Dims shape = layers.front().shape();
  shape[0] = static_cast<int64_t>(layers.size());
  const Tensor all = Tensor::empty(shape, layers.front().dtype());
  for (size_t l = 0; l < layers.size(); ++l) all.select(0, static_cast<int64_t>(l)).copy_from(layers[l].select(0, 0));
  return all;
}

SeenTranslation see_translation(const StoredModel& stored, const std::string& text, const std::string& given,
                                int64_t beam, bool want_vectors, const OnWritten& on_written) {
  const NoGrad no_grad;
  const auto& model = stored.as<Transformer>();
  const bool whole = model.details().has_value();  // sources include special tokens
  SeenTranslation seen;
  seen.text = sanitize_utf8(text);
  expect_tokens(stored.source_tokenizer(), seen.text);
  seen.source = stored.source_tokenizer().encode(seen.text, /*special_tokens=*/whole).ids;
  BeamOptions search{.beam = beam};
  if (on_written) search.on_step = [&](size_t, const std::vector<int32_t>& ids) { on_written(ids); };
  seen.output = given.empty() ? model.translate({seen.source}, stored.completed(search)).at(0).at(0).ids
                              : stored.tokenizer().encode(sanitize_utf8(given), /*special_tokens=*/false).ids;
  seen.translation = stored.tokenizer().decode(seen.output);
  seen.input = seen.output;
  seen.input.insert(seen.input.begin(), stored.pretrained().beam.start.value_or(model.config().bos_id));
  if (!whole) seen.source.push_back(model.config().eos_id);
  seen.output.push_back(model.config().eos_id);
  seen.record.want_vectors = want_vectors;
  seen.record.want_states = true;
  const int32_t pad = model.config().pad_id;
  const TokenBatch batch = TokenBatch::pad({seen.source}, pad);
  const Variable memory = model.encode(batch, &seen.record);
  seen.hidden = model.decode(TokenBatch::pad({seen.input}, pad), memory, batch, &seen.record);
  check_finite("attend", "what the decoder makes of the text", seen.hidden.value(), model);
  return seen;
}

SeenText see_text(const StoredModel& stored, const std::string& text, int64_t generate, bool want_vectors,
                  const OnWritten& on_written) {
  const NoGrad no_grad;
  const Tokenizer& tokenizer = stored.tokenizer();
  SeenText seen;
  const std::string whole = sanitize_utf8(text);
  expect_tokens(tokenizer, whole);
  seen.record.want_vectors = want_vectors;
  seen.record.want_states = true;
  if (const auto* encoder = stored.get_if<TextEncoder>()) {
    if (generate > 0) throw UsageError("attend: a " + stored.model_type() + " generates no text; set generate to 0");
    seen.ids = tokenizer.encode(whole).ids;
    seen.hidden = encoder->hidden(TokenBatch::pad({seen.ids}, 0), {}, &seen.record);
  } else {
    const auto& model = stored.as<LanguageModel>();
    seen.ids = prompt_ids(tokenizer, whole);
    if (generate > 0) {
      seen.given = std::ssize(seen.ids);
      GenerateOptions likeliest{.max_tokens = generate, .sampling = {.temperature = 0}};
      std::vector<int32_t> written;
      if (on_written)
        likeliest.on_token = [&](int32_t id) {
          written.push_back(id);
          on_written(written);
          return true;
        };
      for (const int32_t id : model.generate(seen.ids, likeliest)) seen.ids.push_back(id);
    }
    seen.hidden = model.hidden(TokenBatch::pad({seen.ids}, 0), &seen.record);
  }
  seen.text = tokenizer.decode(seen.ids);
  check_finite("attend", "what the model makes of the text", seen.hidden.value(), stored.module());
  return seen;
}

std::vector<SeenAttention> attention_of(const SeenTranslation& seen, const StoredModel& model) {
  const Tokens source = tokens_of(model.source_tokenizer(), seen.source),
               input = tokens_of(model.tokenizer(), seen.input), output = tokens_of(model.tokenizer(), seen.output);
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

std::vector<SeenAttention> attention_of(const SeenText& seen, const StoredModel& model) {
  const Tokens tokens = tokens_of(model.tokenizer(), seen.ids);
  if (!seen.record.encoder.empty())
    return {{"Self-attention", "Self-attention: each token looks at all tokens of the text.",
             stacked(seen.record.encoder), tokens, tokens}};
  return {{"Self-attention", "Self-attention: each token looks at itself and those before it, to find the next one.",
           stacked(seen.record.decoder), tokens, tokens}};
}

}  // namespace heed::inline v0
