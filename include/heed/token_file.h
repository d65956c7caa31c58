// A corpus as tokens in one file, which training reads as it goes: for what does not fit into memory. heed prepare
// writes it, with the vocabularies that its ids are of.
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
  bool text = false;  // of a language model, not sentence pairs
  int64_t pairs = 0;
  int64_t source_tokens = 0, target_tokens = 0;  // of a text the second alone
  int64_t bytes = 0, characters = 0;             // of the texts: in all, and different ones
  std::string vocabulary{};                      // Vocabulary::to_text()
  std::string source_vocabulary{};               // likewise; empty where both sides have one
};

/// Whether a regular file begins as they do. False where it cannot be read.
bool is_token_file(const std::string& path);

/// Writes such a file in the order of the corpus. Keeps the ends of one block in memory.
class TokenWriter {
 public:
  /// `file` begins here; ids are below `pieces`.
  TokenWriter(FileWriter& file, bool text, int64_t pieces);
  ~TokenWriter();
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  /// Of a file of pairs. Throws FormatError where a block has 2^32 tokens or more, as write() and finish() do.
  void write_pair(std::span<const int32_t> source, std::span<const int32_t> target);
  /// More of a text.
  void write_text(std::span<const int32_t> tokens);
  /// The last call. Takes bytes, characters and vocabularies of `about`, and returns it with the counts.
  TokenFileInfo finish(TokenFileInfo about);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Such a file, open. Reading throws IoError, and FormatError for what is damaged; it takes no memory that grows with
/// the file but 24 bytes a block. Replacing the file by rename is fine.
class TokenFile {
 public:
  /// Throws IoError; FormatError where it is no such file, is not whole, or its list of blocks is damaged.
  explicit TokenFile(const std::string& path);
  const std::string& path() const;
  const TokenFileInfo& info() const;

  /// What it holds, to train on. Throws FormatError where it holds the other kind.
  std::unique_ptr<PairCorpus> pairs() const;
  std::unique_ptr<TextCorpus> text() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace heed::inline v0
