#include "jinja/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace heed::inline v0::jinja {
namespace {

constexpr int kDeepestValue = 100;

// Python's repr(): an exponent below 1e-4 and from 1e16.
std::string written(double number) {
  std::array<char, 40> text;
  const double size = std::abs(number);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string digits(text.data(), end.ptr);
  return plain && digits.find('.') == digits.npos ? digits + ".0" : digits;
}

}  // namespace

void fail(const std::string& what) { throw ProgramError(what); }

void Value::count_depth(const Value& inner) {
  depth_ = std::max(depth_, inner.depth_ + 1);
  if (depth_ > kDeepestValue) fail("more than " + std::to_string(kDeepestValue) + " values within each other");
}

Value::Value(OnceRead generator) {
  for (const Value& item : generator.items) count_depth(item);
  data_ = std::make_shared<OnceRead>(std::move(generator));
}

Value::Value(List list, Sequence sequence) : sequence_(sequence) {
  for (const Value& item : list) count_depth(item);
  data_ = std::make_shared<const List>(std::move(list));
}

Value::Value(Dict dict) {
  for (const auto& [key, item] : dict) count_depth(item);
  data_ = std::make_shared<const Dict>(std::move(dict));
}

const Value* find(const Dict& dict, std::string_view key) {
  const auto at = std::find_if(dict.begin(), dict.end(), [&](const auto& entry) { return entry.first == key; });
  return at == dict.end() ? nullptr : &at->second;
}

std::string kind_of(const Value& value) {
  constexpr std::array<const char*, 11> kNames{"nothing",     "none",       "a boolean",  "a number",
                                               "a number",    "a text",     "a list",     "a dictionary",
                                               "a namespace", "a function", "a generator"};
  return kNames[value.data().index()];
}

bool is_true(const Value& value) {
  if (const bool* const b = value.boolean()) return *b;
  if (const int64_t* const i = value.integer()) return *i != 0;
  if (const double* const d = value.number()) return *d != 0;
  if (const std::string* const s = value.text()) return !s->empty();
  if (const List* const l = value.list()) return !l->empty();
  if (const Dict* const d = value.dict()) return !d->empty();
  return !value.is_undefined() && !value.is_none();
}

std::optional<int64_t> whole(const Value& value) {
  if (const bool* const b = value.boolean()) return *b ? 1 : 0;
  if (const int64_t* const i = value.integer()) return *i;
  return {};
}

bool is_number(const Value& value) { return whole(value) || value.number(); }

std::optional<double> numeric(const Value& value) {
  constexpr int64_t kExact = int64_t{1} << 53;
  if (const double* const d = value.number()) return *d;
  const std::optional<int64_t> i = whole(value);
  if (i && (*i > kExact || *i < -kExact)) fail("a whole number that is too large beside another number");
  return i ? std::optional(static_cast<double>(*i)) : std::nullopt;
}

std::string text_of(const Value& value) {
  if (const std::string* const s = value.text()) return *s;
  if (const bool* const b = value.boolean()) return *b ? "True" : "False";
  if (const int64_t* const i = value.integer()) return std::to_string(*i);
  if (const double* const d = value.number()) return written(*d);
  if (value.is_none()) return "None";
  if (value.is_undefined()) return {};
  fail("heed does not write " + kind_of(value) + " as Python does");
}

size_t size_of(const Value& value) {
  size_t size = 16;
  if (const std::string* const text = value.text()) size += text->size();
  if (const List* const list = value.list())
    for (const Value& item : *list) size += size_of(item);
  if (const Dict* const dict = value.dict())
    for (const auto& [key, item] : *dict) size += key.size() + size_of(item);
  return size;
}

}  // namespace heed::inline v0::jinja
