#include <algorithm>

#include "text/unicode.h"
#include "tokenizer/character_classes.h"
#include "tokenizer/post_processor.h"

namespace heed::inline v0 {
namespace {

constexpr char32_t kSpaceCharacter = U'\u0120';  // of byte_characters.h

bool is_trimmed(char32_t code) { return code == kSpaceCharacter || is_white_space(code); }

// The place `count` characters after `at`, at most `end`.
uint32_t forward(std::string_view text, uint32_t at, uint32_t count, uint32_t end) {
  for (; count > 0 && at < end && at < text.size(); --count)
    at += static_cast<uint32_t>(decode_utf8(text.substr(at)).length);
  return std::min(at, end);
}

// The place `count` characters before `at`, at least `begin`.
uint32_t backward(std::string_view text, uint32_t at, uint32_t count, uint32_t begin) {
  for (; count > 0 && at > begin; --count) {
    --at;
    while (at > begin && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  }
  return at;
}

// Spaces belong to the tokens, but not to their offsets, which lose as many characters of the text.
void trim_row(Row* row, bool add_prefix_space, const TokenText& text) {
  for (size_t i = 0; i < row->tokens.ids.size(); ++i) {
    ByteRange& range = row->tokens.offsets[i];
    std::string_view token = text(row->tokens.ids[i]);
    if (!token.data())
      token = row->text.substr(std::min<size_t>(range.begin, row->text.size()), range.end - range.begin);
    uint32_t leading = 0, trailing = 0;
    bool only_spaces = true;
    for (std::string_view rest = token; !rest.empty();) {
      const DecodedCharacter c = decode_utf8(rest);
      const bool trimmed = is_trimmed(c.code);
      leading += trimmed && only_spaces;
      trailing = trimmed ? trailing + 1 : 0;
      only_spaces = only_spaces && trimmed;
      rest.remove_prefix(static_cast<size_t>(c.length));
    }
    if (leading > 0) {
      const bool first = i == 0 || range.begin == 0;
      if (first && add_prefix_space && leading == 1) leading = 0;  // it was added
      range.begin = forward(row->text, range.begin, leading, range.end);
    }
    if (trailing > 0 && range.end >= trailing) range.end = backward(row->text, range.end, trailing, range.begin);
  }
}

void append_special(int32_t id, int32_t type_id, Encoding* to) {
  to->ids.push_back(id);
  to->type_ids.push_back(type_id);
  to->offsets.push_back({});
  to->added.push_back(1);
}

class ByteLevelProcessor : public PostProcessor {
 public:
  ByteLevelProcessor(bool trim, bool prefix, TokenText text) : trim_(trim), prefix_(prefix), text_(std::move(text)) {}
  void apply(std::vector<Row>* rows, bool) const override {
    if (!trim_) return;
    for (Row& row : *rows) trim_row(&row, prefix_, text_);
  }

 private:
  bool trim_, prefix_;
  TokenText text_;
};

class Template : public PostProcessor {
 public:
  Template(std::vector<TemplatePiece> single, std::vector<TemplatePiece> pair)
      : single_(std::move(single)), pair_(std::move(pair)) {}
  void apply(std::vector<Row>* rows, bool special_tokens) const override {
    std::vector<Row> out;
    for (const TemplatePiece& piece : rows->size() > 1 ? pair_ : single_) {
      if (piece.sequence < 0) {
        if (!special_tokens) continue;
        Row added;
        for (const int32_t id : piece.ids) append_special(id, piece.type_id, &added.tokens);
        out.push_back(std::move(added));
      } else if (static_cast<size_t>(piece.sequence) < rows->size()) {
        Row row = (*rows)[static_cast<size_t>(piece.sequence)];
        std::fill(row.tokens.type_ids.begin(), row.tokens.type_ids.end(), piece.type_id);
        out.push_back(std::move(row));
      }
    }
    *rows = std::move(out);
  }

 private:
  std::vector<TemplatePiece> single_, pair_;
};

// [CLS] first [SEP] second [SEP]
class BertProcessor : public PostProcessor {
 public:
  BertProcessor(int32_t cls, int32_t sep) : cls_(cls), sep_(sep) {}
  void apply(std::vector<Row>* rows, bool special_tokens) const override {
    if (!special_tokens) return;
    for (size_t i = 0; i < rows->size(); ++i) {
      Encoding out;
      const auto type_id = static_cast<int32_t>(i > 0);
      if (i == 0) append_special(cls_, type_id, &out);
      append((*rows)[i].tokens, &out);
      append_special(sep_, type_id, &out);
      (*rows)[i].tokens = std::move(out);
    }
  }

 private:
  int32_t cls_, sep_;
};

// <s> first </s> </s> second </s>, all in segment 0.
class RobertaProcessor : public PostProcessor {
 public:
  RobertaProcessor(int32_t cls, int32_t sep, bool trim, bool prefix, TokenText text)
      : cls_(cls), sep_(sep), trim_(trim), prefix_(prefix), text_(std::move(text)) {}
  void apply(std::vector<Row>* rows, bool special_tokens) const override {
    for (size_t i = 0; i < rows->size(); ++i) {
      if (trim_) trim_row(&(*rows)[i], prefix_, text_);
      Encoding& row = (*rows)[i].tokens;
      std::fill(row.type_ids.begin(), row.type_ids.end(), 0);
      if (!special_tokens) continue;
      Encoding out;
      append_special(i == 0 ? cls_ : sep_, 0, &out);
      append(row, &out);
      append_special(sep_, 0, &out);
      row = std::move(out);
    }
  }

 private:
  int32_t cls_, sep_;
  bool trim_, prefix_;
  TokenText text_;
};

class Sequence : public PostProcessor {
 public:
  explicit Sequence(std::vector<PostProcessorPtr> processors) : processors_(std::move(processors)) {}
  void apply(std::vector<Row>* rows, bool special_tokens) const override {
    for (const PostProcessorPtr& processor : processors_) processor->apply(rows, special_tokens);
  }

 private:
  std::vector<PostProcessorPtr> processors_;
};

}  // namespace

void append(const Encoding& from, Encoding* to) {
  to->ids.insert(to->ids.end(), from.ids.begin(), from.ids.end());
  to->type_ids.insert(to->type_ids.end(), from.type_ids.begin(), from.type_ids.end());
  to->offsets.insert(to->offsets.end(), from.offsets.begin(), from.offsets.end());
  to->added.insert(to->added.end(), from.added.begin(), from.added.end());
}

PostProcessorPtr make_byte_level_processor(bool trim_offsets, bool add_prefix_space, TokenText text) {
  return std::make_unique<ByteLevelProcessor>(trim_offsets, add_prefix_space, std::move(text));
}
PostProcessorPtr make_bert_processor(int32_t cls, int32_t sep) { return std::make_unique<BertProcessor>(cls, sep); }
PostProcessorPtr make_roberta_processor(int32_t cls, int32_t sep, bool trim_offsets, bool add_prefix_space,
                                        TokenText text) {
  return std::make_unique<RobertaProcessor>(cls, sep, trim_offsets, add_prefix_space, std::move(text));
}
PostProcessorPtr make_template(std::vector<TemplatePiece> single, std::vector<TemplatePiece> pair) {
  return std::make_unique<Template>(std::move(single), std::move(pair));
}
PostProcessorPtr make_sequence(std::vector<PostProcessorPtr> processors) {
  return std::make_unique<Sequence>(std::move(processors));
}

}  // namespace heed::inline v0
