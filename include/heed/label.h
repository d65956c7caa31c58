// Labels: made printable, measured and cut by display width.
#pragma once

#include <string>
#include <string_view>

#include "heed/cpp20.h"

namespace heed::inline v0 {

/// Printable UTF-8: control characters, line separators and direction overrides become escapes as in C++ sources, with
/// braces around a code; malformed bytes become U+FFFD. With `ascii`, all else outside ASCII becomes such an escape,
/// too.
std::string printable(std::string_view label, bool ascii = false);

/// Columns of printable text in a terminal.
int display_width(std::string_view text);

/// At most `width` columns: cut between graphemes, with an ellipsis ("…", or "~" with `ascii`) in the last column.
std::string truncate(std::string_view text, int width, bool ascii = false);

/// Right to left script? A terminal then needs a mark after it to keep what follows in its place.
bool has_right_to_left(std::string_view text);

}  // namespace heed::inline v0
