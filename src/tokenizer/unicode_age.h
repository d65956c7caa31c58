// Characters that are newer than the versions of Unicode in which the package `tokenizers` knows characters.
#pragma once

namespace heed::inline v0 {

/// Whether a character came after Unicode 8, the version of the crate unicode_categories: BertNormalizer,
/// BertPreTokenizer and Punctuation.
bool is_newer_than_unicode_8(char32_t code);

/// Whether a character came after Unicode 9, the version of the crate unicode-normalization-alignments: NFC, NFD, NFKC,
/// NFKD and StripAccents.
bool is_newer_than_unicode_9(char32_t code);

}  // namespace heed::inline v0
