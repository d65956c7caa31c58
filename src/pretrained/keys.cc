#include "pretrained/keys.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "heed/error.h"
#include "io/json.h"

namespace heed::inline v0 {
namespace {

constexpr uint64_t kLargest = 1 << 20;  // bytes of a file

std::string range(double lowest, double highest) {
  std::ostringstream text;
  text << "it must be in " << lowest << ".." << highest;
  return text.str();
}

// Whether a value is false in Python: false, null, 0 or empty.
bool is_nothing(const nlohmann::json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.empty();
}

}  // namespace

KeyRule applied(std::string key, nlohmann::json fallback) {
  return {std::move(key), KeyRule::Kind::applied, std::move(fallback)};
}
KeyRule only(std::string key, nlohmann::json value) { return {std::move(key), KeyRule::Kind::only, std::move(value)}; }
KeyRule harmless(std::string key, std::string why) {
  return {std::move(key), KeyRule::Kind::harmless, {}, std::move(why)};
}
KeyRule alias(std::string key, std::string of) { return {std::move(key), KeyRule::Kind::alias, {}, std::move(of)}; }

const KeyRule* KeyTable::find(const std::string& key) const {
  const auto at = std::find_if(rules_.begin(), rules_.end(), [&](const KeyRule& rule) { return rule.key == key; });
  return at == rules_.end() ? nullptr : &*at;
}

KeyTable KeyTable::with(const KeyTable& more) const {
  KeyTable both = *this;
  std::erase_if(both.rules_, [&](const KeyRule& rule) { return more.find(rule.key) != nullptr; });
  both.rules_.insert(both.rules_.end(), more.rules_.begin(), more.rules_.end());
  return both;
}

Keys::Keys(std::shared_ptr<const nlohmann::json> object, std::string where, const KeyTable& table)
    : object_(std::move(object)), where_(std::move(where)), table_(table) {
  for (const KeyRule& rule : table.rules())
    if (rule.kind == KeyRule::Kind::alias && object_->contains(rule.key)) {
      nlohmann::json renamed = *object_;
      renamed[rule.text] = renamed[rule.key];
      renamed.erase(rule.key);
      object_ = std::make_shared<const nlohmann::json>(std::move(renamed));
    }
  for (const KeyRule& rule : table.rules()) {
    const auto at = object_->find(rule.key);
    if (rule.kind != KeyRule::Kind::only || at == object_->end() || at->is_null()) continue;
    if (*at != rule.value && !(is_nothing(*at) && is_nothing(rule.value)))
      fail(rule.key, "heed supports this kind of model only with " + rule.value.dump());
  }
}

std::vector<std::string> Keys::names() const {
  std::vector<std::string> all;
  for (const auto& [key, value] : object_->items()) all.push_back(key);
  return all;
}

Keys Keys::with(const Keys& more) const {
  Keys both = *this;
  nlohmann::json object = *object_;
  object.update(*more.object_);
  both.object_ = std::make_shared<const nlohmann::json>(std::move(object));
  return both;
}

const nlohmann::json* Keys::find(const std::string& key) const {
  const KeyRule* const rule = table_ ? table_->find(key) : nullptr;
  if (table_ && !rule) return nullptr;  // the framework does not read it
  if (rule && rule->kind != KeyRule::Kind::applied)
    throw Error("pretrained: '" + key + "' of " + where_ + " is read, but its table does not list it as applied");
  const auto at = object_->find(key);
  const nlohmann::json* const value = at != object_->end() ? &*at : rule ? &rule->value : nullptr;
  return !value || value->is_null() ? nullptr : value;
}

const nlohmann::json& Keys::need(const std::string& key) const {
  const nlohmann::json* const value = find(key);
  if (!value) throw FormatError(where_ + ": there is no \"" + key + "\", which this kind of model needs");
  return *value;
}

std::string Keys::told(const std::string& key) const {
  constexpr size_t kLongest = 80;
  const KeyRule* const rule_of_key = table_ ? table_->find(key) : nullptr;
  const auto at = object_->find(key);
  const nlohmann::json given = at != object_->end() ? *at : rule_of_key ? rule_of_key->value : nlohmann::json();
  std::string value = given.dump(-1, ' ', /*ensure_ascii=*/true);
  if (value.size() > kLongest) value.replace(kLongest, std::string::npos, "...");
  return where_ + ": \"" + key + "\" is " + value;
}

void Keys::fail(const std::string& key, const std::string& rule) const { throw FormatError(told(key) + "; " + rule); }

int64_t Keys::integer(const std::string& key, int64_t lowest, int64_t highest, std::optional<int64_t> fallback) const {
  if (fallback && !has(key)) return *fallback;
  const nlohmann::json& value = need(key);
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                                               : value.is_number_integer();
  if (!fits || value.get<int64_t>() < lowest || value.get<int64_t>() > highest)
    fail(key, "it must be a whole number in " + std::to_string(lowest) + ".." + std::to_string(highest));
  return value.get<int64_t>();
}

double Keys::number(const std::string& key, double lowest, double highest, std::optional<double> fallback) const {
  if (fallback && !has(key)) return *fallback;
  const nlohmann::json& value = need(key);
  if (!value.is_number() || !(value.get<double>() >= lowest && value.get<double>() <= highest))
    fail(key, range(lowest, highest));
  return value.get<double>();
}

bool Keys::flag(const std::string& key, bool fallback) const {
  if (!has(key)) return fallback;
  if (!need(key).is_boolean()) fail(key, "it must be true or false");
  return need(key).get<bool>();
}

std::string Keys::text(const std::string& key, std::optional<std::string> fallback) const {
  if (fallback && !has(key)) return *fallback;
  if (!need(key).is_string()) fail(key, "it must be a text");
  return need(key).get<std::string>();
}

std::vector<std::string> Keys::texts(const std::string& key) const {
  std::vector<std::string> all;
  if (!has(key)) return all;
  if (!need(key).is_array()) fail(key, "it must be a list of texts");
  for (const nlohmann::json& one : need(key)) {
    if (!one.is_string()) fail(key, "it must be a list of texts");
    all.push_back(one.get<std::string>());
  }
  return all;
}

std::vector<std::string> Keys::text_or_texts(const std::string& key) const {
  const nlohmann::json* const value = find(key);
  return value && value->is_string() ? std::vector{value->get<std::string>()} : texts(key);
}

std::vector<double> Keys::numbers(const std::string& key, double lowest, double highest) const {
  std::vector<double> all;
  if (!need(key).is_array()) fail(key, "it must be a list of numbers");
  for (const nlohmann::json& one : need(key)) {
    if (!one.is_number() || !(one.get<double>() >= lowest && one.get<double>() <= highest))
      fail(key, "each of it: " + range(lowest, highest));
    all.push_back(one.get<double>());
  }
  return all;
}

std::optional<Keys> Keys::object(const std::string& key) const {
  if (!has(key)) return {};
  if (!need(key).is_object()) fail(key, "it must be an object");
  return Keys(need(key), where_ + ": \"" + key + "\"");
}

std::vector<int32_t> Keys::ids(const std::string& key) const {
  if (!has(key)) return {};
  const nlohmann::json& value = need(key);
  if (value.is_array() && value.empty()) fail(key, "it must be an id or a list of ids");
  return ids_in(value.is_array() ? value : nlohmann::json::array({value}), key);
}

std::vector<int32_t> Keys::ids_or_none(const std::string& key) const {
  const nlohmann::json* const value = find(key);
  return value && value->is_array() && value->empty() ? std::vector<int32_t>() : ids(key);
}

std::vector<std::vector<int32_t>> Keys::lists_of_ids(const std::string& key) const {
  std::vector<std::vector<int32_t>> all;
  if (!has(key)) return all;
  if (!need(key).is_array()) fail(key, "it must be a list of lists of ids");
  for (const nlohmann::json& one : need(key)) all.push_back(ids_in(one, key));
  return all;
}

std::vector<int32_t> Keys::ids_in(const nlohmann::json& list, const std::string& key) const {
  std::vector<int32_t> all;
  if (!list.is_array()) fail(key, "it must be a list of ids");
  for (const nlohmann::json& one : list) {
    if (!one.is_number_integer() || one.get<double>() < 0 || one.get<double>() > INT32_MAX)
      fail(key, "it must contain ids, whole numbers from 0 on");
    all.push_back(one.get<int32_t>());
  }
  return all;
}

std::string Keys::first_of(std::initializer_list<const char*> keys) const {
  for (const char* key : keys)
    if (has(key)) return key;
  return *keys.begin();
}

Keys keys_in(const std::string& text, const std::string& where) {
  nlohmann::json json = parse_json(text, where);
  if (!json.is_object()) throw FormatError(where + ": it is not a JSON object");
  return {std::move(json), where};
}

Keys read_keys(const DirectorySnapshot& files, const std::string& name) {
  return keys_in(files.read(name, kLargest), files.path(name));
}

}  // namespace heed::inline v0
