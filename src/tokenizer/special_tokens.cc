// The special tokens of a tokenizer class, as transformers reads them from the files of a directory
// (tokenization_utils_base.py, _from_pretrained, and tokenization_utils_tokenizers.py).
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "tokenizer/classes.h"
#include "tokenizer/load.h"
#include "tokenizer/read_json.h"

namespace heed::inline v0 {
namespace {

constexpr std::array<std::string_view, 7> kNames{"bos_token", "eos_token", "unk_token", "sep_token",
                                                 "pad_token", "cls_token", "mask_token"};

bool is_name(std::string_view key) { return std::find(kNames.begin(), kNames.end(), key) != kNames.end(); }
bool is_more(std::string_view key) { return key.ends_with("_token") && !is_name(key); }

AddedToken special_token(std::string_view content) {
  return {.content = std::string(content), .special = true, .text = true};
}

// Reads a token in the form of transformers' AddedToken.
AddedToken read_added_token(const JsonValue& value, bool special) {
  AddedToken token{.content = std::string(value.at("content").string()),
                   .single_word = value.boolean_or("single_word", false),
                   .lstrip = value.boolean_or("lstrip", false),
                   .rstrip = value.boolean_or("rstrip", false),
                   .special = special};
  token.normalized = value.boolean_or("normalized", !special);
  token.may_change = !value.find("normalized");
  return token;
}

// A token of tokenizer_config.json: a text, or an object with "__type". Other values are not tokens.
std::optional<AddedToken> token_of_config(const JsonValue& value) {
  if (value.is_string()) return special_token(value.string());
  if (!value.is_object() || value.string_or("__type", "") != "AddedToken") return std::nullopt;
  return read_added_token(value, value.boolean_or("special", false));
}

// A token of special_tokens_map.json: an object needs no "__type".
std::optional<AddedToken> token_of_map(const JsonValue& value) {
  if (value.is_string()) return special_token(value.string());
  if (!value.is_object()) return std::nullopt;
  return read_added_token(value, true);
}

// `key`: the token's name, which messages need if `value` is a member of an object.
AddedToken expect_token(std::optional<AddedToken> token, const JsonValue& value, std::string_view key = {}) {
  if (!token)
    value.refuse((key.empty() ? "" : "has a " + std::string(key.substr(0, 60)) + " that ") +
                 std::string("is not a token; write a text, or an object with \"__type\": \"AddedToken\""));
  return std::move(*token);
}

// A member of a file, which may be null.
std::optional<JsonValue> member(const std::optional<JsonValue>& file, std::string_view key) {
  return file ? file->member(key) : std::nullopt;
}

bool is_empty(const std::optional<JsonValue>& value) {
  return !value || value->is_null() || ((value->is_array() || value->is_object()) && value->count() == 0);
}

int64_t id_of_key(std::string_view key, const JsonValue& decoder) {
  int64_t id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size())
    decoder.refuse("has the key '" + std::string(key.substr(0, 60)) + "', which is not an id");
  return id;
}

// Tokens by key; replacing a token keeps its place.
class Keyed {
 public:
  void put(std::string_view key, AddedToken token) {
    const auto [found, added] = places_.emplace(key, tokens_.size());
    if (!added) return void(tokens_[found->second].second = std::move(token));
    tokens_.emplace_back(key, std::move(token));
  }
  const std::vector<std::pair<std::string, AddedToken>>& tokens() const { return tokens_; }

 private:
  std::vector<std::pair<std::string, AddedToken>> tokens_;
  std::map<std::string, size_t, std::less<>> places_;
};

bool has(const std::vector<AddedToken>& tokens, const AddedToken& token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

// The list of tokens without a name, and the tokens with a name of the model such as "image_token", before the class
// adds its own.
struct MoreTokens {
  std::optional<std::vector<AddedToken>> extra{};       // nothing: no file has a list
  bool null = false;                                    // the list is null
  std::optional<std::vector<AddedToken>> additional{};  // used if there is no list
  Keyed specific{};
  std::set<std::string> texts{};  // of `extra`, those that added_tokens.json makes special
};

std::vector<AddedToken> tokens_in(const JsonValue& list) {
  if (!list.is_array()) list.refuse("must be a list of tokens");
  std::vector<AddedToken> tokens;
  list.each([&](const JsonValue& value) { tokens.push_back(expect_token(token_of_config(value), value)); });
  return tokens;
}

MoreTokens read_more(const std::optional<JsonValue>& config, const std::optional<JsonValue>& map) {
  constexpr const char *kExtra = "extra_special_tokens", *kAdditional = "additional_special_tokens",
                       *kSpecific = "model_specific_special_tokens";
  MoreTokens more;
  std::optional<JsonValue> extra = member(config, kExtra), additional = member(config, kAdditional);
  if (additional && is_empty(extra)) extra = std::exchange(additional, std::nullopt);
  const auto put_all = [&](const JsonValue& object) {
    object.each_member([&](std::string_view key, const JsonValue& value) {
      more.specific.put(key, expect_token(token_of_config(value), value, key));
    });
  };
  if (config)
    config->each_member([&](std::string_view key, const JsonValue& value) {
      if (is_more(key) && value.is_string()) more.specific.put(key, special_token(value.string()));
    });
  if (extra && extra->is_object()) {
    put_all(*extra);
    extra.reset();
  }
  if (more.specific.tokens().empty())
    if (const auto specific = config ? config->find(kSpecific) : std::nullopt) put_all(*specific);
  const std::optional<JsonValue> mapped = member(map, kExtra);
  if (mapped && mapped->is_object()) {
    put_all(*mapped);
  } else if (mapped && mapped->is_array()) {
    more.extra = extra && !extra->is_null() ? tokens_in(*extra) : std::vector<AddedToken>();
    mapped->each([&](const JsonValue& value) {
      AddedToken token = expect_token(token_of_map(value), value);
      more.texts.insert(token.content);
      if (!has(*more.extra, token)) more.extra->push_back(std::move(token));
    });
  } else if (extra || mapped) {
    more.null = (mapped ? *mapped : *extra).is_null();
    more.extra = more.null ? std::vector<AddedToken>() : tokens_in(mapped ? *mapped : *extra);
  }
  if (extra && extra->is_array())
    extra->each([&](const JsonValue& value) {
      if (value.is_string()) more.texts.emplace(value.string());
    });
  if (const auto again = member(map, kAdditional)) additional = again;
  if ((!more.extra || more.null) && additional && !additional->is_null()) more.additional = tokens_in(*additional);
  return more;
}

}  // namespace

std::optional<JsonValue> TokenizerConfig::given(std::string_view key) const {
  const auto mapped = member(map_, key);
  return mapped ? mapped : member(root_, key);
}

std::optional<std::vector<AddedToken>> TokenizerConfig::additional() const { return read_more(root_, map_).additional; }

std::optional<AddedToken> TokenizerConfig::argument(const ClassToken& token) const {
  const auto mapped = member(map_, token.key), of_config = member(root_, token.key);
  if (mapped) return token_of_map(*mapped);
  // transformers keeps a text from the class, as a token with a name of the model.
  if (!of_config || of_config->is_string()) return special_token(token.content);
  return token_of_config(*of_config);
}

std::map<int64_t, std::string> TokenizerConfig::listed_tokens() const {
  std::map<int64_t, std::string> listed;
  if (const auto decoder = root_ ? root_->find("added_tokens_decoder") : std::nullopt) {
    decoder->each_member([&](std::string_view key, const JsonValue& value) {
      listed.insert_or_assign(id_of_key(key, *decoder), std::string(value.at("content").string()));
    });
  } else if (added_) {
    added_->each_member([&](std::string_view content, const JsonValue& id) {
      listed.insert_or_assign(id.integer(), std::string(content));
    });
  }
  return listed;
}

SpecialTokens TokenizerConfig::special_tokens(const TokenSources& sources) const {
  const std::span<const ClassToken> defaults = sources.defaults;
  MoreTokens more = read_more(root_, map_);
  if (more.null && sources.null_is_no_list) more.extra.reset();

  // Tokens that a file lists with ids.
  std::map<int64_t, AddedToken> by_id;
  std::map<std::string, AddedToken, std::less<>> by_content;
  const auto list = [&](int64_t id, const AddedToken& token) {
    by_id.insert_or_assign(id, token);
    by_content.insert_or_assign(token.content, token);
  };
  if (const auto decoder = root_ ? root_->find("added_tokens_decoder") : std::nullopt) {
    decoder->each_member([&](std::string_view key, const JsonValue& value) {
      list(id_of_key(key, *decoder), read_added_token(value, value.boolean_or("special", false)));
    });
  } else {
    std::set<std::string>& special = more.texts;
    for (const std::string_view key : kNames) {
      if (const auto mapped = member(map_, key)) {
        if (const auto token = token_of_map(*mapped)) special.insert(token->content);
      } else if (const auto value = member(root_, key); value && value->is_string()) {
        special.emplace(value->string());
      }
    }
    if (added_)
      added_->each_member([&](std::string_view content, const JsonValue& id) {
        const bool is_special = special.contains(std::string(content));
        list(id.integer(), {.content = std::string(content), .normalized = !is_special, .special = is_special});
      });
    for (const auto& [id, token] : sources.of_file) list(id, token);
  }

  // Tokens with a name of the model: those of the class, of the files, and last the ones that replace others.
  Keyed of_model;
  for (const ClassToken& token : defaults)
    if (!is_name(token.key))
      if (const auto found = argument(token)) of_model.put(token.key, *found);
  if (root_)
    root_->each_member([&](std::string_view key, const JsonValue& value) {
      if (!is_more(key) || value.is_string()) return;
      const auto mapped = member(map_, key);
      if (const auto token = mapped ? token_of_map(*mapped) : token_of_config(value)) of_model.put(key, *token);
    });
  if (map_)
    map_->each_member([&](std::string_view key, const JsonValue& value) {
      if (!is_more(key)) return;
      if (const auto token = token_of_map(value)) of_model.put(key, *token);
    });
  for (const auto& [key, token] : more.specific.tokens()) of_model.put(key, token);

  // The named tokens. A listed token has the attributes of the list.
  std::array<std::optional<AddedToken>, kNames.size()> usual;
  for (size_t i = 0; i < kNames.size(); ++i) {
    const std::string_view key = kNames[i];
    const auto in_class =
        std::find_if(defaults.begin(), defaults.end(), [&](const ClassToken& t) { return t.key == key; });
    const auto of_class = [&](std::string_view content) {
      AddedToken token = special_token(content);
      if (in_class != defaults.end() && in_class->object) {
        token.lstrip = in_class->lstrip;
        token.normalized = in_class->normalized;
        token.text = false;
      }
      return token;
    };
    const auto value = given(key);
    if (!value) {
      const std::string_view content = in_class != defaults.end()         ? in_class->content
                                       : key == "pad_token" && !is_bare() ? std::string_view(sources.padding)
                                                                          : std::string_view();
      if (!content.empty()) usual[i] = of_class(content);
    } else if (!value->is_null()) {
      AddedToken token = expect_token(member(map_, key) ? token_of_map(*value) : token_of_config(*value), *value);
      const auto listed = by_content.find(token.content);
      usual[i] = listed != by_content.end() ? listed->second : value->is_string() ? of_class(token.content) : token;
    }
  }
  SpecialTokens tokens;
  std::vector<std::pair<std::string, AddedToken>> named;
  for (const auto& [key, token] : of_model.tokens()) {
    const auto name = std::find(kNames.begin(), kNames.end(), key);
    if (name == kNames.end()) {
      named.emplace_back(key, token);
      continue;
    }
    std::optional<AddedToken>& replaced = usual[static_cast<size_t>(name - kNames.begin())];
    if (!replaced || replaced->content != token.content) tokens.replaced = key;
    replaced = token;
  }
  for (size_t i = kNames.size(); i-- > 0;)
    if (usual[i]) named.emplace(named.begin(), kNames[i], *usual[i]);

  std::set<std::string> names, there;
  for (const auto& [key, token] : named) {
    tokens.named.insert_or_assign(key, token.content);
    if (names.insert(token.content).second) tokens.all.push_back(token.content);
  }
  if (sources.kept)
    for (const auto& [id, token] : sources.of_file) there.insert(token.content);
  for (const auto& [id, token] : by_id) {
    there.insert(token.content);
    tokens.added.push_back(token);
  }
  tokens.listed = tokens.added.size();
  // One content may be added several times, with other attributes: AddedTokens keeps the rules for that.
  const auto add = [&](const AddedToken& token) {
    if (!there.contains(token.content) && !has(tokens.added, token)) tokens.added.push_back(token);
  };
  for (const auto& [key, token] : named) add(token);
  std::set<std::string> all = names;
  const std::vector<AddedToken> none;
  for (const AddedToken& token : more.extra           ? *more.extra
                                 : sources.additional ? *sources.additional
                                 : more.additional    ? *more.additional
                                                      : none) {
    add(token);
    if (all.insert(token.content).second) tokens.all.push_back(token.content);
  }
  for (AddedToken& token : tokens.added)
    if (names.contains(token.content)) token.make_special();
  return tokens;
}

bool TokenizerConfig::chat_template_is_mapped() const { return member(map_, "chat_template").has_value(); }

NamedTokens TokenizerConfig::named_tokens(const TokenizerFiles& files) const {
  constexpr const char *kJson = "tokenizer.json", *kPieces = "tokenizer.model";
  TokenSources sources{.defaults = tokens_of_class(class_)};
  NamedTokens named;
  std::optional<SentencePieceModel> pieces;
  std::vector<ClassToken> of_pieces;
  const bool by_file = class_ == kFileClass;
  if (by_file && !files.contains(kJson) && files.contains(kPieces)) {
    pieces = read_model_proto(files.read(kPieces), files.path(kPieces));
    of_pieces = tokens_of_pieces(*pieces);
    sources.defaults = of_pieces;
  }
  named.complete = !sources.defaults.empty() || (by_file && files.contains(kJson));
  const bool pads = std::any_of(sources.defaults.begin(), sources.defaults.end(),
                                [](const ClassToken& token) { return token.key == "pad_token"; });
  if (!pads && !gives("pad_token") && files.contains(kJson)) {
    const JsonDocument document(files.read(kJson), files.path(kJson));
    sources.padding = padding_token(document.root());
  }
  named.tokens = special_tokens(sources).named;
  if (root_)
    root_->each_member([&](std::string_view key, const JsonValue&) {
      if (const auto value = given(key); value->is_null()) named.none.emplace(key);
    });
  if (map_)
    map_->each_member([&](std::string_view key, const JsonValue& value) {
      if (value.is_null()) named.none.emplace(key);
    });
  return named;
}

}  // namespace heed::inline v0
