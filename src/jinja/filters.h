// Filters and tests.
#pragma once

#include <string>

#include "jinja/budget.h"
#include "jinja/value.h"

namespace heed::inline v0::jinja {

/// {{ input | name(given) }}
Value filter(const std::string& name, const Value& input, const Arguments& given, Budget& budget);
/// {{ input is name(given) }}
Value test(const std::string& name, const Value& input, const Arguments& given, Budget& budget);

}  // namespace heed::inline v0::jinja
