// JSON files of other frameworks, with a rule for each of their keys.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heed/io.h"

namespace heed::inline v0 {

/// How heed handles a key that the file's own framework reads.
struct KeyRule {
  enum class Kind : uint8_t { applied, only, harmless, alias };
  std::string key;
  Kind kind;
  /// applied: the framework's default, which may be null; only: the one value that heed supports.
  nlohmann::json value = nlohmann::json();
  std::string text{};  // harmless: the reason; alias: the key that this is another name of
};

/// heed follows the key. `fallback` is the framework's value for an absent key: null if there is none or if it follows
/// from other keys.
KeyRule applied(std::string key, nlohmann::json fallback = nullptr);
/// Only `value` and null are accepted. If `value` is false, 0 or empty, so are the other two.
KeyRule only(std::string key, nlohmann::json value);
/// The key does not affect results in heed.
KeyRule harmless(std::string key, std::string why);
/// The framework treats the key as another name of `of`, even if both are present.
KeyRule alias(std::string key, std::string of);

/// The keys of a file that its own framework reads. Both the framework and heed ignore all others.
class KeyTable {
 public:
  KeyTable(std::initializer_list<KeyRule> rules) : rules_(rules) {}
  /// This table plus `more`, whose rules replace those for the same keys.
  KeyTable with(const KeyTable& more) const;
  const KeyRule* find(const std::string& key) const;  // null if there is none
  const std::vector<KeyRule>& rules() const { return rules_; }

 private:
  std::vector<KeyRule> rules_;
};

/// Reads a JSON object. A key that is null counts as absent. Throws FormatError with the file, the key, its value and
/// what is permitted.
class Keys {
 public:
  /// Without a table: every key may be read, and absent keys have no default.
  Keys(nlohmann::json object, std::string where)
      : object_(std::make_shared<const nlohmann::json>(std::move(object))), where_(std::move(where)) {}
  /// With a table, which sets the defaults of absent keys. A key that is not in the table counts as absent. Reading a
  /// key that the table does not list as `applied` throws Error, since the table is wrong. Throws FormatError for a
  /// value that `only` does not permit.
  Keys(nlohmann::json object, std::string where, const KeyTable& table)
      : Keys(std::make_shared<const nlohmann::json>(std::move(object)), std::move(where), table) {}
  /// The same object with a table.
  Keys under(const KeyTable& table) const { return {object_, where_, table}; }
  /// This object plus the keys of `more`, which replace its own.
  Keys with(const Keys& more) const;

  bool has(const std::string& key) const { return find(key) != nullptr; }
  /// Whether the file has the key, even as null.
  bool is_given(const std::string& key) const { return object_->contains(key); }
  bool is_number(const std::string& key) const { return has(key) && find(key)->is_number(); }
  bool is_text(const std::string& key) const { return has(key) && find(key)->is_string(); }
  bool is_list(const std::string& key) const { return has(key) && find(key)->is_array(); }
  /// Without a fallback the key must be present or have a default.
  int64_t integer(const std::string& key, int64_t lowest, int64_t highest, std::optional<int64_t> fallback = {}) const;
  double number(const std::string& key, double lowest, double highest, std::optional<double> fallback = {}) const;
  bool flag(const std::string& key, bool fallback = false) const;
  std::string text(const std::string& key, std::optional<std::string> fallback = {}) const;
  std::vector<std::string> texts(const std::string& key) const;          // empty where absent
  std::vector<std::string> text_or_texts(const std::string& key) const;  // empty where absent
  std::vector<double> numbers(const std::string& key, double lowest, double highest) const;
  std::optional<Keys> object(const std::string& key) const;
  /// A number or a list of them.
  std::vector<int32_t> ids(const std::string& key) const;
  std::vector<int32_t> ids_or_none(const std::string& key) const;                // an empty list is accepted
  std::vector<std::vector<int32_t>> lists_of_ids(const std::string& key) const;  // empty where absent
  /// Reads `list`, a part of the value of `key`, as ids.
  std::vector<int32_t> ids_in(const nlohmann::json& list, const std::string& key) const;
  /// The value; null where it is absent.
  const nlohmann::json* find(const std::string& key) const;

  /// The first of `keys` that is present; if none is, the first.
  std::string first_of(std::initializer_list<const char*> keys) const;
  [[noreturn]] void fail(const std::string& key, const std::string& rule) const;
  /// 'FILE: "KEY" is VALUE', which begins a message.
  std::string told(const std::string& key) const;
  const std::string& where() const { return where_; }
  int64_t size() const { return static_cast<int64_t>(object_->size()); }  // keys
  std::vector<std::string> names() const;
  /// The whole object as JSON. Malformed UTF-8 is replaced.
  std::string json() const { return object_->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

 private:
  Keys(std::shared_ptr<const nlohmann::json> object, std::string where, const KeyTable& table);
  const nlohmann::json& need(const std::string& key) const;
  // Shared by Keys that differ in the table: a document is many times larger than its text.
  std::shared_ptr<const nlohmann::json> object_;
  std::string where_;
  std::optional<KeyTable> table_{};
};

/// Parses a text; `where` names it in messages. Throws FormatError if it is not a JSON object.
Keys keys_in(const std::string& text, const std::string& where);
/// Reads a JSON file of a directory. Throws IoError if it is missing.
Keys read_keys(const DirectorySnapshot& files, const std::string& name);

}  // namespace heed::inline v0
