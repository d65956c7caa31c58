// JSON as Python's json.dumps() writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "jinja/budget.h"
#include "jinja/value.h"

namespace heed::inline v0::jinja {

/// json.dumps(value, ensure_ascii=False, indent=indent). Throws ProgramError for values that JSON does not have.
std::string written_as_json(const Value& value, std::optional<int64_t> indent, Budget& budget);

}  // namespace heed::inline v0::jinja
