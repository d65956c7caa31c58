// What transformers' tokenizer classes make of a vocabulary: normalizer, words, what is added to a text, and decoder.
// A class makes the same of it whether it comes from tokenizer.json or from plain files.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/load.h"

namespace heed::inline v0 {

enum class VocabularyKind { bpe, unigram, wordpiece };

/// The largest extra_ids of T5Tokenizer that is read.
inline constexpr int64_t kMostExtraIds = 10000;

/// What a class takes from the files of a directory.
struct ClassFiles {
  std::string where{};  // for messages
  TokenTable table{};   // finished
  VocabularyKind kind = VocabularyKind::bpe;
  std::vector<Merge> merges{};   // bpe
  std::vector<double> scores{};  // unigram: of each id
  std::string character_map{};   // of a Precompiled normalizer; empty where there is none
  /// Control and user-defined pieces of a sentencepiece model; nothing for other files.
  std::optional<std::vector<AddedToken>> pieces{};
  bool json = false;                      // the files are a tokenizer.json
  std::map<int64_t, AddedToken> added{};  // its added tokens, by their ids
  /// Its post-processor, which may be null.
  std::function<PostProcessorPtr(const std::shared_ptr<const Lexicon>&)> post_processor{};
};

/// The kind that a class reads; nothing for classes that heed does not build.
std::optional<VocabularyKind> kind_of_class(std::string_view name);

/// Throws FormatError where the vocabulary lacks what the class needs.
PipelineParts build_class(std::string_view name, ClassFiles files, const TokenizerConfig& config);

/// The special tokens of a class.
std::span<const ClassToken> tokens_of_class(std::string_view name);

/// The text becomes tokens by bytes, as GPT-2 does it.
void set_byte_level_words(bool add_prefix_space, PipelineParts* parts);

/// The words of Qwen2Tokenizer.
PreTokenizerPtr make_qwen2_words(bool add_prefix_space);

/// Replaces the mark of a space, joins bytes to characters, and removes one space at the beginning where `strip`.
DecoderPtr make_fallback_decoder(bool strip);

/// Adds bos_token and eos_token where add_bos_token and add_eos_token ask for them. `json`: the files are a
/// tokenizer.json, beside which the two keys mean nothing.
PostProcessorPtr make_ends(const Lexicon& lexicon, const SpecialTokens& tokens, const TokenizerConfig& config,
                           bool bos_by_default, bool json, const std::string& where);

/// The id of an added token, or of one of the model's. Throws FormatError "WHERE: ..." where there is none.
int32_t id_of(const Lexicon& lexicon, const std::string& token, const std::string& where);

}  // namespace heed::inline v0
