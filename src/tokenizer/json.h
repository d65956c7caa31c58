// JSON of tokenizers: files of a hundred thousand tokens that somebody else wrote. A document is one row of nodes, so
// its memory is a small multiple of the file's bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/error.h"

namespace heed::inline v0 {

class JsonDocument;

/// A value of a document, which must outlive it. The readers throw FormatError "WHERE: PATH ..." for another type.
class JsonValue {
 public:
  enum class Type : uint32_t { null, boolean, integer, real, string, array, object };

  JsonValue(const JsonDocument* document, uint32_t node, std::string path)
      : document_(document), node_(node), path_(std::move(path)) {}

  Type type() const;
  bool is_null() const { return type() == Type::null; }
  bool is_string() const { return type() == Type::string; }
  bool is_object() const { return type() == Type::object; }
  bool is_array() const { return type() == Type::array; }

  std::string_view string() const;
  bool boolean() const;
  int64_t integer() const;  // exact
  double number() const;

  /// A member of an object, which may be null.
  std::optional<JsonValue> member(std::string_view key) const;
  /// A member of an object; nothing where it is missing or null.
  std::optional<JsonValue> find(std::string_view key) const;
  /// FormatError where it is missing or null.
  JsonValue at(std::string_view key) const;

  std::string_view string_or(std::string_view key, std::string_view otherwise) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  int64_t integer_or(std::string_view key, int64_t otherwise) const;

  /// Calls visit(value) for each element of an array.
  template <class Visit>
  void each(const Visit& visit) const {
    expect(Type::array, "an array");
    for (uint32_t node = node_ + 1, i = 0; node < end(); node = end_of(node), ++i) visit(child(node, i));
  }
  /// Calls visit(key, value) for each member of an object.
  template <class Visit>
  void each_member(const Visit& visit) const {
    expect(Type::object, "an object");
    for (uint32_t key = node_ + 1; key < end(); key = end_of(key + 1))
      visit(text_of(key), JsonValue(document_, key + 1, path_));
  }
  size_t count() const;  // elements or members

  /// FormatError "WHERE: PATH what".
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  void expect(Type wanted, const char* name) const;
  uint32_t end() const { return end_of(node_); }
  uint32_t end_of(uint32_t node) const;
  std::string_view text_of(uint32_t node) const;
  JsonValue child(uint32_t node, uint32_t index) const;

  const JsonDocument* document_;
  uint32_t node_;
  std::string path_;  // for messages
};

class JsonDocument {
 public:
  /// Refuses a key that occurs twice, nesting beyond 64 levels, NUL bytes and a byte-order mark. Throws FormatError
  /// "WHERE: ...".
  JsonDocument(std::string_view text, std::string where);
  JsonValue root() const { return {this, 0, ""}; }

 private:
  friend class JsonValue;
  friend class JsonReader;
  struct Node {
    uint32_t end;  // the node behind it and all within it
    JsonValue::Type type;
    union {
      double real;
      int64_t integer;
      struct {
        uint32_t begin, size;
      } text;
    };
  };
  std::vector<Node> nodes_;  // in an object a key and its value take turns
  std::string texts_;
  std::string where_;
};

}  // namespace heed::inline v0
