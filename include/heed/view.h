// Look at attention: maps in the terminal, as PNG, SVG and PDF, and what a head does in six numbers.
//
// Terminal maps and statistics need nothing but Unicode tables. Pictures are drawn by cairo and pango, which
// libheed_pictures brings in the first time one of the render_png/svg/pdf functions is called.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/tensor.h"

namespace heed::inline v0 {

/// Weights with the words they belong to.
struct AttentionMap {
  /// (Lq, Lk) one head, (H, Lq, Lk) a row of heads, or (N, H, Lq, Lk) layers x heads; any floating dtype, any strides.
  Tensor weights;
  std::vector<std::string> query_labels;  // Lq of them, UTF-8; none: positions 0, 1, ...
  std::vector<std::string> key_labels;    // Lk of them, likewise
  std::string title;
};

// ---------------------------------------------------------------------------------------------- terminal

enum class TerminalColor : uint8_t { none, palette256, true_color };

struct TerminalOptions {
  int width = 80;  // columns; below 20 counts as 20
  TerminalColor color = TerminalColor::none;
  bool unicode = true;  // false: ASCII only, other characters as \u{1F600}
  double maximum = 0;   // weight at the top of the scale; 0: the largest weight, rounded up to a round number
};

/// What the terminal behind a file descriptor can do. Colour needs a terminal, TERM other than empty, "dumb" or
/// "vt...", and NO_COLOR absent or empty; COLORTERM=truecolor|24bit or a TERM ending in "-direct" gives 24 bits.
/// Unicode needs a UTF-8 locale (LC_ALL, LC_CTYPE, LANG). The width is the terminal's, else COLUMNS, else 80.
TerminalOptions detect_terminal(int fd);

/// The map as lines of text, each ended by a newline and none wider than options.width. One head is drawn with its
/// labels: a coloured cell for each weight, or a digit (d stands for d/10 to (d+1)/10 of the scale) without colour;
/// keys that do not fit continue in blocks below. Several heads are drawn as thumbnails without labels, two queries a
/// line where half blocks can be. Control characters in labels come out escaped. Notes below the map say which rows do
/// not sum to 1 and how many weights are not finite.
/// Throws ShapeError: a rank other than 2, 3, 4; labels that differ in number from the weights; a dtype that is not
/// floating.
std::string render_terminal(const AttentionMap& map, const TerminalOptions& options = {});

// ---------------------------------------------------------------------------------------------- pictures

enum class LengthUnit : uint8_t { pixels, millimetres };

struct PictureOptions {
  double width = 0;  // of the whole picture; 0: as wide as it wants to be
  LengthUnit unit = LengthUnit::pixels;
  double dpi = 200;      // pixels to the inch
  double font_size = 8;  // points (1/72 inch)
  std::string font = "sans-serif";
  std::string query_axis = "query";  // empty: no name beside the axis
  std::string key_axis = "key";
  int columns = 0;     // heads in a row, for (H, Lq, Lk); 0: up to 4. (N, H, Lq, Lk) has one row a layer
  double maximum = 0;  // weight at the top of the scale; 0: the largest weight, rounded up to a round number
};

/// The picture as the bytes of a file. The same drawing in each format: a panel for each head, shared labels, one scale
/// with a colour bar, notes as in the terminal. Labels are never drawn over each other: on long axes every n-th is
/// shown. Axes of more than 1024 cells are pooled: a cell then shows the largest weight it stands for.
/// Throws ShapeError as render_terminal does, and for a width, dpi or font size out of range; Error where
/// libheed_pictures cannot be loaded.
std::string render_png(const AttentionMap& map, const PictureOptions& options = {});
std::string render_svg(const AttentionMap& map, const PictureOptions& options = {});
std::string render_pdf(const AttentionMap& map, const PictureOptions& options = {});

// ---------------------------------------------------------------------------------------------- statistics

/// Each is a mean over those queries for which the key in question exists, 0 where there is none.
struct HeadStatistics {
  double diagonal_mass = 0;  // weight of key i for query i
  double entropy = 0;        // -sum w ln w of a row, in nats; ln(Lk) at most
  double mean_distance = 0;  // sum w |query - key| of a row, in positions
  double previous_mass = 0;  // weight of key i - 1
  double next_mass = 0;      // weight of key i + 1
  double first_mass = 0;     // weight of key 0
};

/// weights (Lq, Lk), floating. A NaN gives NaN. Throws ShapeError for another rank or dtype.
HeadStatistics statistics(const Tensor& weights);

}  // namespace heed::inline v0
