// The parts of a tokenizer.json, one after the other: added tokens, normalizer, pre-tokenizer, model, post-processor;
// and the decoder for the way back.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/decoder.h"
#include "tokenizer/implementation.h"
#include "tokenizer/model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/word_cache.h"

namespace heed::inline v0 {

/// Tokens and what they are: shared, since post-processors look at their texts.
struct Lexicon {
  ModelPtr model;
  AddedTokens added;
  std::string_view text(int32_t id) const;      // data() == nullptr where an id names none
  int32_t id_of(std::string_view token) const;  // TokenTable::kNone
};

/// For post-processors: the texts of the model's tokens alone.
TokenText model_text(std::shared_ptr<const Lexicon> lexicon);

struct PipelineParts {
  NormalizerPtr normalizer;  // may be null, and so may all but the lexicon
  PreTokenizerPtr pre_tokenizer;
  std::shared_ptr<const Lexicon> lexicon;
  PostProcessorPtr post_processor;
  DecoderPtr decoder;
  bool cleans_up = false;  // decoded texts lose the spaces before marks of punctuation
  TokenizerRules rules{};
  int32_t first_language = 0, languages_end = 0;   // ids that the class has given to languages
  std::map<std::string, std::string> named{};      // special tokens by name, such as "mask_token"
  std::optional<std::set<int32_t>> special_ids{};  // transformers' all_special_ids; nothing for a bare tokenizer.json
};

class Pipeline : public Tokenizer::Implementation {
 public:
  explicit Pipeline(PipelineParts parts) : p_(std::move(parts)) {}

  Encoding encode(std::span<const GivenText> texts, bool special_tokens) const override;
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override;
  std::optional<std::string> token(int32_t id) const override;
  std::optional<int32_t> id_of(std::string_view token) const override;
  std::optional<int32_t> unknown() const override { return p_.lexicon->model->unknown(); }
  int64_t size() const override;
  std::optional<std::string> own_text(int32_t id) const override;
  bool special(int32_t id) const override;
  bool language(int32_t id) const override { return id >= p_.first_language && id < p_.languages_end; }
  bool special_by_name(int32_t id) const override {
    return p_.special_ids ? p_.special_ids->contains(id) : special(id);
  }
  std::optional<std::string> named(const std::string& name) const override;
  TokenizerRules rules() const override { return p_.rules; }
  std::shared_ptr<const Tokenizer::Implementation> lowercased() const override;

 private:
  Encoding encode_text(const AlignedText& text, int32_t type_id, WordCache* cache) const;
  /// Returns the bytes of what the pre-tokenizer wrote.
  size_t encode_section(AlignedText text, int32_t type_id, size_t most_tokens, WordCache* cache, Encoding* out) const;

  /// The text of tokens.
  std::string joined(std::vector<std::string> tokens) const;
  /// A token as it was given, also if it is normalized.
  std::string_view content(int32_t id) const;

  std::unique_ptr<WordCache> take_cache() const;
  void give_back(std::unique_ptr<WordCache> cache) const;

  PipelineParts p_;
  // One for each call that is under way: what a thread learned is there for the next call.
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<WordCache>> caches_;
};

}  // namespace heed::inline v0
