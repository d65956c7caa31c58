#include "jinja/filters.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "jinja/arguments.h"
#include "jinja/characters.h"
#include "jinja/methods.h"
#include "jinja/operations.h"
#include "jinja/write_json.h"
#include "text/unicode.h"

namespace heed::inline v0::jinja {
namespace {

// Keeps the first of the texts that differ only in case.
Value unique(const Value& input, Budget& budget) {
  List kept, seen;
  for (const Value& item : items_of(input, budget)) {
    if (!item.text() && !item.is_none() && !is_number(item)) fail("'unique' of " + kind_of(item));
    if (item.text()) budget.read(8 * item.text()->size());
    const Value key = item.text() ? budget.made(to_lower(*item.text())) : item;
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& known) { return equal(known, key, budget); })) continue;
    seen.push_back(key);
    kept.push_back(item);
  }
  return budget.generated(std::move(kept));
}

Value to_json(const Value& input, const Arguments& given, Budget& budget) {
  expect_arguments(given, {"ensure_ascii", "indent"}, "tojson");
  const Value* const ascii = argument(given, 0, "ensure_ascii");
  if (ascii && is_true(*ascii)) fail("heed does not have 'ensure_ascii' of 'tojson'");
  const std::optional<int64_t> indent = whole_argument(given, 1, "indent");
  if (indent && (*indent < 0 || *indent > 16)) fail("an indent of " + std::to_string(*indent));
  return written_as_json(input, indent, budget);
}

Value or_default(const Value& input, const Arguments& given) {
  expect_arguments(given, {"default_value", "boolean"}, "default");
  const Value* const other = argument(given, 0, "default_value");
  const Value* const falsy = argument(given, 1, "boolean");
  const bool keep = falsy && is_true(*falsy) ? is_true(input) : !input.is_undefined();
  return keep ? input : other ? *other : Value("");
}

// Jinja reads the items later, when the program may have changed a namespace.
List items_for_later(const Value& input, Budget& budget) {
  List items = items_of(input, budget);
  if (std::any_of(items.begin(), items.end(), [](const Value& item) { return item.names(); }))
    fail("heed does not have filters of namespaces");
  return items;
}

void check_attribute_name(const std::string& name) {
  if (name.find('.') != name.npos || name.empty() || (name[0] >= '0' && name[0] <= '9'))
    fail("heed does not have the attribute '" + name + "' in filters");
}

// map(attribute="role"), map("trim")
Value map_items(const Value& input, Arguments given, Budget& budget) {
  const bool of_attribute = find(given.named, "attribute");
  if (of_attribute ? given.positional.size() > 0 || given.named.size() > 1 : given.positional.empty())
    fail("heed does not have these arguments of 'map'");
  const std::string name = needed_name(given, 0, of_attribute ? "attribute" : "filter");
  if (of_attribute)
    check_attribute_name(name);
  else if (name == "map")
    fail("heed does not have 'map' within 'map'");
  else
    given.positional.erase(given.positional.begin());
  List items = items_for_later(input, budget);
  for (Value& one : items) one = of_attribute ? item(one, name, budget) : filter(name, one, given, budget);
  return budget.generated(std::move(items));
}

// selectattr("role", "equalto", "user"), select("string"); rejectattr and reject keep the other items.
Value chosen(const std::string& name, const Value& input, Arguments given, Budget& budget) {
  const bool of_attribute = name.ends_with("attr"), wanted = name.starts_with("select");
  if (!given.named.empty()) fail("heed does not have these arguments of '" + name + "'");
  const std::string key = of_attribute ? needed_name(given, 0, "attribute") : "";
  if (of_attribute) check_attribute_name(key);
  if (of_attribute) given.positional.erase(given.positional.begin());
  const std::string by = given.positional.empty() ? "" : needed_name(given, 0, "test");
  if (!by.empty()) given.positional.erase(given.positional.begin());
  List items = items_for_later(input, budget);
  std::erase_if(items, [&](const Value& one) {
    const Value tested = of_attribute ? item(one, key, budget) : one;
    return (by.empty() ? is_true(tested) : is_true(test(by, tested, given, budget))) != wanted;
  });
  return budget.generated(std::move(items));
}

}  // namespace

Value filter(const std::string& name, const Value& input, const Arguments& given, Budget& budget) {
  if (name == "trim") {
    expect_arguments(given, {"chars"}, name);
    return trim(text_of(input), text_argument(given, 0, "chars"), true, true, budget);
  }
  if (name == "tojson") return to_json(input, given, budget);
  if (name == "default" || name == "d") return or_default(input, given);
  if (name == "join") {
    expect_arguments(given, {"d"}, name);
    const bool alone = given.positional.empty() && given.named.empty();
    const std::string between = alone ? "" : needed_text(given, 0, "d");
    budget.read(between.size());
    return join_items(items_of(input, budget), between, budget);
  }
  if (name == "replace") return replace(text_of(input), name, given, budget);
  if (name == "map") return map_items(input, given, budget);
  if (name == "selectattr" || name == "rejectattr" || name == "select" || name == "reject")
    return chosen(name, input, given, budget);
  expect_arguments(given, {}, name);
  if (name == "upper" || name == "lower" || name == "title" || name == "capitalize")
    return in_case(text_of(input), name, Letters::words, budget);
  if (name == "length" || name == "count") return length_of(input, budget);
  if (name == "string") return budget.made(text_of(input));
  if (name == "list") return budget.made(items_of(input, budget));
  if (name == "first" || (name == "last" && !input.generator())) {
    if (input.text()) return character(*input.text(), name == "first" ? 0 : -1, budget);
    const List items = items_of(input, budget);
    return items.empty() ? Value() : name == "first" ? items.front() : items.back();
  }
  if (name == "reverse" && (input.list() || input.generator())) {
    List items = items_of(input, budget);
    std::reverse(items.begin(), items.end());
    return input.list() ? budget.generated(std::move(items)) : budget.made(std::move(items));
  }
  if (name == "items" && input.is_undefined()) return budget.generated({});
  if (name == "items" && input.dict()) return budget.generated(*entries(input, name, {}, budget).list());
  if (name == "int" && whole(input)) return *whole(input);
  if (name == "unique") return unique(input, budget);
  fail("heed does not have the filter '" + name + "' of " + kind_of(input));
}

Value test(const std::string& name, const Value& input, const Arguments& given, Budget& budget) {
  const auto other = [&]() -> const Value& {
    if (given.positional.size() != 1 || !given.named.empty()) fail("'is " + name + "' needs one argument");
    return given.positional[0];
  };
  if (name == "equalto" || name == "eq" || name == "==") return equal(input, other(), budget);
  if (name == "ne" || name == "!=") return !equal(input, other(), budget);
  if (name == "in") return contains(other(), input, budget);
  if (name == "divisibleby") return equal(arithmetic("%", input, other()), int64_t{0}, budget);
  if (!given.positional.empty() || !given.named.empty())
    fail("heed does not have the test '" + name + "' with an argument");
  if (name == "defined") return !input.is_undefined();
  if (name == "undefined") return input.is_undefined();
  if (name == "none") return input.is_none();
  if (name == "callable") return input.function() || input.is_undefined();
  if (input.names() || input.generator()) fail("heed does not have the test '" + name + "' of " + kind_of(input));
  if (name == "string") return input.text() != nullptr;
  if (name == "mapping") return input.dict() != nullptr;
  if (name == "iterable" || name == "sequence")
    return input.text() || input.dict() || input.is_undefined() ||
           (input.list() && (name == "iterable" || input.sequence() != Sequence::view));
  if (name == "boolean") return input.boolean() != nullptr;
  if (name == "true" || name == "false") return input.boolean() && *input.boolean() == (name == "true");
  if (name == "integer") return input.integer() != nullptr;
  if (name == "float") return input.number() != nullptr;
  if (name == "number") return is_number(input);
  if ((name == "even" || name == "odd") && whole(input)) return (*whole(input) % 2 == 0) == (name == "even");
  fail("heed does not have the test '" + name + "' of " + kind_of(input));
}

}  // namespace heed::inline v0::jinja
