#include "load/jinja.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "load/jinja_parser.h"
#include "text/unicode.h"

namespace heed::inline v0::jinja {
namespace {

using Kind = Node::Kind;

// Bounds of a run, for a program and variables of no size. Both grow with each byte of these.
constexpr int64_t kSteps = 1'000'000;
constexpr int64_t kBytes = int64_t{16} << 20;
constexpr int64_t kBytesPerByte = 256, kStepsPerByte = 4;
constexpr uint64_t kOverhead = 64;  // bytes of a text, list or dictionary beside its content
constexpr int kDeepestCall = 20, kDeepestValue = 100;

[[noreturn]] void fail(const std::string& what) { throw ProgramError(what); }

// ---- Values as Python has them

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

// A boolean counts as 0 or 1.
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

std::string text_of(const Value& value) {
  if (const std::string* const s = value.text()) return *s;
  if (const bool* const b = value.boolean()) return *b ? "True" : "False";
  if (const int64_t* const i = value.integer()) return std::to_string(*i);
  if (const double* const d = value.number()) return written(*d);
  if (value.is_none()) return "None";
  if (value.is_undefined()) return {};
  fail("heed does not write " + kind_of(value) + " as Python does");
}

// ---- Texts, whose places count characters

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

int64_t count_characters(std::string_view text) { return std::count_if(text.begin(), text.end(), begins_character); }

// The byte that is `count` characters after the byte `from`, at most the end.
size_t after(std::string_view text, size_t from, int64_t count) {
  for (; count > 0 && from < text.size(); --count) {
    ++from;
    while (from < text.size() && !begins_character(text[from])) ++from;
  }
  return from;
}

bool is_one_of(char32_t code, const std::string* characters) {
  if (!characters) return is_space(code);
  for (std::string_view rest = *characters; !rest.empty();) {
    const DecodedCharacter c = decode_utf8(rest);
    if (c.code == code) return true;
    rest.remove_prefix(static_cast<size_t>(c.length));
  }
  return false;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// title: as str.title(). words: as Jinja's filter `title`.
enum class Letters : uint8_t { upper, lower, title, words, capital };

std::string in_letters(const std::string& text, Letters letters) {
  if (!is_ascii(text)) fail("heed changes upper and lower case in ASCII texts only");
  std::string out = text;
  bool begins = true;
  for (char& c : out) {
    const bool up = letters == Letters::upper || (begins && letters != Letters::lower);
    if (up && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (!up && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    begins = (letters == Letters::title && !is_letter(c)) ||
             (letters == Letters::words &&
              std::string_view("-({[< \t\n\v\f\r\x1c\x1d\x1e\x1f").find(c) != std::string_view::npos);
  }
  return out;
}

// ---- A run

struct Loop {
  const List& items;
  int64_t at;
};

// The names of a scope. Loops and macros have their own scope inside the enclosing one.
struct Scope {
  const Scope* around = nullptr;
  std::map<std::string, Value, std::less<>> names{};
  const Loop* loop = nullptr;
};

enum class Flow : uint8_t { on, leave, next };

struct Slice {
  int64_t start, stop, step;
};

class Run {
 public:
  Run(int64_t steps, int64_t bytes) : steps_(steps), bytes_(bytes) {}
  ~Run() {
    for (const auto& names : namespaces_) names->entries.clear();  // they may hold each other
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  std::string all(const std::vector<Node>& body, const Dict& variables) {
    Scope scope;
    add_globals(&scope);
    for (const auto& [name, value] : variables) scope.names[name] = value;
    Scope own{.around = &scope};
    std::string out;
    statements(body, own, &out);
    return out;
  }

 private:
  void step(int64_t count = 1) {
    if ((steps_ -= count) < 0) fail("it takes more steps than a conversation needs");
  }
  void charge(uint64_t bytes) {
    if (bytes > static_cast<uint64_t>(bytes_)) fail("it makes more text than a conversation needs");
    bytes_ -= static_cast<int64_t>(bytes);
  }
  // Counts work that grows with a text, and the search for one text in another.
  void read(size_t bytes) { step(1 + static_cast<int64_t>(bytes / 64)); }
  void search(size_t in, size_t what) { step(1 + static_cast<int64_t>(in / 64 * (1 + what / 64))); }
  Value made(std::string text) {
    charge(kOverhead + text.size());
    return text;
  }
  Value made(List list, Sequence sequence = Sequence::list) {
    charge(kOverhead + list.size() * sizeof(Value));
    return {std::move(list), sequence};
  }
  Value made(Dict dict) {
    charge(kOverhead + dict.size() * sizeof(Dict::value_type));
    return dict;
  }
  Value generated(List items) {
    charge(kOverhead + items.size() * sizeof(Value));
    return OnceRead{.items = std::move(items)};
  }
  void append(std::string_view text, std::string* out) {
    charge(text.size());
    *out += text;
  }

  // ---- Statements

  Flow statements(const std::vector<Node>& all, Scope& scope, std::string* out) {
    for (const Node& one : all)
      if (const Flow flow = statement(one, scope, out); flow != Flow::on) return flow;
    return Flow::on;
  }

  Flow statement(const Node& s, Scope& scope, std::string* out) {
    step();
    switch (s.kind) {
      case Kind::text:
        append(*s.value.text(), out);
        return Flow::on;
      case Kind::output:
        append(text_of(value(s.parts[0], scope)), out);
        return Flow::on;
      case Kind::branches:
        for (const Node& branch : s.body)
          if (is_true(value(branch.parts[0], scope))) return statements(branch.body, scope, out);
        return statements(s.otherwise, scope, out);
      case Kind::loop:
        return loop(s, scope, out);
      case Kind::assign:
        assign(s, scope);
        return Flow::on;
      case Kind::capture: {
        Scope own{.around = &scope};
        std::string text;
        statements(s.body, own, &text);
        scope.names[s.names[0]] = std::move(text);
        return Flow::on;
      }
      case Kind::inner: {
        Scope own{.around = &scope};
        statements(s.body, own, out);
        return Flow::on;
      }
      case Kind::macro:
        scope.names[s.names[0]] = macro(s, scope);
        return Flow::on;
      case Kind::leave:
        return Flow::leave;
      case Kind::next:
        return Flow::next;
      default:
        fail("a statement is missing");
    }
  }

  void assign(const Node& s, Scope& scope) {
    Value given = value(s.parts[0], scope);
    if (s.names.size() == 1) {
      scope.names[s.names[0]] = std::move(given);
      return;
    }
    const Value* const object = known(scope, s.names[0]);
    if (!object || !object->names()) fail("'" + s.names[0] + "' is no namespace");
    if (s.names[1].starts_with('_')) fail("a name of a namespace begins with _");
    put(s.names[1], std::move(given), &object->names()->entries);
  }

  // Null where a name is undefined.
  const Value* known(const Scope& innermost, const std::string& name) {
    for (const Scope* scope = &innermost; scope; scope = scope->around) {
      if (const auto at = scope->names.find(name); at != scope->names.end()) return &at->second;
      step();
    }
    return nullptr;
  }

  Flow loop(const Node& s, Scope& scope, std::string* out) {
    List items = items_of(value(s.parts[0], scope));
    if (s.parts.size() > 1)
      std::erase_if(items, [&](const Value& item) {
        Scope own{.around = &scope};
        bind(s.names, item, &own);
        return !is_true(value(s.parts[1], own));
      });
    bool finished = false;  // one of the bodies reached its end
    for (int64_t i = 0; i < std::ssize(items); ++i) {
      step();
      const Loop here{.items = items, .at = i};
      Scope own{.around = &scope, .loop = &here};
      bind(s.names, items[static_cast<size_t>(i)], &own);
      const Flow flow = statements(s.body, own, out);
      finished = finished || flow == Flow::on;
      if (flow == Flow::leave) break;
    }
    if (finished) return Flow::on;
    Scope own{.around = &scope};
    return statements(s.otherwise, own, out);  // its `break` and `continue` are those of the loop around this one
  }

  static Value part_of_loop(const std::string& name, const Scope& innermost) {
    const Scope* scope = &innermost;
    while (scope && !scope->loop) scope = scope->around;
    if (!scope) fail("'loop' is undefined");
    const List& items = scope->loop->items;
    const int64_t i = scope->loop->at, count = std::ssize(items);
    if (name == "index") return i + 1;
    if (name == "index0") return i;
    if (name == "revindex") return count - i;
    if (name == "revindex0") return count - i - 1;
    if (name == "first") return i == 0;
    if (name == "last") return i + 1 == count;
    if (name == "length") return count;
    if (name == "depth") return int64_t{1};
    if (name == "depth0") return int64_t{0};
    if (name == "previtem") return i > 0 ? items[static_cast<size_t>(i) - 1] : Value();
    if (name == "nextitem") return i + 1 < count ? items[static_cast<size_t>(i) + 1] : Value();
    fail("heed does not have loop." + name);
  }

  static void bind(const std::vector<std::string>& names, const Value& item, Scope* scope) {
    if (names.size() == 1) {
      scope->names[names[0]] = item;
      return;
    }
    if (!item.list() || item.list()->size() != names.size())
      fail("a loop has " + std::to_string(names.size()) + " names for " + kind_of(item));
    for (size_t i = 0; i < names.size(); ++i) scope->names[names[i]] = (*item.list())[i];
  }

  // Macros are made in the outermost scope alone, which lives as long as the run.
  Value macro(const Node& s, const Scope& scope) {
    return Function([this, &s, &scope](const Arguments& given) -> Value {
      if (++calls_ > kDeepestCall) fail("more than " + std::to_string(kDeepestCall) + " macros within each other");
      Scope own{.around = &scope};
      const size_t parameters = s.names.size() - 1, without = parameters - s.parts.size();
      if (given.positional.size() > parameters) fail("macro '" + s.names[0] + "' has too many arguments");
      for (size_t i = 0; i < parameters; ++i) {
        const std::string& name = s.names[i + 1];
        if (i < given.positional.size())
          own.names[name] = given.positional[i];
        else if (const Value* const named = find(given.named, name))
          own.names[name] = *named;
        else
          own.names[name] = i < without ? Value() : value(s.parts[i - without], own);
      }
      for (const auto& [name, ignored] : given.named)
        if (std::find(s.names.begin() + 1 + std::ssize(given.positional), s.names.end(), name) == s.names.end())
          fail("macro '" + s.names[0] + "' does not take the argument '" + name + "'");
      std::string text;
      statements(s.body, own, &text);
      --calls_;
      return text;
    });
  }

  // ---- Expressions

  Value value(const Node& e, Scope& scope) {
    step();
    switch (e.kind) {
      case Kind::literal:
        return e.value;
      case Kind::variable: {
        const Value* const known = this->known(scope, e.names[0]);
        return known ? *known : Value();
      }
      case Kind::loop_part:
        return part_of_loop(e.names[0], scope);
      case Kind::list:
      case Kind::tuple: {
        List list;
        for (const Node& part : e.parts) list.push_back(value(part, scope));
        return made(std::move(list), e.kind == Kind::list ? Sequence::list : Sequence::tuple);
      }
      case Kind::dict: {
        Dict dict;
        for (size_t i = 0; i < e.parts.size(); i += 2) {
          const Value key = value(e.parts[i], scope);
          if (!key.text()) fail("a key that is " + kind_of(key));
          put(*key.text(), value(e.parts[i + 1], scope), &dict);
        }
        return dict;
      }
      case Kind::attribute:
        return attribute(object_of(e, scope), e.names[0]);
      case Kind::item: {
        const Value object = object_of(e, scope);
        return item(object, value(e.parts[1], scope));
      }
      case Kind::slice:
        return slice(e, scope);
      case Kind::call:
        return call(e, scope);
      case Kind::filter:
        return filter(e.names[0], value(e.parts[0], scope), arguments(e, scope));
      case Kind::test:
        return test(e.names[0], value(e.parts[0], scope), arguments(e, scope));
      case Kind::negation:
        return !is_true(value(e.parts[0], scope));
      case Kind::minus: {
        const Value given = value(e.parts[0], scope);
        if (const auto i = whole(given); i && *i != INT64_MIN) return -*i;
        if (given.number()) return -*given.number();
        fail("- of " + kind_of(given));
      }
      case Kind::both: {
        Value left = value(e.parts[0], scope);
        return is_true(left) ? value(e.parts[1], scope) : left;
      }
      case Kind::either: {
        Value left = value(e.parts[0], scope);
        return is_true(left) ? left : value(e.parts[1], scope);
      }
      case Kind::operation:
        return operation(e.names[0], value(e.parts[0], scope), value(e.parts[1], scope));
      case Kind::conditional:
        if (is_true(value(e.parts[0], scope))) return value(e.parts[1], scope);
        return e.parts.size() > 2 ? value(e.parts[2], scope) : Value();
      default:
        fail("an expression is missing");
    }
  }

  // Null where there is none.
  const Value* look_up(const Dict& dict, const std::string& key) {
    step(static_cast<int64_t>((1 + dict.size() / 8) * (1 + key.size() / 64)));
    return find(dict, key);
  }

  void put(const std::string& key, Value value, Dict* dict) {
    if (!look_up(*dict, key)) {
      charge(kOverhead + key.size());
      dict->emplace_back(key, std::move(value));
      return;
    }
    std::find_if(dict->begin(), dict->end(), [&](const auto& entry) { return entry.first == key; })->second =
        std::move(value);
  }

  // Evaluates all parts after the first as arguments.
  Arguments arguments(const Node& e, Scope& scope) {
    Arguments all;
    for (size_t i = 1; i < e.parts.size(); ++i) all.positional.push_back(value(e.parts[i], scope));
    for (const auto& [name, part] : e.named) all.named.emplace_back(name, value(part, scope));
    return all;
  }

  Value call(const Node& e, Scope& scope) {
    const Node& what = e.parts[0];
    Value function;
    if (what.kind == Kind::attribute) {
      const Value object = object_of(what, scope);
      if (const Method method = method_of(object, what.names[0]))
        return (this->*method)(object, what.names[0], arguments(e, scope));
      function = attribute(object, what.names[0]);
    } else {
      function = value(what, scope);
    }
    const Arguments given = arguments(e, scope);
    if (function.function()) return (*function.function())(given);
    fail((what.names.empty() ? kind_of(function) : "'" + what.names.back() + "'") + " is no function");
  }

  // The object of an attribute or item.
  Value object_of(const Node& e, Scope& scope) {
    Value object = value(e.parts[0], scope);
    const std::vector<std::string>& names = e.parts[0].names;
    if (object.is_undefined()) fail((names.empty() ? "a value" : "'" + names.back() + "'") + " is undefined");
    return object;
  }

  Value attribute(const Value& object, const std::string& name) {
    if (name.starts_with('_')) fail("heed does not have attributes that begin with _");
    if (object.is_undefined()) fail("'" + name + "' of an undefined value");
    if (object.is_none()) return {};
    if (const Namespace* const names = object.names()) {
      const Value* const entry = look_up(names->entries, name);
      return entry ? *entry : Value();
    }
    if (!object.text() && !object.list() && !object.dict()) fail("heed has no attributes of " + kind_of(object));
    if (is_method(object, name)) fail("heed does not have the method '" + name + "' of " + kind_of(object) + " here");
    const Value* const entry = object.dict() ? look_up(*object.dict(), name) : nullptr;
    return entry ? *entry : Value();
  }

  Value item(const Value& object, const Value& key) {
    if (const std::string* const name = key.text()) {
      if (const Dict* const dict = object.dict())
        if (const Value* const entry = look_up(*dict, *name)) return *entry;
      constexpr size_t kLongest = 255;  // of attributes
      if (name->size() <= kLongest) return attribute(object, *name);
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
    return object.text() ? character(*object.text(), *place) : Value();
  }

  // Undefined where there is none.
  Value character(const std::string& text, int64_t place) {
    const int64_t longest = std::ssize(text);
    if (place >= longest || place < -longest) return {};
    read(std::min(text.size(), 4 * static_cast<size_t>(place < 0 ? -place : place)));
    size_t at = text.size();
    for (int64_t left = -place; left > 0; --left) {
      if (at == 0) return {};
      --at;
      while (at > 0 && !begins_character(text[at])) --at;
    }
    if (place >= 0) at = after(text, 0, place);
    return at == text.size() ? Value() : made(text.substr(at, after(text, at, 1) - at));
  }

  Value slice(const Node& e, Scope& scope) {
    const Value object = value(e.parts[0], scope);
    std::array<std::optional<int64_t>, 3> given;
    for (size_t i = 0; i < 3; ++i) {
      const Value part = value(e.parts[i + 1], scope);
      given[i] = whole(part);
      if (!given[i] && !part.is_none()) fail("a slice by " + kind_of(part));
    }
    const int64_t by = given[2].value_or(1);
    const std::string* const text = object.text();
    const List* const list = object.list();
    if ((!text && !list) || (list && object.sequence() == Sequence::view)) fail("a slice of " + kind_of(object));
    if (by == 0 || (text && by != 1)) fail("heed does not have slices of " + kind_of(object) + " by such steps");
    if (text) read(2 * text->size());
    const int64_t count = text ? count_characters(*text) : std::ssize(*list);
    const int64_t lowest = by > 0 ? 0 : -1, highest = by > 0 ? count : count - 1;
    const auto place = [&](const std::optional<int64_t>& at, int64_t absent) {
      return at ? std::clamp(*at < 0 ? std::max(*at, -count - 1) + count : std::min(*at, count), lowest, highest)
                : absent;
    };
    const int64_t start = place(given[0], by > 0 ? 0 : count - 1), stop = place(given[1], by > 0 ? count : -1);
    if (text) {
      const size_t begin = after(*text, 0, start);
      return made(text->substr(begin, after(*text, begin, stop - start) - begin));
    }
    List part;
    for (int64_t i = start; by > 0 ? i < stop : i > stop; i += std::clamp(by, -count - 1, count + 1)) {
      step();
      part.push_back((*list)[static_cast<size_t>(i)]);
    }
    return made(std::move(part), object.sequence());
  }

  // Python's ==. Fails where kinds are compared that heed has in its own way.
  bool equal(const Value& a, const Value& b) {
    step();
    for (const Value* const one : {&a, &b})
      if (one->names() || one->function() || one->generator() ||
          (one->list() && (one->sequence() == Sequence::range || one->sequence() == Sequence::view)))
        fail("heed does not compare " + kind_of(a) + " with " + kind_of(b));
    if (whole(a) && whole(b)) return *whole(a) == *whole(b);
    if (is_number(a) && is_number(b)) return *numeric(a) == *numeric(b);
    if (a.text() && b.text()) {
      read(std::min(a.text()->size(), b.text()->size()));
      return *a.text() == *b.text();
    }
    if (a.list() && b.list()) {
      if (a.sequence() != b.sequence()) fail("heed does not compare a list with a tuple");
      return std::equal(a.list()->begin(), a.list()->end(), b.list()->begin(), b.list()->end(),
                        [this](const Value& x, const Value& y) { return equal(x, y); });
    }
    if (a.dict() && b.dict())
      return a.dict()->size() == b.dict()->size() &&
             std::all_of(a.dict()->begin(), a.dict()->end(), [&](const auto& entry) {
               const Value* const other = look_up(*b.dict(), entry.first);
               return other && equal(entry.second, *other);
             });
    return a.data().index() == b.data().index();  // none, undefined
  }

  Value operation(const std::string& sign, const Value& a, const Value& b) {
    if (sign == "==") return equal(a, b);
    if (sign == "!=") return !equal(a, b);
    if (sign == "in") return contains(b, a);
    if (sign == "~") return joined(text_of(a), text_of(b));
    if (sign == "<" || sign == ">" || sign == "<=" || sign == ">=") return ordered(sign, a, b);
    if (sign == "+" && a.text() && b.text()) return joined(*a.text(), *b.text());
    if (sign == "+" && a.list() && b.list() && a.sequence() == b.sequence() &&
        (a.sequence() == Sequence::list || a.sequence() == Sequence::tuple)) {
      step(std::ssize(*a.list()) + std::ssize(*b.list()));
      List all = *a.list();
      all.insert(all.end(), b.list()->begin(), b.list()->end());
      return made(std::move(all), a.sequence());
    }
    if (sign == "*" && a.text() && whole(b)) return repeated(*a.text(), *whole(b));
    return arithmetic(sign, a, b);
  }

  Value joined(const std::string& a, const std::string& b) {
    charge(kOverhead + a.size() + b.size());
    return a + b;
  }

  Value repeated(const std::string& text, int64_t times) {
    std::string all;
    if (text.empty() || times <= 0) return all;
    if (times > bytes_) fail("it makes more text than a conversation needs");
    charge(kOverhead + text.size() * static_cast<uint64_t>(times));
    for (int64_t i = 0; i < times; ++i) all += text;
    return all;
  }

  Value ordered(const std::string& sign, const Value& a, const Value& b) {
    int order = 0;
    if (a.text() && b.text()) {
      read(std::min(a.text()->size(), b.text()->size()));
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

  static Value arithmetic(const std::string& sign, const Value& a, const Value& b) {
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

  bool contains(const Value& all, const Value& one) {
    if (const std::string* const text = all.text()) {
      if (!one.text()) fail("'in' of a text, for " + kind_of(one));
      search(text->size(), one.text()->size());
      return text->find(*one.text()) != text->npos;
    }
    if (const Dict* const dict = all.dict()) {
      if (!one.text() && !one.is_none() && !one.is_undefined() && !is_number(one))
        fail("'in' of a dictionary, for " + kind_of(one));
      return one.text() && look_up(*dict, *one.text());
    }
    if (const List* const list = all.list())
      return std::any_of(list->begin(), list->end(), [&](const Value& item) { return equal(item, one); });
    const List items = items_of(all);
    return std::any_of(items.begin(), items.end(), [&](const Value& item) { return equal(item, one); });
  }

  List items_of(const Value& all) {
    List items;
    if (const List* const list = all.list()) {
      items = *list;
    } else if (const Dict* const dict = all.dict()) {
      for (const auto& [key, ignored] : *dict) items.push_back(made(key));
    } else if (const std::string* const text = all.text()) {
      for (size_t at = 0, next = 0; at < text->size(); at = next) {
        step();
        next = after(*text, at, 1);
        items.push_back(made(text->substr(at, next - at)));
      }
    } else if (OnceRead* const generator = all.generator()) {
      if (std::exchange(generator->used, true)) fail("heed goes through the items of a generator once");
      items = generator->items;
    } else if (!all.is_undefined()) {
      fail("a loop over " + kind_of(all));
    }
    step(std::ssize(items));
    return items;
  }

  int64_t length_of(const Value& value) {
    if (const std::string* const text = value.text()) {
      read(text->size());
      return count_characters(*text);
    }
    if (const List* const list = value.list()) return std::ssize(*list);
    if (const Dict* const dict = value.dict()) return std::ssize(*dict);
    if (value.is_undefined()) return 0;
    fail("the length of " + kind_of(value));
  }

  // ---- Arguments by their place or name

  // Null where it is not given.
  static const Value* argument(const Arguments& given, size_t place, const char* name) {
    if (place < given.positional.size()) return &given.positional[place];
    return find(given.named, name);
  }
  // Null where it is not given, or none.
  static const std::string* text_argument(const Arguments& given, size_t place, const char* name) {
    const Value* const value = argument(given, place, name);
    if (!value || value->is_none()) return nullptr;
    if (!value->text()) fail(std::string(name) + " is " + kind_of(*value));
    return value->text();
  }
  static const std::string& needed_text(const Arguments& given, size_t place, const char* name) {
    const std::string* const text = text_argument(given, place, name);
    if (!text) fail(std::string(name) + " is missing");
    return *text;
  }
  // Of a filter, a test or an attribute.
  static std::string needed_name(const Arguments& given, size_t place, const char* name) {
    constexpr size_t kLongest = 255;
    const std::string& text = needed_text(given, place, name);
    if (text.size() > kLongest || !is_ascii(text)) fail(std::string(name) + " is no name that heed has");
    return text;
  }
  static std::optional<int64_t> whole_argument(const Arguments& given, size_t place, const char* name) {
    const Value* const value = argument(given, place, name);
    if (!value) return {};
    if (!whole(*value)) fail(std::string(name) + " is " + kind_of(*value));
    return whole(*value);
  }
  static void expect_arguments(const Arguments& given, std::initializer_list<std::string_view> names,
                               const std::string& of) {
    const auto known = [&](const auto& entry) {
      return std::find(names.begin() + std::min(given.positional.size(), names.size()), names.end(), entry.first) !=
             names.end();
    };
    if (given.positional.size() > names.size() || !std::all_of(given.named.begin(), given.named.end(), known))
      fail("heed does not have these arguments of '" + of + "'");
  }
  // Most of Python's methods take arguments by their place only.
  static void expect_places(const Arguments& given, size_t least, size_t most, const std::string& of) {
    if (given.positional.size() < least || given.positional.size() > most || !given.named.empty())
      fail("heed does not have these arguments of '" + of + "'");
  }

  // ---- Methods

  using Method = Value (Run::*)(const Value&, const std::string&, const Arguments&);
  // Null where heed has none of that name.
  static Method method_of(const Value& object, const std::string& name) {
    static const std::map<std::string, Method, std::less<>> kOfTexts{
        {"strip", &Run::strip},     {"lstrip", &Run::strip},       {"rstrip", &Run::strip},
        {"split", &Run::split},     {"rsplit", &Run::split},       {"startswith", &Run::begins},
        {"endswith", &Run::begins}, {"upper", &Run::letters},      {"lower", &Run::letters},
        {"title", &Run::letters},   {"capitalize", &Run::letters}, {"replace", &Run::replace},
        {"join", &Run::join},       {"find", &Run::find_text},     {"count", &Run::count_text},
        {"splitlines", &Run::lines}};
    static const std::map<std::string, Method, std::less<>> kOfDicts{
        {"items", &Run::entries}, {"keys", &Run::entries}, {"values", &Run::entries}, {"get", &Run::get}};
    if (!object.text() && !object.dict()) return nullptr;
    const auto& methods = object.text() ? kOfTexts : kOfDicts;
    const auto at = methods.find(name);
    return at == methods.end() ? nullptr : at->second;
  }

  // Whether Python's object has an attribute of that name. Python finds it before the entries of a dictionary.
  static bool is_method(const Value& object, const std::string& name) {
    using Names = std::set<std::string, std::less<>>;
    static const Names kMoreOfTexts{
        "casefold", "center",  "encode",       "expandtabs",   "format",    "format_map", "index",        "isalnum",
        "isalpha",  "isascii", "isdecimal",    "isdigit",      "islower",   "isnumeric",  "isidentifier", "isprintable",
        "isspace",  "istitle", "isupper",      "ljust",        "maketrans", "partition",  "rfind",        "rindex",
        "rjust",    "zfill",   "removeprefix", "removesuffix", "swapcase",  "translate",  "rpartition"};
    static const Names kMoreOfDicts{"clear", "copy", "fromkeys", "pop", "popitem", "setdefault", "update"};
    // Of lists, tuples, ranges and views.
    static const Names kMoreOfLists{"append",  "clear", "copy", "count", "extend", "index", "insert",     "remove",
                                    "reverse", "pop",   "sort", "start", "stop",   "step",  "isdisjoint", "mapping"};
    return method_of(object, name) || (object.text()   ? kMoreOfTexts
                                       : object.dict() ? kMoreOfDicts
                                                       : kMoreOfLists)
                                          .contains(name);
  }

  Value trim(const std::string& text, const std::string* characters, bool left, bool right) {
    constexpr size_t kMost = 64;  // bytes
    if (characters && characters->size() > kMost) fail("more than " + std::to_string(kMost) + " bytes to strip");
    read(text.size() * (characters ? 1 + characters->size() / 4 : 1));
    return made(std::string(stripped(text, left, right, characters)));
  }

  Value strip(const Value& object, const std::string& name, const Arguments& given) {
    expect_places(given, 0, 1, name);
    return trim(*object.text(), text_argument(given, 0, "chars"), name != "rstrip", name != "lstrip");
  }

  Value split(const Value& object, const std::string& name, const Arguments& given) {
    expect_arguments(given, {"sep", "maxsplit"}, name);
    const std::string& text = *object.text();
    const std::string* const sign = text_argument(given, 0, "sep");
    int64_t most = whole_argument(given, 1, "maxsplit").value_or(-1);
    if (sign && sign->empty()) fail("'" + name + "' at an empty text");
    List parts;
    search(text.size(), sign ? sign->size() : 0);
    if (!sign) {
      if (most >= 0) fail("heed does not have 'maxsplit' of a split at spaces");
      charge(text.size() * sizeof(std::string_view) / 2);  // of split_words()
      for (const std::string_view word : split_words(text)) {
        step();
        parts.push_back(made(std::string(word)));
      }
      return made(std::move(parts));
    }
    std::string_view rest = text;
    const bool from_right = name == "rsplit";
    for (size_t at; most != 0 && (at = from_right ? rest.rfind(*sign) : rest.find(*sign)) != rest.npos; --most) {
      step();
      parts.push_back(made(std::string(from_right ? rest.substr(at + sign->size()) : rest.substr(0, at))));
      rest = from_right ? rest.substr(0, at) : rest.substr(at + sign->size());
    }
    parts.push_back(made(std::string(rest)));
    if (from_right) std::reverse(parts.begin(), parts.end());
    return made(std::move(parts));
  }

  Value lines(const Value& object, const std::string& name, const Arguments& given) {
    expect_places(given, 0, 0, name);
    const std::string& text = *object.text();
    read(text.size());
    if (text.find_first_of("\r\v\f\x1c\x1d\x1e") != text.npos || !is_ascii(text)) fail("'splitlines' of such a text");
    List all;
    for (size_t begin = 0; begin < text.size();) {
      step();
      const size_t end = std::min(text.find('\n', begin), text.size());
      all.push_back(made(text.substr(begin, end - begin)));
      begin = end + 1;
    }
    return made(std::move(all));
  }

  Value begins(const Value& object, const std::string& name, const Arguments& given) {
    expect_places(given, 1, 1, name);
    const Value& what = given.positional[0];
    const List one{what};
    const List& all = what.list() && what.sequence() == Sequence::tuple ? *what.list() : one;
    const bool at_end = name == "endswith";
    return std::any_of(all.begin(), all.end(), [&](const Value& part) {
      if (!part.text()) fail("'" + name + "' of " + kind_of(part));
      read(std::min(part.text()->size(), object.text()->size()));
      return at_end ? object.text()->ends_with(*part.text()) : object.text()->starts_with(*part.text());
    });
  }

  Value letters(const Value& object, const std::string& name, const Arguments& given) {
    expect_places(given, 0, 0, name);
    return in_case(*object.text(), name, Letters::title);
  }

  Value in_case(const std::string& text, const std::string& name, Letters title) {
    read(text.size());
    return made(in_letters(text, name == "upper"   ? Letters::upper
                                 : name == "lower" ? Letters::lower
                                 : name == "title" ? title
                                                   : Letters::capital));
  }

  Value replace(const Value& object, const std::string& name, const Arguments& given) {
    expect_places(given, 2, 3, name);
    const std::string &old = needed_text(given, 0, "old"), &by = needed_text(given, 1, "new");
    int64_t most = whole_argument(given, 2, "count").value_or(-1);
    if (old.empty()) fail("heed does not replace an empty text");
    search(object.text()->size(), old.size());
    std::string out;
    const std::string& text = *object.text();
    size_t done = 0;
    for (size_t at; most != 0 && (at = text.find(old, done)) != text.npos; --most) {
      step();
      charge(at - done + by.size());
      out.append(text, done, at - done) += by;
      done = at + old.size();
    }
    append(std::string_view(text).substr(done), &out);
    return out;
  }

  Value join(const Value& object, const std::string& name, const Arguments& given) {
    expect_places(given, 1, 1, name);
    const List items = items_of(given.positional[0]);
    if (!std::all_of(items.begin(), items.end(), [](const Value& item) { return item.text(); }))
      fail("'join' of items that are no texts");
    return join_items(items, *object.text());
  }

  Value join_items(const List& items, const std::string& between) {
    std::string out;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) append(between, &out);
      append(text_of(items[i]), &out);
    }
    return out;
  }

  Value find_text(const Value& object, const std::string& name, const Arguments& given) {
    expect_places(given, 1, 1, name);
    const std::string& what = needed_text(given, 0, "sub");
    search(object.text()->size(), what.size());
    const size_t at = object.text()->find(what);
    return at == std::string::npos ? int64_t{-1} : count_characters(std::string_view(*object.text()).substr(0, at));
  }

  Value count_text(const Value& object, const std::string& name, const Arguments& given) {
    expect_places(given, 1, 1, name);
    const std::string& what = needed_text(given, 0, "sub");
    if (what.empty()) fail("'count' of an empty text");
    search(object.text()->size(), what.size());
    int64_t count = 0;
    for (size_t at = 0; (at = object.text()->find(what, at)) != std::string::npos; at += what.size()) ++count;
    return count;
  }

  Value entries(const Value& object, const std::string& name, const Arguments& given) {
    expect_places(given, 0, 0, name);
    List all;
    for (const auto& [key, value] : *object.dict()) {
      step();
      if (name == "values")
        all.push_back(value);
      else
        all.push_back(name == "keys" ? made(key) : made(List{made(key), value}, Sequence::tuple));
    }
    return made(std::move(all), Sequence::view);
  }

  Value get(const Value& object, const std::string& name, const Arguments& given) {
    expect_places(given, 1, 2, name);
    const Value* const entry = look_up(*object.dict(), needed_text(given, 0, "key"));
    const Value* const absent = argument(given, 1, "default");
    return entry ? *entry : absent ? *absent : Value(nullptr);
  }

  // ---- Filters and tests

  Value filter(const std::string& name, const Value& input, const Arguments& given) {
    if (name == "trim") {
      expect_arguments(given, {"chars"}, name);
      return trim(text_of(input), text_argument(given, 0, "chars"), true, true);
    }
    if (name == "tojson") return to_json(input, given);
    if (name == "default" || name == "d") return or_default(input, given);
    if (name == "join") {
      expect_arguments(given, {"d"}, name);
      const bool alone = given.positional.empty() && given.named.empty();
      const std::string between = alone ? "" : needed_text(given, 0, "d");
      read(between.size());
      return join_items(items_of(input), between);
    }
    if (name == "replace") return replace(text_of(input), name, given);
    if (name == "map") return map_items(input, given);
    if (name == "selectattr" || name == "rejectattr" || name == "select" || name == "reject")
      return chosen(name, input, given);
    expect_arguments(given, {}, name);
    if (name == "upper" || name == "lower" || name == "title" || name == "capitalize")
      return in_case(text_of(input), name, Letters::words);
    if (name == "length" || name == "count") return length_of(input);
    if (name == "string") return made(text_of(input));
    if (name == "list") return made(items_of(input));
    if (name == "first" || (name == "last" && !input.generator())) {
      if (input.text()) return character(*input.text(), name == "first" ? 0 : -1);
      const List items = items_of(input);
      return items.empty() ? Value() : name == "first" ? items.front() : items.back();
    }
    if (name == "reverse" && (input.list() || input.generator())) {
      List items = items_of(input);
      std::reverse(items.begin(), items.end());
      return input.list() ? generated(std::move(items)) : made(std::move(items));
    }
    if (name == "items" && input.is_undefined()) return generated({});
    if (name == "items" && input.dict()) return generated(*entries(input, name, {}).list());
    if (name == "int" && whole(input)) return *whole(input);
    if (name == "unique") return unique(input);
    fail("heed does not have the filter '" + name + "' of " + kind_of(input));
  }

  // Texts that differ in case only are the same one.
  Value unique(const Value& input) {
    List kept, seen;
    for (const Value& item : items_of(input)) {
      if (!item.text() && !item.is_none() && !is_number(item)) fail("'unique' of " + kind_of(item));
      if (item.text()) read(8 * item.text()->size());
      const Value key = item.text() ? made(to_lower(*item.text())) : item;
      if (std::any_of(seen.begin(), seen.end(), [&](const Value& known) { return equal(known, key); })) continue;
      seen.push_back(key);
      kept.push_back(item);
    }
    return generated(std::move(kept));
  }

  Value to_json(const Value& input, const Arguments& given) {
    expect_arguments(given, {"ensure_ascii", "indent"}, "tojson");
    const Value* const ascii = argument(given, 0, "ensure_ascii");
    if (ascii && is_true(*ascii)) fail("heed does not have 'ensure_ascii' of 'tojson'");
    const std::optional<int64_t> indent = whole_argument(given, 1, "indent");
    if (indent && (*indent < 0 || *indent > 16)) fail("an indent of " + std::to_string(*indent));
    std::string out;
    append_json(input, indent, 0, &out);
    return out;
  }

  void append_json_string(const std::string& text, std::string* out) {
    read(text.size());
    append("\"", out);
    for (size_t done = 0; done < text.size();) {
      constexpr std::string_view kCharacters = "\"\\\n\r\t\b\f", kNames = "\"\\nrtbf";
      const auto is_escaped = [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; };
      const auto at = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(done), text.end(), is_escaped);
      const auto end = static_cast<size_t>(at - text.begin());
      append(std::string_view(text).substr(done, end - done), out);
      done = end + 1;
      if (at == text.end()) continue;
      std::array<char, 8> code;
      if (const size_t known = kCharacters.find(*at); known != kCharacters.npos)
        std::snprintf(code.data(), code.size(), "\\%c", kNames[known]);
      else
        std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(*at));
      append(code.data(), out);
    }
    append("\"", out);
  }

  // json.dumps(value, ensure_ascii=False, indent=indent)
  void append_json(const Value& value, std::optional<int64_t> indent, int64_t depth, std::string* out) {
    step();
    const auto line = [&](int64_t at) {
      if (indent) append("\n" + std::string(static_cast<size_t>(*indent * at), ' '), out);
    };
    // Writes `count` parts between brackets.
    const auto parts = [&](const char* open, const char* close, size_t count, const auto& part) {
      append(open, out);
      for (size_t i = 0; i < count; ++i) {
        if (i > 0) append(indent ? "," : ", ", out);
        line(depth + 1);
        part(i);
      }
      if (count > 0) line(depth);
      append(close, out);
    };
    const List* const list = value.list();
    if (const std::string* const s = value.text()) {
      append_json_string(*s, out);
    } else if (list && (value.sequence() == Sequence::list || value.sequence() == Sequence::tuple)) {
      parts("[", "]", list->size(), [&](size_t i) { append_json((*list)[i], indent, depth + 1, out); });
    } else if (const Dict* const dict = value.dict()) {
      parts("{", "}", dict->size(), [&](size_t i) {
        append_json_string((*dict)[i].first, out);
        append(": ", out);
        append_json((*dict)[i].second, indent, depth + 1, out);
      });
    } else if (value.is_none()) {
      append("null", out);
    } else if (const bool* const b = value.boolean()) {
      append(*b ? "true" : "false", out);
    } else if (is_number(value)) {
      append(text_of(value), out);
    } else {
      fail("tojson of " + kind_of(value));
    }
  }

  static Value or_default(const Value& input, const Arguments& given) {
    expect_arguments(given, {"default_value", "boolean"}, "default");
    const Value* const other = argument(given, 0, "default_value");
    const Value* const falsy = argument(given, 1, "boolean");
    const bool keep = falsy && is_true(*falsy) ? is_true(input) : !input.is_undefined();
    return keep ? input : other ? *other : Value("");
  }

  // Jinja goes through the items later, when namespaces may have changed.
  List items_for_later(const Value& input) {
    List items = items_of(input);
    if (std::any_of(items.begin(), items.end(), [](const Value& item) { return item.names(); }))
      fail("heed does not have filters of namespaces");
    return items;
  }

  static void check_attribute_name(const std::string& name) {
    if (name.find('.') != name.npos || name.empty() || (name[0] >= '0' && name[0] <= '9'))
      fail("heed does not have the attribute '" + name + "' in filters");
  }

  // map(attribute="role"), map("trim")
  Value map_items(const Value& input, Arguments given) {
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
    List items = items_for_later(input);
    for (Value& one : items) one = of_attribute ? item(one, name) : filter(name, one, given);
    return generated(std::move(items));
  }

  // selectattr("role", "equalto", "user"), select("string"), and rejectattr and reject, which keep the other items
  Value chosen(const std::string& name, const Value& input, Arguments given) {
    const bool of_attribute = name.ends_with("attr"), wanted = name.starts_with("select");
    if (!given.named.empty()) fail("heed does not have these arguments of '" + name + "'");
    const std::string key = of_attribute ? needed_name(given, 0, "attribute") : "";
    if (of_attribute) check_attribute_name(key);
    if (of_attribute) given.positional.erase(given.positional.begin());
    const std::string by = given.positional.empty() ? "" : needed_name(given, 0, "test");
    if (!by.empty()) given.positional.erase(given.positional.begin());
    List items = items_for_later(input);
    std::erase_if(items, [&](const Value& one) {
      const Value tested = of_attribute ? item(one, key) : one;
      return (by.empty() ? is_true(tested) : is_true(test(by, tested, given))) != wanted;
    });
    return generated(std::move(items));
  }

  Value test(const std::string& name, const Value& input, const Arguments& given) {
    const auto other = [&]() -> const Value& {
      if (given.positional.size() != 1 || !given.named.empty()) fail("'is " + name + "' needs one argument");
      return given.positional[0];
    };
    if (name == "equalto" || name == "eq" || name == "==") return equal(input, other());
    if (name == "ne" || name == "!=") return !equal(input, other());
    if (name == "in") return contains(other(), input);
    if (name == "divisibleby") return equal(arithmetic("%", input, other()), int64_t{0});
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

  // ---- What every program has

  void add_globals(Scope* scope) {
    const auto add = [&](const char* name, Function function) { scope->names[name] = std::move(function); };
    add("namespace", [this](const Arguments& given) -> Value {
      const bool hidden =
          std::any_of(given.named.begin(), given.named.end(), [](const auto& e) { return e.first.starts_with('_'); });
      if (!given.positional.empty() || hidden) fail("heed does not have these arguments of 'namespace'");
      charge(kOverhead + given.named.size() * sizeof(Dict::value_type));
      namespaces_.push_back(std::make_shared<Namespace>(Namespace{given.named}));
      return namespaces_.back();
    });
    add("dict", [this](const Arguments& given) -> Value {
      if (!given.positional.empty()) fail("heed does not have these arguments of 'dict'");
      return made(given.named);
    });
    add("range", [this](const Arguments& given) { return range(given); });
    add("raise_exception", [](const Arguments& given) -> Value {
      expect_arguments(given, {"message"}, "raise_exception");
      throw RaisedError(needed_text(given, 0, "message"));
    });
    add("strftime_now", [this](const Arguments& given) {
      expect_arguments(given, {"format"}, "strftime_now");
      return made(time_now(needed_text(given, 0, "format")));
    });
  }

  Value range(const Arguments& given) {
    expect_places(given, 1, 3, "range");
    const std::optional<int64_t> first = whole_argument(given, 0, "start"), second = whole_argument(given, 1, "stop");
    const int64_t by = whole_argument(given, 2, "step").value_or(1);
    const int64_t start = second ? *first : 0, stop = second.value_or(*first);
    constexpr int64_t kLargest = int64_t{1} << 40, kMostItems = 100'000;  // the second is Jinja's
    for (const int64_t part : {start, stop, by})
      if (part > kLargest || part < -kLargest || by == 0) fail("these arguments of 'range'");
    List all;
    for (int64_t i = start; by > 0 ? i < stop : i > stop; i += by) {
      step();
      if (std::ssize(all) == kMostItems) fail("a range of more than " + std::to_string(kMostItems) + " items");
      all.emplace_back(i);
    }
    return made(std::move(all), Sequence::range);
  }

  static std::string time_now(const std::string& format) {
    constexpr size_t kLongest = 200;
    if (format.size() > kLongest) fail("a form of a date that is too long");
    constexpr std::string_view kKnown = "aAbBdHIjmMpSyY%";
    for (size_t i = 0; (i = format.find('%', i)) != format.npos; i += 2)
      if (i + 1 == format.size() || kKnown.find(format[i + 1]) == kKnown.npos)
        fail("heed does not have this form of a date");
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    std::array<char, 16 * kLongest> text;
    return {text.data(), std::strftime(text.data(), text.size(), format.c_str(), &local)};
  }

  int64_t steps_, bytes_;  // left
  int calls_ = 0;
  std::vector<std::shared_ptr<Namespace>> namespaces_{};
};

size_t size_of(const Value& value) {
  size_t size = 16;
  if (const std::string* const text = value.text()) size += text->size();
  if (const List* const list = value.list())
    for (const Value& item : *list) size += size_of(item);
  if (const Dict* const dict = value.dict())
    for (const auto& [key, item] : *dict) size += key.size() + size_of(item);
  return size;
}

}  // namespace

void Value::lie_around(const Value& inner) {
  depth_ = std::max(depth_, inner.depth_ + 1);
  if (depth_ > kDeepestValue) fail("more than " + std::to_string(kDeepestValue) + " values within each other");
}

Value::Value(OnceRead generator) {
  for (const Value& item : generator.items) lie_around(item);
  data_ = std::make_shared<OnceRead>(std::move(generator));
}

Value::Value(List list, Sequence sequence) : sequence_(sequence) {
  for (const Value& item : list) lie_around(item);
  data_ = std::make_shared<const List>(std::move(list));
}

Value::Value(Dict dict) {
  for (const auto& [key, item] : dict) lie_around(item);
  data_ = std::make_shared<const Dict>(std::move(dict));
}

const Value* find(const Dict& dict, std::string_view key) {
  const auto at = std::find_if(dict.begin(), dict.end(), [&](const auto& entry) { return entry.first == key; });
  return at == dict.end() ? nullptr : &at->second;
}

std::string_view stripped(std::string_view text, bool left, bool right, const std::string* characters) {
  while (left && !text.empty()) {
    const DecodedCharacter c = decode_utf8(text);
    if (!is_one_of(c.code, characters)) break;
    text.remove_prefix(static_cast<size_t>(c.length));
  }
  while (right && !text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && !begins_character(text[last])) --last;
    if (!is_one_of(decode_utf8(text.substr(last)).code, characters)) break;
    text = text.substr(0, last);
  }
  return text;
}

Program::Program(std::string_view source) : size_(source.size()) {
  constexpr size_t kLongest = size_t{1} << 17;
  if (!valid_utf8(source)) fail("it is not UTF-8");
  if (source.size() > kLongest)
    fail("it has " + std::to_string(source.size()) + " bytes, more than " + std::to_string(kLongest));
  body_ = std::make_shared<const std::vector<Node>>(parse(source));
}

bool Program::reads(std::string_view variable) const {
  const std::function<bool(const Node&)> names = [&](const Node& node) {
    return (node.kind == Kind::variable && node.names[0] == variable) ||
           std::any_of(node.parts.begin(), node.parts.end(), names) ||
           std::any_of(node.body.begin(), node.body.end(), names) ||
           std::any_of(node.otherwise.begin(), node.otherwise.end(), names) ||
           std::any_of(node.named.begin(), node.named.end(), [&](const auto& part) { return names(part.second); });
  };
  return std::any_of(body_->begin(), body_->end(), names);
}

std::string Program::run(const Dict& variables) const {
  size_t size = size_;
  for (const auto& [name, value] : variables) size += name.size() + size_of(value);
  const auto bytes = static_cast<int64_t>(size);
  return Run(kSteps + kStepsPerByte * bytes, kBytes + kBytesPerByte * bytes).all(*body_, variables);
}

}  // namespace heed::inline v0::jinja
