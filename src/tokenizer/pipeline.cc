#include "tokenizer/pipeline.h"

#include <algorithm>

#include "tokenizer/byte_characters.h"
#include "tokenizer/growth.h"

namespace heed::inline v0 {
namespace {

void add_token(int32_t id, int32_t type_id, ByteRange range, Encoding* out) {
  out->ids.push_back(id);
  out->type_ids.push_back(type_id);
  out->offsets.push_back(range);
  out->added.push_back(0);
}

}  // namespace

std::string_view Lexicon::text(int32_t id) const {
  if (const std::string_view token = added.text(id); token.data()) return token;
  return model->tokens().text(id);
}

int32_t Lexicon::id_of(std::string_view token) const {
  const int32_t id = added.id_of(token);
  return id == TokenTable::kNone ? model->tokens().find(token) : id;
}

TokenText model_text(std::shared_ptr<const Lexicon> lexicon) {
  return [lexicon = std::move(lexicon)](int32_t id) {
    return lexicon->added.text(id).data() ? std::string_view() : lexicon->model->tokens().text(id);
  };
}

Encoding Pipeline::encode(std::span<const GivenText> texts, bool special_tokens) const {
  std::unique_ptr<WordCache> cache = take_cache();
  std::vector<Row> rows;
  for (const GivenText& text : texts)
    rows.push_back({encode_text(text.text, static_cast<int32_t>(rows.size()), cache.get()), text.given});
  give_back(std::move(cache));
  if (p_.post_processor) p_.post_processor->apply(&rows, special_tokens);
  Encoding out = rows.empty() ? Encoding() : std::move(rows.front().tokens);
  for (size_t i = 1; i < rows.size(); ++i) append(rows[i].tokens, &out);
  return out;
}

Encoding Pipeline::encode_text(const AlignedText& text, int32_t type_id, WordCache* cache) const {
  Encoding out;
  const AddedTokens& added = p_.lexicon->added;
  size_t normal_room = most_of(text.size()), word_room = normal_room;  // for what is written of all sections
  const size_t most_tokens = normal_room;
  for (const Section& given : added.find(text.text(), /*normalized=*/false)) {
    if (given.id != TokenTable::kNone) {
      add_token(given.id, type_id, text.source(given.begin, given.end), &out);
      continue;
    }
    AlignedText part = text.slice(given.begin, given.end);
    part.bound(normal_room);
    if (p_.normalizer) p_.normalizer->apply(&part);
    spend(part.size(), &normal_room);
    for (const Section& section : added.find(part.text(), /*normalized=*/true)) {
      if (section.id != TokenTable::kNone) {
        add_token(section.id, type_id, part.source(section.begin, section.end), &out);
      } else {
        AlignedText words = part.slice(section.begin, section.end);
        words.bound(word_room);
        spend(encode_section(std::move(words), type_id, most_tokens, cache, &out), &word_room);
      }
    }
  }
  return out;
}

size_t Pipeline::encode_section(AlignedText text, int32_t type_id, size_t most_tokens, WordCache* cache,
                                Encoding* out) const {
  const size_t size = text.size();
  Words words{std::move(text), {{0, size}}};
  if (p_.pre_tokenizer) p_.pre_tokenizer->apply(&words);
  const std::string_view all = words.text.text();
  std::vector<WordToken> made;
  for (const auto& [begin, end] : words.parts) {
    const std::string_view word = all.substr(begin, end - begin);
    const bool cached = word.size() <= WordCache::kLongestWord;
    const uint64_t hash = cached ? WordCache::hash(word) : 0;
    std::span<const WordToken> tokens = cached ? cache->find(word, hash) : std::span<const WordToken>();
    if (!tokens.data()) {
      made.clear();
      p_.lexicon->model->tokenize(word, words.as_bytes, &made);
      if (cached) cache->add(word, hash, made);
      tokens = made;
    }
    if (tokens.size() > most_tokens - std::min(most_tokens, out->ids.size())) refuse_growth("tokenize", most_tokens);
    for (const WordToken& token : tokens) {
      // Tokens of bytes, some of which have none, may end behind the word: their places are in the word then.
      const ByteRange range = token.end <= word.size() ? words.text.source(begin + token.begin, begin + token.end)
                                                       : ByteRange{token.begin, token.end};
      add_token(token.id, type_id, range, out);
    }
  }
  return all.size();
}

std::string Pipeline::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    const std::string_view text = p_.lexicon->text(id);
    if (!text.data() || (skip_special && p_.lexicon->added.is_special(text))) continue;
    tokens.emplace_back(text);
  }
  std::string out = joined(std::move(tokens));
  if (p_.cleans_up) clean_up_tokenization(&out);
  return out;
}

std::string Pipeline::joined(std::vector<std::string> tokens) const {
  size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  if (p_.decoder) p_.decoder->apply(&tokens, most_of(bytes));
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !p_.decoder) out += ' ';
    out += tokens[i];
  }
  return out;
}

std::string_view Pipeline::content(int32_t id) const {
  const std::string_view added = p_.lexicon->added.content(id);
  return added.data() ? added : p_.lexicon->model->tokens().text(id);
}

// As transformers' StopStringCriteria.clean_tokenizer_vocab: a single byte by itself, any other token after a word.
std::optional<std::string> Pipeline::own_text(int32_t id) const {
  constexpr std::string_view kBefore = "abcdef";
  const std::string_view token = content(id);
  if (!token.data()) return std::nullopt;
  const Decoder::Bytes bytes = p_.decoder ? p_.decoder->bytes() : Decoder::Bytes::none;
  if (bytes == Decoder::Bytes::characters)
    if (const auto spelled = bytes_of_characters(token)) return spelled;
  if (bytes == Decoder::Bytes::numbers)
    if (const int byte = byte_of_token(token); byte >= 0) return std::string(1, static_cast<char>(byte));
  std::vector<std::string> tokens;
  const std::vector<GivenText> before{{kBefore, AlignedText(kBefore, 0)}};
  for (const int32_t one : encode(before, /*special_tokens=*/false).ids) tokens.emplace_back(content(one));
  tokens.emplace_back(token);
  const std::string text = joined(std::move(tokens));
  const size_t at = text.find(kBefore);
  if (at == std::string::npos)
    throw FormatError("generate: this tokenizer cannot write '" + std::string(kBefore) +
                      "', which stop_strings need; remove stop_strings from generation_config.json");
  return text.substr(at + kBefore.size());
}

std::optional<std::string> Pipeline::token(int32_t id) const {
  const std::string_view text = p_.lexicon->text(id);
  if (!text.data()) return std::nullopt;
  return std::string(text);
}

std::optional<int32_t> Pipeline::id_of(std::string_view token) const {
  const int32_t id = p_.lexicon->id_of(token);
  if (id == TokenTable::kNone) return std::nullopt;
  return id;
}

int64_t Pipeline::size() const {
  return int64_t{std::max(p_.lexicon->model->tokens().largest_id(), p_.lexicon->added.largest_id())} + 1;
}

std::optional<std::string> Pipeline::named(const std::string& name) const {
  const auto found = p_.named.find(name);
  return found == p_.named.end() ? std::nullopt : std::optional(found->second);
}

bool Pipeline::special(int32_t id) const {
  const std::string_view text = p_.lexicon->text(id);
  return text.data() && p_.lexicon->added.is_special(text);
}

std::shared_ptr<const Tokenizer::Implementation> Pipeline::lowercased() const {
  PipelineParts parts = p_;
  if (!p_.normalizer || !p_.normalizer->lowercases()) {
    std::vector<NormalizerPtr> normalizers{make_lowercase()};
    if (p_.normalizer) normalizers.push_back(p_.normalizer);
    parts.normalizer = make_sequence(std::move(normalizers));
    const AddedTokens& added = p_.lexicon->added;
    parts.lexicon = std::make_shared<const Lexicon>(Lexicon{p_.lexicon->model, added.with(parts.normalizer.get())});
  }
  return std::make_shared<const Pipeline>(std::move(parts));
}

std::unique_ptr<WordCache> Pipeline::take_cache() const {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // in a forked process it may be shut for ever
  if (!lock || caches_.empty()) return std::make_unique<WordCache>();
  std::unique_ptr<WordCache> cache = std::move(caches_.back());
  caches_.pop_back();
  return cache;
}

void Pipeline::give_back(std::unique_ptr<WordCache> cache) const {
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock) caches_.push_back(std::move(cache));
}

}  // namespace heed::inline v0
