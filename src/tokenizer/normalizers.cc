// The small normalizers.
#include <utf8proc.h>

#include <algorithm>

#include "tokenizer/byte_characters.h"
#include "tokenizer/character_classes.h"
#include "tokenizer/normalizer.h"

namespace heed::inline v0 {
namespace {

// Keeps the characters that `keep` takes.
template <class Keep>
void filter(AlignedText* text, const Keep& keep) {
  AlignedText out;
  for (Rewriter rewriter(*text, &out); !rewriter.done();) {
    const DecodedCharacter c = rewriter.peek();
    const auto length = static_cast<size_t>(c.length);
    keep(c.code) ? rewriter.copy(length) : rewriter.skip(length);
  }
  *text = std::move(out);
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

class Lowercase : public Normalizer {
 public:
  void apply(AlignedText* text) const override { lower_case(text); }
  bool lowercases() const override { return true; }
};

class StripAccents : public Normalizer {
 public:
  void apply(AlignedText* text) const override {
    if (!is_ascii(text->text())) filter(text, [](char32_t code) { return !is_mark(code); });
  }
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(AlignedText* text) const override {
    const std::string_view all = text->text();
    size_t begin = 0, end = 0;  // of what is left
    bool seen = false;
    for (size_t at = 0; at < all.size();) {
      const DecodedCharacter c = decode_utf8(all.substr(at));
      if (!is_white_space(c.code)) {
        if (!seen) begin = at;
        seen = true;
        end = at + static_cast<size_t>(c.length);
      }
      at += static_cast<size_t>(c.length);
    }
    if (!left_) begin = 0;
    if (!right_) end = all.size();
    if (!seen) begin = 0, end = left_ || right_ ? 0 : all.size();
    AlignedText out;
    out.copy(*text, begin, end);
    *text = std::move(out);
  }

 private:
  bool left_, right_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(AlignedText* text) const override {
    if (text->size() == 0) return;
    AlignedText out;
    Rewriter rewriter(*text, &out);
    rewriter.put_all(prefix_, rewriter.here());
    rewriter.copy(text->size());
    *text = std::move(out);
  }

 private:
  std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(AlignedText* text) const override {
    std::vector<Part> parts;
    Pattern::Finder(pattern_).find(text->text(), &parts);
    if (std::none_of(parts.begin(), parts.end(), [](const Part& part) { return part.match; })) return;
    AlignedText out;
    Rewriter rewriter(*text, &out);
    for (const Part& part : parts) {
      if (!part.match) {
        rewriter.copy(part.end - part.begin);
        continue;
      }
      rewriter.skip(part.end - part.begin);
      rewriter.insert(content_);
    }
    *text = std::move(out);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

// The characters that the normalizer "nmt" of sentencepiece drops or takes for a space.
class Nmt : public Normalizer {
 public:
  void apply(AlignedText* text) const override {
    AlignedText out;
    for (Rewriter rewriter(*text, &out); !rewriter.done();) {
      const DecodedCharacter c = rewriter.peek();
      const auto length = static_cast<size_t>(c.length);
      if (is_dropped(c.code)) {
        rewriter.skip(length);
      } else if (is_space(c.code)) {
        rewriter.replace(length, U' ');
      } else {
        rewriter.copy(length);
      }
    }
    *text = std::move(out);
  }

 private:
  static bool is_dropped(char32_t code) {
    return (code >= 0x01 && code <= 0x08) || code == 0x0B || (code >= 0x0E && code <= 0x1F) || code == 0x7F ||
           code == 0x8F || code == 0x9F;
  }
  static bool is_space(char32_t code) {
    return code == 0x09 || code == 0x0A || code == 0x0C || code == 0x0D || code == 0x1680 ||
           (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 || code == 0x2581 || code == 0xFEFF ||
           code == 0xFFFD;
  }
};

class ByteLevelNormalizer : public Normalizer {
 public:
  void apply(AlignedText* text) const override {
    AlignedText out;
    for (Rewriter rewriter(*text, &out); !rewriter.done();) {
      const auto length = static_cast<size_t>(rewriter.peek().length);
      for (size_t i = 0; i < length; ++i)
        rewriter.put(byte_character(static_cast<uint8_t>(rewriter.rest()[i])), rewriter.here());
      rewriter.skip(length);
    }
    *text = std::move(out);
  }
};

class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const BertNormalizerOptions& o) : o_(o), strip_(o.strip_accents.value_or(o.lowercase)) {}
  void apply(AlignedText* text) const override {
    if (o_.clean_text || o_.handle_chinese_chars) clean(text);
    if (strip_ && !is_ascii(text->text())) {
      decompose_canonically(text);
      filter(text, [](char32_t code) { return !is_nonspacing_mark(code); });
    }
    if (o_.lowercase) lower_case(text);
  }

 private:
  static bool is_plain(char c) { return c >= 0x20 && c < 0x7F; }

  void clean(AlignedText* text) const {
    if (std::ranges::all_of(text->text(), is_plain)) return;
    AlignedText out;
    for (Rewriter rewriter(*text, &out); !rewriter.done();) {
      const std::string_view rest = rewriter.rest();
      size_t plain = 0;
      while (plain < rest.size() && is_plain(rest[plain])) ++plain;
      if (plain > 0) {
        rewriter.copy(plain);
        continue;
      }
      const DecodedCharacter c = rewriter.peek();
      const auto length = static_cast<size_t>(c.length);
      if (o_.clean_text && (c.code == 0 || c.code == 0xFFFD || is_control_or_format(c.code))) {
        rewriter.skip(length);
      } else if (o_.clean_text && is_white_space(c.code)) {
        rewriter.replace(length, U' ');
      } else if (o_.handle_chinese_chars && is_cjk_ideograph(c.code)) {
        const ByteRange source = rewriter.here();
        rewriter.put(" ", source);
        rewriter.put(rest.substr(0, length), source);
        rewriter.put(" ", source);
        rewriter.skip(length);
      } else {
        rewriter.copy(length);
      }
    }
    *text = std::move(out);
  }

  BertNormalizerOptions o_;
  bool strip_;
};

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<NormalizerPtr> normalizers) : normalizers_(std::move(normalizers)) {}
  void apply(AlignedText* text) const override {
    for (const NormalizerPtr& normalizer : normalizers_) normalizer->apply(text);
  }
  bool lowercases() const override {
    return std::any_of(normalizers_.begin(), normalizers_.end(), [](const auto& part) { return part->lowercases(); });
  }

 private:
  std::vector<NormalizerPtr> normalizers_;
};

}  // namespace

// Character by character, as Rust's char::to_lowercase: no final sigma.
void lower_case(AlignedText* text) {
  const auto is_lower = [](char c) { return static_cast<unsigned char>(c) < 0x80 && !(c >= 'A' && c <= 'Z'); };
  AlignedText out;
  for (Rewriter rewriter(*text, &out); !rewriter.done();) {
    const std::string_view rest = rewriter.rest();
    size_t lower = 0;
    while (lower < rest.size() && is_lower(rest[lower])) ++lower;
    if (lower > 0) {
      rewriter.copy(lower);
      continue;
    }
    const DecodedCharacter c = rewriter.peek();
    const auto length = static_cast<size_t>(c.length);
    if (c.code == 0x130) {
      rewriter.replace(length, U'i');
      rewriter.insert(U'\u0307');
    } else {
      rewriter.replace(length, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.code))));
    }
  }
  *text = std::move(out);
}

NormalizerPtr make_lowercase() { return std::make_unique<Lowercase>(); }
NormalizerPtr make_strip_accents() { return std::make_unique<StripAccents>(); }
NormalizerPtr make_strip(bool left, bool right) { return std::make_unique<Strip>(left, right); }
NormalizerPtr make_prepend(std::string prefix) { return std::make_unique<Prepend>(std::move(prefix)); }
NormalizerPtr make_replace(Pattern pattern, std::string content) {
  return std::make_unique<Replace>(std::move(pattern), std::move(content));
}
NormalizerPtr make_nmt() { return std::make_unique<Nmt>(); }
NormalizerPtr make_byte_level_normalizer() { return std::make_unique<ByteLevelNormalizer>(); }
NormalizerPtr make_bert_normalizer(const BertNormalizerOptions& o) { return std::make_unique<BertNormalizer>(o); }
NormalizerPtr make_sequence(std::vector<NormalizerPtr> normalizers) {
  return std::make_unique<Sequence>(std::move(normalizers));
}

}  // namespace heed::inline v0
