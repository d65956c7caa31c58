// What heed train learns from: sentence pairs, or a text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/text.h"
#include "heed/train.h"

namespace heed::cli {

/// Takes what a person may want to know of the data.
using Say = std::function<void(const std::string&)>;

/// Sentence pairs as a command line names them: files of tab-separated columns, or files of sources with as many of
/// targets, each a list for files_of().
struct PairFiles {
  std::vector<std::string> pairs{}, source{}, target{};
  bool empty() const { return pairs.empty() && source.empty() && target.empty(); }
};

/// All pairs, in the order of the files; `columns` are those of source and target ("1,2"). Empty where no file is
/// named. `prefix` is that of the options in messages: "" or "valid-". Blank lines at the end of a file are no pairs.
TextPairs read_pairs(const PairFiles& files, const std::string& columns, const std::string& prefix, const Say& say);
/// Leaves out the pairs whose source is a line of the files, and says how many.
void exclude_sources(TextPairs& texts, const std::vector<std::string>& files, const Say& say);
/// Takes about this part of the pairs away and returns it, in order. All pairs of a source stay together, and a hash of
/// the source chooses: the same ones whatever the order, and with further pairs few others. Throws ShapeError where
/// either part would be empty.
TextPairs hold_out(TextPairs& texts, double fraction);
/// With merges left out where `dropout` is above 0.
SentencePairs encode(const Vocabulary& source, const Vocabulary& target, const TextPairs& texts, double dropout = 0,
                     uint64_t seed = 0);

struct TextParts {
  std::string training{}, validation{};
};
/// The texts of files behind each other, and either others to validate on or `fraction` of their end. Malformed UTF-8
/// is replaced and counted, byte order marks dropped, and a file ends with a newline where another follows. Throws
/// FormatError for an empty text.
TextParts read_text_parts(const std::vector<std::string>& text, const std::vector<std::string>& validation,
                          double fraction, const Say& say);
/// The lines of a text, each with its newline.
std::vector<std::string> lines_of(const std::string& text);
/// The pieces of a text. Says how many lines the vocabulary changes, if any; `what` names the text.
std::vector<int32_t> encode_text(const Vocabulary& vocabulary, const std::string& text, const std::string& what,
                                 const Say& say);

}  // namespace heed::cli
