// Pictures, without cairo: checks, resolves, and hands the drawing to libheed_pictures.
#include <algorithm>
#include <cmath>

#include "heed/label.h"
#include "heed/view.h"
#include "view/panels.h"
#include "view/pictures_library.h"

namespace heed::inline v0 {
namespace {

constexpr int64_t kMaximumCells = 1024;   // along an axis: about what a page can show
constexpr int kMaximumLabelColumns = 48;  // display columns

void check_range(const char* what, double value, double lowest, double highest) {
  if (!(value >= lowest && value <= highest))
    throw ShapeError(std::string("picture: ") + what + " " + format_weight(value) + " is out of range; pass " +
                     format_weight(lowest) + " to " + format_weight(highest));
}

// All but the panels.
Drawing drawing_of(const PictureOptions& options, PictureFormat format) {
  check_range("dpi", options.dpi, 10, 2400);
  check_range("font size", options.font_size, 1, 100);
  check_range("columns", options.columns, 0, 1024);
  Drawing drawing;
  drawing.format = format;
  drawing.dpi = options.dpi;
  drawing.font_size = options.font_size;
  drawing.font = options.font;
  drawing.width = options.unit == LengthUnit::pixels ? options.width * 72 / options.dpi : options.width * 72 / 25.4;
  if (options.width != 0) check_range("width in inches", drawing.width / 72, 0.5, 200);
  return drawing;
}

// `first`: panels in front of those of the heads.
void add_panels(Panels panels, const PictureOptions& options, int64_t first, Drawing& drawing) {
  if (panels.count() > 4096)
    throw ShapeError("picture: " + std::to_string(panels.count()) + " heads are more than 4096; pass fewer");
  pool(&panels, kMaximumCells);
  if (panels.rank == 4) {
    drawing.columns = static_cast<int>(panels.heads);
    for (int64_t layer = 0; layer < panels.layers; ++layer)
      drawing.row_titles.push_back("layer " + std::to_string(layer + 1));
  } else {
    const int wanted = options.columns > 0 ? options.columns : 4;
    drawing.columns = static_cast<int>(std::min<int64_t>(first + panels.heads, wanted));
  }
  drawing.columns = std::max(drawing.columns, 1);
  drawing.rows = static_cast<int>((first + panels.count() + drawing.columns - 1) / drawing.columns);
  if (panels.rank > 2)
    for (int64_t i = 0; i < panels.count(); ++i)
      drawing.panel_titles.push_back(
          truncate(panels.head_labels[static_cast<size_t>(i % panels.heads)], kMaximumLabelColumns));
  drawing.panels = first + panels.count();
  drawing.queries = panels.queries;
  drawing.keys = panels.keys;
  drawing.values = std::move(panels.values);
  drawing.values.insert(drawing.values.begin(), static_cast<size_t>(first * panels.queries * panels.keys), 0.0);
  drawing.maximum = panels.maximum;
  drawing.tick = tick_step(panels.maximum);
  drawing.is_signed = panels.is_signed;
  if (!panels.shares) drawing.value = "value";
  for (const std::string& label : panels.query_labels)
    drawing.query_labels.push_back(truncate(label, kMaximumLabelColumns));
  for (const std::string& label : panels.key_labels)
    drawing.key_labels.push_back(truncate(label, kMaximumLabelColumns));
  drawing.title = truncate(panels.title, 400);
  drawing.notes = std::move(panels.notes);
}

std::string drawn(const Drawing& drawing) {
  static const auto draw = reinterpret_cast<DrawFunction>(pictures_symbol("picture", kDrawSymbol));
  std::string bytes, failure;
  if (draw(drawing, &bytes, &failure)) return bytes;
  if (failure.empty()) throw MemoryError("picture: there is too little memory to draw it; try a smaller one");
  if (failure == kNoFont) throw Error("picture: " + failure);
  throw ShapeError("picture: " + failure);
}

std::string render(const AttentionMap& map, const PictureOptions& options, PictureFormat format) {
  Drawing drawing = drawing_of(options, format);
  add_panels(make_panels(map, "picture", options.maximum), options, 0, drawing);
  drawing.query_axis = truncate(printable(options.query_axis), kMaximumLabelColumns);
  drawing.key_axis = truncate(printable(options.key_axis), kMaximumLabelColumns);
  return drawn(drawing);
}

std::string render_overlay(const PatchMap& map, const PictureOptions& options, PictureFormat format) {
  Drawing drawing = drawing_of(options, format);
  Panels panels = patch_panels(map, "picture", options.maximum);
  drawing.picture_alone = panels.rank < 4;
  add_panels(std::move(panels), options, drawing.picture_alone ? 1 : 0, drawing);
  drawing.query_labels.clear(), drawing.key_labels.clear();
  if (drawing.picture_alone && !drawing.panel_titles.empty())
    drawing.panel_titles.insert(drawing.panel_titles.begin(), "picture");
  const Tensor pixels = map.picture.contiguous();
  drawing.picture = {pixels.size(0), pixels.size(1), {pixels.data<uint8_t>(), pixels.data<uint8_t>() + pixels.numel()}};
  drawing.framed = map.from;
  return drawn(drawing);
}

}  // namespace

std::string render_png(const AttentionMap& map, const PictureOptions& options) {
  return render(map, options, PictureFormat::png);
}
std::string render_svg(const AttentionMap& map, const PictureOptions& options) {
  return render(map, options, PictureFormat::svg);
}
std::string render_pdf(const AttentionMap& map, const PictureOptions& options) {
  return render(map, options, PictureFormat::pdf);
}
std::string render_overlay_png(const PatchMap& map, const PictureOptions& options) {
  return render_overlay(map, options, PictureFormat::png);
}
std::string render_overlay_svg(const PatchMap& map, const PictureOptions& options) {
  return render_overlay(map, options, PictureFormat::svg);
}
std::string render_overlay_pdf(const PatchMap& map, const PictureOptions& options) {
  return render_overlay(map, options, PictureFormat::pdf);
}

}  // namespace heed::inline v0
