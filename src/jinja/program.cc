#include "jinja/program.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "jinja/filters.h"
#include "jinja/globals.h"
#include "jinja/methods.h"
#include "jinja/operations.h"
#include "jinja/parser.h"
#include "text/unicode.h"

namespace heed::inline v0::jinja {
namespace {

using Kind = Node::Kind;

// Bounds of a run: a part for any program, and a part for each byte of the program and its variables.
constexpr int64_t kSteps = 1'000'000;
constexpr int64_t kBytes = int64_t{16} << 20;
constexpr int64_t kBytesPerByte = 256, kStepsPerByte = 4;
constexpr int kDeepestCall = 20;

// A loop's items and its position in them: what `loop` gives the program.
struct Loop {
  const List& items;
  int64_t at;
};

// The names of a scope. Loops and macros have their own scope inside the enclosing one.
struct Scope {
  const Scope* around = nullptr;  // the enclosing scope
  Variables names{};
  const Loop* loop = nullptr;
};

// How a statement ends: normally, or by `break` or `continue`.
enum class Flow : uint8_t { on, leave, next };

// One run of a program.
class Run {
 public:
  Run(int64_t steps, int64_t bytes) : budget_(steps, bytes) {}
  ~Run() {
    for (const auto& names : namespaces_) names->entries.clear();  // they may hold each other
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  std::string all(const std::vector<Node>& body, const Dict& variables) {
    Scope scope;
    add_globals(budget_, namespaces_, &scope.names);
    for (const auto& [name, value] : variables) scope.names[name] = value;
    Scope own{.around = &scope};
    std::string out;
    statements(body, own, &out);
    return out;
  }

 private:
  // ---- Statements

  Flow statements(const std::vector<Node>& all, Scope& scope, std::string* out) {
    for (const Node& one : all)
      if (const Flow flow = statement(one, scope, out); flow != Flow::on) return flow;
    return Flow::on;
  }

  Flow statement(const Node& s, Scope& scope, std::string* out) {
    budget_.step();
    switch (s.kind) {
      case Kind::text:
        budget_.append(*s.value.text(), out);
        return Flow::on;
      case Kind::output:
        budget_.append(text_of(value(s.parts[0], scope)), out);
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
    put(s.names[1], std::move(given), &object->names()->entries, budget_);
  }

  // Null for an undefined name.
  const Value* known(const Scope& innermost, const std::string& name) {
    for (const Scope* scope = &innermost; scope; scope = scope->around) {
      if (const auto at = scope->names.find(name); at != scope->names.end()) return &at->second;
      budget_.step();
    }
    return nullptr;
  }

  Flow loop(const Node& s, Scope& scope, std::string* out) {
    List items = items_of(value(s.parts[0], scope), budget_);
    if (s.parts.size() > 1)
      std::erase_if(items, [&](const Value& item) {
        Scope own{.around = &scope};
        bind(s.names, item, &own);
        return !is_true(value(s.parts[1], own));
      });
    bool finished = false;  // the body reached its end at least once
    for (int64_t i = 0; i < std::ssize(items); ++i) {
      budget_.step();
      const Loop here{.items = items, .at = i};
      Scope own{.around = &scope, .loop = &here};
      bind(s.names, items[static_cast<size_t>(i)], &own);
      const Flow flow = statements(s.body, own, out);
      finished = finished || flow == Flow::on;
      if (flow == Flow::leave) break;
    }
    if (finished) return Flow::on;
    Scope own{.around = &scope};
    return statements(s.otherwise, own, out);  // `break` and `continue` here end the enclosing loop
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

  // The parser allows macros in the outermost scope only. It lives as long as the run, and so does `scope`.
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
    budget_.step();
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
        return budget_.made(std::move(list), e.kind == Kind::list ? Sequence::list : Sequence::tuple);
      }
      case Kind::dict: {
        Dict dict;
        for (size_t i = 0; i < e.parts.size(); i += 2) {
          const Value key = value(e.parts[i], scope);
          if (!key.text()) fail("a key that is " + kind_of(key));
          put(*key.text(), value(e.parts[i + 1], scope), &dict, budget_);
        }
        return dict;
      }
      case Kind::attribute:
        return attribute(object_of(e, scope), e.names[0], budget_);
      case Kind::item: {
        const Value object = object_of(e, scope);
        return item(object, value(e.parts[1], scope), budget_);
      }
      case Kind::slice:
        return slice(e, scope);
      case Kind::call:
        return call(e, scope);
      case Kind::filter:
      case Kind::test: {
        const Value input = value(e.parts[0], scope);  // before the arguments: macros can change namespaces
        const Arguments given = arguments(e, scope);
        return (e.kind == Kind::filter ? filter : test)(e.names[0], input, given, budget_);
      }
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
      case Kind::operation: {
        const Value left = value(e.parts[0], scope);
        return operation(e.names[0], left, value(e.parts[1], scope), budget_);
      }
      case Kind::conditional:
        if (is_true(value(e.parts[0], scope))) return value(e.parts[1], scope);
        return e.parts.size() > 2 ? value(e.parts[2], scope) : Value();
      default:
        fail("an expression is missing");
    }
  }

  // Evaluates all parts after the first as arguments.
  Arguments arguments(const Node& e, Scope& scope) {
    Arguments all;
    for (size_t i = 1; i < e.parts.size(); ++i) all.positional.push_back(value(e.parts[i], scope));
    for (const auto& [name, part] : e.named) all.named.emplace_back(name, value(part, scope));
    return all;
  }

  Value slice(const Node& e, Scope& scope) {
    const Value object = value(e.parts[0], scope);
    std::array<std::optional<int64_t>, 3> given;
    for (size_t i = 0; i < 3; ++i) {
      const Value part = value(e.parts[i + 1], scope);
      given[i] = whole(part);
      if (!given[i] && !part.is_none()) fail("a slice by " + kind_of(part));
    }
    return jinja::slice(object, given, budget_);
  }

  Value call(const Node& e, Scope& scope) {
    const Node& what = e.parts[0];
    Value function;
    if (what.kind == Kind::attribute) {
      const Value object = object_of(what, scope);
      if (const Method method = method_of(object, what.names[0]))
        return method(object, what.names[0], arguments(e, scope), budget_);
      function = attribute(object, what.names[0], budget_);
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

  Budget budget_;
  int calls_ = 0;  // open calls of macros
  std::vector<std::shared_ptr<Namespace>> namespaces_{};
};

template <class Visit>
void each_node(const Node& node, const Visit& visit) {
  visit(node);
  for (const std::vector<Node>* inner : {&node.parts, &node.body, &node.otherwise})
    for (const Node& part : *inner) each_node(part, visit);
  for (const auto& [name, part] : node.named) each_node(part, visit);
}

}  // namespace

Program::Program(std::string_view source, std::span<const std::string> tokens) : size_(source.size()) {
  constexpr size_t kLongest = size_t{1} << 17;
  if (!valid_utf8(source)) fail("it is not UTF-8");
  if (source.size() > kLongest)
    fail("it has " + std::to_string(source.size()) + " bytes, more than " + std::to_string(kLongest));
  body_ = std::make_shared<const std::vector<Node>>(parse(source, tokens));
}

std::set<std::string> Program::reads() const {
  std::set<std::string> names;
  const auto read = [&](const Node& node) {
    if (node.kind == Kind::variable) names.insert(node.names[0]);
  };
  for (const Node& node : *body_) each_node(node, read);
  return names;
}

std::set<std::string> Program::sets() const {
  std::set<std::string> names;
  const auto set = [&](const Node& node) {
    const bool is_variable = node.kind == Kind::assign && node.names.size() == 1;
    if (is_variable || node.kind == Kind::capture || node.kind == Kind::loop || node.kind == Kind::macro)
      names.insert(node.names.begin(), node.names.end());
  };
  for (const Node& node : *body_) each_node(node, set);
  return names;
}

std::string Program::run(const Dict& variables) const {
  size_t size = size_;
  for (const auto& [name, value] : variables) size += name.size() + size_of(value);
  const auto bytes = static_cast<int64_t>(size);
  return Run(kSteps + kStepsPerByte * bytes, kBytes + kBytesPerByte * bytes).all(*body_, variables);
}

}  // namespace heed::inline v0::jinja
