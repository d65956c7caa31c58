// Marian's tokenizer (OPUS-MT): a sentencepiece model for each language, whose pieces vocab.json gives other ids.
#include <algorithm>
#include <set>

#include "heed/error.h"
#include "text/model_proto_reader.h"
#include "text/unicode.h"
#include "tokenizer/character_map.h"
#include "tokenizer/load.h"
#include "tokenizer/read_json.h"

namespace heed::inline v0 {
namespace {

constexpr std::string_view kMark = "\u2581";  // a space
constexpr std::string_view kCodeBegins = ">>", kCodeEnds = "<<";

// The language that a text begins with, ">>fra<<"; 0 bytes where there is none.
size_t language_code(std::string_view text) {
  const size_t end = text.starts_with(kCodeBegins) ? text.find(kCodeEnds) : std::string_view::npos;
  return end == std::string_view::npos ? 0 : end + kCodeEnds.size();
}

// Writes a text as sentencepiece does before it cuts: the longest entries of its table, one space where there are more,
// a mark for each space. The language is a word of its own.
class MarianWords : public PreTokenizer {
 public:
  MarianWords(const SentencePieceModel& model, const std::string& where)
      : dummy_prefix_(model.add_dummy_prefix), collapse_(model.remove_extra_whitespaces) {
    if (!model.character_map.empty()) map_.emplace(model.character_map, where);
  }

  void apply(Words* words) const override {
    AlignedText out;
    std::vector<std::pair<size_t, size_t>> parts;
    for (const auto& [begin, end] : words->parts) {
      Rewriter rewriter(words->text, begin, end, &out);
      if (const size_t code = language_code(rewriter.rest())) {
        rewriter.copy(code);
        parts.emplace_back(out.size() - code, out.size());
      }
      const size_t first = out.size();
      AlignedText written;
      const size_t code_end = rewriter.at();
      write(words->text, code_end, end, &written);
      const size_t kept = without_trailing_marks(written.text());
      out.copy(written, 0, kept);
      if (out.size() > first) parts.emplace_back(first, out.size());
    }
    words->text = std::move(out);
    words->parts = std::move(parts);
  }

 private:
  // What the text begins with, and what it becomes.
  std::pair<size_t, std::string_view> next(std::string_view text) const {
    if (map_)
      if (const auto found = map_->longest(text)) return *found;
    const auto length = static_cast<size_t>(decode_utf8(text).length);
    return {length, text.substr(0, length)};
  }

  void write(const AlignedText& text, size_t begin, size_t end, AlignedText* out) const {
    Rewriter rewriter(text, begin, end, out);
    const auto take = [&] { return next(rewriter.rest()); };
    while (collapse_ && !rewriter.done() && take().second == " ") rewriter.skip(take().first);
    if (rewriter.done()) return;
    if (dummy_prefix_) rewriter.put(kMark, rewriter.here());
    for (bool after_space = collapse_; !rewriter.done();) {
      auto [length, content] = take();
      while (after_space && content.starts_with(' ')) content.remove_prefix(1);
      if (!content.empty()) after_space = collapse_ && content.ends_with(' ');
      const ByteRange source = text.source(rewriter.at(), rewriter.at() + length);
      while (!content.empty()) {
        const auto size = static_cast<size_t>(decode_utf8(content).length);
        rewriter.put(content[0] == ' ' ? kMark : content.substr(0, size), source);
        content.remove_prefix(size);
      }
      rewriter.skip(length);
    }
  }

  size_t without_trailing_marks(std::string_view text) const {
    while (collapse_ && text.ends_with(kMark)) text.remove_suffix(kMark.size());
    return text.size();
  }

  std::optional<CharacterMap> map_;
  bool dummy_prefix_, collapse_;
};

// Cuts by one model and gives the pieces the ids of another vocabulary.
class MarianModel : public Model {
 public:
  MarianModel(TokenTable vocabulary, ModelPtr pieces, int32_t unk_id)
      : Model(std::move(vocabulary)), pieces_(std::move(pieces)), unk_id_(unk_id) {}
  void tokenize(std::string_view word, bool as_bytes, std::vector<WordToken>* out) const override {
    const size_t before = out->size();
    if (language_code(word) == word.size()) {
      out->push_back({0, 0, static_cast<uint32_t>(word.size())});
    } else {
      pieces_->tokenize(word, as_bytes, out);
    }
    for (auto token = out->begin() + static_cast<int64_t>(before); token != out->end(); ++token) {
      const int32_t id = tokens_.find(word.substr(token->begin, token->end - token->begin));
      token->id = id == TokenTable::kNone ? unk_id_ : id;
    }
  }
  std::optional<int32_t> unknown() const override { return unk_id_; }

 private:
  ModelPtr pieces_;
  int32_t unk_id_;
};

// Special tokens stand between spaces; what lies between them is sentencepiece's, which drops the space at a beginning.
class MarianDecoder : public Decoder {
 public:
  explicit MarianDecoder(std::set<std::string> special) : special_(std::move(special)) {}
  void apply(std::vector<std::string>* tokens) const override {
    std::string out, part;
    for (std::string_view token : *tokens) {
      if (special_.contains(std::string(token))) {
        out += part;
        out += token;
        out += ' ';
        part.clear();
        continue;
      }
      if (part.empty() && token.starts_with(kMark)) token.remove_prefix(kMark.size());
      part += token;
    }
    out += part;
    for (size_t at = 0; (at = out.find(kMark, at)) != std::string::npos;) out.replace(at, kMark.size(), " ");
    const size_t begin = std::min(out.find_first_not_of(" \t\n\v\f\r"), out.size());
    *tokens = {std::string(trim_end(std::string_view(out).substr(begin)))};
  }

 private:
  std::set<std::string> special_;
};

ModelPtr read_pieces(const SentencePieceModel& model, const std::string& where) {
  if (model.kind != SentencePieceModel::unigram)
    throw FormatError(where + ": a sentencepiece model that is not unigram, which Marian's are");
  TokenTable table;
  std::vector<double> scores;
  for (const SentencePiece& piece : model.pieces) {
    if (piece.type == SentencePiece::normal || piece.type == SentencePiece::user_defined)
      table.add(piece.text, static_cast<int32_t>(scores.size()));
    scores.push_back(piece.score);
  }
  table.finish(where);
  return make_unigram(std::move(table), std::move(scores), {.unk_id = model.unk_id, .single_precision = true}, where);
}

}  // namespace

std::shared_ptr<const Pipeline> read_marian(const TokenizerFiles& files, const TokenizerConfig& config,
                                            TokenizerSide side) {
  const bool target = side == TokenizerSide::target;
  const bool separate = target && config.boolean_or("separate_vocabs", false);
  const char* const pieces = target ? "target.spm" : "source.spm";
  const char* const ids = separate ? "target_vocab.json" : "vocab.json";
  const std::string spm = files.path(pieces), where = files.path(ids);
  const SentencePieceModel model = read_model_proto(files.read(pieces), spm);
  const JsonDocument document(files.read(ids), where);
  TokenTable vocabulary = read_vocabulary(document.root(), where);
  const std::string unk = config.token_or("unk_token", "<unk>"), eos = config.token_or("eos_token", "</s>");
  const std::string pad = config.token_or("pad_token", "<pad>");
  const int32_t unk_id = vocabulary.find(unk), eos_id = vocabulary.find(eos);
  if (unk_id == TokenTable::kNone || eos_id == TokenTable::kNone)
    throw FormatError(where + ": the vocabulary has no '" + (unk_id == TokenTable::kNone ? unk : eos) + "'");
  PipelineParts parts;
  const auto lexicon = std::make_shared<Lexicon>();
  lexicon->model = std::make_unique<MarianModel>(std::move(vocabulary), read_pieces(model, spm), unk_id);
  std::vector<AddedToken> special;
  for (const std::string& token : {eos, unk, pad}) special.push_back({.content = token, .special = true});
  lexicon->added = AddedTokens(config.special_tokens(std::move(special)), lexicon->model->tokens(), nullptr, where);
  parts.lexicon = lexicon;
  parts.pre_tokenizer = std::make_unique<MarianWords>(model, spm);
  const TemplatePiece end{.ids = {eos_id}};
  parts.post_processor = make_template({{.sequence = 0}, end}, {{.sequence = 0}, {.sequence = 1}, end});
  parts.decoder = std::make_unique<MarianDecoder>(std::set<std::string>{eos, unk, pad});
  return std::make_shared<const Pipeline>(std::move(parts));
}

}  // namespace heed::inline v0
