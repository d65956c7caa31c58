#include <algorithm>

#include "heed/error.h"
#include "tokenizer/model.h"
#include "tokenizer/trie.h"

namespace heed::inline v0 {
namespace {

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

class WordPiece : public Model {
 public:
  WordPiece(TokenTable tokens, WordPieceOptions options, const std::string& where)
      : Model(std::move(tokens)),
        o_(std::move(options)),
        unk_id_(tokens_.find(o_.unk_token)),
        trie_(trie_of(tokens_)),
        continued_(trie_.after(o_.continuing_subword_prefix)) {
    if (unk_id_ == TokenTable::kNone)
      throw FormatError(where + ": the vocabulary has no '" + o_.unk_token.substr(0, 80) +
                        "', which a word without tokens becomes");
  }

  void tokenize(std::string_view word, bool, std::vector<WordToken>* out) const override {
    const size_t before = out->size();
    if (std::count_if(word.begin(), word.end(), begins_character) > o_.max_input_chars_per_word || !cut(word, out)) {
      out->resize(before);
      out->push_back({unk_id_, 0, static_cast<uint32_t>(word.size())});
    }
  }

  std::optional<int32_t> unknown() const override { return unk_id_; }

 private:
  // False where what is left begins with no token.
  bool cut(std::string_view word, std::vector<WordToken>* out) const {
    for (size_t begin = 0; begin < word.size();) {
      if (begin > 0 && !continued_) return false;
      size_t length = 0;
      int32_t id = TokenTable::kNone;
      trie_.prefixes(
          word.substr(begin), [&](size_t n, int32_t found) { length = n, id = found; },
          begin > 0 ? *continued_ : Trie::kBegin);
      if (length == 0) return false;
      out->push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(begin + length)});
      begin += length;
    }
    return true;
  }

  WordPieceOptions o_;
  int32_t unk_id_;
  Trie trie_;
  std::optional<Trie::Place> continued_;  // after the prefix; none where no token begins with it
};

class WordLevel : public Model {
 public:
  WordLevel(TokenTable tokens, const std::string& unk_token)
      : Model(std::move(tokens)), unk_id_(tokens_.find(unk_token)) {}
  void tokenize(std::string_view word, bool, std::vector<WordToken>* out) const override {
    int32_t id = tokens_.find(word);
    if (id == TokenTable::kNone) id = unk_id_;
    if (id == TokenTable::kNone) refuse_unknown("'" + std::string(word.substr(0, 80)) + "'");
    out->push_back({id, 0, static_cast<uint32_t>(word.size())});
  }
  std::optional<int32_t> unknown() const override {
    return unk_id_ == TokenTable::kNone ? std::nullopt : std::optional(unk_id_);
  }

 private:
  int32_t unk_id_;
};

}  // namespace

ModelPtr make_word_level(TokenTable tokens, const std::string& unk_token) {
  return std::make_unique<WordLevel>(std::move(tokens), unk_token);
}

ModelPtr make_wordpiece(TokenTable tokens, WordPieceOptions options, const std::string& where) {
  return std::make_unique<WordPiece>(std::move(tokens), std::move(options), where);
}

}  // namespace heed::inline v0
