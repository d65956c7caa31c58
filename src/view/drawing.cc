// libheed_pictures: one drawing in cairo and pango, onto a PNG, SVG or PDF surface. All lengths are points (1/72 inch).
#include "view/drawing.h"

#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <cairo.h>
#include <pango/pangocairo.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <numbers>
#include <stdexcept>
#include <utility>

#include "view/color_map.h"

namespace heed::inline v0 {
namespace {

template <auto release>
struct Release {
  template <class T>
  void operator()(T* object) const {
    release(object);
  }
};
using Surface = std::unique_ptr<cairo_surface_t, Release<cairo_surface_destroy>>;
using Context = std::unique_ptr<cairo_t, Release<cairo_destroy>>;
using Pattern = std::unique_ptr<cairo_pattern_t, Release<cairo_pattern_destroy>>;
using TextContext = std::unique_ptr<PangoContext, Release<g_object_unref>>;
using TextLayout = std::unique_ptr<PangoLayout, Release<g_object_unref>>;
using Font = std::unique_ptr<PangoFontDescription, Release<pango_font_description_free>>;
using FontOptions = std::unique_ptr<cairo_font_options_t, Release<cairo_font_options_destroy>>;

void check(cairo_status_t status) {
  // A PNG error: libpng writes into memory here, which fails only where there is too little of it.
  if (status == CAIRO_STATUS_NO_MEMORY || status == CAIRO_STATUS_PNG_ERROR) throw std::bad_alloc();
  if (status != CAIRO_STATUS_SUCCESS) throw std::runtime_error(cairo_status_to_string(status));
}

constexpr Rgb kInk = {34, 34, 34}, kFaint = {102, 102, 102}, kFrame = {170, 170, 170}, kNotFinite = {200, 200, 200};

struct Extent {
  double width = 0, height = 0;
};

struct TextStyle {
  double scale = 1;  // of the font size
  bool bold = false;
  Rgb color = kInk;
  double limit = 0;   // width to keep to; 0: none
  bool wrap = false;  // at the limit: break lines, instead of an ellipsis
};

// The point of the text's box that stands at the given place: 0 left/top, 1 right/bottom.
struct Anchor {
  double x, y;
};

/// cairo and pango with heed's manners: unhinted text (so that every format has the same layout), colours as Rgb.
class Canvas {
 public:
  Canvas(cairo_surface_t* surface, const Drawing& drawing, double scale, bool raster)
      : cr_(cairo_create(surface)), scale_(scale), raster_(raster) {
    check(cairo_status(cr_.get()));
    cairo_scale(cr_.get(), scale, scale);
    text_.reset(pango_cairo_create_context(cr_.get()));
    const FontOptions options(cairo_font_options_create());
    cairo_font_options_set_hint_metrics(options.get(), CAIRO_HINT_METRICS_OFF);
    cairo_font_options_set_hint_style(options.get(), CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_antialias(options.get(), CAIRO_ANTIALIAS_GRAY);
    pango_cairo_context_set_font_options(text_.get(), options.get());
    pango_context_set_round_glyph_positions(text_.get(), FALSE);
    font_.reset(pango_font_description_from_string(drawing.font.c_str()));
    size_ = drawing.font_size;
  }

  cairo_t* cairo() const { return cr_.get(); }
  bool raster() const { return raster_; }
  double pixel() const { return 1 / scale_; }
  /// A pixel's edge where there are pixels: cells then have no blurred seams.
  double snap(double x) const { return raster_ ? std::round(x * scale_) / scale_ : x; }

  void color(Rgb c) const { cairo_set_source_rgb(cr_.get(), c.red / 255.0, c.green / 255.0, c.blue / 255.0); }
  void fill(double x, double y, double width, double height, Rgb c) const {
    color(c);
    cairo_rectangle(cr_.get(), x, y, width, height);
    cairo_fill(cr_.get());
  }
  void line(double x0, double y0, double x1, double y1, double width, Rgb c) const {
    color(c);
    cairo_set_line_width(cr_.get(), width);
    cairo_move_to(cr_.get(), x0, y0);
    cairo_line_to(cr_.get(), x1, y1);
    cairo_stroke(cr_.get());
  }

  bool has_glyphs(const std::string& text) const {
    return pango_layout_get_unknown_glyphs_count(layout(text, {}).get()) == 0;
  }

  Extent measure(const std::string& text, const TextStyle& style = {}) const {
    const PangoRectangle box = extents(layout(text, style).get());
    return {static_cast<double>(box.width) / PANGO_SCALE, static_cast<double>(box.height) / PANGO_SCALE};
  }

  void write(double x, double y, const std::string& text, Anchor anchor, const TextStyle& style = {},
             double angle = 0) const {
    const TextLayout l = layout(text, style);
    const PangoRectangle box = extents(l.get());
    cairo_save(cr_.get());
    cairo_translate(cr_.get(), x, y);
    cairo_rotate(cr_.get(), angle);
    cairo_move_to(cr_.get(), -(box.x + anchor.x * box.width) / PANGO_SCALE,
                  -(box.y + anchor.y * box.height) / PANGO_SCALE);
    color(style.color);
    pango_cairo_show_layout(cr_.get(), l.get());
    cairo_restore(cr_.get());
  }

 private:
  static PangoRectangle extents(PangoLayout* layout) {
    PangoRectangle logical;
    pango_layout_get_extents(layout, nullptr, &logical);
    return logical;
  }

  TextLayout layout(const std::string& text, const TextStyle& style) const {
    TextLayout l(pango_layout_new(text_.get()));
    const Font font(pango_font_description_copy(font_.get()));
    pango_font_description_set_absolute_size(font.get(), size_ * style.scale * PANGO_SCALE);
    if (style.bold) pango_font_description_set_weight(font.get(), PANGO_WEIGHT_BOLD);
    pango_layout_set_font_description(l.get(), font.get());
    pango_layout_set_text(l.get(), text.data(), static_cast<int>(text.size()));
    if (style.limit > 0 && extents(l.get()).width > style.limit * PANGO_SCALE) {
      pango_layout_set_width(l.get(), static_cast<int>(style.limit * PANGO_SCALE));
      if (style.wrap)
        pango_layout_set_wrap(l.get(), PANGO_WRAP_WORD_CHAR);
      else
        pango_layout_set_ellipsize(l.get(), PANGO_ELLIPSIZE_END);
    }
    return l;
  }

  Context cr_;
  TextContext text_;
  Font font_;
  double size_ = 0, scale_ = 1;
  bool raster_ = false;
};

enum class KeyLabels { level, slanted, upright };

struct Layout {
  double width = 0, height = 0;  // of the picture
  double left = 0, top = 0;      // of the first panel
  double cell_width = 0, cell_height = 0;
  double panel_width = 0, panel_height = 0, column_gap = 0, row_gap = 0;
  double grid_width = 0, grid_height = 0;
  KeyLabels key_labels = KeyLabels::level;
  int64_t key_step = 1, query_step = 1;  // every n-th label is shown
  double line_height = 0, query_label_width = 0, key_label_width = 0, key_label_height = 0, label_limit = 0;
  double bar_left = 0, bar_width = 0, bar_height = 0, bar_tick_width = 0;
  double notes_top = 0;
  bool empty = false;
};

class Painter {
 public:
  explicit Painter(const Drawing& drawing) : d_(drawing), em_(drawing.font_size) {}

  Layout arrange(const Canvas& canvas) const;
  void paint(const Canvas& canvas, const Layout& layout) const;

 private:
  void shape_patches(double span, bool fitted, Layout* layout) const;
  void stack(const Canvas& canvas, double axis_height, Layout* layout) const;
  bool has_picture() const { return d_.picture.height > 0; }
  bool keys_below() const { return !d_.panel_titles.empty(); }  // a grid has its panel titles above
  double gap() const { return 0.4 * em_; }                      // between labels and what they name
  std::string bar_label(double weight) const {
    std::array<char, 32> buffer;
    std::snprintf(buffer.data(), buffer.size(), "%.4g", weight);
    return buffer.data();
  }
  TextStyle title_style(double width) const {
    return {.scale = 1.2, .bold = true, .limit = width - 2 * em_, .wrap = true};
  }
  TextStyle axis_style() const { return {.scale = 0.95, .color = kFaint}; }
  TextStyle note_style(double width) const {
    return {.scale = 0.85, .color = kFaint, .limit = width - 2 * em_, .wrap = true};
  }
  std::vector<std::string> notes(const Layout& layout) const {
    std::vector<std::string> lines = d_.notes;
    if (layout.empty) lines.emplace_back("no weights");
    return lines;
  }

  void paint_panel(const Canvas& canvas, const Layout& layout, int64_t panel, double x, double y) const;
  void paint_cells(const Canvas& canvas, const Layout& layout, const double* values, double x, double y) const;
  void paint_image(const Canvas& canvas, const Layout& layout, const double* values, double x, double y) const;
  void paint_picture(const Canvas& canvas, const Layout& layout, int64_t panel, double x, double y) const;
  Rgb picture_color(int64_t row, int64_t column, const double* values) const;
  void paint_query_labels(const Canvas& canvas, const Layout& layout, double x, double y) const;
  void paint_key_labels(const Canvas& canvas, const Layout& layout, double x, double y) const;
  void paint_bar(const Canvas& canvas, const Layout& layout) const;
  double scale_from() const { return d_.is_signed ? -1 : 0; }  // of the scale, in parts of its maximum
  Rgb color_of(double t) const { return d_.is_signed ? signed_paper_color(t) : paper_color(t); }
  Rgb cell_color(double weight) const { return std::isfinite(weight) ? color_of(weight / d_.maximum) : kNotFinite; }

  const Drawing& d_;
  double em_;
};

// Patches have the shape that they have in the picture, and fill the room of a panel.
void Painter::shape_patches(double span, bool fitted, Layout* l) const {
  const auto rows = static_cast<double>(d_.queries), columns = static_cast<double>(d_.keys);
  const double shape =
      static_cast<double>(d_.picture.height) * columns / (static_cast<double>(d_.picture.width) * rows);
  if (!fitted) l->cell_width = std::min(span / columns, 1.5 * span / (rows * shape));
  l->cell_height = l->cell_width * shape;
}

// What stands below what: title, labels, grid and bar, notes.
void Painter::stack(const Canvas& canvas, double axis_height, Layout* l) const {
  l->top = em_;
  if (!d_.title.empty()) l->top += canvas.measure(d_.title, title_style(l->width)).height + 0.8 * em_;
  const double key_space = l->key_label_height + gap() + (d_.key_axis.empty() ? 0 : axis_height);
  l->top += keys_below() ? l->line_height + gap() : key_space;
  const double content = std::max(l->grid_height + (keys_below() ? key_space : 0), l->bar_height);
  l->notes_top = l->top + content + 0.8 * em_;
  l->height = l->top + content + em_;
  if (const auto lines = notes(*l); !lines.empty()) {
    l->height = l->notes_top + em_;
    for (const std::string& line : lines) l->height += canvas.measure(line, note_style(l->width)).height;
  }
}

Layout Painter::arrange(const Canvas& canvas) const {
  Layout l;
  l.empty = d_.panels == 0 || d_.queries == 0 || d_.keys == 0;
  const bool fitted = d_.width > 0;
  l.label_limit = fitted ? std::min(14 * em_, 0.3 * d_.width) : 14 * em_;
  l.line_height = canvas.measure("Ag").height;
  const auto widest = [&](const std::vector<std::string>& labels) {
    double width = 0;
    for (const std::string& text : labels) {
      const Extent size = canvas.measure(text, {.limit = l.label_limit});
      width = std::max(width, size.width);
      l.line_height = std::max(l.line_height, size.height);
    }
    return width;
  };
  l.query_label_width = widest(d_.query_labels);
  l.key_label_width = widest(d_.key_labels);

  const auto queries = static_cast<double>(std::max<int64_t>(d_.queries, 1));
  const auto keys = static_cast<double>(std::max<int64_t>(d_.keys, 1));
  const double axis_height = 1.5 * em_;
  const double left = em_ + (d_.row_titles.empty() ? 0 : 1.7 * em_) + (d_.query_axis.empty() ? 0 : axis_height) +
                      l.query_label_width + gap();
  for (double tick = 0; tick <= d_.maximum * (1 + 1e-9); tick += d_.tick)
    l.bar_tick_width = std::max(l.bar_tick_width, canvas.measure(bar_label(d_.is_signed ? -tick : tick)).width);
  l.bar_width = em_;
  const double bar_space = 1.4 * em_ + l.bar_width + gap() + l.bar_tick_width + axis_height;
  l.column_gap = 1.4 * em_;
  l.row_gap = (keys_below() ? l.line_height : 0) + 1.2 * em_;

  // Slanted labels reach past the panels: to the right above them, to the left below them.
  const double slant = std::numbers::sqrt2 / 2;
  const double reach = slant * (l.key_label_width + l.line_height / 2);
  const double columns = d_.columns;
  const double span = d_.columns == 1 && d_.rows == 1 ? 56 * em_ : std::max(14 * em_, 60 * em_ / columns);
  const double largest_cell = d_.columns == 1 && d_.rows == 1 ? 2.4 * em_ : 1.4 * em_;
  const double upright_room = 1.05 * l.line_height;

  double right = bar_space, left_space = left;
  for (const KeyLabels style : {KeyLabels::level, KeyLabels::slanted, KeyLabels::upright}) {
    l.key_labels = style;
    right = bar_space;
    left_space = left;
    if (style == KeyLabels::slanted) {
      if (keys_below())
        left_space = std::max(left, reach + em_);
      else
        right = std::max(bar_space, reach);
    }
    if (fitted) {
      const double room = d_.width - left_space - right - em_ - (columns - 1) * l.column_gap;
      l.cell_width = std::min(room / (columns * keys), has_picture() ? room : 4 * em_);
    } else {
      l.cell_width = std::min({largest_cell, span / keys, std::max(upright_room, 1.5 * span / queries)});
    }
    if (style == KeyLabels::level && l.key_label_width + 0.4 * em_ <= l.cell_width) break;
    if (style == KeyLabels::slanted && l.line_height <= l.cell_width * slant) break;
  }
  if (l.cell_width * keys < 2 * em_ && fitted) {
    const double needed = left_space + right + em_ + (columns - 1) * l.column_gap + 2 * em_ * columns;
    throw std::runtime_error("a width of " + bar_label(d_.width / 72 * 25.4) +
                             " mm leaves no room beside the labels; pass " + bar_label(std::ceil(needed / 72 * 25.4)) +
                             " mm or more, fewer columns, or a smaller font");
  }
  if (has_picture())
    shape_patches(span, fitted, &l);
  else
    l.cell_height = std::min(std::max(l.cell_width, std::min(upright_room, span / queries)), 1.5 * span / queries);
  l.key_step = l.key_labels == KeyLabels::upright ? static_cast<int64_t>(std::ceil(l.line_height / l.cell_width)) : 1;
  l.query_step = static_cast<int64_t>(std::ceil(l.line_height / l.cell_height));
  l.key_label_height = l.key_labels == KeyLabels::level     ? l.line_height
                       : l.key_labels == KeyLabels::slanted ? reach
                                                            : l.key_label_width;

  if (has_picture()) l.key_label_height = 0;
  if (l.empty) l.cell_width = l.cell_height = 0;
  l.panel_width = keys * l.cell_width;
  l.panel_height = queries * l.cell_height;
  l.grid_width = columns * l.panel_width + (columns - 1) * l.column_gap;
  l.grid_height = d_.rows * l.panel_height + (d_.rows - 1) * l.row_gap;
  const double wanted = left_space + l.grid_width + right + em_;
  l.width = fitted ? d_.width : wanted;
  l.left = left_space + (l.width - wanted) / 2;
  l.bar_left = l.left + l.grid_width + 1.4 * em_;
  l.bar_height = std::clamp(l.grid_height, 6 * em_, 16 * em_);

  stack(canvas, axis_height, &l);
  return l;
}

void Painter::paint(const Canvas& canvas, const Layout& l) const {
  canvas.color({255, 255, 255});
  cairo_paint(canvas.cairo());
  if (!d_.title.empty()) canvas.write(em_, em_, d_.title, {0, 0}, title_style(l.width));
  double y = l.notes_top;
  for (const std::string& line : notes(l)) {
    canvas.write(em_, y, line, {0, 0}, note_style(l.width));
    y += canvas.measure(line, note_style(l.width)).height;
  }
  if (l.empty) return;

  for (int64_t panel = 0; panel < d_.panels; ++panel) {
    const int64_t column = panel % d_.columns, row = panel / d_.columns;
    const double x = l.left + static_cast<double>(column) * (l.panel_width + l.column_gap);
    y = l.top + static_cast<double>(row) * (l.panel_height + l.row_gap);
    paint_panel(canvas, l, panel, x, y);
    if (column == 0) paint_query_labels(canvas, l, x, y);
    const bool lowest = panel + d_.columns >= d_.panels;
    if (keys_below() ? lowest : row == 0) paint_key_labels(canvas, l, x, y + (keys_below() ? l.panel_height : 0));
    if (column == 0 && static_cast<size_t>(row) < d_.row_titles.size())
      canvas.write(l.left - l.query_label_width - gap() - (d_.query_axis.empty() ? 0 : 1.5 * em_) - 0.3 * em_,
                   y + l.panel_height / 2, d_.row_titles[static_cast<size_t>(row)], {0.5, 1}, {.bold = true},
                   -std::numbers::pi / 2);
  }
  const double middle_x = l.left + l.grid_width / 2, middle_y = l.top + l.grid_height / 2;
  if (!d_.query_axis.empty())
    canvas.write(l.left - l.query_label_width - gap() - 0.4 * em_, middle_y, d_.query_axis, {0.5, 1}, axis_style(),
                 -std::numbers::pi / 2);
  if (!d_.key_axis.empty()) {
    const double away = l.key_label_height + gap() + 0.3 * em_;
    canvas.write(middle_x, keys_below() ? l.top + l.grid_height + away : l.top - away, d_.key_axis,
                 {0.5, keys_below() ? 0.0 : 1.0}, axis_style());
  }
  paint_bar(canvas, l);
}

void Painter::paint_panel(const Canvas& canvas, const Layout& l, int64_t panel, double x, double y) const {
  const double* values = d_.values.data() + panel * d_.queries * d_.keys;  // (queries, keys)
  if (static_cast<size_t>(panel) < d_.panel_titles.size())
    canvas.write(x, y - gap(), d_.panel_titles[static_cast<size_t>(panel)], {0, 1});
  // Many cells as vector shapes make files of megabytes that viewers choke on.
  constexpr int64_t most_shapes = 40000;
  if (has_picture())
    paint_picture(canvas, l, panel, x, y);
  else if (d_.queries * d_.keys * d_.panels > most_shapes)
    paint_image(canvas, l, values, x, y);
  else
    paint_cells(canvas, l, values, x, y);
  canvas.color(kFrame);
  cairo_set_line_width(canvas.cairo(), 0.5);
  cairo_rectangle(canvas.cairo(), x, y, l.panel_width, l.panel_height);
  cairo_stroke(canvas.cairo());
}

void Painter::paint_cells(const Canvas& canvas, const Layout& l, const double* values, double x, double y) const {
  cairo_t* cr = canvas.cairo();
  cairo_save(cr);
  cairo_rectangle(cr, canvas.snap(x), canvas.snap(y), canvas.snap(x + l.panel_width) - canvas.snap(x),
                  canvas.snap(y + l.panel_height) - canvas.snap(y));
  cairo_clip(cr);
  // Large cells are set apart by white lines. Small ones touch: in vector formats each reaches a little under its
  // successors, or viewers let the paper shine through between them.
  const bool apart = std::min(l.cell_width, l.cell_height) >= em_;
  const double extra = apart ? -std::max(0.5, canvas.raster() ? canvas.pixel() : 0) : canvas.raster() ? 0 : 0.3;
  const Rgb nothing = color_of(0);
  if (!apart) canvas.fill(x, y, l.panel_width, l.panel_height, nothing);
  for (int64_t query = 0; query < d_.queries; ++query) {
    const double top = canvas.snap(y + static_cast<double>(query) * l.cell_height);
    const double bottom = canvas.snap(y + static_cast<double>(query + 1) * l.cell_height);
    for (int64_t key = 0; key < d_.keys; ++key) {
      const double weight = values[query * d_.keys + key];
      const Rgb color = cell_color(weight);
      if (!apart && color == nothing) continue;
      const double left = canvas.snap(x + static_cast<double>(key) * l.cell_width);
      const double right = canvas.snap(x + static_cast<double>(key + 1) * l.cell_width);
      const double edge_x = apart && key + 1 == d_.keys ? 0 : extra;
      const double edge_y = apart && query + 1 == d_.queries ? 0 : extra;
      canvas.fill(left, top, right - left + edge_x, bottom - top + edge_y, color);
      if (!std::isfinite(weight) && apart) {
        canvas.line(left, top, right, bottom, 0.5, kFaint);
        canvas.line(left, bottom, right, top, 0.5, kFaint);
      }
    }
  }
  cairo_restore(cr);
}

// Fills the panel at (x, y) with a picture of so many pixels.
template <class Color>
void paint_pixels(const Canvas& canvas, const Layout& l, int width, int height, cairo_filter_t filter, double x,
                  double y, const Color& color) {
  const Surface image(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height));
  check(cairo_surface_status(image.get()));
  cairo_surface_flush(image.get());
  unsigned char* data = cairo_image_surface_get_data(image.get());
  const int stride = cairo_image_surface_get_stride(image.get());
  for (int row = 0; row < height; ++row) {
    auto* line = reinterpret_cast<uint32_t*>(data + static_cast<ptrdiff_t>(row) * stride);
    for (int column = 0; column < width; ++column) {
      const Rgb c = color(row, column);
      line[column] = static_cast<uint32_t>(c.red) << 16 | static_cast<uint32_t>(c.green) << 8 | c.blue;
    }
  }
  cairo_surface_mark_dirty(image.get());
  cairo_t* cr = canvas.cairo();
  cairo_save(cr);
  cairo_rectangle(cr, x, y, l.panel_width, l.panel_height);
  cairo_clip(cr);
  cairo_translate(cr, x, y);
  cairo_scale(cr, l.panel_width / width, l.panel_height / height);
  cairo_set_source_surface(cr, image.get(), 0, 0);
  cairo_pattern_set_filter(cairo_get_source(cr), filter);
  cairo_pattern_set_extend(cairo_get_source(cr), CAIRO_EXTEND_PAD);  // edges are not blurred into the paper
  cairo_paint(cr);
  cairo_restore(cr);
}

void Painter::paint_image(const Canvas& canvas, const Layout& l, const double* values, double x, double y) const {
  // Viewers of vector formats smooth embedded pictures; cells of several pixels keep their edges all the same.
  const int64_t pixels =
      canvas.raster() ? 1 : std::clamp<int64_t>(1600 / std::max(d_.queries, d_.keys), int64_t{1}, int64_t{16});
  paint_pixels(canvas, l, static_cast<int>(d_.keys * pixels), static_cast<int>(d_.queries * pixels),
               CAIRO_FILTER_NEAREST, x, y,
               [&](int row, int column) { return cell_color(values[row / pixels * d_.keys + column / pixels]); });
}

// A pixel of the picture; with `values` (queries, keys) under the weight of its patch.
Rgb Painter::picture_color(int64_t row, int64_t column, const double* values) const {
  const uint8_t* const rgb = d_.picture.rgb.data() + (row * d_.picture.width + column) * 3;
  const Rgb pixel = {rgb[0], rgb[1], rgb[2]};
  if (!values) return pixel;
  const double weight = values[row * d_.queries / d_.picture.height * d_.keys + column * d_.keys / d_.picture.width];
  if (!std::isfinite(weight)) return kNotFinite;
  const double t = weight / d_.maximum;
  return over_picture(pixel, t, paper_color(t), {255, 255, 255});
}

void Painter::paint_picture(const Canvas& canvas, const Layout& l, int64_t panel, double x, double y) const {
  const bool alone = d_.picture_alone && panel == 0;
  const double* const values = alone ? nullptr : d_.values.data() + panel * d_.queries * d_.keys;
  // Small pictures keep their pixels' edges, and patches theirs.
  constexpr int64_t sharp = 256;
  const int64_t times = std::max<int64_t>(1, sharp / std::max(d_.picture.height, d_.picture.width));
  paint_pixels(canvas, l, static_cast<int>(d_.picture.width * times), static_cast<int>(d_.picture.height * times),
               CAIRO_FILTER_GOOD, x, y,
               [&](int row, int column) { return picture_color(row / times, column / times, values); });
  if (d_.framed < 0 || (d_.picture_alone && !alone)) return;
  cairo_t* cr = canvas.cairo();
  for (const auto& [color, width] : {std::pair<Rgb, double>{{255, 255, 255}, 2}, {{0, 0, 0}, 1}}) {
    canvas.color(color);
    cairo_set_line_width(cr, width);
    cairo_rectangle(cr, x + static_cast<double>(d_.framed % d_.keys) * l.cell_width,
                    y + static_cast<double>(d_.framed / d_.keys) * l.cell_height, l.cell_width, l.cell_height);
    cairo_stroke(cr);
  }
}

void Painter::paint_query_labels(const Canvas& canvas, const Layout& l, double x, double y) const {
  for (int64_t query = 0; query < std::ssize(d_.query_labels); query += l.query_step) {
    const double middle = y + (static_cast<double>(query) + 0.5) * l.cell_height;
    canvas.write(x - gap(), middle, d_.query_labels[static_cast<size_t>(query)], {1, 0.5}, {.limit = l.label_limit});
    if (l.query_step > 1) canvas.line(x - 0.25 * em_, middle, x, middle, 0.4, kFrame);
  }
}

void Painter::paint_key_labels(const Canvas& canvas, const Layout& l, double x, double y) const {
  const double away = keys_below() ? gap() : -gap();
  for (int64_t key = 0; key < std::ssize(d_.key_labels); key += l.key_step) {
    const double middle = x + (static_cast<double>(key) + 0.5) * l.cell_width;
    const std::string& text = d_.key_labels[static_cast<size_t>(key)];
    const TextStyle style = {.limit = l.label_limit};
    const double end = keys_below() ? 1 : 0;  // which end of a turned label stands at the cell
    switch (l.key_labels) {
      case KeyLabels::level:
        canvas.write(middle, y + away, text, {0.5, keys_below() ? 0.0 : 1.0}, style);
        break;
      case KeyLabels::slanted:
        // The end of the text's baseline, not the corner of its box, looks right over the cell's middle.
        canvas.write(middle + (keys_below() ? 0.3 : -0.3) * em_, y + away, text, {end, 0.5}, style,
                     -std::numbers::pi / 4);
        break;
      case KeyLabels::upright:
        canvas.write(middle, y + away, text, {end, 0.5}, style, -std::numbers::pi / 2);
        break;
    }
    if (l.key_step > 1) canvas.line(middle, y, middle, y + 0.6 * away, 0.4, kFrame);
  }
}

void Painter::paint_bar(const Canvas& canvas, const Layout& l) const {
  const Pattern gradient(cairo_pattern_create_linear(0, l.top + l.bar_height, 0, l.top));
  constexpr int stops = 32;
  for (int i = 0; i <= stops; ++i) {
    const double t = static_cast<double>(i) / stops;
    const Rgb c = color_of(scale_from() + t * (1 - scale_from()));
    cairo_pattern_add_color_stop_rgb(gradient.get(), t, c.red / 255.0, c.green / 255.0, c.blue / 255.0);
  }
  cairo_t* cr = canvas.cairo();
  cairo_rectangle(cr, l.bar_left, l.top, l.bar_width, l.bar_height);
  cairo_set_source(cr, gradient.get());
  cairo_fill_preserve(cr);
  canvas.color(kFrame);
  cairo_set_line_width(cr, 0.5);
  cairo_stroke(cr);
  const double right = l.bar_left + l.bar_width;
  const auto ticks = static_cast<int>(std::floor(d_.maximum / d_.tick * (1 + 1e-9)));
  for (int i = d_.is_signed ? -ticks : 0; i <= ticks; ++i) {
    const double weight = i * d_.tick;
    const double y = l.top + l.bar_height * (1 - (weight / d_.maximum - scale_from()) / (1 - scale_from()));
    canvas.line(right, y, right + 0.25 * em_, y, 0.5, kFrame);
    canvas.write(right + gap(), y, bar_label(weight), {0, 0.5});
  }
  canvas.write(right + gap() + l.bar_tick_width + 0.3 * em_, l.top + l.bar_height / 2, d_.value, {0.5, 0}, axis_style(),
               -std::numbers::pi / 2);
}

cairo_status_t append(void* bytes, const unsigned char* data, unsigned int length) {
  try {
    static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), length);
    return CAIRO_STATUS_SUCCESS;
  } catch (const std::exception&) {  // none may cross cairo's C
    return CAIRO_STATUS_NO_MEMORY;
  }
}

std::string escape_xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// cairo writes letters as outlines: the words themselves go into <title> and <desc>, for search and screen readers.
void describe_svg(const Drawing& drawing, std::string* bytes) {
  const size_t tag = bytes->find("<svg");
  const size_t end = tag == std::string::npos ? tag : bytes->find('>', tag);
  if (end == std::string::npos) return;
  const auto words = [](const std::string& axis, const std::vector<std::string>& labels) {
    std::string line = axis + ":";
    for (const std::string& label : labels) line += " " + label;
    return line + "\n";
  };
  std::string text = words(drawing.query_axis.empty() ? "query" : drawing.query_axis, drawing.query_labels) +
                     words(drawing.key_axis.empty() ? "key" : drawing.key_axis, drawing.key_labels);
  if (drawing.picture.height > 0)
    text = "weights of " + std::to_string(drawing.queries) + " x " + std::to_string(drawing.keys) +
           " patches over a picture\n";
  for (const std::string& note : drawing.notes) text += note + "\n";
  const std::string title = drawing.title.empty() ? "attention" : drawing.title;
  bytes->insert(end + 1, "\n<title>" + escape_xml(title) + "</title>\n<desc>" + escape_xml(text) + "</desc>");
}

Surface make_surface(const Drawing& drawing, const Layout& layout, std::string* bytes) {
  switch (drawing.format) {
    case PictureFormat::png: {
      const double width = std::round(layout.width * drawing.dpi / 72);
      const double height = std::round(layout.height * drawing.dpi / 72);
      constexpr double longest_side = 32767;  // cairo's limit
      constexpr double most_pixels = 2.5e8;   // 1 GB of memory
      if (width > longest_side || height > longest_side || width * height > most_pixels)
        throw std::runtime_error(std::to_string(static_cast<int64_t>(width)) + " x " +
                                 std::to_string(static_cast<int64_t>(height)) +
                                 " pixels are too many for a PNG; pass a smaller width or dpi, or write SVG or PDF");
      return Surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width), static_cast<int>(height)));
    }
    case PictureFormat::svg:
      return Surface(cairo_svg_surface_create_for_stream(append, bytes, layout.width, layout.height));
    case PictureFormat::pdf: {
      Surface surface(cairo_pdf_surface_create_for_stream(append, bytes, layout.width, layout.height));
      cairo_pdf_surface_set_metadata(surface.get(), CAIRO_PDF_METADATA_TITLE, drawing.title.c_str());
      cairo_pdf_surface_set_metadata(surface.get(), CAIRO_PDF_METADATA_CREATOR, "heed");
      // No date: equal maps give equal bytes.
      cairo_pdf_surface_set_metadata(surface.get(), CAIRO_PDF_METADATA_CREATE_DATE, "");
      return surface;
    }
  }
  throw std::runtime_error("unknown format");
}

void draw(const Drawing& drawing, std::string* bytes) {
  const Painter painter(drawing);
  const bool raster = drawing.format == PictureFormat::png;
  const double scale = raster ? drawing.dpi / 72 : 1;
  Layout layout;
  {
    const Surface scratch(cairo_image_surface_create(CAIRO_FORMAT_RGB24, 1, 1));
    const Canvas canvas(scratch.get(), drawing, scale, raster);
    if (!canvas.has_glyphs("0")) throw std::runtime_error(kNoFont);  // pango would draw boxes, and say nothing
    layout = painter.arrange(canvas);
  }
  const Surface surface = make_surface(drawing, layout, bytes);
  check(cairo_surface_status(surface.get()));
  {
    const Canvas canvas(surface.get(), drawing, scale, raster);
    painter.paint(canvas, layout);
    check(cairo_status(canvas.cairo()));
  }
  if (raster) check(cairo_surface_write_to_png_stream(surface.get(), append, bytes));
  cairo_surface_finish(surface.get());
  check(cairo_surface_status(surface.get()));
  if (drawing.format == PictureFormat::svg) describe_svg(drawing, bytes);
}

}  // namespace
}  // namespace heed::inline v0

// Exceptions stay inside: the program and this library may differ in their run time.
extern "C" __attribute__((visibility("default"))) bool heed_draw_3(const heed::Drawing& drawing, std::string* bytes,
                                                                   std::string* failure) {
  try {
    heed::draw(drawing, bytes);
    return true;
  } catch (const std::bad_alloc&) {
    failure->clear();
  } catch (const std::exception& reason) {
    *failure = reason.what();
  }
  return false;
}
