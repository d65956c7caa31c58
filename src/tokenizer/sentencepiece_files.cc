// Directories with a sentencepiece model and no tokenizer.json: the same parts as transformers makes of them for the
// class that tokenizer_config.json names.
#include <algorithm>
#include <unordered_set>

#include "heed/error.h"
#include "text/model_proto_reader.h"
#include "text/unicode.h"
#include "tokenizer/classes.h"

namespace heed::inline v0 {
namespace {

// A token and its score.
using Scored = std::pair<std::string, double>;

// transformers gives tokenizer.model to any class, and the other files to their own.
bool reads(const std::string& class_name, std::string_view file) {
  if (file == "tokenizer.model" || class_name.empty()) return true;
  if (file == "spiece.model") return class_name == "T5Tokenizer";
  return class_name == "XLMRobertaTokenizer" || class_name == "NllbTokenizer";
}

class Reader {
 public:
  Reader(const std::string& bytes, const std::string& where, std::string_view file, const TokenizerConfig& config)
      : where_(where), file_(file), config_(config), model_(read_model_proto(bytes, where)) {
    for (const SentencePiece& piece : model_.pieces) pieces_.emplace_back(piece.text, piece.score);
  }

  std::shared_ptr<const Pipeline> read() {
    const std::string name = config_.class_name().empty() ? "LlamaTokenizer" : config_.class_name();
    const VocabularyKind kind =
        model_.kind == SentencePieceModel::unigram ? VocabularyKind::unigram : VocabularyKind::bpe;
    const bool file_class = name == TokenizerConfig::kFileClass;
    if (!reads(config_.class_name(), file_) || (!file_class && kind_of_class(name) != kind))
      throw FormatError(where_ + ": heed does not know how a " + name + " reads a " +
                        (kind == VocabularyKind::unigram ? "unigram" : "BPE") +
                        " model; add its tokenizer.json, which transformers saves");
    ClassFiles files{.where = where_, .kind = kind, .character_map = model_.character_map};
    files.pieces.emplace();
    for (const SentencePiece& piece : model_.pieces)
      if (piece.type == SentencePiece::control || piece.type == SentencePiece::user_defined)
        files.pieces->push_back({.content = piece.text, .special = piece.type == SentencePiece::control});
    if (name == "T5Tokenizer") add_extra_ids();
    if (name == "XLMRobertaTokenizer") reorder_for_xlm_roberta();
    std::vector<Scored> tokens = name == "NllbTokenizer" ? reordered_for_nllb() : pieces_;
    if (file_class) rename_placeholders(&tokens);
    for (const auto& [text, score] : tokens) {
      files.table.add(text, static_cast<int32_t>(files.scores.size()));
      files.scores.push_back(score);
    }
    files.table.finish(where_);
    std::vector<std::string_view> texts;
    for (const Scored& piece : pieces_) texts.emplace_back(piece.first);
    if (kind == VocabularyKind::bpe) files.merges = merges_of(texts, files.table);
    return std::make_shared<const Pipeline>(file_class ? without_class(std::move(files))
                                                       : build_class(name, std::move(files), config_));
  }

 private:
  // Special tokens with their ids, before the class has read them. transformers makes "None" of one that is null.
  std::string token(const char* key, const char* otherwise) const {
    const ClassToken wanted[] = {{key, otherwise}};
    const std::string content = config_.special_tokens({.defaults = wanted}).content(key);
    return content.empty() ? "None" : content;
  }

  void add_extra_ids() {
    const int64_t extra = std::clamp<int64_t>(config_.integer_or("extra_ids", 100), 0, kMostExtraIds);
    for (int64_t i = extra - 1; i >= 0; --i) pieces_.emplace_back("<extra_id_" + std::to_string(i) + ">", 0.0);
  }

  std::vector<Scored> first_four() const {
    return {{token("bos_token", "<s>"), 0},
            {token("pad_token", "<pad>"), 0},
            {token("eos_token", "</s>"), 0},
            {token("unk_token", "<unk>"), 0}};
  }

  void reorder_for_xlm_roberta() {
    std::vector<Scored> tokens = first_four();
    tokens.insert(tokens.end(), pieces_.begin() + static_cast<int64_t>(std::min<size_t>(3, pieces_.size())),
                  pieces_.end());
    tokens.emplace_back(token("mask_token", "<mask>"), 0.0);
    pieces_ = std::move(tokens);
  }

  std::vector<Scored> reordered_for_nllb() const {
    std::vector<Scored> tokens;
    std::unordered_set<std::string> there;
    for (Scored& one : first_four()) {
      if (!there.insert(one.first).second)
        throw FormatError(where_ + ": two of bos_token, pad_token, eos_token and unk_token are '" + one.first +
                          "', which heed does not support; give them different contents");
      tokens.push_back(std::move(one));
    }
    for (const Scored& piece : pieces_)
      if (there.insert(piece.first).second) tokens.push_back(piece);
    return tokens;
  }

  // Pieces that added_tokens_decoder gives other texts.
  void rename_placeholders(std::vector<Scored>* tokens) const {
    std::unordered_set<std::string> there;
    for (const Scored& one : *tokens) there.insert(one.first);
    for (const auto& [id, text] : config_.listed_tokens())
      if (id >= 0 && static_cast<size_t>(id) < tokens->size() && there.insert(text).second)
        (*tokens)[static_cast<size_t>(id)].first = text;
  }

  // For the models whose tokenizer.json would be taken as it is.
  PipelineParts without_class(ClassFiles files) const {
    PipelineParts parts;
    std::vector<NormalizerPtr> normalizers;
    if (!files.character_map.empty()) normalizers.push_back(make_precompiled(files.character_map, where_));
    normalizers.push_back(make_replace(Pattern(std::string(" ")), "\u2581"));
    parts.normalizer = make_sequence(std::move(normalizers));
    const std::vector<ClassToken> named = tokens_of_pieces(model_);
    const SpecialTokens tokens = config_.special_tokens({.defaults = named, .additional = files.pieces});
    const auto lexicon = std::make_shared<Lexicon>();
    const bool bpe = files.kind == VocabularyKind::bpe;
    lexicon->model =
        bpe ? make_bpe(std::move(files.table), files.merges,
                       {.unk_token = model_.unk_piece, .fuse_unk = true, .byte_fallback = model_.byte_fallback}, where_)
            : make_unigram(std::move(files.table), std::move(files.scores),
                           {.unk_id = model_.unk_id, .byte_fallback = model_.byte_fallback}, where_);
    lexicon->added = AddedTokens(tokens.added, lexicon->model->tokens(), parts.normalizer.get(), where_);
    parts.lexicon = lexicon;
    parts.post_processor = make_ends(*lexicon, tokens, config_, false, /*json=*/false, where_);
    parts.decoder = model_.byte_fallback ? make_fallback_decoder(/*strip=*/false)
                                         : make_replace_decoder(Pattern(std::string("\u2581")), " ");
    config_.finish(&parts, tokens, bpe);
    return parts;
  }

  std::string where_;
  std::string_view file_;
  const TokenizerConfig& config_;
  SentencePieceModel model_;
  std::vector<Scored> pieces_;
};

}  // namespace

std::vector<ClassToken> tokens_of_pieces(const SentencePieceModel& model) {
  std::vector<ClassToken> tokens;
  if (model.bos_id >= 0) tokens.push_back({"bos_token", model.bos_piece});
  if (model.eos_id >= 0) tokens.push_back({"eos_token", model.eos_piece});
  if (model.unk_id >= 0) tokens.push_back({"unk_token", model.unk_piece});
  return tokens;
}

std::vector<Merge> merges_of(const std::vector<std::string_view>& thirds, const TokenTable& table) {
  std::vector<Merge> merges;
  for (const std::string_view text : thirds) {
    for (size_t at = 0; at < text.size();) {
      at += static_cast<size_t>(decode_utf8(text.substr(at)).length);
      const std::string_view left = text.substr(0, at), right = text.substr(at);
      if (!right.empty() && table.find(left) != TokenTable::kNone && table.find(right) != TokenTable::kNone)
        merges.emplace_back(left, right);
    }
  }
  return merges;
}

std::shared_ptr<const Pipeline> read_sentencepiece(const TokenizerFiles& files, const std::string& name,
                                                   const TokenizerConfig& config) {
  return Reader(files.read(name), files.path(name), name, config).read();
}

}  // namespace heed::inline v0
