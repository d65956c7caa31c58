// The functions that every program has: namespace, dict, range, raise_exception, strftime_now.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "jinja/budget.h"
#include "jinja/value.h"

namespace heed::inline v0::jinja {

/// The values of a scope by their names.
using Variables = std::map<std::string, Value, std::less<>>;

/// Adds the functions to a scope. They append each namespace that they make to `namespaces`: namespaces can hold each
/// other, and so the run empties them at its end. The arguments must outlive the functions.
void add_globals(Budget& budget, std::vector<std::shared_ptr<Namespace>>& namespaces, Variables* to);

}  // namespace heed::inline v0::jinja
