// Methods and attributes of values.
#pragma once

#include <string>

#include "jinja/budget.h"
#include "jinja/characters.h"
#include "jinja/value.h"

namespace heed::inline v0::jinja {

/// A method of texts or dictionaries. One function can have several names: `name` says which one is called.
using Method = Value (*)(const Value& object, const std::string& name, const Arguments& given, Budget& budget);
/// Null for a method that heed does not have.
Method method_of(const Value& object, const std::string& name);

/// object.name; undefined for an absent attribute.
Value attribute(const Value& object, const std::string& name, Budget& budget);
/// object[key], which also finds attributes; undefined for an absent item.
Value item(const Value& object, const Value& key, Budget& budget);

// ---- Methods that are filters, too

/// `characters` as in stripped().
Value trim(const std::string& text, const std::string* characters, bool left, bool right, Budget& budget);
/// upper, lower, title or capitalize. `title`: which letters title() makes upper case.
Value in_case(const std::string& text, const std::string& name, Letters title, Budget& budget);
Value replace(const Value& text, const std::string& name, const Arguments& given, Budget& budget);
Value join_items(const List& items, const std::string& between, Budget& budget);
/// items, keys or values of a dictionary: a view.
Value entries(const Value& dict, const std::string& name, const Arguments& given, Budget& budget);

}  // namespace heed::inline v0::jinja
