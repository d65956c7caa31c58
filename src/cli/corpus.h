// What heed train learns from: sentence pairs, or a text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/text.h"
#include "heed/train.h"

namespace heed::cli {

/// Sentence pairs of a file of tab-separated `columns` ("1,2"), or of two files; empty where no file is named. `prefix`
/// is that of the options in messages: "" or "valid-".
TextPairs read_pairs(const std::string& pairs, const std::string& columns, const std::string& source,
                     const std::string& target, const std::string& prefix);
/// Leaves out the pairs whose source is a line of the file, and says how many.
void exclude_sources(TextPairs& texts, const std::string& path);
/// With merges left out where `dropout` is above 0.
SentencePairs encode(const Vocabulary& vocabulary, const TextPairs& texts, double dropout = 0, uint64_t seed = 0);

struct TextParts {
  std::string training{}, validation{};
};
/// A text, and either another one to validate on or `fraction` of its end. Malformed UTF-8 is replaced and counted, a
/// byte order mark dropped. Throws FormatError for an empty text.
TextParts read_text_parts(const std::string& text, const std::string& validation, double fraction);
/// The lines of a text, each with its newline.
std::vector<std::string> lines_of(const std::string& text);
/// The pieces of a text. Says how many lines the vocabulary changes, if any; `what` names the text.
std::vector<int32_t> encode_text(const Vocabulary& vocabulary, const std::string& text, const std::string& what);

}  // namespace heed::cli
