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

  std::optional<std::string> own_text(int32_t id) const override {
    if (id < 0 || id >= vocabulary_.size()) return std::nullopt;
    return std::string(special(id) ? vocabulary_.piece(id) : vocabulary_.bytes(id));
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

  std::optional<int32_t> unknown() const override {
    const int32_t id = vocabulary_.unk_id();
    return id < 0 ? std::nullopt : std::optional(id);
  }

  int64_t size() const override { return vocabulary_.size(); }

  bool special(int32_t id) const override {
    return id >= 0 && (id == vocabulary_.pad_id() || id == vocabulary_.bos_id() || id == vocabulary_.eos_id());
  }

 private:
  void append(const AlignedText& text, int32_t type_id, Encoding* out) const {
    const std::vector<int32_t> ids = vocabulary_.encode(text.text());
    out->ids.insert(out->ids.end(), ids.begin(), ids.end());
    out->type_ids.resize(out->ids.size(), type_id);
    out->added.resize(out->ids.size(), 0);
    if (text.size() == 0 || vocabulary_.foreign()) {
      const ByteRange whole = text.size() == 0 ? ByteRange{} : text.source(0, text.size());
      return out->offsets.resize(out->ids.size(), whole);
    }
    // The pieces spell the text, with a space before the first word where the vocabulary wants one.
    const AlignedText written = spelled(vocabulary_, text);
    size_t bytes = 0;
    for (const int32_t id : ids) bytes += spelled_by(id);
    const size_t prefix = vocabulary_.of_characters() ? 0 : bytes - std::min(bytes, written.size());
    size_t at = 0;  // in the text with its prefix
    for (const int32_t id : ids) {
      const bool unknown = vocabulary_.of_characters() && id == vocabulary_.unk_id();
      const size_t length =
          unknown ? static_cast<size_t>(decode_utf8(written.text().substr(at)).length) : spelled_by(id);
      const size_t begin = at - std::min(at, prefix), end = at + length - std::min(at + length, prefix);
      out->offsets.push_back(begin < end ? written.source(begin, end) : ByteRange{});  // the space that was added
      at += length;
    }
  }

  size_t spelled_by(int32_t id) const { return vocabulary_.bytes(id).size(); }

  Vocabulary vocabulary_;
};

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary) : implementation_(std::make_shared<OwnVocabulary>(std::move(vocabulary))) {}

}  // namespace heed::inline v0
