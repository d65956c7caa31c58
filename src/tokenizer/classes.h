// Transformers' tokenizer classes: each adds a normalizer, a pre-tokenizer, a post-processor and a decoder to a
// vocabulary, the same for tokenizer.json and for plain files.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/load.h"

namespace heed::inline v0 {

enum class VocabularyKind { bpe, unigram, wordpiece };

/// The largest extra_ids of T5Tokenizer that heed accepts.
inline constexpr int64_t kMostExtraIds = 10000;

/// The parts of a directory's files that a tokenizer class reads.
struct ClassFiles {
  std::string where{};  // for messages
  TokenTable table{};   // finished
  VocabularyKind kind = VocabularyKind::bpe;
  std::vector<Merge> merges{};   // bpe
  std::vector<double> scores{};  // unigram: the score of each id
  std::string character_map{};   // of a Precompiled normalizer; empty if there is none
  /// Control and user-defined pieces of a sentencepiece model; nothing for other files.
  std::optional<std::vector<AddedToken>> pieces{};
  bool json = false;                      // the files are a tokenizer.json
  std::map<int64_t, AddedToken> added{};  // its added tokens, by their ids
  std::string padding{};                  // the token that it pads with
  /// The post-processor of tokenizer.json, which may be null.
  std::function<PostProcessorPtr(const std::shared_ptr<const Lexicon>&)> post_processor{};
};

/// The kind of model that a class reads; none for classes that heed does not build.
std::optional<VocabularyKind> kind_of_class(std::string_view name);

/// Throws FormatError if the vocabulary lacks a token that the class needs.
PipelineParts build_class(std::string_view name, ClassFiles files, const TokenizerConfig& config);

/// The special tokens of a class that reads `where`. Throws FormatError if the files give a token that it builds on two
/// contents.
SpecialTokens special_tokens_of(const TokenizerConfig& config, const TokenSources& sources, const std::string& where);

/// The special tokens of a class by default.
std::span<const ClassToken> tokens_of_class(std::string_view name);

/// Byte-level pre-tokenizer and decoder, as in GPT-2.
void set_byte_level_words(bool add_prefix_space, PipelineParts* parts);

/// The pre-tokenizer of Qwen2Tokenizer.
PreTokenizerPtr make_qwen2_words(bool add_prefix_space);

/// Replaces the mark of a space, joins bytes to characters and, with `strip`, removes one leading space.
DecoderPtr make_fallback_decoder(bool strip);

/// Adds bos_token and eos_token if add_bos_token and add_eos_token are set. `json`: the files are a tokenizer.json, for
/// which the two keys are ignored.
PostProcessorPtr make_ends(const Lexicon& lexicon, const SpecialTokens& tokens, const TokenizerConfig& config,
                           bool bos_by_default, bool json, const std::string& where);

/// The id of an added token or of one of the model's. Throws FormatError, beginning with `where`, if there is none.
int32_t id_of(const Lexicon& lexicon, const std::string& token, const std::string& where);

}  // namespace heed::inline v0
