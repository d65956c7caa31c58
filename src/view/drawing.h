// What libheed_pictures is asked to draw: everything checked and resolved, so that it needs no other part of
// heed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heed::inline v0 {

enum class PictureFormat : uint8_t { png, svg, pdf };

/// The pixels of a picture.
struct Pixels {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;  // (height, width, 3)
};

struct Drawing {
  PictureFormat format = PictureFormat::png;
  double width = 0;  // points; 0: natural
  double dpi = 200;
  double font_size = 8;  // points
  std::string font;
  int rows = 1, columns = 1;  // of panels; the last row may be short
  int64_t panels = 1, queries = 0, keys = 0;
  std::vector<double> values;  // (panels, queries, keys)
  double maximum = 1, tick = 0.2;
  bool is_signed = false;                             // the scale goes from -maximum to maximum
  std::string value = "weight";                       // what it is a scale of
  std::vector<std::string> query_labels, key_labels;  // printable
  std::vector<std::string> panel_titles, row_titles;  // one each, or none
  std::string title, query_axis, key_axis;
  std::vector<std::string> notes;
  /// Where there is one, queries and keys are rows and columns of its patches, without labels; panels show it below the
  /// weights.
  Pixels picture;
  bool picture_alone = false;  // the first panel shows nothing else
  int64_t framed = -1;         // a patch; -1: none
};

/// What `failure` says where there is nothing to write words with.
inline constexpr const char* kNoFont = "no font is installed; install one, fonts-dejavu-core on Debian";

/// Renders into `bytes`; false where that failed, with the reason in `failure`, which is empty for too little memory.
using DrawFunction = bool (*)(const Drawing& drawing, std::string* bytes, std::string* failure);

/// The symbol of the library. Change its number with the structs above: a stale library is then refused.
inline constexpr const char* kDrawSymbol = "heed_draw_3";
inline constexpr const char* kPicturesLibrary = "libheed_pictures.so.1";

}  // namespace heed::inline v0
