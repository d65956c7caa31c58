// tokenizer.json, as the tokenizers package writes it.
#pragma once

#include <string>

#include "tokenizer/json.h"
#include "tokenizer/pipeline.h"

namespace heed::inline v0 {

class TokenizerConfig;

/// `config`: the tokenizer_config.json beside it, which may be null. Throws FormatError, which names a part that heed
/// does not support.
std::shared_ptr<const Pipeline> read_tokenizer_json(const JsonValue& root, const std::string& where,
                                                    const TokenizerConfig* config = nullptr);

/// The token that tokenizer.json pads with; empty if there is none.
std::string padding_token(const JsonValue& root);

/// A vocabulary: {"token": id, ...}.
TokenTable read_vocabulary(const JsonValue& vocabulary, const std::string& where);

/// "a b" as two. Throws FormatError for another number of parts.
Merge split_merge(std::string_view line, const std::string& where);

}  // namespace heed::inline v0
