// Parses the text of a program into statements and expressions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace heed::inline v0::jinja {

/// A statement or an expression. Each kind uses the members that are listed beside it.
struct Node {
  enum class Kind : uint8_t {
    text,         // value
    output,       // parts: what is written
    branches,     // body: branch nodes, each with parts: condition, and body; otherwise
    branch,       //
    loop,         // names: targets; parts: the iterable, then an optional filter; body; otherwise
    assign,       // names: variable, then an optional attribute; parts: the value
    capture,      // names: variable; body: what it is assigned
    inner,        // body, with its own scope
    macro,        // names: of the macro, then of its parameters; parts: defaults of the last parameters; body
    leave,        // `break`
    next,         // `continue`
    literal,      // value
    variable,     // names
    loop_part,    // names: index, ...
    list,         // parts
    tuple,        // parts
    dict,         // parts: key, value, ...
    attribute,    // parts: object; names
    item,         // parts: object, key
    slice,        // parts: object, start, stop, step
    call,         // parts: function, arguments; named
    filter,       // names; parts: input, arguments; named
    test,         // names; parts: input, arguments
    negation,     // parts
    minus,        // parts
    both,         // parts: two
    either,       // parts: two
    operation,    // names: the sign; parts: two
    conditional,  // parts: condition, value, then an optional other value
  };
  Kind kind = Kind::text;
  Value value{};
  std::vector<std::string> names{};
  std::vector<Node> parts{};
  std::vector<std::pair<std::string, Node>> named{};
  std::vector<Node> body{}, otherwise{};
  int depth = 1;  // nesting of expressions
};

/// `given`: names that a run has besides those that every run has (see names.h). Throws ProgramError.
std::vector<Node> parse(std::string_view source, std::span<const std::string> given);

}  // namespace heed::inline v0::jinja
