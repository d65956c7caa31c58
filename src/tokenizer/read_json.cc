#include "tokenizer/read_json.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "text/base64.h"
#include "text/unicode.h"
#include "tokenizer/classes.h"

namespace heed::inline v0 {
namespace {

// The file and the number of its parts that were read so far. Each part goes over every text, and a regular expression
// takes kilobytes.
class Reading {
 public:
  explicit Reading(const std::string& where) : where_(where) {}
  void begin(const JsonValue& part) {
    constexpr int kMost = 128;  // the longest of real ones have 20
    if (++parts_ > kMost)
      part.refuse("is part " + std::to_string(parts_) + " of the tokenizer; heed reads up to " + std::to_string(kMost));
  }
  const std::string& where() const { return where_; }

 private:
  const std::string& where_;
  int parts_ = 0;
};

[[noreturn]] void refuse_type(const JsonValue& part, std::string_view type) {
  part.refuse("is of the type \"" + std::string(type.substr(0, 60)) + "\", which heed does not support");
}

int32_t id_of(const JsonValue& value) {
  const int64_t id = value.integer();
  if (id < 0 || id > std::numeric_limits<int32_t>::max() - 1)
    value.refuse("is " + std::to_string(id) + ", which is not an id");
  return static_cast<int32_t>(id);
}

// What is put before or after each character of a word.
std::string affix_of(const JsonValue& part, std::string_view key, std::string_view otherwise) {
  constexpr size_t kLongest = 1024;  // bytes, as an added token has
  std::string affix(part.string_or(key, otherwise));
  if (affix.size() > kLongest)
    part.refuse("has a " + std::string(key) + " of " + std::to_string(affix.size()) + " bytes; at most " +
                std::to_string(kLongest) + " are read");
  return affix;
}

Pattern pattern_of(const JsonValue& part, const std::string& where) {
  const JsonValue pattern = part.at("pattern");
  if (const auto text = pattern.find("String")) {
    constexpr size_t kLongest = 4096;  // bytes: it is looked for at every place of a text
    if (text->string().empty()) text->refuse("is empty, and stands at every place of a text; heed does not read that");
    if (text->string().size() > kLongest)
      text->refuse("has " + std::to_string(text->string().size()) + " bytes; at most " + std::to_string(kLongest) +
                   " are read");
    return Pattern(std::string(text->string()));
  }
  return Pattern(Regex(pattern.at("Regex").string(), where));
}

std::string one_character(const JsonValue& part, std::string_view key) {
  std::string text(part.at(key).string());
  if (to_utf32(text).size() != 1) part.refuse("has a " + std::string(key) + " that is not one character");
  return text;
}

SplitBehavior behavior_of(const JsonValue& part, std::string_view name) {
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  part.refuse("has the behavior \"" + std::string(name.substr(0, 60)) + "\", which heed does not support");
}

// Older files have add_prefix_space, newer ones prepend_scheme.
MetaspaceOptions metaspace_of(const JsonValue& part) {
  MetaspaceOptions o;
  o.replacement = part.string_or("replacement", "\u2581");
  if (to_utf32(o.replacement).size() != 1) part.refuse("has a replacement that is not one character");
  const bool prefix = part.boolean_or("add_prefix_space", true);
  const std::string_view scheme = part.string_or("prepend_scheme", prefix ? "always" : "never");
  if (scheme != "always" && scheme != "never" && scheme != "first")
    part.refuse("has the prepend_scheme \"" + std::string(scheme.substr(0, 60)) + "\", which heed does not support");
  o.prepend = scheme == "always"  ? PrependScheme::always
              : scheme == "never" ? PrependScheme::never
                                  : PrependScheme::first;
  if (!prefix && o.prepend != PrependScheme::never)
    part.refuse("has add_prefix_space false and the prepend_scheme " + std::string(scheme));
  o.split = part.boolean_or("split", true);
  return o;
}

// ------------------------------------------------------------------------------------------------------ normalizers

std::string read_character_map(const JsonValue& part) {
  const auto map = part.find("precompiled_charsmap");
  if (!map || map->string().empty()) return "";
  return from_base64(map->string(), [&](const std::string& rule) { map->refuse(rule); });
}

NormalizerPtr read_normalizer(const JsonValue& part, Reading* reading) {
  reading->begin(part);
  const std::string& where = reading->where();
  const std::string_view type = part.at("type").string();
  if (type == "NFC") return make_normal_form(NormalForm::c);
  if (type == "NFD") return make_normal_form(NormalForm::d);
  if (type == "NFKC") return make_normal_form(NormalForm::kc);
  if (type == "NFKD") return make_normal_form(NormalForm::kd);
  if (type == "Lowercase") return make_lowercase();
  if (type == "StripAccents") return make_strip_accents();
  if (type == "Nmt") return make_nmt();
  if (type == "ByteLevel") return make_byte_level_normalizer();
  if (type == "Strip") return make_strip(part.boolean_or("strip_left", true), part.boolean_or("strip_right", true));
  if (type == "Prepend") return make_prepend(std::string(part.at("prepend").string()));
  if (type == "Replace") return make_replace(pattern_of(part, where), std::string(part.at("content").string()));
  if (type == "BertNormalizer") {
    BertNormalizerOptions o;
    o.clean_text = part.boolean_or("clean_text", true);
    o.handle_chinese_chars = part.boolean_or("handle_chinese_chars", true);
    if (const auto strip = part.find("strip_accents")) o.strip_accents = strip->boolean();
    o.lowercase = part.boolean_or("lowercase", true);
    return make_bert_normalizer(o);
  }
  if (type == "Precompiled") return make_precompiled(read_character_map(part), where);
  if (type == "Sequence") {
    std::vector<NormalizerPtr> parts;
    part.at("normalizers").each([&](const JsonValue& one) { parts.push_back(read_normalizer(one, reading)); });
    return make_sequence(std::move(parts));
  }
  refuse_type(part, type);
}

// -------------------------------------------------------------------------------------------------- pre-tokenizers

// `last`: nothing but the model sees its words, and the model takes bytes.
PreTokenizerPtr read_pre_tokenizer(const JsonValue& part, bool last, Reading* reading) {
  reading->begin(part);
  const std::string& where = reading->where();
  const std::string_view type = part.at("type").string();
  if (type == "ByteLevel")
    return make_byte_level({.add_prefix_space = part.boolean_or("add_prefix_space", true),
                            .use_regex = part.boolean_or("use_regex", true),
                            .leave_bytes = last});
  if (type == "Metaspace") return make_metaspace(metaspace_of(part));
  if (type == "Split")
    return make_split(pattern_of(part, where), behavior_of(part, part.at("behavior").string()),
                      part.boolean_or("invert", false));
  if (type == "BertPreTokenizer") return make_bert_pre_tokenizer();
  if (type == "Digits") return make_digits(part.boolean_or("individual_digits", false));
  if (type == "Punctuation") return make_punctuation(behavior_of(part, part.string_or("behavior", "Isolated")));
  if (type == "Whitespace") return make_whitespace();
  if (type == "WhitespaceSplit") return make_whitespace_split();
  if (type == "CharDelimiterSplit")
    return make_split(Pattern(one_character(part, "delimiter")), SplitBehavior::removed, false);
  if (type == "FixedLength") {
    const int64_t length = part.integer_or("length", 5);
    if (length < 1) part.refuse("has a length below 1");
    return make_fixed_length(static_cast<size_t>(length));
  }
  if (type == "Sequence") {
    const JsonValue list = part.at("pretokenizers");
    std::vector<PreTokenizerPtr> parts;
    const size_t n = list.count();
    list.each([&](const JsonValue& one) {
      const bool is_last = last && parts.size() + 1 == n;
      parts.push_back(read_pre_tokenizer(one, is_last, reading));
    });
    return make_sequence(std::move(parts));
  }
  refuse_type(part, type);
}

// ---------------------------------------------------------------------------------------------------------- models

std::vector<Merge> read_merge_list(const JsonValue& part, const std::string& where) {
  std::vector<Merge> merges;
  part.at("merges").each([&](const JsonValue& merge) {
    if (merge.is_string()) {
      if (!merge.string().starts_with("#version")) merges.push_back(split_merge(merge.string(), where));
      return;
    }
    if (!merge.is_array() || merge.count() != 2) merge.refuse("is no merge: that is a pair of tokens");
    std::vector<std::string_view> pair;
    merge.each([&](const JsonValue& token) { pair.push_back(token.string()); });
    merges.emplace_back(pair[0], pair[1]);
  });
  return merges;
}

ModelPtr read_bpe(const JsonValue& part, const std::string& where) {
  if (const auto dropout = part.find("dropout"); dropout && dropout->number() > 0)
    part.refuse("has dropout, which makes tokens random; set it to null");
  BpeOptions o;
  o.unk_token = part.string_or("unk_token", "");
  o.continuing_subword_prefix = affix_of(part, "continuing_subword_prefix", "");
  o.end_of_word_suffix = affix_of(part, "end_of_word_suffix", "");
  o.fuse_unk = part.boolean_or("fuse_unk", false);
  o.byte_fallback = part.boolean_or("byte_fallback", false);
  o.ignore_merges = part.boolean_or("ignore_merges", false);
  return make_bpe(read_vocabulary(part.at("vocab"), where), read_merge_list(part, where), std::move(o), where);
}

void read_scored_tokens(const JsonValue& list, const std::string& where, TokenTable* tokens,
                        std::vector<double>* scores) {
  list.each([&](const JsonValue& entry) {
    if (!entry.is_array() || entry.count() != 2) entry.refuse("is no token: that is a text and its score");
    std::string_view text;
    double score = 0;
    entry.each([&](const JsonValue& value) {
      value.is_string() ? void(text = value.string()) : void(score = value.number());
    });
    tokens->add(text, static_cast<int32_t>(scores->size()));
    scores->push_back(score);
  });
  tokens->finish(where);
}

ModelPtr read_unigram(const JsonValue& part, const std::string& where) {
  TokenTable tokens;
  std::vector<double> scores;
  read_scored_tokens(part.at("vocab"), where, &tokens, &scores);
  UnigramOptions o;
  if (const auto unk = part.find("unk_id")) o.unk_id = id_of(*unk);
  o.byte_fallback = part.boolean_or("byte_fallback", false);
  return make_unigram(std::move(tokens), std::move(scores), o, where);
}

// Older files leave the type out.
std::string_view type_of_model(const JsonValue& part) {
  if (const auto named = part.find("type")) return named->string();
  if (part.find("merges")) return "BPE";
  if (part.at("vocab").is_array()) return "Unigram";
  return part.find("max_input_chars_per_word") ? "WordPiece" : "";
}

ModelPtr read_model(const JsonValue& part, const std::string& where) {
  const std::string_view type = type_of_model(part);
  if (type == "BPE") return read_bpe(part, where);
  if (type == "Unigram") return read_unigram(part, where);
  if (type == "WordPiece") {
    WordPieceOptions o;
    o.unk_token = part.string_or("unk_token", "[UNK]");
    o.continuing_subword_prefix = affix_of(part, "continuing_subword_prefix", "##");
    o.max_input_chars_per_word = part.integer_or("max_input_chars_per_word", 100);
    return make_wordpiece(read_vocabulary(part.at("vocab"), where), std::move(o), where);
  }
  if (type == "WordLevel")
    return make_word_level(read_vocabulary(part.at("vocab"), where), std::string(part.string_or("unk_token", "<unk>")));
  if (type.empty()) part.refuse("has no type");
  refuse_type(part, type);
}

// -------------------------------------------------------------------------------------------------- post-processors

// ["[SEP]", 102]
int32_t read_special_pair(const JsonValue& pair) {
  if (!pair.is_array() || pair.count() != 2) pair.refuse("is no special token: that is a text and its id");
  int32_t id = 0;
  pair.each([&](const JsonValue& value) { value.is_string() ? void() : void(id = id_of(value)); });
  return id;
}

std::vector<TemplatePiece> read_template(const JsonValue& pieces, const JsonValue& part) {
  constexpr size_t kMostIds = 256, kMostTexts = 4;  // each piece may stand for as many ids as the file has numbers
  std::vector<TemplatePiece> out;
  size_t ids = 0, texts = 0;
  pieces.each([&](const JsonValue& piece) {
    TemplatePiece& added = out.emplace_back();
    if (const auto sequence = piece.find("Sequence")) {
      const std::string_view id = sequence->at("id").string();
      if (id != "A" && id != "B") sequence->refuse("names a text that is neither A nor B");
      if (++texts > kMostTexts) pieces.refuse("repeats texts more than " + std::to_string(kMostTexts) + " times");
      added.sequence = id == "B";
      added.type_id = static_cast<int32_t>(sequence->integer_or("type_id", 0));
      return;
    }
    const JsonValue special = piece.at("SpecialToken");
    added.type_id = static_cast<int32_t>(special.integer_or("type_id", 0));
    part.at("special_tokens").at(special.at("id").string()).at("ids").each([&](const JsonValue& id) {
      if (++ids > kMostIds) pieces.refuse("adds more than " + std::to_string(kMostIds) + " tokens to a text");
      added.ids.push_back(id_of(id));
    });
    if (out.size() > kMostIds) pieces.refuse("has more than " + std::to_string(kMostIds) + " pieces");
  });
  return out;
}

PostProcessorPtr read_post_processor(const JsonValue& part, const TokenText& text, Reading* reading) {
  reading->begin(part);
  const std::string_view type = part.at("type").string();
  if (type == "ByteLevel")
    return make_byte_level_processor(part.boolean_or("trim_offsets", true), part.boolean_or("add_prefix_space", true),
                                     text);
  if (type == "BertProcessing")
    return make_bert_processor(read_special_pair(part.at("cls")), read_special_pair(part.at("sep")));
  if (type == "RobertaProcessing")
    return make_roberta_processor(read_special_pair(part.at("cls")), read_special_pair(part.at("sep")),
                                  part.boolean_or("trim_offsets", true), part.boolean_or("add_prefix_space", true),
                                  text);
  if (type == "TemplateProcessing")
    return make_template(read_template(part.at("single"), part), read_template(part.at("pair"), part));
  if (type == "Sequence") {
    std::vector<PostProcessorPtr> parts;
    part.at("processors").each([&](const JsonValue& one) { parts.push_back(read_post_processor(one, text, reading)); });
    return make_sequence(std::move(parts));
  }
  refuse_type(part, type);
}

// --------------------------------------------------------------------------------------------------------- decoders

DecoderPtr read_decoder(const JsonValue& part, Reading* reading) {
  reading->begin(part);
  const std::string& where = reading->where();
  const std::string_view type = part.at("type").string();
  if (type == "ByteLevel") return make_byte_level_decoder();
  if (type == "Metaspace") return make_metaspace_decoder(metaspace_of(part));
  if (type == "WordPiece")
    return make_wordpiece_decoder(std::string(part.string_or("prefix", "##")), part.boolean_or("cleanup", true));
  if (type == "Replace") return make_replace_decoder(pattern_of(part, where), std::string(part.at("content").string()));
  if (type == "ByteFallback") return make_byte_fallback_decoder();
  if (type == "Fuse") return make_fuse_decoder();
  if (type == "Strip")
    return make_strip_decoder(one_character(part, "content"), part.integer_or("start", 0), part.integer_or("stop", 0));
  if (type == "CTC")
    return make_ctc_decoder(std::string(part.string_or("pad_token", "<pad>")),
                            std::string(part.string_or("word_delimiter_token", "|")), part.boolean_or("cleanup", true));
  if (type == "BPEDecoder") return make_bpe_decoder(std::string(part.string_or("suffix", "</w>")));
  if (type == "Sequence") {
    std::vector<DecoderPtr> parts;
    part.at("decoders").each([&](const JsonValue& one) { parts.push_back(read_decoder(one, reading)); });
    return make_sequence(std::move(parts));
  }
  refuse_type(part, type);
}

// ----------------------------------------------------------------------------------------------------------- the rest

std::vector<AddedToken> read_added_tokens(const JsonValue& list) {
  std::vector<AddedToken> tokens;
  list.each([&](const JsonValue& entry) {
    AddedToken& token = tokens.emplace_back();
    token.content = entry.at("content").string();
    token.single_word = entry.boolean_or("single_word", false);
    token.lstrip = entry.boolean_or("lstrip", false);
    token.rstrip = entry.boolean_or("rstrip", false);
    token.special = entry.boolean_or("special", false);
    token.normalized = entry.boolean_or("normalized", !token.special);
    token.may_change = !entry.find("normalized");
  });
  return tokens;
}

}  // namespace

Merge split_merge(std::string_view line, const std::string& where) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
    throw FormatError(where + ": '" + std::string(line.substr(0, 80)) +
                      "' is no merge: that is two tokens with a space between them");
  return {line.substr(0, space), line.substr(space + 1)};
}

TokenTable read_vocabulary(const JsonValue& vocabulary, const std::string& where) {
  TokenTable tokens;
  vocabulary.each_member([&](std::string_view text, const JsonValue& id) { tokens.add(text, id_of(id)); });
  tokens.finish(where);
  return tokens;
}

namespace {

// The added tokens by their ids.
std::map<int64_t, AddedToken> tokens_by_id(const JsonValue& root, const std::vector<AddedToken>& tokens) {
  std::map<int64_t, AddedToken> by_id;
  size_t i = 0;
  if (!tokens.empty())
    root.at("added_tokens").each([&](const JsonValue& entry) {
      by_id.insert_or_assign(entry.integer_or("id", static_cast<int64_t>(i)), tokens[i]);
      ++i;
    });
  return by_id;
}

// The character map that transformers hands to a class: of the normalizer, or of the first such part of a sequence.
std::string character_map_for_class(const JsonValue& root) {
  const auto normalizer = root.find("normalizer");
  if (!normalizer) return "";
  std::string map;
  bool found = false;
  const auto look = [&](const JsonValue& part) {
    if (found || part.string_or("type", "") != "Precompiled") return;
    found = true;
    map = read_character_map(part);
  };
  if (normalizer->string_or("type", "") == "Sequence") {
    normalizer->at("normalizers").each(look);
  } else {
    look(*normalizer);
  }
  return map;
}

}  // namespace

std::string padding_token(const JsonValue& root) {
  const auto padding = root.find("padding");
  return padding ? std::string(padding->string_or("pad_token", "")) : "";
}

namespace {

// What a class makes of the model, the added tokens and, for some classes, the post-processor. Everything else of the
// file means nothing to it.
PipelineParts parts_of_class(const JsonValue& root, const std::string& where, const TokenizerConfig& config,
                             const std::vector<AddedToken>& tokens, Reading* reading) {
  const std::string& name = config.class_name();
  const VocabularyKind kind = *kind_of_class(name);
  const JsonValue model = root.at("model");
  const std::string_view type = type_of_model(model);
  const std::string_view wanted = kind == VocabularyKind::bpe       ? "BPE"
                                  : kind == VocabularyKind::unigram ? "Unigram"
                                                                    : "WordPiece";
  if (type != wanted)
    model.refuse("is of the type \"" + std::string(type.substr(0, 60)) + "\", which " + name +
                 " does not read: it needs " + std::string(wanted));
  ClassFiles files{.where = where, .kind = kind, .json = true, .added = tokens_by_id(root, tokens)};
  if (kind == VocabularyKind::unigram) {
    read_scored_tokens(model.at("vocab"), where, &files.table, &files.scores);
  } else {
    files.table = read_vocabulary(model.at("vocab"), where);
    if (kind == VocabularyKind::bpe) files.merges = read_merge_list(model, where);
  }
  files.character_map = character_map_for_class(root);
  files.padding = padding_token(root);
  if (const auto part = root.find("post_processor"))
    files.post_processor = [part = *part, reading](const std::shared_ptr<const Lexicon>& lexicon) {
      return read_post_processor(part, model_text(lexicon), reading);
    };
  return build_class(name, std::move(files), config);
}

PipelineParts parts_of_file(const JsonValue& root, const std::string& where, const TokenizerConfig* config,
                            std::vector<AddedToken> tokens, Reading* reading) {
  PipelineParts parts;
  if (const auto normalizer = root.find("normalizer")) parts.normalizer = read_normalizer(*normalizer, reading);
  const auto lexicon = std::make_shared<Lexicon>();
  lexicon->model = read_model(root.at("model"), where);
  SpecialTokens special;
  if (config)
    special =
        config->special_tokens({.of_file = tokens_by_id(root, tokens), .kept = true, .padding = padding_token(root)});
  tokens.insert(tokens.end(), special.added.begin(), special.added.end());
  lexicon->added = AddedTokens(std::move(tokens), lexicon->model->tokens(), parts.normalizer.get(), where);
  parts.lexicon = lexicon;
  if (const auto pre_tokenizer = root.find("pre_tokenizer"))
    parts.pre_tokenizer = read_pre_tokenizer(*pre_tokenizer, lexicon->model->takes_bytes(), reading);
  if (const auto post_processor = root.find("post_processor"))
    parts.post_processor = read_post_processor(*post_processor, model_text(lexicon), reading);
  if (const auto decoder = root.find("decoder")) parts.decoder = read_decoder(*decoder, reading);
  if (config) {
    config->finish(&parts, special, type_of_model(root.at("model")) == "BPE");
  } else {
    parts.rules.types = true;
  }
  return parts;
}

// One more than the largest id of the model and its added tokens.
int64_t size_of_file(const std::vector<AddedToken>& tokens, const TokenTable& model) {
  int64_t size = std::max<int64_t>(model.largest_id() + int64_t{1}, 0), next = static_cast<int64_t>(model.count());
  std::set<std::string_view> there;
  for (const AddedToken& token : tokens) {
    if (token.content.empty() || !there.insert(token.content).second) continue;
    const int32_t known = model.find(token.content);
    const int64_t id = known == TokenTable::kNone ? next : known;
    next = std::max(next, id + 1);
    size = std::max(size, id + 1);
  }
  return size;
}

}  // namespace

std::shared_ptr<const Pipeline> read_tokenizer_json(const JsonValue& root, const std::string& where,
                                                    const TokenizerConfig* config) {
  Reading reading(where);
  std::vector<AddedToken> tokens;
  if (const auto added = root.find("added_tokens")) tokens = read_added_tokens(*added);
  PipelineParts parts = config && kind_of_class(config->class_name())
                            ? parts_of_class(root, where, *config, tokens, &reading)
                            : parts_of_file(root, where, config, tokens, &reading);
  const TokenTable& model = parts.lexicon->model->tokens();
  const int64_t size = int64_t{std::max(model.largest_id(), parts.lexicon->added.largest_id())} + 1;
  parts.rules.appended = std::max<int64_t>(0, size - size_of_file(tokens, model));
  // The rest of "truncation" and "padding" is left over from the program that saved the file. transformers drops it
  // when it loads a tokenizer: each call says how it cuts and pads.
  if (const auto truncation = root.find("truncation"); truncation && config && !config->gives("truncation_side"))
    parts.rules.cuts_left = truncation->string_or("direction", "Right") == "Left";
  return std::make_shared<const Pipeline>(std::move(parts));
}

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& where) {
  const JsonDocument document(json, where);
  return Tokenizer(std::shared_ptr<const Implementation>(read_tokenizer_json(document.root(), where)));
}

}  // namespace heed::inline v0
