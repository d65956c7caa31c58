// Decoders: turn tokens back into a text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tokenizer/pattern.h"
#include "tokenizer/pre_tokenizer.h"

namespace heed::inline v0 {

class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Changes the tokens, which are then joined. Throws FormatError where they would have more than `most` bytes.
  virtual void apply(std::vector<std::string>* tokens, size_t most) const = 0;
  /// How tokens spell single bytes: not at all, as characters (ByteLevel), or as "<0x41>" (ByteFallback).
  enum class Bytes : uint8_t { none, characters, numbers };
  virtual Bytes bytes() const { return Bytes::none; }
};
using DecoderPtr = std::shared_ptr<const Decoder>;

/// transformers' clean_up_tokenization: English as it is written, of words with spaces between them.
void clean_up_tokenization(std::string* text);
/// The byte that a token such as "<0x41>" stands for, or -1.
int byte_of_token(std::string_view token);

DecoderPtr make_byte_level_decoder();                                                                // ByteLevel
DecoderPtr make_metaspace_decoder(const MetaspaceOptions& o);                                        // Metaspace
DecoderPtr make_ctc_decoder(std::string pad_token, std::string word_delimiter_token, bool cleanup);  // CTC
DecoderPtr make_wordpiece_decoder(std::string prefix, bool cleanup);                                 // WordPiece
DecoderPtr make_replace_decoder(Pattern pattern, std::string content);                               // Replace
DecoderPtr make_byte_fallback_decoder();                                                             // ByteFallback
DecoderPtr make_fuse_decoder();                                                                      // Fuse
DecoderPtr make_strip_decoder(std::string content, int64_t start, int64_t stop);  // Strip: `content` is a character
DecoderPtr make_bpe_decoder(std::string suffix);                                  // BPEDecoder
DecoderPtr make_sequence(std::vector<DecoderPtr> decoders);                       // Sequence

}  // namespace heed::inline v0
