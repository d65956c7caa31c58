#include <algorithm>

#include "tokenizer/byte_characters.h"
#include "tokenizer/character_classes.h"
#include "tokenizer/pre_tokenizer.h"

namespace heed::inline v0 {
namespace {

using Parts = std::vector<std::pair<size_t, size_t>>;

// Appends what a behaviour makes of the parts of a word that begins at `base`.
void append(const std::vector<Part>& parts, SplitBehavior behavior, bool invert, size_t base, Parts* out) {
  const auto is_match = [&](const Part& part) { return part.match != invert; };
  const auto add = [&](size_t begin, size_t end) {
    if (begin < end) out->emplace_back(base + begin, base + end);
  };
  if (behavior == SplitBehavior::isolated || behavior == SplitBehavior::removed) {
    for (const Part& part : parts)
      if (behavior == SplitBehavior::isolated || !is_match(part)) add(part.begin, part.end);
    return;
  }
  // A match joins its neighbour; of several matches in a row only the one next to it does.
  const bool next = behavior == SplitBehavior::merged_with_next;
  std::vector<std::pair<size_t, size_t>> joined;
  bool last_match = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[next ? parts.size() - 1 - i : i];
    const bool match = is_match(part);
    const bool joins = behavior == SplitBehavior::contiguous ? match == last_match : match && !last_match;
    if (joins && !joined.empty()) {
      (next ? joined.back().first : joined.back().second) = next ? part.begin : part.end;
    } else {
      joined.emplace_back(part.begin, part.end);
    }
    last_match = match;
  }
  if (next) std::reverse(joined.begin(), joined.end());
  for (const auto& [begin, end] : joined) add(begin, end);
}

// Cuts every word; find(text, &parts) says where.
template <class Find>
void split(Words* words, SplitBehavior behavior, bool invert, const Find& find) {
  Parts out;
  std::vector<Part> parts;
  for (const auto& [begin, end] : words->parts) {
    find(words->text.text().substr(begin, end - begin), &parts);
    append(parts, behavior, invert, begin, &out);
  }
  words->parts = std::move(out);
}

template <class Is>
void split_characters(Words* words, SplitBehavior behavior, const Is& is) {
  split(words, behavior, false,
        [&](std::string_view text, std::vector<Part>* parts) { find_characters(text, is, parts); });
}

// Rewrites every word; rewrite(rewriter) handles one.
template <class Rewrite>
void rewrite(Words* words, const Rewrite& write) {
  AlignedText out;
  Parts parts;
  for (const auto& [begin, end] : words->parts) {
    Rewriter rewriter(words->text, begin, end, &out);
    const size_t first = out.size();
    write(&rewriter);
    if (out.size() > first) parts.emplace_back(first, out.size());
  }
  words->text = std::move(out);
  words->parts = std::move(parts);
}

class Split : public PreTokenizer {
 public:
  Split(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void apply(Words* words) const override {
    Pattern::Finder finder(pattern_);
    split(words, behavior_, invert_,
          [&](std::string_view text, std::vector<Part>* parts) { finder.find(text, parts); });
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class ByteLevel : public PreTokenizer {
 public:
  explicit ByteLevel(const ByteLevelOptions& o) : o_(o) {
    // GPT-2's words: Radford et al. 2019.
    constexpr const char* kWords = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
    if (o.use_regex) words_ = make_split(Pattern(Regex(kWords, "ByteLevel")), SplitBehavior::isolated, false);
  }
  void apply(Words* words) const override {
    if (o_.add_prefix_space) {
      const std::string_view text = words->text.text();
      if (std::any_of(words->parts.begin(), words->parts.end(),
                      [&](const auto& part) { return text[part.first] != ' '; }))
        rewrite(words, [](Rewriter* word) {
          if (!word->rest().starts_with(' ')) word->put(" ", word->here());
          word->copy(word->rest().size());
        });
    }
    if (words_) words_->apply(words);
    if (o_.leave_bytes) {
      words->as_bytes = true;
      return;
    }
    rewrite(words, [](Rewriter* word) {
      while (!word->done()) {
        const ByteRange source = word->here();
        const auto length = static_cast<size_t>(word->peek().length);
        for (const char byte : word->rest().substr(0, length))
          word->put(byte_character(static_cast<uint8_t>(byte)), source);
        word->skip(length);
      }
    });
  }

 private:
  ByteLevelOptions o_;
  PreTokenizerPtr words_;
};

class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(MetaspaceOptions o) : o_(std::move(o)) {}
  void apply(Words* words) const override {
    rewrite(words, [&](Rewriter* word) {
      const std::string_view text = word->rest();
      const bool marked = text.starts_with(' ') || text.starts_with(o_.replacement);
      if (!marked &&
          (o_.prepend == PrependScheme::always || (o_.prepend == PrependScheme::first && word->here().begin == 0)))
        word->put_all(o_.replacement, word->here());
      while (!word->done()) {
        const size_t plain = std::min(word->rest().find(' '), word->rest().size());
        word->copy(plain);
        if (word->done()) break;
        word->put(o_.replacement, word->here());
        word->skip(1);
      }
    });
    if (!o_.split) return;
    const Pattern pattern(o_.replacement);
    Pattern::Finder finder(pattern);
    split(words, SplitBehavior::merged_with_next, false,
          [&](std::string_view text, std::vector<Part>* parts) { finder.find(text, parts); });
  }

 private:
  MetaspaceOptions o_;
};

class BertPreTokenizer : public PreTokenizer {
 public:
  void apply(Words* words) const override {
    split_characters(words, SplitBehavior::removed, is_white_space);
    split_characters(words, SplitBehavior::isolated, is_tokens_punctuation);
  }
};

class Digits : public PreTokenizer {
 public:
  explicit Digits(bool individual) : individual_(individual) {}
  void apply(Words* words) const override {
    split_characters(words, individual_ ? SplitBehavior::isolated : SplitBehavior::contiguous, is_numeric);
  }

 private:
  bool individual_;
};

class Punctuation : public PreTokenizer {
 public:
  explicit Punctuation(SplitBehavior behavior) : behavior_(behavior) {}
  void apply(Words* words) const override { split_characters(words, behavior_, is_tokens_punctuation); }

 private:
  SplitBehavior behavior_;
};

// Runs of letters and their like, and runs of everything else but whitespace: \w+|[^\w\s]+
class Whitespace : public PreTokenizer {
 public:
  void apply(Words* words) const override {
    split_characters(words, SplitBehavior::removed, is_white_space);
    split_characters(words, SplitBehavior::contiguous, is_word_character);
  }
};

class WhitespaceSplit : public PreTokenizer {
 public:
  void apply(Words* words) const override { split_characters(words, SplitBehavior::removed, is_white_space); }
};

class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(size_t characters) : characters_(characters) {}
  void apply(Words* words) const override {
    split(words, SplitBehavior::isolated, false, [&](std::string_view text, std::vector<Part>* parts) {
      parts->clear();
      for (size_t begin = 0, at = 0; begin < text.size(); begin = at) {
        for (size_t n = 0; n < characters_ && at < text.size(); ++n)
          at += static_cast<size_t>(decode_utf8(text.substr(at)).length);
        parts->push_back({begin, at, true});
      }
    });
  }

 private:
  size_t characters_;
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<PreTokenizerPtr> pre_tokenizers) : pre_tokenizers_(std::move(pre_tokenizers)) {}
  void apply(Words* words) const override {
    for (const PreTokenizerPtr& pre_tokenizer : pre_tokenizers_) pre_tokenizer->apply(words);
  }

 private:
  std::vector<PreTokenizerPtr> pre_tokenizers_;
};

}  // namespace

PreTokenizerPtr make_byte_level(const ByteLevelOptions& o) { return std::make_unique<ByteLevel>(o); }
PreTokenizerPtr make_metaspace(MetaspaceOptions o) { return std::make_unique<Metaspace>(std::move(o)); }
PreTokenizerPtr make_split(Pattern pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<Split>(std::move(pattern), behavior, invert);
}
PreTokenizerPtr make_bert_pre_tokenizer() { return std::make_unique<BertPreTokenizer>(); }
PreTokenizerPtr make_digits(bool individual) { return std::make_unique<Digits>(individual); }
PreTokenizerPtr make_punctuation(SplitBehavior behavior) { return std::make_unique<Punctuation>(behavior); }
PreTokenizerPtr make_whitespace() { return std::make_unique<Whitespace>(); }
PreTokenizerPtr make_whitespace_split() { return std::make_unique<WhitespaceSplit>(); }
PreTokenizerPtr make_fixed_length(size_t characters) { return std::make_unique<FixedLength>(characters); }
PreTokenizerPtr make_sequence(std::vector<PreTokenizerPtr> pre_tokenizers) {
  return std::make_unique<Sequence>(std::move(pre_tokenizers));
}

}  // namespace heed::inline v0
