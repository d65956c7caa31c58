// Tokenizers in plain files, whose class says the rest: vocab.json with merges.txt, and vocab.txt.
#include <algorithm>

#include "text/unicode.h"
#include "tokenizer/load.h"
#include "tokenizer/read_json.h"

namespace heed::inline v0 {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

AddedToken special(std::string content, bool lstrip = false) {
  return {.content = std::move(content), .lstrip = lstrip, .special = true};
}

int32_t id_of(const Lexicon& lexicon, const std::string& token, const std::string& where) {
  int32_t id = lexicon.added.id_of(token);
  if (id == TokenTable::kNone) id = lexicon.model->tokens().find(token);
  if (id == TokenTable::kNone) throw FormatError(where + ": the vocabulary has no '" + token + "'");
  return id;
}

bool has_roberta_ends(const std::string& name) {
  return name == "RobertaTokenizer" || name == "BartTokenizer" || name == "LongformerTokenizer" ||
         name == "LEDTokenizer" || name == "MPNetTokenizer";
}

}  // namespace

PreTokenizerPtr make_qwen2_words(bool add_prefix_space) {
  constexpr std::string_view kWords =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  std::vector<PreTokenizerPtr> parts;
  parts.push_back(make_split(Pattern(Regex(kWords, "Qwen2Tokenizer")), SplitBehavior::isolated, false));
  parts.push_back(make_byte_level({.add_prefix_space = add_prefix_space, .use_regex = false, .leave_bytes = true}));
  return make_sequence(std::move(parts));
}

std::shared_ptr<const Pipeline> read_merges(const TokenizerFiles& files, const TokenizerConfig& config) {
  const std::string where = files.path("vocab.json");
  const std::string name = config.class_name();
  const bool roberta = has_roberta_ends(name), qwen2 = name == "Qwen2Tokenizer";
  if (!roberta && !qwen2 && !name.empty() && name != "GPT2Tokenizer")
    throw FormatError(files.where + ": heed does not know how a " + name +
                      " reads vocab.json and merges.txt; add its tokenizer.json, which transformers saves");
  const JsonDocument vocabulary(files.read("vocab.json"), where);
  const std::string merges_path = files.path("merges.txt");
  const std::string merges_text = files.read("merges.txt");
  if (!valid_utf8(merges_text)) throw FormatError(merges_path + ": not UTF-8");
  std::vector<Merge> merges;
  for (const std::string_view line : lines_of(merges_text))
    if (!line.starts_with("#version") && !line.empty()) merges.push_back(split_merge(line, merges_path));

  PipelineParts parts;
  if (qwen2) parts.normalizer = make_normal_form(NormalForm::c);
  const auto lexicon = std::make_shared<Lexicon>();
  lexicon->model = make_bpe(read_vocabulary(vocabulary.root(), where), merges, {}, where);
  std::vector<AddedToken> tokens{special("<|endoftext|>")};
  if (roberta)
    tokens = {special("<s>"), special("</s>"), special("<unk>"), special("<pad>"), special("<mask>", /*lstrip=*/true)};
  lexicon->added =
      AddedTokens(config.special_tokens(std::move(tokens)), lexicon->model->tokens(), parts.normalizer.get(), where);
  parts.lexicon = lexicon;
  const bool prefix = config.boolean_or("add_prefix_space", false);
  parts.pre_tokenizer =
      qwen2 ? make_qwen2_words(prefix) : make_byte_level({.add_prefix_space = prefix, .leave_bytes = true});
  if (roberta) {
    parts.post_processor = make_roberta_processor(id_of(*lexicon, config.token_or("cls_token", "<s>"), where),
                                                  id_of(*lexicon, config.token_or("sep_token", "</s>"), where), true,
                                                  prefix, model_text(lexicon));
  } else if (config.boolean_or("add_bos_token", false)) {
    const TemplatePiece bos{.ids = {id_of(*lexicon, config.token_or("bos_token", "<|endoftext|>"), where)}};
    const TemplatePiece bos_of_second{.ids = bos.ids, .type_id = 1};
    parts.post_processor =
        make_template({bos, {.sequence = 0}}, {bos, {.sequence = 0}, bos_of_second, {.sequence = 1, .type_id = 1}});
  }
  parts.decoder = make_byte_level_decoder();
  config.finish(&parts, /*bpe=*/true);
  return std::make_shared<const Pipeline>(std::move(parts));
}

std::shared_ptr<const Pipeline> read_wordpieces(const TokenizerFiles& files, const TokenizerConfig& config) {
  const std::string where = files.path("vocab.txt");
  const std::string text = files.read("vocab.txt");
  if (!valid_utf8(text)) throw FormatError(where + ": not UTF-8");
  TokenTable table;
  int32_t next = 0;
  for (const std::string_view line : lines_of(text)) table.add(line, next++);
  table.finish(where);

  const bool mpnet = config.class_name() == "MPNetTokenizer";
  const std::string cls = config.token_or("cls_token", mpnet ? "<s>" : "[CLS]");
  const std::string sep = config.token_or("sep_token", mpnet ? "</s>" : "[SEP]");
  const std::string unk = config.token_or("unk_token", "[UNK]");
  const std::string pad = config.token_or("pad_token", mpnet ? "<pad>" : "[PAD]");
  const std::string mask = config.token_or("mask_token", mpnet ? "<mask>" : "[MASK]");
  PipelineParts parts;
  BertNormalizerOptions normalizer;
  normalizer.handle_chinese_chars = config.boolean_or("tokenize_chinese_chars", true);
  normalizer.strip_accents = config.boolean("strip_accents");
  normalizer.lowercase = config.boolean_or("do_lower_case", true);
  parts.normalizer = make_bert_normalizer(normalizer);
  const auto lexicon = std::make_shared<Lexicon>();
  lexicon->model = make_wordpiece(std::move(table), {.unk_token = unk}, where);
  lexicon->added = AddedTokens(
      config.special_tokens({special(unk), special(sep), special(pad), special(cls), special(mask, /*lstrip=*/mpnet)}),
      lexicon->model->tokens(), parts.normalizer.get(), where);
  parts.lexicon = lexicon;
  parts.pre_tokenizer = make_bert_pre_tokenizer();
  const int32_t cls_id = id_of(*lexicon, cls, where), sep_id = id_of(*lexicon, sep, where);
  parts.post_processor =
      mpnet ? make_roberta_processor(cls_id, sep_id, false, false, {}) : make_bert_processor(cls_id, sep_id);
  parts.decoder = make_wordpiece_decoder("##", true);
  config.finish(&parts, /*bpe=*/false);
  return std::make_shared<const Pipeline>(std::move(parts));
}

}  // namespace heed::inline v0
