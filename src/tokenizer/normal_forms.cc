// Unicode's normal forms, with the source of each character. Newer characters than those of Unicode 9 do not change.
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "tokenizer/normalizer.h"
#include "tokenizer/unicode_age.h"

namespace heed::inline v0 {
namespace {

// A character of the result, with how many more there are than before: the first that a character decomposes to
// replaces it, the others are new; one that two make up takes one away.
struct Character {
  char32_t code;
  int32_t difference;
  int32_t combining_class;
};

int32_t combining_class(char32_t code) {
  if (is_newer_than_unicode_9(code)) return 0;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class;
}

void decompose(char32_t code, bool compatibly, std::vector<Character>* out) {
  if (is_newer_than_unicode_9(code)) {
    out->push_back({code, 0, 0});
    return;
  }
  std::array<utf8proc_int32_t, 32> codes{};  // the longest decomposition has 18
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatibly ? UTF8PROC_COMPAT : 0));
  const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), codes.data(),
                                         static_cast<utf8proc_ssize_t>(codes.size()), options, nullptr);
  for (utf8proc_ssize_t i = 0; i < n; ++i) {
    const auto part = static_cast<char32_t>(codes[static_cast<size_t>(i)]);
    out->push_back({part, i > 0, combining_class(part)});
  }
}

// Marks behind one base stand in the order of their classes.
void order(std::vector<Character>* characters) {
  for (auto begin = characters->begin(); begin != characters->end();) {
    if (begin->combining_class == 0) {
      ++begin;
      continue;
    }
    auto end = begin;
    while (end != characters->end() && end->combining_class != 0) ++end;
    std::stable_sort(begin, end,
                     [](const Character& a, const Character& b) { return a.combining_class < b.combining_class; });
    begin = end;
  }
}

// The character that two make up, or 0.
char32_t composed(char32_t first, char32_t second) {
  if (is_newer_than_unicode_9(first) || is_newer_than_unicode_9(second)) return 0;
  std::array<utf8proc_int32_t, 3> pair{static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second), 0};
  const auto n =
      utf8proc_normalize_utf32(pair.data(), 2, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  return n == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

void compose(std::vector<Character>* characters) {
  size_t kept = 0, base = 0;
  bool has_base = false;
  int32_t last = -1;  // class of what stands between the base and the next one
  for (const Character c : *characters) {
    if (has_base && last < c.combining_class) {
      if (const char32_t code = composed((*characters)[base].code, c.code)) {
        (*characters)[base].code = code;
        (*characters)[base].difference += c.difference - 1;
        continue;
      }
    }
    if (c.combining_class == 0) {
      has_base = true;
      base = kept;
      last = -1;
    } else {
      last = c.combining_class;
    }
    (*characters)[kept++] = c;
  }
  characters->resize(kept);
}

class NormalFormNormalizer : public Normalizer {
 public:
  explicit NormalFormNormalizer(NormalForm form) : form_(form) {}

  void apply(AlignedText* text) const override {
    // Below these first bytes nothing changes: U+0300, U+00C0, U+00A0.
    const unsigned char first = form_ == NormalForm::c ? 0xCC : form_ == NormalForm::d ? 0xC3 : 0xC2;
    const std::string_view all = text->text();
    if (std::ranges::all_of(all, [&](char c) { return static_cast<unsigned char>(c) < first; })) return;
    AlignedText out;
    Rewriter rewriter(*text, &out);
    std::vector<Character> characters;
    while (!rewriter.done()) {
      // ASCII combines with what follows at the most: everything between two such characters is a text by itself.
      const std::string_view rest = rewriter.rest();
      size_t plain = 0;
      while (plain < rest.size() && static_cast<unsigned char>(rest[plain]) < 0x80) ++plain;
      if (plain > 1) rewriter.copy(plain - 1);
      size_t end = plain > 0 ? 1 : 0;
      while (end < rewriter.rest().size() && static_cast<unsigned char>(rewriter.rest()[end]) >= 0x80) ++end;
      characters.clear();
      for (size_t at = 0; at < end;) {
        const DecodedCharacter c = decode_utf8(rewriter.rest().substr(at));
        decompose(c.code, form_ == NormalForm::kc || form_ == NormalForm::kd, &characters);
        at += static_cast<size_t>(c.length);
      }
      order(&characters);
      if (form_ == NormalForm::c || form_ == NormalForm::kc) compose(&characters);
      for (const Character& c : characters) rewriter.change(c.code, c.difference);
    }
    *text = std::move(out);
  }

 private:
  NormalForm form_;
};

}  // namespace

NormalizerPtr make_normal_form(NormalForm form) { return std::make_unique<NormalFormNormalizer>(form); }

void decompose_canonically(AlignedText* text) { NormalFormNormalizer(NormalForm::d).apply(text); }

}  // namespace heed::inline v0
