#include "io/json.h"

#include <cstdint>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/error.h"
#include "heed/io.h"

namespace heed::inline v0 {

void check_json_bytes(std::string_view text, const std::string& where) {
  if (text.starts_with("\xEF\xBB\xBF"))
    throw FormatError(where + ": starts with a byte-order mark, which JSON forbids");
  if (const size_t at = text.find('\0'); at != std::string_view::npos)
    throw FormatError(where + ": not JSON: byte " + std::to_string(at) + " is 0");
}

std::string json_reason(const std::exception& error) {
  std::string_view text = error.what();
  if (const size_t end = text.find("] "); text.starts_with('[') && end != std::string_view::npos)
    text.remove_prefix(end + 2);
  std::string line;
  for (const char c : text.substr(0, 200)) line += c >= 0x20 && c < 0x7f ? c : '?';
  return line;
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kLongest = 80;
  size_t length = std::min(text.size(), kLongest);
  while (length < text.size() && length > 0 && (text[length] & 0xC0) == 0x80) --length;  // not inside a character
  std::string out =
      nlohmann::json(text.substr(0, length)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (length < text.size()) out += "...";
  return out;
}

namespace {

/// Makes the document while nlohmann's parser goes over the text. With a callback, that parser looks through all
/// members of the parent at the end of each object, and ordered_json through all keys at each key: minutes for a
/// megabyte.
template <class Json>
class DocumentMaker {
 public:
  DocumentMaker(const std::string& where, size_t depth) : where_(where), depth_(depth) {}
  Json take() { return std::move(document_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(typename Json::binary_t&) { return false; }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(const std::string& name) {
    if (!open_.back().keys.insert(name).second)
      throw FormatError(where_ + ": the key " + in_quotes(name) + " occurs twice");
    auto& members = open_.back().value->template get_ref<typename Json::object_t&>();
    if constexpr (std::is_same_v<Json, nlohmann::ordered_json>) {
      members.Json::object_t::Container::emplace_back(name, nullptr);
      member_ = &members.back().second;
    } else {
      member_ = &members[name];
    }
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) {
    throw FormatError(where_ + ": not JSON: " + json_reason(error));
  }

 private:
  template <class Value>
  bool add(Value&& value) {
    place() = std::forward<Value>(value);
    return true;
  }
  bool open(Json&& container) {
    if (open_.size() == depth_)
      throw FormatError(where_ + ": nested deeper than " + std::to_string(depth_) + " levels");
    Json& opened = place();
    opened = std::move(container);
    open_.push_back({&opened, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  // The place of the next value.
  Json& place() {
    if (open_.empty()) return document_;
    Json& parent = *open_.back().value;
    return parent.is_array() ? parent.template get_ref<typename Json::array_t&>().emplace_back() : *member_;
  }

  struct Open {
    Json* value;  // stays where it is: nothing is added to the parent meanwhile
    std::set<std::string> keys;
  };
  const std::string& where_;
  const size_t depth_;
  Json document_ = Json::object();
  std::vector<Open> open_;
  Json* member_ = nullptr;  // of the innermost object
};

template <class Json>
Json made(std::string_view text, const std::string& where, size_t depth) {
  check_json_bytes(text, where);
  DocumentMaker<Json> maker(where, depth);
  Json::sax_parse(text, &maker);
  return maker.take();
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& where, size_t depth) {
  return made<nlohmann::json>(text, where, depth);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& where) {
  return made<nlohmann::ordered_json>(text, where, kJsonDepth);
}

}  // namespace heed::inline v0
