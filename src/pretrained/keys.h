// config.json of other makers: many keys, of which most change nothing.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "heed/io.h"

namespace heed::inline v0 {

/// Reads the keys that count and passes over the rest. A key that is null is absent. Throws FormatError with the file,
/// the key, its value and what is permitted.
class Keys {
 public:
  Keys(nlohmann::json object, std::string where) : object_(std::move(object)), where_(std::move(where)) {}

  bool has(const std::string& key) const { return find(key) != nullptr; }
  /// Written down as null, which says "none" where an absent key stands for a default.
  bool is_null(const std::string& key) const { return object_.contains(key) && !has(key); }
  bool is_number(const std::string& key) const { return has(key) && find(key)->is_number(); }
  /// Without a fallback the key must be there.
  int64_t integer(const std::string& key, int64_t lowest, int64_t highest, std::optional<int64_t> fallback = {}) const;
  double number(const std::string& key, double lowest, double highest, std::optional<double> fallback = {}) const;
  bool flag(const std::string& key, bool fallback) const;
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
  /// Keys that would change results must have the value that heed computes with, or be absent.
  void require_flag(const std::string& key, bool value) const;
  void require_text(const std::string& key, const std::string& value) const;

  [[noreturn]] void fail(const std::string& key, const std::string& rule) const;
  /// 'FILE: "KEY" is VALUE', which begins a message.
  std::string told(const std::string& key) const;
  const std::string& where() const { return where_; }
  int64_t size() const { return static_cast<int64_t>(object_.size()); }  // keys
  /// All of it. Malformed UTF-8 is replaced.
  std::string json() const { return object_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

 private:
  const nlohmann::json& need(const std::string& key) const;
  nlohmann::json object_ = nlohmann::json::object();
  std::string where_;
};

/// Those of a JSON file of a directory. Throws IoError where it is not there.
Keys read_keys(const DirectorySnapshot& files, const std::string& name);

}  // namespace heed::inline v0
