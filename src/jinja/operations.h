// Operators, and the items and entries of values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "jinja/budget.h"
#include "jinja/value.h"

namespace heed::inline v0::jinja {

/// An operator with two operands: == != < > <= >= in ~ + - * / // %
Value operation(const std::string& sign, const Value& a, const Value& b, Budget& budget);

/// Python's ==. Throws ProgramError for kinds that heed represents differently from Python: ranges, views, namespaces,
/// functions, generators.
bool equal(const Value& a, const Value& b, Budget& budget);
/// Python's `one in all`.
bool contains(const Value& all, const Value& one, Budget& budget);
/// + - * / // % of numbers.
Value arithmetic(const std::string& sign, const Value& a, const Value& b);

/// The items that a loop over the value has. Marks a generator as read.
List items_of(const Value& all, Budget& budget);
int64_t length_of(const Value& value, Budget& budget);

/// The entry of a key, or null.
const Value* look_up(const Dict& dict, const std::string& key, Budget& budget);
/// Sets the entry of a key.
void put(const std::string& key, Value value, Dict* dict, Budget& budget);

/// text[place]; undefined outside of the text.
Value character(const std::string& text, int64_t place, Budget& budget);
/// object[start:stop:step] of a text or list. Absent parts have Python's defaults.
Value slice(const Value& object, const std::array<std::optional<int64_t>, 3>& parts, Budget& budget);

}  // namespace heed::inline v0::jinja
