// The normalizer of sentencepiece's models, as the tokenizers package reads its table: by grapheme clusters, with the
// shortest entry that a cluster begins with, which it puts into the place of the whole cluster.
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "tokenizer/character_map.h"
#include "tokenizer/growth.h"
#include "tokenizer/normalizer.h"

namespace heed::inline v0 {
namespace {

// One of the steps from the old text to the new one: `bytes` of the old text as they are, or a character.
struct Step {
  size_t begin = 0, bytes = 0;  // 0 bytes: a character
  char32_t code = 0;
  int64_t difference = 0;  // as Rewriter::change has it
};

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(CharacterMap map) : map_(std::move(map)) {
    for (size_t c = 0; c < plain_.size(); ++c) {
      const std::string character(1, static_cast<char>(c));
      plain_[c] = c != '\r' && !map_.shortest(character);
    }
  }

  void apply(AlignedText* text) const override {
    const std::string_view all = text->text();
    std::vector<Step> steps;
    bool changed = false;
    for (size_t at = 0; at < all.size();) {
      size_t end = at;
      while (end < all.size() && is_plain(all, end)) ++end;
      if (end == at) {
        end = at + cluster_size(all.substr(at));
        changed = replace_cluster(all, at, end, &steps) || changed;
        if (steps.size() > text->most()) refuse_growth("tokenize", text->most());
      } else {
        keep(at, end, &steps);
      }
      at = end;
    }
    if (!changed) return;
    AlignedText out;
    Rewriter rewriter(*text, &out);
    for (const Step& step : steps) take(step, all, &rewriter);
    *text = std::move(out);
  }

 private:
  // A character of ASCII without an entry, with which nothing combines.
  bool is_plain(std::string_view text, size_t at) const {
    const auto byte = static_cast<unsigned char>(text[at]);
    return byte < 0x80 && plain_[byte] && (at + 1 == text.size() || static_cast<unsigned char>(text[at + 1]) < 0x80);
  }

  static size_t cluster_size(std::string_view text) {
    utf8proc_int32_t state = 0;
    DecodedCharacter last = decode_utf8(text);
    auto end = static_cast<size_t>(last.length);
    while (end < text.size()) {
      const DecodedCharacter next = decode_utf8(text.substr(end));
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code),
                                           static_cast<utf8proc_int32_t>(next.code), &state))
        break;
      end += static_cast<size_t>(next.length);
      last = next;
    }
    return end;
  }

  bool replace_cluster(std::string_view text, size_t begin, size_t end, std::vector<Step>* steps) const {
    constexpr size_t kLongestCluster = 5;  // bytes; longer ones are not looked up as a whole
    if (end - begin <= kLongestCluster) {
      if (const auto content = map_.shortest(text.substr(begin, end - begin))) {
        replace(text, begin, end, *content, steps);
        return true;
      }
    }
    bool changed = false;
    for (size_t at = begin; at < end;) {
      const size_t next = at + static_cast<size_t>(decode_utf8(text.substr(at)).length);
      if (const auto content = map_.shortest(text.substr(at, next - at))) {
        replace(text, at, next, *content, steps);
        changed = true;
      } else {
        keep(at, next, steps);
      }
      at = next;
    }
    return changed;
  }

  static void keep(size_t begin, size_t end, std::vector<Step>* steps) {
    if (!steps->empty() && steps->back().bytes > 0 && steps->back().begin + steps->back().bytes == begin) {
      steps->back().bytes += end - begin;
    } else {
      steps->push_back({.begin = begin, .bytes = end - begin});
    }
  }

  static int64_t characters(std::string_view text) {
    return std::count_if(text.begin(), text.end(),
                         [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  }

  // More characters than before are new at the end; what fewer lack is taken off the last one, which may stand before
  // this replacement.
  static void replace(std::string_view text, size_t begin, size_t end, std::string_view content,
                      std::vector<Step>* steps) {
    const int64_t before = characters(text.substr(begin, end - begin)), now = characters(content);
    int64_t left = now;
    while (!content.empty()) {
      const DecodedCharacter c = decode_utf8(content);
      steps->push_back({.code = c.code, .difference = left <= now - before});
      content.remove_prefix(static_cast<size_t>(c.length));
      --left;
    }
    if (now >= before || steps->empty()) return;
    if (Step& last = steps->back(); last.bytes > 0) {
      size_t length = 1;
      while ((static_cast<unsigned char>(text[last.begin + last.bytes - length]) & 0xC0) == 0x80) ++length;
      last.bytes -= length;
      const char32_t code = decode_utf8(text.substr(last.begin + last.bytes)).code;
      if (last.bytes == 0) steps->pop_back();
      steps->push_back({.code = code});
    }
    steps->back().difference += now - before;
  }

  static void take(const Step& step, std::string_view text, Rewriter* rewriter) {
    if (step.bytes == 0) return rewriter->change(step.code, step.difference);
    if (rewriter->at() == step.begin) return rewriter->copy(step.bytes);
    // Where the first character of all became nothing, all others lag behind it.
    for (std::string_view rest = text.substr(step.begin, step.bytes); !rest.empty();) {
      const DecodedCharacter c = decode_utf8(rest);
      rewriter->change(c.code, 0);
      rest.remove_prefix(static_cast<size_t>(c.length));
    }
  }

  CharacterMap map_;
  std::array<bool, 128> plain_{};
};

}  // namespace

NormalizerPtr make_precompiled(std::string_view map, const std::string& where) {
  if (map.empty()) return make_sequence({});  // sentencepiece's way to write that there is none
  return std::make_unique<Precompiled>(CharacterMap(map, where));
}

}  // namespace heed::inline v0
