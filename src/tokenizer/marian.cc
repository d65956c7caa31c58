// Tokenizers whose sentencepiece model cuts and whose vocab.json gives the pieces other ids: Marian's (OPUS-MT), with a
// model for each language, and M2M100's.
#include <algorithm>
#include <set>

#include "heed/error.h"
#include "text/model_proto_reader.h"
#include "text/unicode.h"
#include "tokenizer/character_map.h"
#include "tokenizer/classes.h"
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
// a mark for each space. Marian's language is a word of its own.
class WrittenWords : public PreTokenizer {
 public:
  WrittenWords(const SentencePieceModel& model, bool codes, const std::string& where)
      : codes_(codes), dummy_prefix_(model.add_dummy_prefix), collapse_(model.remove_extra_whitespaces) {
    if (!model.character_map.empty()) map_.emplace(model.character_map, where);
  }

  void apply(Words* words) const override {
    AlignedText out;
    std::vector<std::pair<size_t, size_t>> parts;
    for (const auto& [begin, end] : words->parts) {
      Rewriter rewriter(words->text, begin, end, &out);
      if (const size_t code = codes_ ? language_code(rewriter.rest()) : 0) {
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
  bool codes_, dummy_prefix_, collapse_;
};

// Cuts by one model and gives the pieces the ids of another vocabulary.
class RenumberedModel : public Model {
 public:
  RenumberedModel(TokenTable vocabulary, ModelPtr pieces, bool codes, int32_t unk_id)
      : Model(std::move(vocabulary)), pieces_(std::move(pieces)), codes_(codes), unk_id_(unk_id) {}
  void tokenize(std::string_view word, bool as_bytes, std::vector<WordToken>* out) const override {
    const size_t before = out->size();
    if (codes_ && language_code(word) == word.size()) {
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
  bool codes_;
  int32_t unk_id_;
};

// What lies between special tokens, behind each of which `behind` is written, is sentencepiece's, which drops the space
// at a beginning.
class PiecesDecoder : public Decoder {
 public:
  PiecesDecoder(std::set<std::string> special, std::string behind)
      : special_(std::move(special)), behind_(std::move(behind)) {}
  void apply(std::vector<std::string>* tokens, size_t) const override {
    std::string out, part;
    for (std::string_view token : *tokens) {
      if (special_.contains(std::string(token))) {
        out += part;
        out += token;
        out += behind_;
        part.clear();
        continue;
      }
      if (part.empty() && token.starts_with(kMark)) token.remove_prefix(kMark.size());
      part += token;
    }
    out += part;
    std::string text;
    for (size_t at = 0; at < out.size();) {
      const size_t mark = std::min(out.find(kMark, at), out.size());
      text.append(out, at, mark - at);
      if (mark < out.size()) text += ' ';
      at = mark + kMark.size();
    }
    const size_t begin = std::min(text.find_first_not_of(" \t\n\v\f\r"), text.size());
    *tokens = {std::string(trim_end(std::string_view(text).substr(begin)))};
  }

 private:
  std::set<std::string> special_;
  std::string behind_;
};

ModelPtr read_pieces(const SentencePieceModel& model, const std::string& where) {
  TokenTable table;
  std::vector<double> scores;
  std::vector<size_t> places;  // of what a text may become
  for (const SentencePiece& piece : model.pieces) {
    const bool found = piece.type == SentencePiece::normal || piece.type == SentencePiece::user_defined;
    if (found) places.push_back(scores.size());
    if (found || (model.kind == SentencePieceModel::bpe && piece.type == SentencePiece::unknown))
      table.add(piece.text, static_cast<int32_t>(scores.size()));
    scores.push_back(piece.score);
  }
  table.finish(where);
  if (model.kind == SentencePieceModel::unigram)
    return make_unigram(std::move(table), std::move(scores), {.unk_id = model.unk_id, .single_precision = true}, where);
  std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::vector<std::string_view> thirds;
  for (const size_t place : places) thirds.emplace_back(model.pieces[place].text);
  const std::vector<Merge> merges = merges_of(thirds, table);
  return make_bpe(std::move(table), merges, {.unk_token = model.unk_piece, .fuse_unk = true}, where);
}

int32_t need_id(const TokenTable& vocabulary, const std::string& token, const std::string& where) {
  const int32_t id = vocabulary.find(token);
  if (id == TokenTable::kNone) throw FormatError(where + ": the vocabulary has no '" + token + "'");
  return id;
}

// The classes of this file give tokens the ids that a file lists, and segments to pairs; heed numbers them in their
// order.
void check_python_class(const TokenizerConfig& config, const PipelineParts& parts, const std::string& where) {
  for (const auto& [id, content] : config.listed_tokens())
    if (const int32_t ours = parts.lexicon->added.id_of(content); ours != id)
      throw FormatError(where + ": the added token '" + content.substr(0, 80) + "' has the id " + std::to_string(id) +
                        "; heed supports only " + std::to_string(ours) + ", the next id");
  if (parts.rules.types && !config.class_name().empty())
    throw FormatError(where + ": model_input_names has token_type_ids, which heed does not support for this class");
}

constexpr const char *kMarian = "MarianTokenizer", *kM2m100 = "M2M100Tokenizer";

// The classes of this file add special tokens as texts: the attributes of those that no list has do not count.
SpecialTokens special_texts(const char* name, const TokenizerConfig& config, const std::string& where) {
  SpecialTokens special = special_tokens_of(config, {.defaults = tokens_of_class(name)}, where);
  special.added.resize(special.listed);
  std::set<std::string> there;
  for (const AddedToken& token : special.added) there.insert(token.content);
  for (const std::string& content : special.all)
    if (!there.contains(content)) special.added.push_back({.content = content, .special = true});
  return special;
}

// The languages of M2M100, in the order of their ids, by `language_codes`.
constexpr std::string_view kM2m100Languages =
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id "
    "ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd "
    "si "
    "sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu";
constexpr std::string_view kWmt21Languages = "en ha is ja cs ru zh de";

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
  const SpecialTokens special = special_texts(kMarian, config, where);
  const int32_t unk_id = need_id(vocabulary, special.content("unk_token"), where);
  const int32_t eos_id = need_id(vocabulary, special.content("eos_token"), where);
  if (model.kind != SentencePieceModel::unigram)
    throw FormatError(spm + ": a sentencepiece model that is not unigram, which Marian's are");
  PipelineParts parts;
  const auto lexicon = std::make_shared<Lexicon>();
  lexicon->model =
      std::make_unique<RenumberedModel>(std::move(vocabulary), read_pieces(model, spm), /*codes=*/true, unk_id);
  lexicon->added = AddedTokens(special.added, lexicon->model->tokens(), nullptr, where);
  parts.lexicon = lexicon;
  parts.pre_tokenizer = std::make_unique<WrittenWords>(model, /*codes=*/true, spm);
  const TemplatePiece end{.ids = {eos_id}};
  parts.post_processor = make_template({{.sequence = 0}, end}, {{.sequence = 0}, {.sequence = 1}, end});
  parts.decoder = std::make_unique<PiecesDecoder>(std::set<std::string>(special.all.begin(), special.all.end()), " ");
  config.finish(&parts, special, /*bpe=*/false);  // its class computes in Python, and asks nothing of the model
  check_python_class(config, parts, files.where);
  return std::make_shared<const Pipeline>(std::move(parts));
}

std::shared_ptr<const Pipeline> read_m2m100(const TokenizerFiles& files, const TokenizerConfig& config) {
  const std::string where = files.path("vocab.json"), spm = files.path("sentencepiece.bpe.model");
  const SentencePieceModel model = read_model_proto(files.read("sentencepiece.bpe.model"), spm);
  const JsonDocument document(files.read("vocab.json"), where);
  TokenTable vocabulary = read_vocabulary(document.root(), where);
  const std::string codes = config.text_or("language_codes", "m2m100");
  if (codes != "m2m100" && codes != "wmt21")
    throw FormatError(files.path("tokenizer_config.json") + ": language_codes is '" + codes +
                      "'; heed has m2m100 and wmt21");
  PipelineParts parts;
  parts.first_language = static_cast<int32_t>(document.root().count());
  int32_t next = parts.first_language;
  for (std::string_view rest = codes == "wmt21" ? kWmt21Languages : kM2m100Languages; !rest.empty();) {
    const size_t length = std::min(rest.find(' '), rest.size());
    vocabulary.add("__" + std::string(rest.substr(0, length)) + "__", next++);
    rest.remove_prefix(std::min(length + 1, rest.size()));
  }
  parts.languages_end = next;
  vocabulary.finish(where);
  const SpecialTokens special = special_texts(kM2m100, config, where);
  // transformers gives new tokens the ids after the pieces, which its class has given to languages.
  for (const AddedToken& token : special.added)
    if (vocabulary.find(token.content) == TokenTable::kNone)
      throw FormatError(
          files.where + ": the added token '" + token.content +
          "' is neither in vocab.json nor a language, and M2M100Tokenizer gives it the id of a language; " +
          "remove it from the files");
  const int32_t unk_id = need_id(vocabulary, special.content("unk_token"), where);
  const int32_t eos_id = need_id(vocabulary, special.content("eos_token"), where);
  const int32_t language = need_id(vocabulary, "__" + config.text_or("src_lang", "en") + "__", where);
  const auto lexicon = std::make_shared<Lexicon>();
  lexicon->model =
      std::make_unique<RenumberedModel>(std::move(vocabulary), read_pieces(model, spm), /*codes=*/false, unk_id);
  lexicon->added = AddedTokens(special.added, lexicon->model->tokens(), nullptr, where);
  parts.lexicon = lexicon;
  parts.pre_tokenizer = std::make_unique<WrittenWords>(model, /*codes=*/false, spm);
  const TemplatePiece begin{.ids = {language}}, end{.ids = {eos_id}};
  parts.post_processor = make_template({begin, {.sequence = 0}, end}, {begin, {.sequence = 0}, {.sequence = 1}, end});
  parts.decoder = std::make_unique<PiecesDecoder>(std::set<std::string>(special.all.begin(), special.all.end()), "");
  config.finish(&parts, special, /*bpe=*/false);  // its class computes in Python, and asks nothing of the model
  check_python_class(config, parts, files.where);
  return std::make_shared<const Pipeline>(std::move(parts));
}

}  // namespace heed::inline v0
