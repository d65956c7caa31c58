// Tokenizers in GGUF files: tokens with their kinds, scores or merges, and a name for the rest. They become the parts
// that the model's own tokenizer has on the hub.
#include "core/gguf.h"

#include <algorithm>
#include <cmath>

#include "text/unicode.h"
#include "tokenizer/classes.h"
#include "tokenizer/load.h"
#include "tokenizer/read_json.h"

namespace heed::inline v0 {
namespace {

constexpr const char* kMark = "\u2581";
constexpr size_t kLongestToken = 1024;  // bytes

constexpr const char *kModel = "tokenizer.ggml.model", *kPre = "tokenizer.ggml.pre", *kTokens = "tokenizer.ggml.tokens";
constexpr const char *kTypes = "tokenizer.ggml.token_type", *kScores = "tokenizer.ggml.scores";

enum TokenType : int64_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

// The pre-tokenizer named by tokenizer.ggml.pre: the one in the model's own tokenizer.json. `standard` is what
// llama.cpp takes for a file that names none, as its first converters wrote them.
enum class Words { standard, gpt2, mpt, llama3, qwen2, digits, command_r, falcon, tekken, deepseek_coder };
struct NamedWords {
  std::string_view name;
  Words words;
};
constexpr NamedWords kWords[] = {{"gpt-2", Words::gpt2},
                                 {"mpt", Words::mpt},
                                 {"llama-bpe", Words::llama3},
                                 {"llama3", Words::llama3},
                                 {"llama-v3", Words::llama3},
                                 {"falcon3", Words::llama3},
                                 {"qwen2", Words::qwen2},
                                 {"deepseek-r1-qwen", Words::qwen2},
                                 {"smollm", Words::digits},
                                 {"starcoder", Words::digits},
                                 {"refact", Words::digits},
                                 {"command-r", Words::command_r},
                                 {"falcon", Words::falcon},
                                 {"tekken", Words::tekken},
                                 {"deepseek-coder", Words::deepseek_coder},
                                 {"default", Words::standard}};

// Regular expressions that cut one after the other, each what those before it left.
std::vector<std::string_view> cuts_of(Words words) {
  constexpr std::string_view kThreeDigits = "[0-9][0-9][0-9]";
  switch (words) {
    case Words::llama3:
      return {
          R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
    case Words::tekken:
      return {
          R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
    case Words::deepseek_coder:  // its fourth: Chinese, Japanese, Korean
      return {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[\u0800-\u9FA5\uAC00-\uD7FF]+", R"(\p{N})"};
    case Words::standard:
      return {R"([\p{P}\$\+<=>\^~\|]+)", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))",
              R"(\p{N}+)", kThreeDigits};
    case Words::falcon:
      return {kThreeDigits};
    default:
      return {};
  }
}

std::string mark_spaces(std::string_view text) {
  std::string out;
  for (const char c : text) c == ' ' ? out += kMark : out += c;
  return out;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : file_(path) {
    size_t bytes = 0;
    for (const std::string_view token : file_.texts(kTokens)) {
      if (token.size() > kLongestToken || !valid_utf8(token))
        file_.fail(kTokens, "has " + printable(token) + "; a token has at most 1024 bytes, of UTF-8");
      bytes += token.size();
      tokens_.emplace_back(token);
    }
    if (tokens_.empty()) file_.fail(kTokens, "is not there: the file has no tokenizer");
    if (bytes > kLargestTokenizer || tokens_.size() > size_t{1} << 24)
      file_.fail(kTokens, "is too long for a tokenizer");
    types_ = file_.integers(kTypes);
    if (types_.empty()) types_.assign(tokens_.size(), normal);
    if (types_.size() != tokens_.size()) file_.fail(kTypes, "does not have one number for each token");
  }

  std::shared_ptr<const Pipeline> read() {
    const std::string kind(file_.text(kModel).value_or(""));
    if (kind == "llama") {
      sentencepiece();
    } else if (kind == "gpt2") {
      byte_level();
    } else if (kind == "bert") {
      wordpiece();
    } else {
      file_.fail(kModel, "is " + printable(kind) + "; heed reads llama, gpt2 and bert");
    }
    return std::make_shared<const Pipeline>(std::move(parts_));
  }

 private:
  std::optional<int32_t> id_of(const char* name) const {
    const std::string key = std::string("tokenizer.ggml.") + name;
    const auto id = file_.integer(key);
    if (!id) return {};
    if (*id < 0 || *id >= std::ssize(tokens_))
      file_.fail(key, "is " + std::to_string(*id) + "; there are " + std::to_string(tokens_.size()) + " tokens");
    return static_cast<int32_t>(*id);
  }

  TokenTable table() const {
    TokenTable table;
    for (size_t id = 0; id < tokens_.size(); ++id) table.add(tokens_[id], static_cast<int32_t>(id));
    table.finish(file_.path());
    return table;
  }

  void set_model(ModelPtr model) {
    std::vector<AddedToken> added;
    for (size_t id = 0; id < tokens_.size(); ++id)
      if (types_[id] == unknown || types_[id] == control || types_[id] == user_defined || runs_.contains(id))
        added.push_back({.content = tokens_[id], .special = types_[id] == unknown || types_[id] == control});
    const auto lexicon = std::make_shared<Lexicon>();
    lexicon->model = std::move(model);
    lexicon->added = AddedTokens(std::move(added), lexicon->model->tokens(), parts_.normalizer.get(), file_.path());
    parts_.lexicon = lexicon;
  }

  // The beginning and the end of a text.
  void set_ends(bool bos_by_default) {
    std::vector<TemplatePiece> single, pair;
    const auto begin = id_of("bos_token_id"), end = id_of("eos_token_id");
    const bool bos = file_.flag("tokenizer.ggml.add_bos_token").value_or(bos_by_default && begin);
    const bool eos = file_.flag("tokenizer.ggml.add_eos_token").value_or(false);
    if (bos && !begin) file_.fail("tokenizer.ggml.bos_token_id", "is not there, and texts begin with it");
    if (eos && !end) file_.fail("tokenizer.ggml.eos_token_id", "is not there, and texts end with it");
    if (!bos && !eos) return;
    for (int32_t i = 0; i < 2; ++i) {
      if (bos) pair.push_back({.ids = {*begin}, .type_id = i});
      pair.push_back({.sequence = i, .type_id = i});
      if (eos) pair.push_back({.ids = {*end}, .type_id = i});
      if (i == 0) single = pair;
    }
    parts_.post_processor = make_template(std::move(single), std::move(pair));
  }

  // Llama 1 and 2, Mistral, Gemma.
  void sentencepiece() {
    const std::vector<double> scores = file_.numbers(kScores);
    if (scores.size() != tokens_.size()) file_.fail(kScores, "does not have one number for each token");
    if (!std::all_of(scores.begin(), scores.end(), [](double score) { return std::isfinite(score); }))
      file_.fail(kScores, "has a number that is not finite");
    // Runs of spaces, which a text has as marks once it is normalized; marks that it has itself are found before that.
    for (size_t id = 0; id < tokens_.size(); ++id)
      if (types_[id] == user_defined && tokens_[id].find_first_not_of(' ') == std::string::npos) {
        tokens_[id] = mark_spaces(tokens_[id]);
        types_[id] = normal;
        runs_.insert(id);
      }
    std::vector<size_t> order;
    for (size_t id = 0; id < tokens_.size(); ++id)
      if (types_[id] == normal) order.push_back(id);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    std::vector<std::string_view> thirds;
    for (const size_t id : order) thirds.emplace_back(tokens_[id]);

    const bool prefix = file_.flag("tokenizer.ggml.add_space_prefix").value_or(true);
    std::vector<NormalizerPtr> normalizers;
    if (prefix) normalizers.push_back(make_prepend(kMark));
    normalizers.push_back(make_replace(Pattern(std::string(" ")), kMark));
    parts_.normalizer = make_sequence(std::move(normalizers));
    TokenTable all = table();
    const std::vector<Merge> merges = merges_of(thirds, all);
    const int32_t unk = id_of("unknown_token_id").value_or(0);
    set_model(make_bpe(std::move(all), merges,
                       {.unk_token = tokens_[static_cast<size_t>(unk)], .fuse_unk = true, .byte_fallback = true},
                       file_.path()));
    set_ends(/*bos_by_default=*/true);
    std::vector<DecoderPtr> decoders;
    decoders.push_back(make_replace_decoder(Pattern(std::string(kMark)), " "));
    decoders.push_back(make_byte_fallback_decoder());
    decoders.push_back(make_fuse_decoder());
    if (prefix) decoders.push_back(make_strip_decoder(" ", 1, 0));
    parts_.decoder = make_sequence(std::move(decoders));
  }

  Words words() const {
    if (!file_.has(kPre)) return Words::standard;
    const std::string_view name = file_.text(kPre).value_or("");
    std::string known;
    for (const NamedWords& named : kWords) {
      if (named.name == name) return named.words;
      known += (known.empty() ? "" : ", ") + std::string(named.name);
    }
    file_.fail(kPre, "is " + printable(name) + "; heed has " + known);
  }

  // GPT-2, Llama 3, Qwen 2.
  void byte_level() {
    const Words kind = words();
    const auto bytes = [](bool use_regex, bool last) {
      return make_byte_level({.add_prefix_space = false, .use_regex = use_regex, .leave_bytes = last});
    };
    std::vector<PreTokenizerPtr> cuts;
    if (kind == Words::qwen2 || kind == Words::mpt || kind == Words::command_r)
      parts_.normalizer = make_normal_form(NormalForm::c);
    if (kind == Words::qwen2) cuts.push_back(make_qwen2_words(false));  // with its bytes
    if (kind == Words::digits || kind == Words::command_r) cuts.push_back(make_digits(/*individual=*/true));
    if (kind == Words::falcon) {  // cuts what its bytes are written as
      cuts.push_back(make_punctuation(SplitBehavior::contiguous));
      cuts.push_back(bytes(/*use_regex=*/true, /*last=*/false));
      cuts.push_back(make_digits(/*individual=*/false));
    }
    const std::vector<std::string_view> own = cuts_of(kind);
    for (const std::string_view cut : own)
      cuts.push_back(make_split(Pattern(Regex(cut, file_.path())), SplitBehavior::isolated, false));
    if (kind != Words::qwen2 && kind != Words::falcon) cuts.push_back(bytes(/*use_regex=*/own.empty(), /*last=*/true));
    parts_.pre_tokenizer = make_sequence(std::move(cuts));
    const bool whole = kind == Words::llama3 || kind == Words::tekken;  // a word that is a token stays one
    std::vector<Merge> merges;
    for (const std::string_view merge : file_.texts("tokenizer.ggml.merges")) {
      if (!valid_utf8(merge)) file_.fail("tokenizer.ggml.merges", "has " + printable(merge) + ", which is not UTF-8");
      merges.push_back(split_merge(merge, file_.path()));
    }
    set_model(make_bpe(table(), merges, {.ignore_merges = whole}, file_.path()));
    set_ends(/*bos_by_default=*/whole);
    parts_.decoder = make_byte_level_decoder();
  }

  // Words begin with a mark, and what continues one is bare: [CLS] and the like are as they are.
  std::string as_wordpiece(const std::string& token, int64_t type) const {
    const bool bracketed = token.size() > 2 && token.starts_with('[') && token.ends_with(']');
    if (type == control || type == unused || bracketed) return token;
    return token.starts_with(kMark) ? token.substr(std::string_view(kMark).size()) : "##" + token;
  }

  void wordpiece() {
    bool lowercase = true;  // no fact says it, but a vocabulary of lower case has no capitals
    for (size_t id = 0; id < tokens_.size(); ++id) {
      tokens_[id] = as_wordpiece(tokens_[id], types_[id]);
      const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
      if (types_[id] == normal && !tokens_[id].starts_with('[') &&
          std::any_of(tokens_[id].begin(), tokens_[id].end(), is_capital))
        lowercase = false;
    }
    TokenTable all = table();
    const auto special = [&](std::initializer_list<const char*> keys, const char* otherwise) {
      std::optional<int32_t> id;
      for (const char* key : keys)
        if (!id) id = id_of(key);
      if (!id) id = all.find(otherwise);
      if (*id == TokenTable::kNone) file_.fail(kTokens, std::string("has no ") + otherwise);
      return *id;
    };
    const int32_t cls = special({"cls_token_id", "bos_token_id"}, "[CLS]");
    const int32_t sep = special({"seperator_token_id"}, "[SEP]");
    const int32_t unk = special({"unknown_token_id"}, "[UNK]");
    for (const int32_t id : {cls, sep, unk}) types_[static_cast<size_t>(id)] = control;
    parts_.normalizer = make_bert_normalizer({.lowercase = lowercase});
    parts_.pre_tokenizer = make_bert_pre_tokenizer();
    set_model(make_wordpiece(std::move(all), {.unk_token = tokens_[static_cast<size_t>(unk)]}, file_.path()));
    parts_.post_processor = make_bert_processor(cls, sep);
    parts_.decoder = make_wordpiece_decoder("##", true);
  }

  GgufFile file_;
  std::vector<std::string> tokens_;  // by id
  std::vector<int64_t> types_;
  std::set<size_t> runs_;  // tokens that are several spaces
  PipelineParts parts_;
};

}  // namespace

std::shared_ptr<const Pipeline> read_gguf(const std::string& path) { return Reader(path).read(); }

}  // namespace heed::inline v0
