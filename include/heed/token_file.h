// A corpus as tokens in one file, which training reads as it goes: for corpora larger than memory. heed prepare writes
// it, with its vocabularies.
//
// Numbers are little-endian:
//   "heed tokens\0", version 1 (4 bytes)
//   blocks, one behind the other, of 16,384 pairs or 65,536 tokens of a text; the last one has what is left:
//     ids, 2 or 4 bytes each; of pairs source and target in turn; then 0 up to a multiple of 4 bytes
//     of pairs: where in the block each source and each target ends, in tokens (4 bytes each)
//   for each block: where it begins (8 bytes), its tokens (4), CRC-32 of its ids (4) and of its ends (4), 0 (4)
//   what it is: a JSON object, as TokenFileInfo
//   where the list of blocks and the object begin (8 each), CRC-32 of both (4), 0 (4), "heed end"
// A file that was cut off has no such end. Ids are checked when they are first read, a block at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heed/io.h"
#include "heed/train.h"

namespace heed::inline v0 {

struct TokenFileInfo {
  bool text = false;  // a text for a language model, not sentence pairs
  int64_t pairs = 0;
  int64_t source_tokens = 0, target_tokens = 0;  // a text has only target_tokens
  int64_t bytes = 0, characters = 0;             // bytes in total, and distinct characters
  std::string vocabulary{};                      // Vocabulary::to_text()
  std::string source_vocabulary{};               // the same; empty if both sides share the vocabulary
};

/// Whether a regular file begins like a token file. False if it cannot be read.
bool is_token_file(const std::string& path);

/// Writes a token file in the order of the corpus. Keeps the ends of one block in memory.
class TokenWriter {
 public:
  /// Writes the beginning of `file`; ids must be below `pieces`.
  TokenWriter(FileWriter& file, bool text, int64_t pieces);
  ~TokenWriter();
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  /// Adds a pair to a file of pairs. Throws FormatError for a block of 2^32 tokens or more, as write() and finish() do.
  void write_pair(std::span<const int32_t> source, std::span<const int32_t> target);
  /// Adds tokens to a file of a text.
  void write_text(std::span<const int32_t> tokens);
  /// Completes the file. Takes bytes, characters and vocabularies from `about`, and returns it with the counts filled
  /// in.
  TokenFileInfo finish(TokenFileInfo about);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// An open token file. Reading throws IoError, and FormatError for damaged data. Memory use grows with the file only by
/// 24 bytes per block. Replacing the file by rename is fine.
class TokenFile {
 public:
  /// Throws IoError, and FormatError for a file that is not a token file, is incomplete, or has a damaged list of
  /// blocks.
  explicit TokenFile(const std::string& path);
  const std::string& path() const;
  const TokenFileInfo& info() const;

  /// The content as training data. Throws FormatError if the file has the other kind.
  std::unique_ptr<PairCorpus> pairs() const;
  std::unique_ptr<TextCorpus> text() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace heed::inline v0
