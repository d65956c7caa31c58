#include "jinja/operations.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "jinja/characters.h"

namespace heed::inline v0::jinja {
namespace {

Value joined(const std::string& a, const std::string& b, Budget& budget) {
  budget.charge(Budget::kOverhead + a.size() + b.size());
  return a + b;
}

Value repeated(const std::string& text, int64_t times, Budget& budget) {
  std::string all;
  if (text.empty() || times <= 0) return all;
  budget.charge_copies(text.size(), times);
  for (int64_t i = 0; i < times; ++i) all += text;
  return all;
}

Value ordered(const std::string& sign, const Value& a, const Value& b, Budget& budget) {
  int order = 0;
  if (a.text() && b.text()) {
    budget.read(std::min(a.text()->size(), b.text()->size()));
    order = a.text()->compare(*b.text());
  } else if (whole(a) && whole(b)) {
    order = *whole(a) < *whole(b) ? -1 : *whole(a) > *whole(b);
  } else if (is_number(a) && is_number(b)) {
    order = *numeric(a) < *numeric(b) ? -1 : *numeric(a) > *numeric(b);
  } else {
    fail(kind_of(a) + " " + sign + " " + kind_of(b));
  }
  return sign == "<" ? order < 0 : sign == ">" ? order > 0 : sign == "<=" ? order <= 0 : order >= 0;
}

}  // namespace

Value operation(const std::string& sign, const Value& a, const Value& b, Budget& budget) {
  if (sign == "==") return equal(a, b, budget);
  if (sign == "!=") return !equal(a, b, budget);
  if (sign == "in") return contains(b, a, budget);
  if (sign == "~") return joined(text_of(a), text_of(b), budget);
  if (sign == "<" || sign == ">" || sign == "<=" || sign == ">=") return ordered(sign, a, b, budget);
  if (sign == "+" && a.text() && b.text()) return joined(*a.text(), *b.text(), budget);
  if (sign == "+" && a.list() && b.list() && a.sequence() == b.sequence() &&
      (a.sequence() == Sequence::list || a.sequence() == Sequence::tuple)) {
    budget.step(std::ssize(*a.list()) + std::ssize(*b.list()));
    List all = *a.list();
    all.insert(all.end(), b.list()->begin(), b.list()->end());
    return budget.made(std::move(all), a.sequence());
  }
  if (sign == "*" && a.text() && whole(b)) return repeated(*a.text(), *whole(b), budget);
  return arithmetic(sign, a, b);
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  for (const Value* const one : {&a, &b})
    if (one->names() || one->function() || one->generator() ||
        (one->list() && (one->sequence() == Sequence::range || one->sequence() == Sequence::view)))
      fail("heed does not compare " + kind_of(a) + " with " + kind_of(b));
  if (whole(a) && whole(b)) return *whole(a) == *whole(b);
  if (is_number(a) && is_number(b)) return *numeric(a) == *numeric(b);
  if (a.text() && b.text()) {
    budget.read(std::min(a.text()->size(), b.text()->size()));
    return *a.text() == *b.text();
  }
  if (a.list() && b.list()) {
    if (a.sequence() != b.sequence()) fail("heed does not compare a list with a tuple");
    return std::equal(a.list()->begin(), a.list()->end(), b.list()->begin(), b.list()->end(),
                      [&budget](const Value& x, const Value& y) { return equal(x, y, budget); });
  }
  if (a.dict() && b.dict())
    return a.dict()->size() == b.dict()->size() &&
           std::all_of(a.dict()->begin(), a.dict()->end(), [&](const auto& entry) {
             const Value* const other = look_up(*b.dict(), entry.first, budget);
             return other && equal(entry.second, *other, budget);
           });
  return a.data().index() == b.data().index();  // none, undefined
}

bool contains(const Value& all, const Value& one, Budget& budget) {
  if (const std::string* const text = all.text()) {
    if (!one.text()) fail("'in' of a text, for " + kind_of(one));
    budget.search(text->size(), one.text()->size());
    return text->find(*one.text()) != text->npos;
  }
  if (const Dict* const dict = all.dict()) {
    if (!one.text() && !one.is_none() && !one.is_undefined() && !is_number(one))
      fail("'in' of a dictionary, for " + kind_of(one));
    return one.text() && look_up(*dict, *one.text(), budget);
  }
  if (const List* const list = all.list())
    return std::any_of(list->begin(), list->end(), [&](const Value& item) { return equal(item, one, budget); });
  const List items = items_of(all, budget);
  return std::any_of(items.begin(), items.end(), [&](const Value& item) { return equal(item, one, budget); });
}

Value arithmetic(const std::string& sign, const Value& a, const Value& b) {
  const auto refuse = [&] { fail(kind_of(a) + " " + sign + " " + kind_of(b)); };
  if (const auto x = whole(a), y = whole(b); x && y && sign != "/") {
    int64_t result = 0;
    if (sign == "+" && !__builtin_add_overflow(*x, *y, &result)) return result;
    if (sign == "-" && !__builtin_sub_overflow(*x, *y, &result)) return result;
    if (sign == "*" && !__builtin_mul_overflow(*x, *y, &result)) return result;
    if ((sign == "//" || sign == "%") && *y != 0 && !(*x == INT64_MIN && *y == -1)) {
      const int64_t rest = *x % *y, down = rest != 0 && (rest < 0) != (*y < 0) ? 1 : 0;
      return sign == "%" ? rest + down * *y : *x / *y - down;
    }
    fail("whole numbers that are too large, or a division by 0");
  }
  if (!is_number(a) || !is_number(b)) refuse();
  const double x = *numeric(a), y = *numeric(b);
  if (sign == "//" || sign == "%" || (sign == "/" && y == 0)) refuse();
  const double result = sign == "+" ? x + y : sign == "-" ? x - y : sign == "*" ? x * y : x / y;
  if (!std::isfinite(result)) fail("a number that is not finite");
  return result;
}

List items_of(const Value& all, Budget& budget) {
  List items;
  if (const List* const list = all.list()) {
    items = *list;
  } else if (const Dict* const dict = all.dict()) {
    for (const auto& [key, ignored] : *dict) items.push_back(budget.made(key));
  } else if (const std::string* const text = all.text()) {
    for (size_t at = 0, next = 0; at < text->size(); at = next) {
      budget.step();
      next = after(*text, at, 1);
      items.push_back(budget.made(text->substr(at, next - at)));
    }
  } else if (OnceRead* const generator = all.generator()) {
    if (std::exchange(generator->used, true)) fail("heed goes through the items of a generator once");
    items = generator->items;
  } else if (!all.is_undefined()) {
    fail("a loop over " + kind_of(all));
  }
  budget.step(std::ssize(items));
  return items;
}

int64_t length_of(const Value& value, Budget& budget) {
  if (const std::string* const text = value.text()) {
    budget.read(text->size());
    return count_characters(*text);
  }
  if (const List* const list = value.list()) return std::ssize(*list);
  if (const Dict* const dict = value.dict()) return std::ssize(*dict);
  if (value.is_undefined()) return 0;
  fail("the length of " + kind_of(value));
}

const Value* look_up(const Dict& dict, const std::string& key, Budget& budget) {
  budget.step(static_cast<int64_t>((1 + dict.size() / 8) * (1 + key.size() / 64)));
  return find(dict, key);
}

void put(const std::string& key, Value value, Dict* dict, Budget& budget) {
  if (!look_up(*dict, key, budget)) {
    budget.charge(Budget::kOverhead + key.size());
    dict->emplace_back(key, std::move(value));
    return;
  }
  std::find_if(dict->begin(), dict->end(), [&](const auto& entry) { return entry.first == key; })->second =
      std::move(value);
}

Value character(const std::string& text, int64_t place, Budget& budget) {
  const int64_t longest = std::ssize(text);
  if (place >= longest || place < -longest) return {};
  budget.read(std::min(text.size(), 4 * static_cast<size_t>(place < 0 ? -place : place)));
  size_t at = text.size();
  for (int64_t left = -place; left > 0; --left) {
    if (at == 0) return {};
    --at;
    while (at > 0 && !begins_character(text[at])) --at;
  }
  if (place >= 0) at = after(text, 0, place);
  return at == text.size() ? Value() : budget.made(text.substr(at, after(text, at, 1) - at));
}

Value slice(const Value& object, const std::array<std::optional<int64_t>, 3>& parts, Budget& budget) {
  const int64_t by = parts[2].value_or(1);
  const std::string* const text = object.text();
  const List* const list = object.list();
  if ((!text && !list) || (list && object.sequence() == Sequence::view)) fail("a slice of " + kind_of(object));
  if (by == 0 || (text && by != 1)) fail("heed does not have slices of " + kind_of(object) + " by such steps");
  if (text) budget.read(2 * text->size());
  const int64_t count = text ? count_characters(*text) : std::ssize(*list);
  const int64_t lowest = by > 0 ? 0 : -1, highest = by > 0 ? count : count - 1;
  const auto place = [&](const std::optional<int64_t>& at, int64_t absent) {
    return at ? std::clamp(*at < 0 ? std::max(*at, -count - 1) + count : std::min(*at, count), lowest, highest)
              : absent;
  };
  const int64_t start = place(parts[0], by > 0 ? 0 : count - 1), stop = place(parts[1], by > 0 ? count : -1);
  if (text) {
    const size_t begin = after(*text, 0, start);
    return budget.made(text->substr(begin, after(*text, begin, stop - start) - begin));
  }
  List items;
  for (int64_t i = start; by > 0 ? i < stop : i > stop; i += std::clamp(by, -count - 1, count + 1)) {
    budget.step();
    items.push_back((*list)[static_cast<size_t>(i)]);
  }
  return budget.made(std::move(items), object.sequence());
}

}  // namespace heed::inline v0::jinja
