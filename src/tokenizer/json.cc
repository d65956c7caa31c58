#include "tokenizer/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "heed/text.h"

namespace heed::inline v0 {

namespace {

constexpr size_t kDeepest = 64;

std::string shown(std::string_view text) {
  constexpr size_t kLongest = 60;
  std::string out =
      nlohmann::json(text.substr(0, kLongest)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > kLongest ? out + "..." : out;
}

// A number as the tokenizers package reads it: all digits as a whole number, then divided by a power of ten, each
// rounded. Where scores of tokens are equal but for the last bit, its choice depends on it.
double rounded_twice(std::string_view text) {
  constexpr uint64_t kMost = (UINT64_MAX - 9) / 10;
  uint64_t digits = 0;
  int64_t exponent = 0;
  const bool negative = text.starts_with('-');
  bool fraction = false;
  size_t at = negative;
  for (; at < text.size() && (text[at] == '.' || (text[at] >= '0' && text[at] <= '9')); ++at) {
    if (text[at] == '.') {
      fraction = true;
    } else if (digits <= kMost) {
      digits = 10 * digits + static_cast<uint64_t>(text[at] - '0');
      exponent -= fraction;
    } else {
      exponent += !fraction;
    }
  }
  if (at < text.size()) {  // e-05
    int64_t power = 0;
    const size_t first = at + 1 + (text[at + 1] == '+');
    const auto read = std::from_chars(text.data() + first, text.data() + text.size(), power);
    if (read.ec != std::errc()) power = text[at + 1] == '-' ? -100000 : 100000;
    exponent += power;
  }
  auto value = static_cast<double>(digits);
  for (; exponent > 0 && value > 0 && std::isfinite(value); exponent -= std::min<int64_t>(exponent, 308))
    value *= std::pow(10.0, std::min<int64_t>(exponent, 308));
  for (; exponent < 0 && value > 0; exponent += std::min<int64_t>(-exponent, 308))
    value /= std::pow(10.0, std::min<int64_t>(-exponent, 308));
  return negative ? -value : value;
}

}  // namespace

// What nlohmann's parser calls while it goes over the text.
class JsonReader {
 public:
  using Type = JsonValue::Type;
  explicit JsonReader(JsonDocument* document) : d_(*document) {}

  bool null() { return leaf(Type::null); }
  bool boolean(bool value) {
    leaf(Type::boolean);
    d_.nodes_.back().integer = value;
    return true;
  }
  bool number_integer(int64_t value) {
    leaf(Type::integer);
    d_.nodes_.back().integer = value;
    return true;
  }
  bool number_unsigned(uint64_t value) {
    return value <= INT64_MAX ? number_integer(static_cast<int64_t>(value))
                              : number_float(static_cast<double>(value), "");
  }
  bool number_float(double value, const std::string& digits) {
    leaf(Type::real);
    d_.nodes_.back().real = digits.empty() ? value : rounded_twice(digits);
    return true;
  }
  bool string(const std::string& value) {
    leaf(Type::string);
    d_.nodes_.back().text = {static_cast<uint32_t>(d_.texts_.size()), static_cast<uint32_t>(value.size())};
    d_.texts_ += value;
    return true;
  }
  bool key(const std::string& value) { return string(value); }
  bool binary(const std::vector<uint8_t>&) { return false; }
  bool start_object(size_t) { return open(Type::object); }
  bool start_array(size_t) { return open(Type::array); }
  bool end_object() {
    refuse_duplicates(open_.back());
    return close();
  }
  bool end_array() { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) {
    std::string_view reason = error.what();
    if (const size_t end = reason.find("] "); end != std::string_view::npos) reason.remove_prefix(end + 2);
    std::string line;
    for (const char c : reason.substr(0, 200)) line += c >= 0x20 && c < 0x7f ? c : '?';
    throw FormatError(d_.where_ + ": not JSON at byte " + std::to_string(position) + ": " + line);
  }

 private:
  bool leaf(Type type) {
    d_.nodes_.push_back({static_cast<uint32_t>(d_.nodes_.size()) + 1, type, {}});
    return true;
  }
  bool open(Type type) {
    if (open_.size() == kDeepest)
      throw FormatError(d_.where_ + ": nested deeper than " + std::to_string(kDeepest) + " levels");
    open_.push_back(static_cast<uint32_t>(d_.nodes_.size()));
    return leaf(type);
  }
  bool close() {
    d_.nodes_[open_.back()].end = static_cast<uint32_t>(d_.nodes_.size());
    open_.pop_back();
    return true;
  }
  void refuse_duplicates(uint32_t object) {
    keys_.clear();
    for (uint32_t key = object + 1; key < d_.nodes_.size(); key = d_.nodes_[key + 1].end)
      keys_.push_back(std::string_view(d_.texts_).substr(d_.nodes_[key].text.begin, d_.nodes_[key].text.size));
    std::sort(keys_.begin(), keys_.end());
    if (const auto twice = std::adjacent_find(keys_.begin(), keys_.end()); twice != keys_.end())
      throw FormatError(d_.where_ + ": the key " + shown(*twice) + " occurs twice");
  }

  JsonDocument& d_;
  std::vector<uint32_t> open_;
  std::vector<std::string_view> keys_;
};

JsonDocument::JsonDocument(std::string_view text, std::string where) : where_(std::move(where)) {
  constexpr size_t kLargest = size_t{1} << 30;  // nodes count in 32 bits
  if (text.size() > kLargest)
    throw FormatError(where_ + ": it has " + std::to_string(text.size()) + " bytes; at most " +
                      std::to_string(kLargest) + " are read");
  // What the parser would skip, or take for the end.
  if (text.starts_with("\xEF\xBB\xBF"))
    throw FormatError(where_ + ": starts with a byte-order mark, which JSON forbids");
  if (const size_t at = text.find('\0'); at != std::string_view::npos)
    throw FormatError(where_ + ": not JSON: byte " + std::to_string(at) + " is 0");
  JsonReader reader(this);
  nlohmann::json::sax_parse(text, &reader);
}

JsonValue::Type JsonValue::type() const { return document_->nodes_[node_].type; }
uint32_t JsonValue::end_of(uint32_t node) const { return document_->nodes_[node].end; }

std::string_view JsonValue::text_of(uint32_t node) const {
  const auto& text = document_->nodes_[node].text;
  return std::string_view(document_->texts_).substr(text.begin, text.size);
}

JsonValue JsonValue::child(uint32_t node, uint32_t index) const {
  // Paths of long arrays, which hold tokens and merges, would cost more than the rest.
  return {document_, node, index < 1000 ? path_ + "[" + std::to_string(index) + "]" : path_};
}

void JsonValue::refuse(const std::string& what) const {
  constexpr size_t kLongest = 200;  // a key is as long as the file likes
  std::string path;
  for (const char c : path_.substr(0, kLongest)) path += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  if (path_.size() > kLongest) path = sanitize_utf8(path) + "...";
  throw FormatError(document_->where_ + ": " + (path.empty() ? "the whole" : path) + " " + what);
}

void JsonValue::expect(Type wanted, const char* name) const {
  if (type() != wanted) refuse(std::string("is not ") + name);
}

std::string_view JsonValue::string() const {
  expect(Type::string, "a text");
  return text_of(node_);
}

bool JsonValue::boolean() const {
  expect(Type::boolean, "true or false");
  return document_->nodes_[node_].integer != 0;
}

int64_t JsonValue::integer() const {
  expect(Type::integer, "a whole number");
  return document_->nodes_[node_].integer;
}

double JsonValue::number() const {
  if (type() == Type::integer) return static_cast<double>(integer());
  expect(Type::real, "a number");
  return document_->nodes_[node_].real;
}

std::optional<JsonValue> JsonValue::member(std::string_view key) const {
  expect(Type::object, "an object");
  for (uint32_t node = node_ + 1; node < end(); node = end_of(node + 1))
    if (text_of(node) == key)
      return JsonValue(document_, node + 1, path_.empty() ? std::string(key) : path_ + "." + std::string(key));
  return std::nullopt;
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  auto value = member(key);
  return value && !value->is_null() ? value : std::nullopt;
}

JsonValue JsonValue::at(std::string_view key) const {
  if (auto value = find(key)) return *value;
  refuse("has no " + shown(key));
}

std::string_view JsonValue::string_or(std::string_view key, std::string_view otherwise) const {
  const auto value = find(key);
  return value ? value->string() : otherwise;
}
bool JsonValue::boolean_or(std::string_view key, bool otherwise) const {
  const auto value = find(key);
  return value ? value->boolean() : otherwise;
}
int64_t JsonValue::integer_or(std::string_view key, int64_t otherwise) const {
  const auto value = find(key);
  return value ? value->integer() : otherwise;
}

size_t JsonValue::count() const {
  size_t n = 0;
  for (uint32_t node = node_ + 1; node < end(); ++n) node = end_of(is_object() ? node + 1 : node);
  return n;
}

}  // namespace heed::inline v0
