// heed's vocabulary file. Text, strict, and small: what follows from the rules is not written down.
//
//   heed-vocabulary 1 bpe spaces=collapse pieces=8000
//   ▁t
//   he
//   ...
//
// pieces counts all of them: <pad> <unk> <s> </s>, 256 bytes, and those in the file, which stand in the order of
// merging, one per line; U+2581, the space, is one of them. A backslash is written \\, and the control characters
// U+0001..U+001F and U+007F \xHH (upper case). spaces is collapse, keep or verbatim. Or characters in the order of
// their codes, where pieces counts <unk>, too, and \x00 and \x20 are NUL and the space:
//
//   heed-vocabulary 1 characters pieces=66
//   \x0A
//   \x20
//   ...
//
// Or a sentencepiece model that heed did not make, in base64 on one line:
//
//   heed-vocabulary 1 sentencepiece
//   CgkKBTx1...
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heed/text.h"

namespace heed::inline v0 {

inline constexpr std::string_view vocabulary_magic = "heed-vocabulary ";
inline constexpr size_t special_and_byte_pieces = 4 + 256;
inline constexpr size_t largest_vocabulary = 1'000'000;
inline constexpr size_t longest_piece = 512;  // bytes

struct VocabularyFile {
  bool foreign = false;
  bool characters = false;  // pieces are these, without <unk>
  Spaces spaces = Spaces::collapse;
  std::vector<std::string> pieces;  // without the special and byte pieces
  std::string model;                // of a foreign vocabulary: the serialised sentencepiece model
};

/// The piece with a fixed id below special_and_byte_pieces.
std::string fixed_piece(size_t id);

std::string write_vocabulary(const VocabularyFile& file);

/// Throws FormatError naming line and rule.
VocabularyFile parse_vocabulary(std::string_view text);

}  // namespace heed::inline v0
