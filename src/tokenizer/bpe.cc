#include <algorithm>
#include <array>
#include <limits>
#include <queue>

#include "heed/error.h"
#include "text/unicode.h"
#include "tokenizer/byte_characters.h"
#include "tokenizer/growth.h"
#include "tokenizer/model.h"

namespace heed::inline v0 {

void Model::refuse_unknown(std::string_view what) {
  throw Error("tokenize: the tokenizer has no token for " + std::string(what) +
              " and none for what is unknown; mend tokenizer.json, or leave the character out");
}

std::string byte_token(uint8_t byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

namespace {

constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();

struct Merged {
  uint32_t rank = kNoRank;
  int32_t id = 0;
};

// Pairs of ids and what they merge to: a hash table.
class PairTable {
 public:
  explicit PairTable(size_t pairs) {
    size_t size = 16;
    while (size < 2 * pairs) size *= 2;
    slots_.resize(size);
  }
  void add(int32_t left, int32_t right, Merged merged) {
    const uint64_t key = key_of(left, right);
    Slot& slot = slots_[find(key)];
    slot = {key, merged};
  }
  Merged operator()(int32_t left, int32_t right) const { return slots_[find(key_of(left, right))].merged; }

 private:
  struct Slot {
    uint64_t key = 0;
    Merged merged;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t find(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t at = (key * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (slots_[at].merged.rank != kNoRank && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }
  std::vector<Slot> slots_;
};

// A part of a word on the way to its tokens.
struct Symbol {
  int32_t id;
  uint32_t size;  // bytes; 0 once it became part of another one
};

class Bpe : public Model {
 public:
  Bpe(TokenTable tokens, std::span<const Merge> merges, BpeOptions options, const std::string& where)
      : Model(std::move(tokens)), o_(std::move(options)), merges_(merges.size()) {
    unk_id_ = o_.unk_token.empty() ? TokenTable::kNone : tokens_.find(o_.unk_token);
    for (int byte = 0; byte < 256; ++byte) {
      const auto b = static_cast<uint8_t>(byte);
      byte_ids_[b] = tokens_.find(byte_character(b));
      fallback_ids_[b] = tokens_.find(byte_token(b));
    }
    const size_t prefix = o_.continuing_subword_prefix.size();
    uint32_t rank = 0;
    std::string both;
    for (const auto& [left, right] : merges) {
      both = left;
      both += right.substr(std::min(prefix, right.size()));
      const int32_t left_id = id_of(left, left, right, where), right_id = id_of(right, left, right, where);
      merges_.add(left_id, right_id, {rank++, id_of(both, left, right, where)});
    }
  }

  std::optional<int32_t> unknown() const override {
    return unk_id_ == TokenTable::kNone ? std::nullopt : std::optional(unk_id_);
  }
  bool takes_bytes() const override {
    return o_.continuing_subword_prefix.empty() && o_.end_of_word_suffix.empty() && !o_.byte_fallback;
  }

  void tokenize(std::string_view word, bool as_bytes, std::vector<WordToken>* out) const override {
    if (o_.ignore_merges) {
      const int32_t id = tokens_.find(as_bytes ? to_byte_characters(word) : word);
      if (id != TokenTable::kNone) return out->push_back({id, 0, static_cast<uint32_t>(word.size())});
    }
    std::vector<Symbol> symbols;
    symbols.reserve(word.size());
    as_bytes ? split_bytes(word, &symbols) : split_characters(word, &symbols);
    constexpr size_t kShort = 24;  // up to it searching beats a queue
    symbols.size() <= kShort ? merge_short(&symbols) : merge_long(&symbols);
    uint32_t at = 0;
    for (const Symbol& symbol : symbols) {
      if (symbol.size == 0) continue;
      out->push_back({symbol.id, at, at + symbol.size});
      at += symbol.size;
    }
  }

 private:
  int32_t id_of(std::string_view token, std::string_view left, std::string_view right, const std::string& where) const {
    const int32_t id = tokens_.find(token);
    if (id == TokenTable::kNone)
      throw FormatError(where + ": the merge of '" + std::string(left.substr(0, 40)) + "' and '" +
                        std::string(right.substr(0, 40)) + "' needs the token '" + std::string(token.substr(0, 80)) +
                        "', which the vocabulary has not");
    return id;
  }

  // Unknown characters wait in `unknown` until a known one comes: it may become longer.
  struct Unknown {
    uint32_t size = 0;
    bool any = false;
  };

  void flush(Unknown* unknown, std::vector<Symbol>* symbols) const {
    if (unknown->any) symbols->push_back({unk_id_, unknown->size});
    *unknown = {};
  }

  void add_unknown(std::string_view character, Unknown* unknown, std::vector<Symbol>* symbols) const {
    if (o_.unk_token.empty()) return;
    if (unk_id_ == TokenTable::kNone) refuse_unknown("'" + std::string(character) + "'");
    if (!o_.fuse_unk) flush(unknown, symbols);
    unknown->size += static_cast<uint32_t>(character.size());
    unknown->any = true;
  }

  void split_bytes(std::string_view word, std::vector<Symbol>* symbols) const {
    Unknown unknown;
    for (size_t at = 0; at < word.size(); ++at) {
      const int32_t id = byte_ids_[static_cast<uint8_t>(word[at])];
      if (id == TokenTable::kNone) {
        add_unknown(word.substr(at, 1), &unknown, symbols);
        continue;
      }
      flush(&unknown, symbols);
      symbols->push_back({id, 1});
    }
    flush(&unknown, symbols);
  }

  void split_characters(std::string_view word, std::vector<Symbol>* symbols) const {
    Unknown unknown;
    std::string affixed;
    for (size_t at = 0; at < word.size();) {
      const auto length = static_cast<size_t>(decode_utf8(word.substr(at)).length);
      const std::string_view character = word.substr(at, length);
      std::string_view text = character;
      const bool first = at == 0;
      at += length;
      const bool prefix = !first && !o_.continuing_subword_prefix.empty();
      const bool suffix = at == word.size() && !o_.end_of_word_suffix.empty();
      if (prefix || suffix) {
        affixed = prefix ? o_.continuing_subword_prefix : "";
        affixed += character;
        if (suffix) affixed += o_.end_of_word_suffix;
        text = affixed;
      }
      if (const int32_t id = tokens_.find(text); id != TokenTable::kNone) {
        flush(&unknown, symbols);
        symbols->push_back({id, static_cast<uint32_t>(length)});
      } else if (!fall_back(text, most_of(word.size()), symbols)) {
        add_unknown(character, &unknown, symbols);
      }
    }
    flush(&unknown, symbols);
  }

  // Bytes do not end a run of unknown characters: it comes behind them, as in the tokenizers package.
  bool fall_back(std::string_view text, size_t most, std::vector<Symbol>* symbols) const {
    if (!o_.byte_fallback) return false;
    for (const char c : text)
      if (fallback_ids_[static_cast<uint8_t>(c)] == TokenTable::kNone) return false;
    if (symbols->size() + text.size() > most) refuse_growth("tokenize", most);
    for (const char c : text) symbols->push_back({fallback_ids_[static_cast<uint8_t>(c)], 1});
    return true;
  }

  // Of all neighbours those of the least rank merge first, of equal ones those on the left.
  void merge_short(std::vector<Symbol>* symbols) const {
    std::vector<Symbol>& s = *symbols;
    std::array<Merged, 32> merged;  // [i]: of s[i] and s[i + 1]
    for (size_t i = 0; i + 1 < s.size(); ++i) merged[i] = merges_(s[i].id, s[i + 1].id);
    for (size_t n = s.size(); n > 1; --n) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < n; ++i)
        if (merged[i].rank < merged[best].rank) best = i;
      if (merged[best].rank == kNoRank) break;
      s[best] = {merged[best].id, s[best].size + s[best + 1].size};
      s.erase(s.begin() + static_cast<int64_t>(best) + 1);
      for (size_t i = best + 1; i + 2 < n; ++i) merged[i] = merged[i + 1];
      if (best > 0) merged[best - 1] = merges_(s[best - 1].id, s[best].id);
      if (best + 1 < s.size()) merged[best] = merges_(s[best].id, s[best + 1].id);
    }
  }

  // The same with a queue. What it has of a pair that is no more there is recognised by the id.
  void merge_long(std::vector<Symbol>* symbols) const {
    struct Candidate {
      uint32_t rank, at;
      int32_t id;
      bool operator<(const Candidate& o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
    };
    std::vector<Symbol>& s = *symbols;
    const auto n = static_cast<uint32_t>(s.size());
    std::vector<uint32_t> previous(n), next(n);  // n: none
    for (uint32_t i = 0; i < n; ++i) {
      previous[i] = i == 0 ? n : i - 1;
      next[i] = i + 1;
    }
    std::vector<Candidate> candidates;
    const auto look = [&](uint32_t left) {
      const Merged merged = merges_(s[left].id, s[next[left]].id);
      if (merged.rank != kNoRank) candidates.push_back({merged.rank, left, merged.id});
      return merged.rank != kNoRank;
    };
    for (uint32_t i = 0; i + 1 < n; ++i) look(i);
    std::make_heap(candidates.begin(), candidates.end());
    while (!candidates.empty()) {
      std::pop_heap(candidates.begin(), candidates.end());
      const Candidate best = candidates.back();
      candidates.pop_back();
      const uint32_t at = best.at;
      if (s[at].size == 0 || next[at] == n) continue;
      const uint32_t right = next[at];
      if (const Merged now = merges_(s[at].id, s[right].id); now.rank == kNoRank || now.id != best.id) continue;
      s[at] = {best.id, s[at].size + s[right].size};
      s[right].size = 0;
      next[at] = next[right];
      if (next[at] != n) previous[next[at]] = at;
      if (previous[at] != n && look(previous[at])) std::push_heap(candidates.begin(), candidates.end());
      if (next[at] != n && look(at)) std::push_heap(candidates.begin(), candidates.end());
    }
  }

  BpeOptions o_;
  PairTable merges_;
  int32_t unk_id_;
  std::array<int32_t, 256> byte_ids_{}, fallback_ids_{};
};

}  // namespace

ModelPtr make_bpe(TokenTable tokens, std::span<const Merge> merges, BpeOptions options, const std::string& where) {
  return std::make_unique<Bpe>(std::move(tokens), merges, std::move(options), where);
}

}  // namespace heed::inline v0
