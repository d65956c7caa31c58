#pragma once

#include <functional>

#include "heed/view.h"

namespace heed::inline v0 {

/// detect_terminal with its senses given: `columns` 0 where unknown, `environment` like getenv.
TerminalOptions detect_terminal(bool is_terminal, int columns,
                                const std::function<const char*(const char*)>& environment);

}  // namespace heed::inline v0
