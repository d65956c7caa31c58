#include <algorithm>
#include <limits>

#include "heed/error.h"
#include "text/unicode.h"
#include "tokenizer/model.h"
#include "tokenizer/trie.h"

namespace heed::inline v0 {
namespace {

constexpr double kUnknownPenalty = 10;  // below the least probable token, as sentencepiece has it

class Unigram : public Model {
 public:
  Unigram(TokenTable tokens, std::vector<double> scores, UnigramOptions options, const std::string& where)
      : Model(std::move(tokens)), o_(options), scores_(std::move(scores)), trie_(trie_of(tokens_)) {
    if (o_.unk_id && (*o_.unk_id < 0 || static_cast<size_t>(*o_.unk_id) >= scores_.size()))
      throw FormatError(where + ": unk_id is " + std::to_string(*o_.unk_id) + ", but there are " +
                        std::to_string(scores_.size()) + " tokens");
    unknown_score_ = std::numeric_limits<double>::infinity();
    for (const double score : scores_) unknown_score_ = std::min(unknown_score_, score);
    unknown_score_ = kept(unknown_score_ - kUnknownPenalty);
    for (int byte = 0; byte < 256; ++byte) byte_ids_.push_back(tokens_.find(byte_token(static_cast<uint8_t>(byte))));
  }

  std::optional<int32_t> unknown() const override { return o_.unk_id; }
  void tokenize(std::string_view word, bool, std::vector<WordToken>* out) const override {
    std::vector<Best> best(word.size() + 1);
    search(word, &best);
    // Backwards from the end; unknown ones in a row are one.
    std::vector<std::pair<size_t, size_t>> parts;
    bool last_unknown = false;
    for (size_t end = word.size(); end > 0;) {
      const Best& b = best[end];
      const bool unknown = o_.unk_id && b.id == *o_.unk_id;
      if (unknown && last_unknown) {
        parts.back().first = b.begin;
      } else {
        parts.emplace_back(b.begin, end);
      }
      last_unknown = unknown;
      end = b.begin;
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) add(word, part->first, part->second, out);
  }

 private:
  static constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();
  // Of all ways to the end of a part of the word the best: its last token.
  struct Best {
    double score = 0;
    uint32_t begin = kNowhere;
    int32_t id = 0;
  };

  // sentencepiece 0.2.2 and later adds and compares in float32, which decides where two ways are as good.
  double kept(double score) const { return o_.single_precision ? double{static_cast<float>(score)} : score; }

  void search(std::string_view word, std::vector<Best>* best) const {
    for (size_t begin = 0; begin < word.size();) {
      const double before = (*best)[begin].score;
      const auto character = static_cast<size_t>(decode_utf8(word.substr(begin)).length);
      bool covered = false;  // a token of this one character is there
      const auto offer = [&](size_t length, int32_t id, double sum) {
        const double score = kept(sum);
        Best& target = (*best)[begin + length];
        if (target.begin == kNowhere || score > target.score) target = {score, static_cast<uint32_t>(begin), id};
      };
      trie_.prefixes(word.substr(begin), [&](size_t length, int32_t id) {
        offer(length, id, scores_[static_cast<size_t>(id)] + before);
        covered = covered || length == character;
      });
      if (!covered) {
        if (!o_.unk_id) refuse_unknown("'" + std::string(word.substr(begin, character)) + "'");
        offer(character, *o_.unk_id, unknown_score_ + before);
      }
      begin += character;
    }
  }

  void add(std::string_view word, size_t begin, size_t end, std::vector<WordToken>* out) const {
    const std::string_view text = word.substr(begin, end - begin);
    const auto first = static_cast<uint32_t>(begin), last = static_cast<uint32_t>(end);
    if (const int32_t id = tokens_.find(text); id != TokenTable::kNone) return out->push_back({id, first, last});
    const auto has_byte = [&](char c) { return byte_ids_[static_cast<uint8_t>(c)] != TokenTable::kNone; };
    if (o_.byte_fallback && std::all_of(text.begin(), text.end(), has_byte)) {
      for (const char c : text) out->push_back({byte_ids_[static_cast<uint8_t>(c)], first, last});
      return;
    }
    out->push_back({*o_.unk_id, first, last});
  }

  UnigramOptions o_;
  std::vector<double> scores_;
  Trie trie_;
  double unknown_score_;
  std::vector<int32_t> byte_ids_;
};

}  // namespace

ModelPtr make_unigram(TokenTable tokens, std::vector<double> scores, UnigramOptions options, const std::string& where) {
  return std::make_unique<Unigram>(std::move(tokens), std::move(scores), options, where);
}

}  // namespace heed::inline v0
