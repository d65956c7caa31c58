// The colour map: from white paper over yellow, green and blue to a near black indigo. Made in OKLab (B. Ottosson,
// 2020) with lightness falling evenly, so it survives a greyscale printer and every kind of colour blindness.
#pragma once

#include <cstdint>

namespace heed::inline v0 {

struct Rgb {
  uint8_t red, green, blue;
  bool operator==(const Rgb&) const = default;
};

/// The colour of t in 0..1 on paper: 0 light, 1 dark. Values outside are clamped.
Rgb paper_color(double t);
/// On a terminal: 0 dark, 1 light; the same colours the other way round.
Rgb terminal_color(double t);
/// The nearest of the 240 fixed colours (16..255) of a 256-colour terminal.
int nearest_palette_index(Rgb color);
/// Black text or white upon this colour?
bool is_light(Rgb color);

}  // namespace heed::inline v0
