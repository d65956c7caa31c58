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

// Of a program of no size that reads nothing; both grow with what there is to read.
constexpr int64_t kSteps = 1'000'000;
constexpr int64_t kBytes = int64_t{16} << 20;
constexpr int64_t kBytesPerByte = 256, kStepsPerByte = 4;
constexpr int kDeepestCall = 20, kDeepestValue = 100;

[[noreturn]] void fail(const std::string& what) { throw ProgramError(what); }

// ---- Values as Python has them

std::string kind_of(const Value& value) {
  constexpr std::array<const char*, 10> kNames{"nothing", "none",   "a boolean",    "a number",    "a number",
                                               "a text",  "a list", "a dictionary", "a namespace", "a function"};
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

std::optional<double> numeric(const Value& value) {
  if (const double* const d = value.number()) return *d;
  const std::optional<int64_t> i = whole(value);
  return i ? std::optional(static_cast<double>(*i)) : std::nullopt;
}

bool equal(const Value& a, const Value& b) {
  if (whole(a) && whole(b)) return *whole(a) == *whole(b);
  if (const auto x = numeric(a), y = numeric(b); x && y) return *x == *y;
  if (a.text() && b.text()) return *a.text() == *b.text();
  if (a.list() && b.list())
    return std::equal(a.list()->begin(), a.list()->end(), b.list()->begin(), b.list()->end(), equal);
  if (a.dict() && b.dict())
    return a.dict()->size() == b.dict()->size() &&
           std::all_of(a.dict()->begin(), a.dict()->end(), [&](const auto& entry) {
             const Value* const other = find(*b.dict(), entry.first);
             return other && equal(entry.second, *other);
           });
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

std::string written(double number) {
  std::array<char, 40> text;
  if (!std::isfinite(number)) fail("a number that is not finite");
  std::string digits(text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr);
  return digits.find_first_of(".e") == digits.npos ? digits + ".0" : digits;
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

void append_json_string(const std::string& text, std::string* out) {
  *out += '"';
  for (const char c : text) {
    constexpr std::string_view kCharacters = "\"\\\n\r\t\b\f", kNames = "\"\\nrtbf";
    if (const size_t known = kCharacters.find(c); known != kCharacters.npos) {
      *out += '\\';
      *out += kNames[known];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> code;
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
      *out += code.data();
    } else {
      *out += c;
    }
  }
  *out += '"';
}

// json.dumps(value, ensure_ascii=False, indent=indent)
void append_json(const Value& value, std::optional<int64_t> indent, int64_t depth, std::string* out) {
  const auto line = [&](int64_t at) {
    if (!indent) return;
    *out += '\n';
    out->append(static_cast<size_t>(*indent * at), ' ');
  };
  const char* const between = indent ? "," : ", ";
  if (const std::string* const s = value.text()) {
    append_json_string(*s, out);
  } else if (const List* const list = value.list()) {
    *out += '[';
    for (size_t i = 0; i < list->size(); ++i) {
      if (i > 0) *out += between;
      line(depth + 1);
      append_json((*list)[i], indent, depth + 1, out);
    }
    if (!list->empty()) line(depth);
    *out += ']';
  } else if (const Dict* const dict = value.dict()) {
    *out += '{';
    for (size_t i = 0; i < dict->size(); ++i) {
      if (i > 0) *out += between;
      line(depth + 1);
      append_json_string((*dict)[i].first, out);
      *out += ": ";
      append_json((*dict)[i].second, indent, depth + 1, out);
    }
    if (!dict->empty()) line(depth);
    *out += '}';
  } else if (value.is_none()) {
    *out += "null";
  } else if (const bool* const b = value.boolean()) {
    *out += *b ? "true" : "false";
  } else if (value.integer() || value.number()) {
    *out += text_of(value);
  } else {
    fail("tojson of " + kind_of(value));
  }
}

// ---- Texts, whose places count characters

// Where each character begins, and the end.
std::vector<size_t> characters_of(std::string_view text) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) begins.push_back(i);
  begins.push_back(text.size());
  return begins;
}

bool is_one_of(char32_t code, const std::optional<std::string>& characters) {
  if (!characters) return is_space(code);
  for (std::string_view rest = *characters; !rest.empty();) {
    const DecodedCharacter c = decode_utf8(rest);
    if (c.code == code) return true;
    rest.remove_prefix(static_cast<size_t>(c.length));
  }
  return false;
}

// Without white space, or `characters`, at its ends.
std::string_view stripped(std::string_view text, const std::optional<std::string>& characters, bool left, bool right) {
  while (left && !text.empty()) {
    const DecodedCharacter c = decode_utf8(text);
    if (!is_one_of(c.code, characters)) break;
    text.remove_prefix(static_cast<size_t>(c.length));
  }
  while (right && !text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    if (!is_one_of(decode_utf8(text.substr(last)).code, characters)) break;
    text = text.substr(0, last);
  }
  return text;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

enum class Letters : uint8_t { upper, lower, title, capital };

std::string in_letters(const std::string& text, Letters letters) {
  if (!is_ascii(text)) fail("heed changes capitals in ASCII texts alone");
  std::string out = text;
  bool begins = true;
  for (char& c : out) {
    const bool up = letters == Letters::upper || (begins && letters != Letters::lower);
    if (up && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (!up && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    begins = letters == Letters::title && !is_letter(c);
  }
  return out;
}

// ---- A run

// Names and what they stand for. A loop and a macro have their own, behind those around them.
struct Scope {
  const Scope* around = nullptr;
  std::map<std::string, Value, std::less<>> names{};

  const Value* find(const std::string& name) const {
    for (const Scope* scope = this; scope; scope = scope->around)
      if (const auto at = scope->names.find(name); at != scope->names.end()) return &at->second;
    return nullptr;
  }
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
  Value made(std::string text) {
    charge(text.size());
    return text;
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
        loop(s, scope, out);
        return Flow::on;
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
    const Value* const object = scope.find(s.names[0]);
    if (!object || !object->names()) fail("'" + s.names[0] + "' is no namespace");
    if (s.names[1].starts_with('_')) fail("a name of a namespace begins with _");
    Dict& entries = object->names()->entries;
    const auto at = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.first == s.names[1]; });
    if (at == entries.end())
      entries.emplace_back(s.names[1], std::move(given));
    else
      at->second = std::move(given);
  }

  void loop(const Node& s, Scope& scope, std::string* out) {
    List items = items_of(value(s.parts[0], scope));
    if (s.parts.size() > 1)
      std::erase_if(items, [&](const Value& item) {
        Scope own{.around = &scope};
        bind(s.names, item, &own);
        return !is_true(value(s.parts[1], own));
      });
    const auto count = std::ssize(items);
    for (int64_t i = 0; i < count; ++i) {
      step();
      Scope own{.around = &scope};
      own.names["loop"] =
          Dict{{"index", i + 1},
               {"index0", i},
               {"revindex", count - i},
               {"revindex0", count - i - 1},
               {"first", i == 0},
               {"last", i + 1 == count},
               {"length", count},
               {"depth", int64_t{1}},
               {"depth0", int64_t{0}},
               {"previtem", i > 0 ? items[static_cast<size_t>(i) - 1] : Value::undefined("previtem")},
               {"nextitem", i + 1 < count ? items[static_cast<size_t>(i) + 1] : Value::undefined("nextitem")}};
      bind(s.names, items[static_cast<size_t>(i)], &own);
      if (statements(s.body, own, out) == Flow::leave) break;
    }
    if (items.empty()) {
      Scope own{.around = &scope};
      statements(s.otherwise, own, out);
    }
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
          own.names[name] = i < without ? Value::undefined(name) : value(s.parts[i - without], own);
      }
      for (const auto& [name, ignored] : given.named)
        if (std::find(s.names.begin() + 1, s.names.end(), name) == s.names.end())
          fail("macro '" + s.names[0] + "' has no parameter '" + name + "'");
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
        const Value* const known = scope.find(e.names[0]);
        return known ? *known : Value::undefined(e.names[0]);
      }
      case Kind::list: {
        List list;
        for (const Node& part : e.parts) list.push_back(value(part, scope));
        return list;
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
        return attribute(value(e.parts[0], scope), e.names[0]);
      case Kind::item:
        return item(value(e.parts[0], scope), value(e.parts[1], scope));
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

  static void put(const std::string& key, Value value, Dict* dict) {
    for (auto& [known, old] : *dict)
      if (known == key) {
        old = std::move(value);
        return;
      }
    dict->emplace_back(key, std::move(value));
  }

  // Those behind the first part.
  Arguments arguments(const Node& e, Scope& scope) {
    Arguments all;
    for (size_t i = 1; i < e.parts.size(); ++i) all.positional.push_back(value(e.parts[i], scope));
    for (const auto& [name, part] : e.named) all.named.emplace_back(name, value(part, scope));
    return all;
  }

  Value call(const Node& e, Scope& scope) {
    const Value function = value(e.parts[0], scope);
    const Arguments given = arguments(e, scope);
    if (function.function()) return (*function.function())(given);
    const Node& what = e.parts[0];
    fail((what.names.empty() ? kind_of(function) : "'" + what.names.back() + "'") + " is no function");
  }

  Value attribute(const Value& object, const std::string& name) {
    if (object.is_undefined()) fail_undefined(object, name);
    if (const Namespace* const names = object.names()) {
      const Value* const entry = find(names->entries, name);
      return entry ? *entry : Value::undefined(name);
    }
    if (object.text() || object.dict() || object.list())
      if (Value method = this->method(object, name); !method.is_undefined()) return method;
    const Value* const entry = object.dict() ? find(*object.dict(), name) : nullptr;
    return entry ? *entry : Value::undefined(name);
  }

  [[noreturn]] static void fail_undefined(const Value& object, const std::string& name) {
    const std::string& what = std::get<Undefined>(object.data()).name;
    fail((what.empty() ? "a value" : "'" + what + "'") + " is undefined, and '" + name + "' of it is asked for");
  }

  Value item(const Value& object, const Value& key) {
    if (object.is_undefined()) fail_undefined(object, text_of(key));
    if (const std::string* const name = key.text()) {
      if (const Dict* const dict = object.dict())
        if (const Value* const entry = find(*dict, *name)) return *entry;
      return attribute(object, *name);
    }
    const std::optional<int64_t> place = whole(key);
    if (!place) return {};
    if (const List* const list = object.list()) {
      const int64_t at = *place < 0 ? *place + std::ssize(*list) : *place;
      return at >= 0 && at < std::ssize(*list) ? (*list)[static_cast<size_t>(at)] : Value();
    }
    if (const std::string* const text = object.text()) {
      const std::vector<size_t> begins = characters_of(*text);
      const int64_t count = std::ssize(begins) - 1, at = *place < 0 ? *place + count : *place;
      if (at < 0 || at >= count) return {};
      const auto from = static_cast<size_t>(at);
      return made(text->substr(begins[from], begins[from + 1] - begins[from]));
    }
    return {};
  }

  Value slice(const Node& e, Scope& scope) {
    const Value object = value(e.parts[0], scope);
    std::array<std::optional<int64_t>, 3> given;
    for (size_t i = 0; i < 3; ++i) {
      const Value part = value(e.parts[i + 1], scope);
      given[i] = whole(part);
      if (!given[i] && !part.is_none()) fail("a slice by " + kind_of(part));
    }
    const auto places = [&](int64_t count) {
      const int64_t by = given[2].value_or(1);
      if (by == 0) fail("a slice by steps of 0");
      const int64_t lowest = by > 0 ? 0 : -1, highest = by > 0 ? count : count - 1;
      const auto place = [&](const std::optional<int64_t>& at, int64_t absent) {
        return at ? std::clamp(*at < 0 ? std::max(*at, -count - 1) + count : std::min(*at, count), lowest, highest)
                  : absent;
      };
      std::vector<size_t> all;
      const int64_t stop = place(given[1], by > 0 ? count : -1);
      for (int64_t i = place(given[0], by > 0 ? 0 : count - 1); by > 0 ? i < stop : i > stop;
           i += std::clamp(by, -count - 1, count + 1)) {
        step();
        all.push_back(static_cast<size_t>(i));
      }
      return all;
    };
    if (const List* const list = object.list()) {
      List part;
      for (const size_t i : places(std::ssize(*list))) part.push_back((*list)[i]);
      return part;
    }
    if (const std::string* const text = object.text()) {
      const std::vector<size_t> begins = characters_of(*text);
      std::string part;
      for (const size_t i : places(std::ssize(begins) - 1)) part.append(*text, begins[i], begins[i + 1] - begins[i]);
      return made(std::move(part));
    }
    fail("a slice of " + kind_of(object));
  }

  Value operation(const std::string& sign, const Value& a, const Value& b) {
    if (sign == "==") return equal(a, b);
    if (sign == "!=") return !equal(a, b);
    if (sign == "in") return contains(b, a);
    if (sign == "~") return joined(text_of(a), text_of(b));
    if (sign == "<" || sign == ">" || sign == "<=" || sign == ">=") return ordered(sign, a, b);
    if (sign == "+" && a.text() && b.text()) return joined(*a.text(), *b.text());
    if (sign == "+" && a.list() && b.list()) {
      step(std::ssize(*a.list()) + std::ssize(*b.list()));
      List all = *a.list();
      all.insert(all.end(), b.list()->begin(), b.list()->end());
      return all;
    }
    if (sign == "*" && a.text() && whole(b)) return repeated(*a.text(), *whole(b));
    return arithmetic(sign, a, b);
  }

  Value joined(const std::string& a, const std::string& b) {
    charge(a.size() + b.size());
    return a + b;
  }

  Value repeated(const std::string& text, int64_t times) {
    std::string all;
    if (text.empty() || times <= 0) return all;
    if (times > bytes_) fail("it makes more text than a conversation needs");
    charge(text.size() * static_cast<uint64_t>(times));
    for (int64_t i = 0; i < times; ++i) all += text;
    return all;
  }

  static Value ordered(const std::string& sign, const Value& a, const Value& b) {
    int order = 0;
    if (a.text() && b.text())
      order = a.text()->compare(*b.text());
    else if (whole(a) && whole(b))
      order = *whole(a) < *whole(b) ? -1 : *whole(a) > *whole(b);
    else if (const auto x = numeric(a), y = numeric(b); x && y)
      order = *x < *y ? -1 : *x > *y;
    else
      fail(kind_of(a) + " " + sign + " " + kind_of(b));
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
    const auto x = numeric(a), y = numeric(b);
    if (!x || !y) refuse();
    if (sign == "+") return *x + *y;
    if (sign == "-") return *x - *y;
    if (sign == "*") return *x * *y;
    if (sign != "/" || *y == 0) refuse();
    return *x / *y;
  }

  bool contains(const Value& all, const Value& one) {
    if (const std::string* const text = all.text()) {
      if (!one.text()) fail("'in' of a text, for " + kind_of(one));
      return text->find(*one.text()) != text->npos;
    }
    if (const Dict* const dict = all.dict()) return one.text() && find(*dict, *one.text());
    if (const List* const list = all.list()) {
      step(std::ssize(*list));
      return std::any_of(list->begin(), list->end(), [&](const Value& item) { return equal(item, one); });
    }
    if (all.is_undefined()) return false;
    fail("'in' of " + kind_of(all));
  }

  List items_of(const Value& all) {
    List items;
    if (const List* const list = all.list()) {
      items = *list;
    } else if (const Dict* const dict = all.dict()) {
      for (const auto& [key, ignored] : *dict) items.emplace_back(key);
    } else if (const std::string* const text = all.text()) {
      const std::vector<size_t> begins = characters_of(*text);
      for (size_t i = 0; i + 1 < begins.size(); ++i) {
        step();
        items.push_back(made(text->substr(begins[i], begins[i + 1] - begins[i])));
      }
    } else if (!all.is_undefined()) {
      fail("a loop over " + kind_of(all));
    }
    step(std::ssize(items));
    return items;
  }

  int64_t length_of(const Value& value) {
    if (const std::string* const text = value.text()) return std::ssize(characters_of(*text)) - 1;
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
  static std::optional<std::string> text_argument(const Arguments& given, size_t place, const char* name) {
    const Value* const value = argument(given, place, name);
    if (!value || value->is_none()) return {};
    if (!value->text()) fail(std::string(name) + " is " + kind_of(*value));
    return *value->text();
  }
  static std::string needed_text(const Arguments& given, size_t place, const char* name) {
    const std::optional<std::string> text = text_argument(given, place, name);
    if (!text) fail(std::string(name) + " is missing");
    return *text;
  }
  static std::optional<int64_t> whole_argument(const Arguments& given, size_t place, const char* name) {
    const Value* const value = argument(given, place, name);
    if (!value || value->is_none()) return {};
    if (!whole(*value)) fail(std::string(name) + " is " + kind_of(*value));
    return whole(*value);
  }
  static void expect_arguments(const Arguments& given, std::initializer_list<std::string_view> names,
                               const std::string& of) {
    const auto known = [&](const auto& entry) {
      return std::find(names.begin(), names.end(), entry.first) != names.end();
    };
    if (given.positional.size() > names.size() || !std::all_of(given.named.begin(), given.named.end(), known))
      fail("heed does not have these arguments of '" + of + "'");
  }

  // ---- Methods

  // Undefined where there is none of that name.
  Value method(const Value& object, const std::string& name) {
    using Method = Value (Run::*)(const Value&, const std::string&, const Arguments&);
    static const std::map<std::string, Method, std::less<>> kOfTexts{
        {"strip", &Run::strip},     {"lstrip", &Run::strip},       {"rstrip", &Run::strip},
        {"split", &Run::split},     {"rsplit", &Run::split},       {"startswith", &Run::begins},
        {"endswith", &Run::begins}, {"upper", &Run::letters},      {"lower", &Run::letters},
        {"title", &Run::letters},   {"capitalize", &Run::letters}, {"replace", &Run::replace},
        {"join", &Run::join},       {"find", &Run::find_text},     {"count", &Run::count_text},
        {"splitlines", &Run::lines}};
    static const std::map<std::string, Method, std::less<>> kOfDicts{
        {"items", &Run::entries}, {"keys", &Run::entries}, {"values", &Run::entries}, {"get", &Run::get}};
    static const std::map<std::string, Method, std::less<>> kOfLists{};
    // What Python's objects have beside these: found before the entries of a dictionary.
    using Names = std::set<std::string, std::less<>>;
    static const Names kMoreOfTexts{
        "casefold", "center",  "encode",       "expandtabs",   "format",    "format_map", "index",        "isalnum",
        "isalpha",  "isascii", "isdecimal",    "isdigit",      "islower",   "isnumeric",  "isidentifier", "isprintable",
        "isspace",  "istitle", "isupper",      "ljust",        "maketrans", "partition",  "rfind",        "rindex",
        "rjust",    "zfill",   "removeprefix", "removesuffix", "swapcase",  "translate",  "rpartition"};
    static const Names kMoreOfDicts{"clear", "copy", "fromkeys", "pop", "popitem", "setdefault", "update"};
    static const Names kMoreOfLists{"append", "clear",  "copy",    "count", "extend", "index",
                                    "insert", "remove", "reverse", "pop",   "sort"};
    const auto& methods = object.text() ? kOfTexts : object.dict() ? kOfDicts : kOfLists;
    const auto& others = object.text() ? kMoreOfTexts : object.dict() ? kMoreOfDicts : kMoreOfLists;
    if (const auto at = methods.find(name); at != methods.end())
      return {Function([this, object, name, method = at->second](const Arguments& given) {
                return (this->*method)(object, name, given);
              }),
              object};
    if (others.contains(name))
      return Function([name](const Arguments&) -> Value { fail("heed does not have the method '" + name + "'"); });
    return {};
  }

  Value strip(const Value& object, const std::string& name, const Arguments& given) {
    expect_arguments(given, {"chars"}, name);
    return made(
        std::string(stripped(*object.text(), text_argument(given, 0, "chars"), name != "rstrip", name != "lstrip")));
  }

  Value split(const Value& object, const std::string& name, const Arguments& given) {
    expect_arguments(given, {"sep", "maxsplit"}, name);
    const std::string& text = *object.text();
    const std::optional<std::string> sign = text_argument(given, 0, "sep");
    int64_t most = whole_argument(given, 1, "maxsplit").value_or(-1);
    if (sign && sign->empty()) fail("'" + name + "' at an empty text");
    List parts;
    charge(text.size());
    if (!sign) {
      if (most >= 0) fail("heed does not have 'maxsplit' of a split at spaces");
      for (const std::string_view word : split_words(text)) parts.emplace_back(std::string(word));
      step(std::ssize(parts));
      return parts;
    }
    std::string_view rest = text;
    const bool from_right = name == "rsplit";
    for (size_t at; most != 0 && (at = from_right ? rest.rfind(*sign) : rest.find(*sign)) != rest.npos; --most) {
      step();
      parts.emplace_back(std::string(from_right ? rest.substr(at + sign->size()) : rest.substr(0, at)));
      rest = from_right ? rest.substr(0, at) : rest.substr(at + sign->size());
    }
    parts.emplace_back(std::string(rest));
    if (from_right) std::reverse(parts.begin(), parts.end());
    return parts;
  }

  Value lines(const Value& object, const std::string& name, const Arguments& given) {
    expect_arguments(given, {}, name);
    const std::string& text = *object.text();
    if (text.find_first_of("\r\v\f\x1c\x1d\x1e") != text.npos || !is_ascii(text)) fail("'splitlines' of such a text");
    List all;
    charge(text.size());
    for (size_t begin = 0; begin < text.size();) {
      step();
      const size_t end = std::min(text.find('\n', begin), text.size());
      all.emplace_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return all;
  }

  Value begins(const Value& object, const std::string& name, const Arguments& given) {
    expect_arguments(given, {"prefix"}, name);
    const Value* const what = argument(given, 0, "prefix");
    if (!what) fail("'" + name + "' without an argument");
    const List one{*what};
    const List& all = what->list() ? *what->list() : one;
    const bool at_end = name == "endswith";
    return std::any_of(all.begin(), all.end(), [&](const Value& part) {
      if (!part.text()) fail("'" + name + "' of " + kind_of(part));
      return at_end ? object.text()->ends_with(*part.text()) : object.text()->starts_with(*part.text());
    });
  }

  Value letters(const Value& object, const std::string& name, const Arguments& given) {
    expect_arguments(given, {}, name);
    const Letters how = name == "upper"   ? Letters::upper
                        : name == "lower" ? Letters::lower
                        : name == "title" ? Letters::title
                                          : Letters::capital;
    return made(in_letters(*object.text(), how));
  }

  Value replace(const Value& object, const std::string& name, const Arguments& given) {
    expect_arguments(given, {"old", "new", "count"}, name);
    const std::string old = needed_text(given, 0, "old"), by = needed_text(given, 1, "new");
    int64_t most = whole_argument(given, 2, "count").value_or(-1);
    if (old.empty()) fail("heed does not replace an empty text");
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
    expect_arguments(given, {"iterable"}, name);
    const Value* const all = argument(given, 0, "iterable");
    if (!all) fail("'join' without an argument");
    return join_items(items_of(*all), *object.text());
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
    expect_arguments(given, {"sub"}, name);
    const size_t at = object.text()->find(needed_text(given, 0, "sub"));
    return at == std::string::npos ? int64_t{-1}
                                   : std::ssize(characters_of(std::string_view(*object.text()).substr(0, at))) - 1;
  }

  Value count_text(const Value& object, const std::string& name, const Arguments& given) {
    expect_arguments(given, {"sub"}, name);
    const std::string what = needed_text(given, 0, "sub");
    if (what.empty()) fail("'count' of an empty text");
    int64_t count = 0;
    for (size_t at = 0; (at = object.text()->find(what, at)) != std::string::npos; at += what.size()) ++count;
    return count;
  }

  Value entries(const Value& object, const std::string& name, const Arguments& given) {
    expect_arguments(given, {}, name);
    List all;
    for (const auto& [key, value] : *object.dict()) {
      step();
      if (name == "items")
        all.emplace_back(List{key, value});
      else
        all.push_back(name == "keys" ? Value(key) : value);
    }
    return all;
  }

  Value get(const Value& object, const std::string& name, const Arguments& given) {
    expect_arguments(given, {"key", "default"}, name);
    const Value* const entry = find(*object.dict(), needed_text(given, 0, "key"));
    const Value* const absent = argument(given, 1, "default");
    return entry ? *entry : absent ? *absent : Value(nullptr);
  }

  // ---- Filters and tests

  Value filter(const std::string& name, const Value& input, const Arguments& given) {
    if (name == "trim") {
      expect_arguments(given, {"chars"}, name);
      return made(std::string(stripped(text_of(input), text_argument(given, 0, "chars"), true, true)));
    }
    if (name == "tojson") return to_json(input, given);
    if (name == "default" || name == "d") return or_default(input, given);
    if (name == "join") {
      expect_arguments(given, {"d"}, name);
      return join_items(items_of(input), text_argument(given, 0, "d").value_or(""));
    }
    if (name == "replace") return replace(text_of(input), name, renamed(given));
    if (name == "upper" || name == "lower" || name == "title" || name == "capitalize")
      return letters(text_of(input), name, given);
    if (name == "map") return map_items(input, given);
    if (name == "selectattr" || name == "rejectattr" || name == "select" || name == "reject")
      return chosen(name, input, given);
    expect_arguments(given, {}, name);
    if (name == "length" || name == "count") return length_of(input);
    if (name == "string") return made(text_of(input));
    if (name == "safe") return input;
    if (name == "list") return items_of(input);
    if (name == "first" || name == "last") {
      const List items = items_of(input);
      return items.empty() ? Value() : name == "first" ? items.front() : items.back();
    }
    if (name == "reverse" && input.list()) {
      List items = *input.list();
      step(std::ssize(items));
      std::reverse(items.begin(), items.end());
      return items;
    }
    if (name == "items" && input.is_undefined()) return List();
    if (name == "items" && input.dict()) return entries(input, name, {});
    if (name == "int" && whole(input)) return *whole(input);
    if (name == "unique" && input.list()) {
      List once;
      for (const Value& item : *input.list()) {
        step(1 + std::ssize(once));
        if (std::none_of(once.begin(), once.end(), [&](const Value& known) { return equal(known, item); }))
          once.push_back(item);
      }
      return once;
    }
    fail("heed does not have the filter '" + name + "' of " + kind_of(input));
  }

  // Jinja's filter names its second argument otherwise than Python's method.
  static Arguments renamed(Arguments given) {
    for (auto& [name, ignored] : given.named)
      if (name == "s") fail("heed does not have these arguments of 'replace'");
    return given;
  }

  Value to_json(const Value& input, const Arguments& given) {
    expect_arguments(given, {"ensure_ascii", "indent"}, "tojson");
    const Value* const ascii = argument(given, 0, "ensure_ascii");
    if (ascii && is_true(*ascii)) fail("heed does not have 'ensure_ascii' of 'tojson'");
    const std::optional<int64_t> indent = whole_argument(given, 1, "indent");
    if (indent && (*indent < 0 || *indent > 16)) fail("an indent of " + std::to_string(*indent));
    std::string out;
    append_json(input, indent, 0, &out);
    return made(std::move(out));
  }

  static Value or_default(const Value& input, const Arguments& given) {
    expect_arguments(given, {"default_value", "boolean"}, "default");
    const Value* const other = argument(given, 0, "default_value");
    const Value* const falsy = argument(given, 1, "boolean");
    const bool keep = falsy && is_true(*falsy) ? is_true(input) : !input.is_undefined();
    return keep ? input : other ? *other : Value("");
  }

  // map(attribute="role"), map("trim")
  Value map_items(const Value& input, Arguments given) {
    List items = items_of(input);
    const std::optional<std::string> attribute_name = text_argument(given, std::string::npos, "attribute");
    if (attribute_name &&
        (given.positional.size() > 0 || given.named.size() > 1 || attribute_name->find('.') != std::string::npos))
      fail("heed does not have these arguments of 'map'");
    if (!attribute_name && given.positional.empty()) fail("'map' without an argument");
    const std::string name = attribute_name ? *attribute_name : needed_text(given, 0, "filter");
    if (!attribute_name) given.positional.erase(given.positional.begin());
    for (Value& one : items) one = attribute_name ? item(one, name) : filter(name, one, given);
    return items;
  }

  // selectattr("role", "equalto", "user"), select("string"), and what these leave
  Value chosen(const std::string& name, const Value& input, Arguments given) {
    const bool of_attribute = name.ends_with("attr"), wanted = name.starts_with("select");
    if (!given.named.empty()) fail("heed does not have these arguments of '" + name + "'");
    const std::string key = of_attribute ? needed_text(given, 0, "attribute") : "";
    if (key.find('.') != key.npos) fail("heed does not have attributes of attributes in '" + name + "'");
    if (of_attribute) given.positional.erase(given.positional.begin());
    const std::string by = given.positional.empty() ? "" : needed_text(given, 0, "test");
    if (!by.empty()) given.positional.erase(given.positional.begin());
    List items = items_of(input);
    std::erase_if(items, [&](const Value& one) {
      const Value tested = of_attribute ? item(one, key) : one;
      return (by.empty() ? is_true(tested) : is_true(test(by, tested, given))) != wanted;
    });
    return items;
  }

  Value test(const std::string& name, const Value& input, const Arguments& given) {
    const auto other = [&]() -> const Value& {
      if (given.positional.size() != 1 || !given.named.empty()) fail("'is " + name + "' needs one argument");
      return given.positional[0];
    };
    if (name == "equalto" || name == "eq" || name == "==") return equal(input, other());
    if (name == "ne" || name == "!=") return !equal(input, other());
    if (name == "in") return contains(other(), input);
    if (name == "divisibleby") return *whole(arithmetic("%", input, other())) == 0;
    if (!given.positional.empty() || !given.named.empty())
      fail("heed does not have the test '" + name + "' with an argument");
    if (name == "defined") return !input.is_undefined();
    if (name == "undefined") return input.is_undefined();
    if (name == "none") return input.is_none();
    if (name == "string") return input.text() != nullptr;
    if (name == "mapping") return input.dict() != nullptr;
    if (name == "iterable" || name == "sequence")
      return input.text() || input.list() || input.dict() || input.is_undefined();
    if (name == "boolean") return input.boolean() != nullptr;
    if (name == "true" || name == "false") return input.boolean() && *input.boolean() == (name == "true");
    if (name == "integer") return input.integer() != nullptr;
    if (name == "float") return input.number() != nullptr;
    if (name == "number") return numeric(input).has_value();
    if (name == "callable") return input.function() != nullptr;
    if ((name == "even" || name == "odd") && whole(input)) return (*whole(input) % 2 == 0) == (name == "even");
    fail("heed does not have the test '" + name + "' of " + kind_of(input));
  }

  // ---- What every program has

  void add_globals(Scope* scope) {
    const auto add = [&](const char* name, Function function) { scope->names[name] = std::move(function); };
    add("namespace", [this](const Arguments& given) -> Value {
      if (!given.positional.empty()) fail("heed does not have these arguments of 'namespace'");
      namespaces_.push_back(std::make_shared<Namespace>(Namespace{given.named}));
      return namespaces_.back();
    });
    add("dict", [](const Arguments& given) -> Value {
      if (!given.positional.empty()) fail("heed does not have these arguments of 'dict'");
      return given.named;
    });
    add("range", [this](const Arguments& given) { return range(given); });
    add("raise_exception",
        [](const Arguments& given) -> Value { throw RaisedError(needed_text(given, 0, "message")); });
    add("strftime_now", [this](const Arguments& given) { return made(time_now(needed_text(given, 0, "format"))); });
  }

  Value range(const Arguments& given) {
    expect_arguments(given, {"start", "stop", "step"}, "range");
    const std::optional<int64_t> first = whole_argument(given, 0, "start"), second = whole_argument(given, 1, "stop");
    const int64_t by = whole_argument(given, 2, "step").value_or(1);
    if (!first || by == 0) fail("these arguments of 'range'");
    const int64_t start = second ? *first : 0, stop = second.value_or(*first);
    constexpr int64_t kLargest = int64_t{1} << 40;
    if (std::abs(start) > kLargest || std::abs(stop) > kLargest || std::abs(by) > kLargest)
      fail("a range that is too long");
    List all;
    for (int64_t i = start; by > 0 ? i < stop : i > stop; i += by) {
      step();
      all.emplace_back(i);
    }
    return all;
  }

  static std::string time_now(const std::string& format) {
    constexpr std::string_view kKnown = "aAbBdHIjmMpSyY%";
    for (size_t i = 0; (i = format.find('%', i)) != format.npos; i += 2)
      if (i + 1 == format.size() || kKnown.find(format[i + 1]) == kKnown.npos)
        fail("heed does not have this form of a date");
    constexpr size_t kLongest = 200;
    if (format.size() > kLongest) fail("a form of a date that is too long");
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    std::array<char, 16 * kLongest> text;
    return {text.data(), std::strftime(text.data(), text.size(), format.c_str(), &local)};
  }

  int64_t steps_, bytes_;  // that are left
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

Value::Value(List list) {
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

Program::Program(std::string_view source) : size_(source.size()) {
  constexpr size_t kLongest = size_t{1} << 20;
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
