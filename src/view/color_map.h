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
/// The same of t in -1..1, on both sides of 0: orange below, blue above. One end is light and the other dark, so that
/// they differ in grey, too.
Rgb signed_paper_color(double t);
Rgb signed_terminal_color(double t);
/// A pixel of a picture under the weight t: the picture in grey, faded towards `ground`, and over it `color`, the
/// colour of t, the stronger the larger t is.
Rgb over_picture(Rgb pixel, double t, Rgb color, Rgb ground);
/// The nearest of the 240 fixed colours (16..255) of a 256-colour terminal.
int nearest_palette_index(Rgb color);
/// Black text or white upon this colour?
bool is_light(Rgb color);

}  // namespace heed::inline v0
