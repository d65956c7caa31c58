#include "jinja/methods.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "jinja/arguments.h"
#include "jinja/characters.h"
#include "jinja/operations.h"
#include "text/unicode.h"

namespace heed::inline v0::jinja {
namespace {

Value strip(const Value& object, const std::string& name, const Arguments& given, Budget& budget) {
  expect_places(given, 0, 1, name);
  return trim(*object.text(), text_argument(given, 0, "chars"), name != "rstrip", name != "lstrip", budget);
}

Value split(const Value& object, const std::string& name, const Arguments& given, Budget& budget) {
  expect_arguments(given, {"sep", "maxsplit"}, name);
  const std::string& text = *object.text();
  const std::string* const sign = text_argument(given, 0, "sep");
  int64_t most = whole_argument(given, 1, "maxsplit").value_or(-1);
  if (sign && sign->empty()) fail("'" + name + "' at an empty text");
  List parts;
  budget.search(text.size(), sign ? sign->size() : 0);
  if (!sign) {
    if (most >= 0) fail("heed does not have 'maxsplit' of a split at spaces");
    budget.charge(text.size() * sizeof(std::string_view) / 2);  // the result of split_words()
    for (const std::string_view word : split_words(text)) {
      budget.step();
      parts.push_back(budget.made(std::string(word)));
    }
    return budget.made(std::move(parts));
  }
  std::string_view rest = text;
  const bool from_right = name == "rsplit";
  for (size_t at; most != 0 && (at = from_right ? rest.rfind(*sign) : rest.find(*sign)) != rest.npos; --most) {
    budget.step();
    parts.push_back(budget.made(std::string(from_right ? rest.substr(at + sign->size()) : rest.substr(0, at))));
    rest = from_right ? rest.substr(0, at) : rest.substr(at + sign->size());
  }
  parts.push_back(budget.made(std::string(rest)));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return budget.made(std::move(parts));
}

Value lines(const Value& object, const std::string& name, const Arguments& given, Budget& budget) {
  expect_places(given, 0, 0, name);
  const std::string& text = *object.text();
  budget.read(text.size());
  if (text.find_first_of("\r\v\f\x1c\x1d\x1e") != text.npos || !is_ascii(text)) fail("'splitlines' of such a text");
  List all;
  for (size_t begin = 0; begin < text.size();) {
    budget.step();
    const size_t end = std::min(text.find('\n', begin), text.size());
    all.push_back(budget.made(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return budget.made(std::move(all));
}

Value begins(const Value& object, const std::string& name, const Arguments& given, Budget& budget) {
  expect_places(given, 1, 1, name);
  const Value& what = given.positional[0];
  const List one{what};
  const List& all = what.list() && what.sequence() == Sequence::tuple ? *what.list() : one;
  const bool at_end = name == "endswith";
  return std::any_of(all.begin(), all.end(), [&](const Value& part) {
    if (!part.text()) fail("'" + name + "' of " + kind_of(part));
    budget.read(std::min(part.text()->size(), object.text()->size()));
    return at_end ? object.text()->ends_with(*part.text()) : object.text()->starts_with(*part.text());
  });
}

Value letters(const Value& object, const std::string& name, const Arguments& given, Budget& budget) {
  expect_places(given, 0, 0, name);
  return in_case(*object.text(), name, Letters::title, budget);
}

Value join(const Value& object, const std::string& name, const Arguments& given, Budget& budget) {
  expect_places(given, 1, 1, name);
  const List items = items_of(given.positional[0], budget);
  if (!std::all_of(items.begin(), items.end(), [](const Value& item) { return item.text(); }))
    fail("'join' of items that are no texts");
  return join_items(items, *object.text(), budget);
}

Value find_text(const Value& object, const std::string& name, const Arguments& given, Budget& budget) {
  expect_places(given, 1, 1, name);
  const std::string& what = needed_text(given, 0, "sub");
  budget.search(object.text()->size(), what.size());
  const size_t at = object.text()->find(what);
  return at == std::string::npos ? int64_t{-1} : count_characters(std::string_view(*object.text()).substr(0, at));
}

Value count_text(const Value& object, const std::string& name, const Arguments& given, Budget& budget) {
  expect_places(given, 1, 1, name);
  const std::string& what = needed_text(given, 0, "sub");
  if (what.empty()) fail("'count' of an empty text");
  budget.search(object.text()->size(), what.size());
  int64_t count = 0;
  for (size_t at = 0; (at = object.text()->find(what, at)) != std::string::npos; at += what.size()) ++count;
  return count;
}

Value get(const Value& object, const std::string& name, const Arguments& given, Budget& budget) {
  expect_places(given, 1, 2, name);
  const Value* const entry = look_up(*object.dict(), needed_text(given, 0, "key"), budget);
  const Value* const absent = argument(given, 1, "default");
  return entry ? *entry : absent ? *absent : Value(nullptr);
}

// Whether Python's object has a method of that name. Python finds it before the entries of a dictionary.
bool is_method(const Value& object, const std::string& name) {
  using Names = std::set<std::string, std::less<>>;
  static const Names kMoreOfTexts{
      "casefold", "center",  "encode",       "expandtabs",   "format",    "format_map", "index",        "isalnum",
      "isalpha",  "isascii", "isdecimal",    "isdigit",      "islower",   "isnumeric",  "isidentifier", "isprintable",
      "isspace",  "istitle", "isupper",      "ljust",        "maketrans", "partition",  "rfind",        "rindex",
      "rjust",    "zfill",   "removeprefix", "removesuffix", "swapcase",  "translate",  "rpartition"};
  static const Names kMoreOfDicts{"clear", "copy", "fromkeys", "pop", "popitem", "setdefault", "update"};
  static const Names kOfLists{"append",  "clear", "copy", "count", "extend", "index", "insert",     "remove",
                              "reverse", "pop",   "sort", "start", "stop",   "step",  "isdisjoint", "mapping"};
  return method_of(object, name) || (object.text()   ? kMoreOfTexts
                                     : object.dict() ? kMoreOfDicts
                                                     : kOfLists)
                                        .contains(name);
}

}  // namespace

Method method_of(const Value& object, const std::string& name) {
  static const std::map<std::string, Method, std::less<>> kOfTexts{
      {"strip", strip},   {"lstrip", strip},      {"rstrip", strip},       {"split", split},
      {"rsplit", split},  {"startswith", begins}, {"endswith", begins},    {"upper", letters},
      {"lower", letters}, {"title", letters},     {"capitalize", letters}, {"replace", replace},
      {"join", join},     {"find", find_text},    {"count", count_text},   {"splitlines", lines}};
  static const std::map<std::string, Method, std::less<>> kOfDicts{
      {"items", entries}, {"keys", entries}, {"values", entries}, {"get", get}};
  if (!object.text() && !object.dict()) return nullptr;
  const auto& methods = object.text() ? kOfTexts : kOfDicts;
  const auto at = methods.find(name);
  return at == methods.end() ? nullptr : at->second;
}

Value attribute(const Value& object, const std::string& name, Budget& budget) {
  if (name.starts_with('_')) fail("heed does not have attributes that begin with _");
  if (object.is_undefined()) fail("'" + name + "' of an undefined value");
  if (object.is_none()) return {};
  if (const Namespace* const names = object.names()) {
    const Value* const entry = look_up(names->entries, name, budget);
    return entry ? *entry : Value();
  }
  if (!object.text() && !object.list() && !object.dict()) fail("heed has no attributes of " + kind_of(object));
  if (is_method(object, name)) fail("heed does not have the method '" + name + "' of " + kind_of(object) + " here");
  const Value* const entry = object.dict() ? look_up(*object.dict(), name, budget) : nullptr;
  return entry ? *entry : Value();
}

Value item(const Value& object, const Value& key, Budget& budget) {
  if (const std::string* const name = key.text()) {
    if (const Dict* const dict = object.dict())
      if (const Value* const entry = look_up(*dict, *name, budget)) return *entry;
    constexpr size_t kLongest = 255;  // of attributes
    if (name->size() <= kLongest) return attribute(object, *name, budget);
    if (!object.text() && !object.list() && !object.dict()) fail("an item of " + kind_of(object));
    return {};
  }
  if (object.is_none()) return {};
  if (object.list() && object.sequence() == Sequence::view) fail("an item of a view");
  if (!object.list() && !object.text() && !object.dict()) fail("an item of " + kind_of(object));
  const std::optional<int64_t> place = whole(key);
  if (!place) return {};
  if (const List* const list = object.list()) {
    const int64_t at = *place < 0 ? *place + std::ssize(*list) : *place;
    return at >= 0 && at < std::ssize(*list) ? (*list)[static_cast<size_t>(at)] : Value();
  }
  return object.text() ? character(*object.text(), *place, budget) : Value();
}

Value trim(const std::string& text, const std::string* characters, bool left, bool right, Budget& budget) {
  constexpr size_t kMost = 64;  // bytes
  if (characters && characters->size() > kMost) fail("more than " + std::to_string(kMost) + " bytes to strip");
  budget.read(text.size() * (characters ? 1 + characters->size() / 4 : 1));
  return budget.made(std::string(stripped(text, left, right, characters)));
}

Value in_case(const std::string& text, const std::string& name, Letters title, Budget& budget) {
  budget.read(text.size());
  return budget.made(in_letters(text, name == "upper"   ? Letters::upper
                                      : name == "lower" ? Letters::lower
                                      : name == "title" ? title
                                                        : Letters::capital));
}

Value replace(const Value& object, const std::string& name, const Arguments& given, Budget& budget) {
  expect_places(given, 2, 3, name);
  const std::string &old = needed_text(given, 0, "old"), &by = needed_text(given, 1, "new");
  int64_t most = whole_argument(given, 2, "count").value_or(-1);
  if (old.empty()) fail("heed does not replace an empty text");
  budget.search(object.text()->size(), old.size());
  std::string out;
  const std::string& text = *object.text();
  size_t done = 0;
  for (size_t at; most != 0 && (at = text.find(old, done)) != text.npos; --most) {
    budget.step();
    budget.charge(at - done + by.size());
    out.append(text, done, at - done) += by;
    done = at + old.size();
  }
  budget.append(std::string_view(text).substr(done), &out);
  return out;
}

Value join_items(const List& items, const std::string& between, Budget& budget) {
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) budget.append(between, &out);
    budget.append(text_of(items[i]), &out);
  }
  return out;
}

Value entries(const Value& object, const std::string& name, const Arguments& given, Budget& budget) {
  expect_places(given, 0, 0, name);
  List all;
  for (const auto& [key, value] : *object.dict()) {
    budget.step();
    if (name == "values")
      all.push_back(value);
    else
      all.push_back(name == "keys" ? budget.made(key) : budget.made(List{budget.made(key), value}, Sequence::tuple));
  }
  return budget.made(std::move(all), Sequence::view);
}

}  // namespace heed::inline v0::jinja
