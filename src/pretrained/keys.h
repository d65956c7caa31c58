// JSON files of other frameworks, and what heed does with each of their keys.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "heed/io.h"

namespace heed::inline v0 {

/// What heed does with a key that the file's own framework reads.
struct KeyRule {
  enum class Kind : uint8_t { applied, only, harmless, alias };
  std::string key;
  Kind kind;
  /// applied: the framework's default, which may be null; only: the one value that heed computes with.
  nlohmann::json value = nlohmann::json();
  std::string text{};  // harmless: the reason; alias: the key that it is another name of
};

/// heed computes as the key says. `fallback` is the framework's value of an absent key: null for none, and for one that
/// follows from other keys.
KeyRule applied(std::string key, nlohmann::json fallback = nullptr);
/// Refuses every other value except null. Where `value` is false, 0 or empty, the others of these are accepted, too.
KeyRule only(std::string key, nlohmann::json value);
/// The key changes no result of heed's.
KeyRule harmless(std::string key, std::string why);
/// The framework takes the key for another name of `of`, also where both are there.
KeyRule alias(std::string key, std::string of);

/// The keys of a file that its own framework reads. Any other key changes nothing there, and is ignored here.
class KeyTable {
 public:
  KeyTable(std::initializer_list<KeyRule> rules) : rules_(rules) {}
  /// With `more`, whose rules replace those for the same keys.
  KeyTable with(const KeyTable& more) const;
  const KeyRule* find(const std::string& key) const;  // null where there is none
  const std::vector<KeyRule>& rules() const { return rules_; }

 private:
  std::vector<KeyRule> rules_;
};

/// Reads a JSON object. A key that is null is absent. Throws FormatError with the file, the key, its value and what is
/// permitted.
class Keys {
 public:
  /// Without a table: every key may be read, and absent keys have no default.
  Keys(nlohmann::json object, std::string where) : object_(std::move(object)), where_(std::move(where)) {}
  /// With defaults for absent keys. A key that is not in the table counts as absent; reading one that the table lists
  /// as other than `applied` is an Error: the table is wrong. Throws FormatError where a key has another value than the
  /// `only` one that the table permits.
  Keys(nlohmann::json object, std::string where, const KeyTable& table);
  /// The same object under a table.
  Keys under(const KeyTable& table) const { return {object_, where_, table}; }
  /// With the keys of another object, which replace its own.
  Keys with(const Keys& more) const;

  bool has(const std::string& key) const { return find(key) != nullptr; }
  /// In the file, be it as null.
  bool is_given(const std::string& key) const { return object_.contains(key); }
  bool is_number(const std::string& key) const { return has(key) && find(key)->is_number(); }
  bool is_text(const std::string& key) const { return has(key) && find(key)->is_string(); }
  bool is_list(const std::string& key) const { return has(key) && find(key)->is_array(); }
  /// Without a fallback the key must be there, or have a default.
  int64_t integer(const std::string& key, int64_t lowest, int64_t highest, std::optional<int64_t> fallback = {}) const;
  double number(const std::string& key, double lowest, double highest, std::optional<double> fallback = {}) const;
  bool flag(const std::string& key, bool fallback = false) const;
  std::string text(const std::string& key, std::optional<std::string> fallback = {}) const;
  std::vector<std::string> texts(const std::string& key) const;          // empty where absent
  std::vector<std::string> text_or_texts(const std::string& key) const;  // likewise
  std::vector<double> numbers(const std::string& key, double lowest, double highest) const;
  std::optional<Keys> object(const std::string& key) const;
  /// A number or a list of them.
  std::vector<int32_t> ids(const std::string& key) const;
  std::vector<int32_t> ids_or_none(const std::string& key) const;                // an empty list is taken, too
  std::vector<std::vector<int32_t>> lists_of_ids(const std::string& key) const;  // empty where absent
  /// A list of ids that is a part of the value of `key`.
  std::vector<int32_t> ids_in(const nlohmann::json& list, const std::string& key) const;
  /// The value; null where it is absent.
  const nlohmann::json* find(const std::string& key) const;

  /// The first of `keys` that is there; the first where none is.
  std::string first_of(std::initializer_list<const char*> keys) const;
  [[noreturn]] void fail(const std::string& key, const std::string& rule) const;
  /// 'FILE: "KEY" is VALUE', which begins a message.
  std::string told(const std::string& key) const;
  const std::string& where() const { return where_; }
  int64_t size() const { return static_cast<int64_t>(object_.size()); }  // keys
  std::vector<std::string> names() const;
  /// All of it. Malformed UTF-8 is replaced.
  std::string json() const { return object_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

 private:
  const nlohmann::json& need(const std::string& key) const;
  nlohmann::json object_ = nlohmann::json::object();
  std::string where_;
  std::optional<KeyTable> table_{};
};

/// Those of a text; `where` stands for it in messages. Throws FormatError where it is no JSON object.
Keys keys_in(const std::string& text, const std::string& where);
/// Those of a JSON file of a directory. Throws IoError where it is not there.
Keys read_keys(const DirectorySnapshot& files, const std::string& name);

}  // namespace heed::inline v0
