// Looking at attention for Python: heed/_view.py has the signatures and the documentation.
#include "define.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "heed/io.h"
#include "heed/view.h"
#include "options.h"
#include "values.h"

namespace heed::python {
namespace {

using Names = std::vector<std::string>;

/// What is outside of int stays outside of every range.
int small(const char* what, nb::handle value, const char* limits) {
  return static_cast<int>(std::clamp<int64_t>(integer(what, value, limits), -1, 1 << 20));
}

TerminalOptions terminal(nb::handle width, int color, bool unicode) {
  TerminalOptions options;
  options.width = small("AttentionMap: width", width, "a number of columns");
  options.color = static_cast<TerminalColor>(color);
  options.unicode = unicode;
  return options;
}

PictureOptions picture_options(nb::handle width, bool millimetres, nb::handle dpi, nb::handle font_size,
                               const std::string& font, nb::handle columns, nb::handle maximum) {
  PictureOptions options;
  options.width = number("AttentionMap: width", width);
  options.unit = millimetres ? LengthUnit::millimetres : LengthUnit::pixels;
  options.dpi = number("AttentionMap: dpi", dpi);
  options.font_size = number("AttentionMap: font_size", font_size);
  options.font = font;
  options.columns = small("AttentionMap: columns", columns, "0 to 1024");
  options.maximum = number("AttentionMap: maximum", maximum);
  return options;
}

/// What `render` gives, as the bytes of a file.
template <class Render>
nb::bytes file_of(Render render) {
  std::string file;
  try {
    const nb::gil_scoped_release others_may_run;
    file = render();
  } catch (const ShapeError&) {
    throw;
  } catch (const MemoryError&) {
    throw;
  } catch (const Error& error) {  // no library that draws
    throw IoError(error.what());
  }
  return nb::bytes(file.data(), file.size());
}

/// Columns and colours of the terminal behind standard output, else 80 and none.
std::pair<int, int> detected() {
  const TerminalOptions options = detect_terminal(STDOUT_FILENO);
  return {options.width, static_cast<int>(options.color)};
}

/// (..., L, D) of one head or a row of heads as (N, H, L, D); others as they are.
Tensor with_layers(const Tensor& x) {
  if (x.rank() == 2) return x.reshape({1, 1, x.size(0), x.size(1)});
  return x.rank() == 3 ? x.reshape({1, x.size(0), x.size(1), x.size(2)}) : x;
}

/// The map of one call: it keeps the memory of the weights alive.
class Map {
 public:
  Map(nb::handle weights, Names queries, Names keys, std::string title, Names heads)
      : map_{take("AttentionMap: weights", weights), std::move(queries), std::move(keys), std::move(title),
             std::move(heads)} {
    check();
  }

  /// What the weights were made of, each with the leading dimensions of the weights; k and v may have fewer heads.
  void add_vectors(nb::handle q_array, nb::handle k_array, nb::handle v_array, nb::handle scale, nb::handle mask) {
    const Tensor q = take("AttentionMap: q of vectors", q_array), k = take("AttentionMap: k of vectors", k_array),
                 v = take("AttentionMap: v of vectors", v_array);
    const Tensor w = with_layers(map_.weights), q4 = with_layers(q), k4 = with_layers(k), v4 = with_layers(v);
    const auto belongs = [&](const Tensor& x, const Tensor& x4) {
      return x.rank() == map_.weights.rank() && x4.size(0) == w.size(0) && is_floating(x.dtype());
    };
    if (!belongs(q, q4) || !belongs(k, k4) || !belongs(v, v4) || q4.size(1) != w.size(1) || k4.size(1) < 1 ||
        w.size(1) % k4.size(1) != 0 || v4.size(1) != k4.size(1) || q4.size(2) != w.size(2) || k4.size(2) != w.size(3) ||
        v4.size(2) != w.size(3) || q4.size(3) != k4.size(3))
      throw ShapeError(
          "AttentionMap: vectors " + to_string(q.shape()) + ", " + to_string(k.shape()) + ", " + to_string(v.shape()) +
          " for weights " + to_string(map_.weights.shape()) +
          "; pass floating q (H, Lq, D), k (Hkv, Lk, D) and v (Hkv, Lk, Dv), of layers (N, H, Lq, D) and so "
          "on, of one head (Lq, D) and so on");
    for (int64_t layer = 0; layer < w.size(0); ++layer)
      vectors_.push_back({q4.select(0, layer), k4.select(0, layer), v4.select(0, layer)});
    if (!scale.is_none()) {
      scale_ = number("AttentionMap: scale", scale);
      if (scale_ == 0 || !std::isfinite(scale_))
        throw ShapeError("AttentionMap: scale is " + shown(scale) +
                         "; pass what attention() had, None for 1 / sqrt(D)");
    }
    mask_ = take_optional("AttentionMap: mask", mask);
    if (mask_.defined() && (mask_.dtype() != DType::boolean || !(mask_.shape() == Dims{w.size(2), w.size(3)})))
      throw ShapeError("AttentionMap: mask " + to_string(mask_.shape()) + " of " + name_of(mask_.dtype()) +
                       "; pass booleans " + to_string(Dims{w.size(2), w.size(3)}) + ", true may be attended");
  }

  /// The last rows * columns tokens are patches of it.
  void set_picture(nb::handle picture, nb::handle rows, nb::handle columns) {
    picture_ = take("AttentionMap: picture", picture);
    rows_ = integer("AttentionMap: patches", rows, "1 or more rows");
    columns_ = integer("AttentionMap: patches", columns, "1 or more columns");
  }

  PageGroup group(std::string name) const {
    PageGroup group;
    group.name = std::move(name);
    group.map = map_;
    group.vectors = vectors_;
    group.scale = scale_;
    group.mask = mask_;
    group.picture = picture_;
    group.picture_rows = rows_, group.picture_columns = columns_;
    return group;
  }

  std::string text(nb::handle width, int color, bool unicode) const {
    const TerminalOptions options = terminal(width, color, unicode);
    const nb::gil_scoped_release others_may_run;
    return render_terminal(map_, options);
  }

  std::string top_text(int64_t count, nb::handle width, int color, bool unicode) const {
    const TerminalOptions options = terminal(width, color, unicode);
    const nb::gil_scoped_release others_may_run;
    return render_top(map_, count, options);
  }

  /// (key, weight) of each query's largest weights.
  std::vector<std::vector<std::pair<int64_t, double>>> top(nb::handle number) const {
    const int64_t count = integer("AttentionMap.top: count", number, "1 or more");
    const nb::gil_scoped_release others_may_run;
    std::vector<std::vector<std::pair<int64_t, double>>> rows;
    for (const std::vector<KeyWeight>& row : top_keys(map_.weights, count)) {
      rows.emplace_back();
      for (const auto& [key, weight] : row) rows.back().emplace_back(key, weight);
    }
    return rows;
  }

  /// Into (heads of all layers, 6) float64, contiguous.
  void statistics_into(nb::handle array) const {
    const Tensor into = take("AttentionMap.statistics", array, Access::write);
    const nb::gil_scoped_release others_may_run;
    const Tensor& w = map_.weights;
    const Tensor heads = w.reshape({into.size(0), w.size(-2), w.size(-1)});
    for (int64_t h = 0; h < heads.size(0); ++h) {
      const HeadStatistics s = statistics(heads.select(0, h));
      const double row[] = {s.diagonal_mass, s.entropy, s.mean_distance, s.previous_mass, s.next_mass, s.first_mass};
      std::copy(std::begin(row), std::end(row), into.data<double>() + 6 * h);
    }
  }

  /// The bytes of a PNG, SVG or PDF. `width` is in pixels, or in millimetres.
  nb::bytes picture(const std::string& format, nb::handle width, bool millimetres, nb::handle dpi, nb::handle font_size,
                    const std::string& font, const std::string& query_axis, const std::string& key_axis,
                    nb::handle columns, nb::handle maximum) const {
    PictureOptions options = picture_options(width, millimetres, dpi, font_size, font, columns, maximum);
    options.query_axis = query_axis;
    options.key_axis = key_axis;
    const auto render = format == "png" ? render_png : format == "svg" ? render_svg : render_pdf;
    return file_of([&] { return render(map_, options); });
  }

 private:
  /// Throws what drawing would, without reading the weights.
  void check() const {
    const Tensor& w = map_.weights;
    AttentionMap no_layer = map_;
    if (w.rank() >= 2 && w.rank() <= 4)
      no_layer.weights = Tensor::empty({0, w.rank() == 2 ? 1 : w.size(-3), w.size(-2), w.size(-1)}, w.dtype());
    try {
      odd_weights(no_layer);
    } catch (const ShapeError& error) {  // which begins with the name of the function
      throw ShapeError("AttentionMap" + std::string(std::strchr(error.what(), ':')));
    }
  }

  AttentionMap map_;
  std::vector<PageVectors> vectors_;  // one a layer, or none
  double scale_ = 0;                  // 0: 1 / sqrt(D)
  Tensor mask_;
  Tensor picture_;  // undefined: tokens are no patches
  int64_t rows_ = 0, columns_ = 0;
};

/// Weights over a picture, for the time of a call.
class Patches {
 public:
  Patches(nb::handle weights, nb::handle picture, int64_t from, std::string title, Names heads, Names notes)
      : map_{take("PatchMap: weights", weights),
             take("PatchMap: picture", picture),
             from,
             std::move(title),
             std::move(heads),
             std::move(notes)} {}

  std::string text(nb::handle width, int color, bool unicode) const {
    const TerminalOptions options = terminal(width, color, unicode);
    const nb::gil_scoped_release others_may_run;
    return render_overlay_terminal(map_, options);
  }

  nb::bytes picture(const std::string& format, nb::handle width, bool millimetres, nb::handle dpi, nb::handle font_size,
                    const std::string& font, nb::handle columns, nb::handle maximum) const {
    const PictureOptions options = picture_options(width, millimetres, dpi, font_size, font, columns, maximum);
    const auto render = format == "png"   ? render_overlay_png
                        : format == "svg" ? render_overlay_svg
                                          : render_overlay_pdf;
    return file_of([&] { return render(map_, options); });
  }

 private:
  PatchMap map_;
};

nb::any png_pixels(nb::handle place) {
  const std::string from = path("read_png: path", place);
  Tensor pixels;
  {
    const nb::gil_scoped_release others_may_run;
    pixels = read_png(from);
  }
  return nb::borrow<nb::any>(give(pixels, nb::none()));
}

std::string page(const std::vector<std::pair<std::string, const Map*>>& maps, std::string title, std::string text) {
  Page page{.title = std::move(title), .text = std::move(text)};
  for (const auto& [name, map] : maps) page.groups.push_back(map->group(name));
  const nb::gil_scoped_release others_may_run;
  return render_html(page);
}

/// `path` in the bytes of the file system.
void write_file(const nb::bytes& path, const nb::bytes& content) {
  const std::string to(path.c_str(), path.size());
  const std::string_view bytes(content.c_str(), content.size());
  const nb::gil_scoped_release others_may_run;
  write_file_atomically(to, bytes);
}

}  // namespace

void define_view(nb::module_& m) {
  const auto any = [](const char* name) { return nb::arg(name).none(); };
  nb::class_<Map>(m, "Map", "An attention map for the time of a call.")
      .def(nb::init<nb::handle, Names, Names, std::string, Names>(), any("weights"), nb::arg("queries"),
           nb::arg("keys"), nb::arg("title"), nb::arg("heads"))
      .def("add_vectors", &Map::add_vectors, any("q"), any("k"), any("v"), any("scale"), any("mask"))
      .def("set_picture", &Map::set_picture, any("picture"), any("rows"), any("columns"))
      .def("text", &Map::text, any("width"), nb::arg("color"), nb::arg("unicode"))
      .def("top", &Map::top, any("count"))
      .def("top_text", &Map::top_text, nb::arg("count"), any("width"), nb::arg("color"), nb::arg("unicode"))
      .def("statistics_into", &Map::statistics_into, nb::arg("array"))
      .def("picture", &Map::picture, nb::arg("format"), any("width"), nb::arg("millimetres"), any("dpi"),
           any("font_size"), nb::arg("font"), nb::arg("query_axis"), nb::arg("key_axis"), any("columns"),
           any("maximum"));
  nb::class_<Patches>(m, "Patches", "Weights over a picture for the time of a call.")
      .def(nb::init<nb::handle, nb::handle, int64_t, std::string, Names, Names>(), any("weights"), any("picture"),
           nb::arg("from_patch"), nb::arg("title"), nb::arg("heads"), nb::arg("notes"))
      .def("text", &Patches::text, any("width"), nb::arg("color"), nb::arg("unicode"))
      .def("picture", &Patches::picture, nb::arg("format"), any("width"), nb::arg("millimetres"), any("dpi"),
           any("font_size"), nb::arg("font"), any("columns"), any("maximum"));
  m.def("read_png", &png_pixels, any("path"));
  m.def("page", &page, nb::arg("maps"), nb::arg("title"), nb::arg("text"));
  m.def("terminal", &detected);
  m.def("write_file", &write_file, nb::arg("path"), nb::arg("content"));
}

}  // namespace heed::python
