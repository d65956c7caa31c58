// heed's own vocabularies as tokenizers.
#include "tokenizer/implementation.h"
#include "tokenizer/normalizer.h"

namespace heed::inline v0 {
namespace {

// The text that the pieces spell, with its sources: what Vocabulary::encode makes of it before it cuts.
AlignedText spelled(const Vocabulary& vocabulary, const AlignedText& text) {
  AlignedText out = text;
  const std::string wanted = vocabulary.normalize(text.text());
  if (wanted != text.text()) {
    make_normal_form(NormalForm::c)->apply(&out);
    if (wanted != out.text()) {  // runs of spaces are one, and none is at the ends
      AlignedText collapsed;
      size_t at = 0;
      for (Rewriter rewriter(out, &collapsed); !rewriter.done();) {
        const auto length = static_cast<size_t>(rewriter.peek().length);
        const bool kept = wanted.compare(at, length, rewriter.rest().substr(0, length)) == 0 && at < wanted.size();
        if (kept) at += length;
        kept ? rewriter.copy(length) : rewriter.skip(length);
      }
      out = std::move(collapsed);
    }
  }
  return out;
}

class OwnVocabulary : public Tokenizer::Implementation {
 public:
  explicit OwnVocabulary(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  Encoding encode(std::span<const GivenText> texts, bool special_tokens) const override {
    Encoding out;
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto type_id = static_cast<int32_t>(i);
      append(texts[i].text, type_id, &out);
      if (special_tokens && vocabulary_.eos_id() >= 0) {
        out.ids.push_back(vocabulary_.eos_id());
        out.offsets.push_back({});
        out.type_ids.push_back(type_id);
        out.added.push_back(1);
      }
    }
    return out;
  }

  std::string decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::vector<int32_t> known;
    std::string out;
    const auto flush = [&] {
      if (!known.empty()) out += vocabulary_.decode(known);
      known.clear();
    };
    for (const int32_t id : ids) {
      if (id < 0 || id >= vocabulary_.size()) continue;
      if (!skip_special && special(id)) {
        flush();
        out += vocabulary_.piece(id);
      } else {
        known.push_back(id);
      }
    }
    flush();
    return out;
  }

  std::optional<std::string> token(int32_t id) const override {
    if (id < 0 || id >= vocabulary_.size()) return std::nullopt;
    return vocabulary_.piece(id);
  }

  std::optional<int32_t> id_of(std::string_view token) const override {
    for (int32_t id = 0; id < vocabulary_.size(); ++id)
      if (vocabulary_.piece(id) == token) return id;
    return std::nullopt;
  }

  int64_t size() const override { return vocabulary_.size(); }

  bool special(int32_t id) const override {
    return id >= 0 && (id == vocabulary_.pad_id() || id == vocabulary_.bos_id() || id == vocabulary_.eos_id());
  }

 private:
  void append(const AlignedText& text, int32_t type_id, Encoding* out) const {
    const std::vector<int32_t> ids = vocabulary_.encode(text.text());
    const size_t before = out->ids.size();
    out->ids.insert(out->ids.end(), ids.begin(), ids.end());
    out->type_ids.resize(out->ids.size(), type_id);
    out->added.resize(out->ids.size(), 0);
    if (text.size() == 0) return out->offsets.resize(out->ids.size());
    const AlignedText written = spelled(vocabulary_, text);
    const ByteRange whole = text.source(0, text.size());
    // The pieces of a text spell it, with a space before the first word where the vocabulary wants one.
    size_t spelled_bytes = 0;
    for (const int32_t id : ids) spelled_bytes += spelled_by(id);
    const size_t prefix = spelled_bytes - std::min(spelled_bytes, written.size());
    const bool exact = !vocabulary_.foreign() && prefix <= 1;
    size_t at = 0;  // in the text with its prefix
    for (size_t i = before; i < out->ids.size(); ++i) {
      const size_t length = vocabulary_.of_characters() && out->ids[i] == vocabulary_.unk_id()
                                ? static_cast<size_t>(decode_utf8(written.text().substr(at)).length)
                                : spelled_by(out->ids[i]);
      const size_t begin = at - std::min(at, prefix), end = at + length - std::min(at + length, prefix);
      out->offsets.push_back(!exact        ? whole
                             : begin < end ? written.source(begin, end)
                             : begin < written.size()
                                 ? ByteRange{written.source(begin).begin, written.source(begin).begin}
                                 : ByteRange{whole.end, whole.end});
      at += length;
    }
  }

  size_t spelled_by(int32_t id) const { return vocabulary_.bytes(id).size(); }

  Vocabulary vocabulary_;
};

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary) : implementation_(std::make_shared<OwnVocabulary>(std::move(vocabulary))) {}

}  // namespace heed::inline v0
