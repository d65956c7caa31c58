#include "view/panels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "heed/label.h"

namespace heed::inline v0 {
namespace {

void check_labels(const std::vector<std::string>& labels, int64_t count, const std::string& operation, const char* one,
                  const char* many) {
  if (!labels.empty() && static_cast<int64_t>(labels.size()) != count)
    throw ShapeError(operation + ": " + std::to_string(labels.size()) + " " + one + " labels for " +
                     std::to_string(count) + " " + many + "; pass one for each, or none");
}

std::vector<std::string> make_labels(const std::vector<std::string>& labels, int64_t count, bool ascii) {
  std::vector<std::string> out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(labels.empty() ? std::to_string(i) : printable(labels[static_cast<size_t>(i)], ascii));
  return out;
}

std::string plural(int64_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

// Half precision weights of a thousand keys still sum to 1 within this.
constexpr double kRowSumTolerance = 2e-3;

// Relative rounding of a single precision weight, with room.
constexpr double kRounding = 1e-6;

// Of patches a row of the picture is no row of weights, and sums to nothing in particular.
void inspect(Panels* panels) {
  int64_t not_finite = 0, below = 0, blind = 0, uneven = 0;
  std::string first_uneven;
  for (int64_t row = 0; row < panels->count() * panels->queries; ++row) {
    const double* weights = panels->values.data() + row * panels->keys;
    double sum = 0;
    int64_t bad = 0;
    for (int64_t key = 0; key < panels->keys; ++key) {
      if (!std::isfinite(weights[key])) {
        ++bad;
        continue;
      }
      sum += weights[key];
      below += weights[key] < 0;
    }
    not_finite += bad;
    if (bad > 0 || panels->patches || !panels->shares) continue;
    const bool all_zero = std::all_of(weights, weights + panels->keys, [](double w) { return w == 0; });
    if (all_zero) {
      ++blind;
    } else if (std::abs(sum - 1) > kRowSumTolerance) {
      if (uneven++ == 0)
        first_uneven =
            "query " + std::to_string(panels->first_query + row % panels->queries) + " sums to " + format_weight(sum);
    }
  }
  if (uneven > 0)
    panels->notes.push_back(plural(uneven, "row", "rows") + (uneven == 1 ? " does" : " do") + " not sum to 1 (" +
                            first_uneven + ")");
  if (blind > 0) panels->notes.push_back(plural(blind, "row", "rows") + (blind == 1 ? " is" : " are") + " all zero");
  if (not_finite > 0)
    panels->notes.push_back(plural(not_finite, "weight", "weights") + (not_finite == 1 ? " is" : " are") +
                            " not finite");
  if (below > 0 && panels->shares)
    panels->notes.push_back(plural(below, "weight", "weights") + (below == 1 ? " is" : " are") + " below 0");
}

void check_picture(const PatchMap& map, const std::string& operation) {
  const Tensor &weights = map.weights, &picture = map.picture;
  if (!picture.defined() || picture.rank() != 3 || picture.size(2) != 3 || picture.dtype() != DType::u8)
    throw ShapeError(
        operation + ": a picture " +
        (picture.defined() ? to_string(picture.shape()) + " of " + name_of(picture.dtype()) : "(undefined)") +
        "; pass (height, width, 3) of u8");
  if (weights.size(-2) < 1 || weights.size(-1) < 1 || weights.size(-2) > picture.size(0) ||
      weights.size(-1) > picture.size(1))
    throw ShapeError(operation + ": " + std::to_string(weights.size(-2)) + " x " + std::to_string(weights.size(-1)) +
                     " patches in a picture of " + std::to_string(picture.size(0)) + " x " +
                     std::to_string(picture.size(1)) + " pixels; pass one at least, and no more than pixels");
  if (map.from < -1 || map.from >= weights.size(-2) * weights.size(-1))
    throw ShapeError(operation + ": there is no patch " + std::to_string(map.from) +
                     "; they are numbered from 0, row by row");
}

Panels panels_of(const AttentionMap& map, const std::string& operation, double maximum, bool ascii, bool patches,
                 int64_t first_query) {
  if (!(maximum >= 0) || !std::isfinite(maximum))
    throw ShapeError(operation + ": maximum " + format_weight(maximum) + " is no weight; pass 0 or more");

  const Tensor& weights = map.weights;
  Panels panels;
  panels.patches = patches;
  panels.shares = map.shares;
  panels.first_query = first_query;
  panels.rank = weights.rank();
  panels.queries = weights.size(-2);
  panels.keys = weights.size(-1);
  panels.heads = weights.rank() > 2 ? weights.size(-3) : 1;
  panels.layers = weights.rank() > 3 ? weights.size(-4) : 1;
  panels.query_labels = make_labels(map.query_labels, panels.queries, ascii);
  panels.key_labels = make_labels(map.key_labels, panels.keys, ascii);
  for (int64_t h = 0; h < panels.heads; ++h)
    panels.head_labels.push_back(map.head_labels.empty() ? "head " + std::to_string(h + 1)
                                                         : printable(map.head_labels[static_cast<size_t>(h)], ascii));
  panels.title = printable(map.title, ascii);
  const Tensor values = weights.to(DType::f64).contiguous();
  panels.values.assign(values.data<double>(), values.data<double>() + values.numel());
  inspect(&panels);

  panels.is_signed = !patches && std::any_of(panels.values.begin(), panels.values.end(),
                                             [](double w) { return std::isfinite(w) && w < 0; });
  double largest = 0;
  for (const double w : panels.values)
    if (std::isfinite(w)) largest = std::max(largest, panels.is_signed ? std::abs(w) : w);
  if (maximum > 0) {
    panels.maximum = maximum;
    if (largest > maximum * (1 + kRounding))
      panels.notes.push_back("the largest weight, " + format_weight(largest) + ", is above the scale");
  } else if (largest > 1e-300) {
    const double step = tick_step(largest);
    panels.maximum = step * std::ceil(largest / step * (1 - kRounding));  // 0.4 as a float is a little more
  }
  return panels;
}

}  // namespace

std::string format_weight(double weight) {
  std::array<char, 32> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%.3g", weight);
  return buffer.data();
}

double tick_step(double maximum) {
  const double raw = maximum / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw * (1 - kRounding)) return factor * power;
  return 10 * power;
}

void check_map(const AttentionMap& map, const std::string& operation) {
  const Tensor& weights = map.weights;
  if (!weights.defined()) throw ShapeError(operation + ": the map has no weights; pass (Lq, Lk) of them");
  if (weights.rank() < 2 || weights.rank() > 4)
    throw ShapeError(operation + ": weights " + to_string(weights.shape()) +
                     " are no map; pass (Lq, Lk), (H, Lq, Lk) or (N, H, Lq, Lk)");
  if (!is_floating(weights.dtype()))
    throw ShapeError(operation + ": weights are " + name_of(weights.dtype()) + "; pass floating ones");
  check_labels(map.query_labels, weights.size(-2), operation, "query", "queries");
  check_labels(map.key_labels, weights.size(-1), operation, "key", "keys");
  check_labels(map.head_labels, weights.rank() > 2 ? weights.size(-3) : 1, operation, "head", "heads");
}

Panels make_panels(const AttentionMap& map, const std::string& operation, double maximum, bool ascii,
                   int64_t first_query) {
  check_map(map, operation);
  return panels_of(map, operation, maximum, ascii, /*patches=*/false, first_query);
}

Panels patch_panels(const PatchMap& map, const std::string& operation, double maximum, bool ascii) {
  AttentionMap grid{.weights = map.weights, .title = map.title, .head_labels = map.head_labels};
  check_map(grid, operation);
  check_picture(map, operation);
  for (int64_t row = 1; row <= map.weights.size(-2); ++row) grid.query_labels.push_back(std::to_string(row));
  for (int64_t column = 1; column <= map.weights.size(-1); ++column) grid.key_labels.push_back(std::to_string(column));
  Panels panels = panels_of(grid, operation, maximum, ascii, /*patches=*/true, /*first_query=*/0);
  for (const std::string& note : map.notes) panels.notes.push_back(printable(note, ascii));
  return panels;
}

std::vector<std::string> odd_weights(const AttentionMap& map) { return make_panels(map, "odd_weights", 0).notes; }

void pool(Panels* panels, int64_t limit) {
  const auto cells = [&](int64_t n) { return (n + limit - 1) / limit; };  // weights to a cell
  const int64_t query_group = cells(panels->queries), key_group = cells(panels->keys);
  if (query_group <= 1 && key_group <= 1) return;
  const int64_t queries = (panels->queries + query_group - 1) / query_group;
  const int64_t keys = (panels->keys + key_group - 1) / key_group;
  std::vector<double> pooled(static_cast<size_t>(panels->count() * queries * keys),
                             -std::numeric_limits<double>::infinity());
  for (int64_t p = 0; p < panels->count(); ++p) {
    for (int64_t q = 0; q < panels->queries; ++q) {
      for (int64_t k = 0; k < panels->keys; ++k) {
        double& cell = pooled[static_cast<size_t>((p * queries + q / query_group) * keys + k / key_group)];
        const double w = panels->panel(p)[q * panels->keys + k];
        const bool larger = panels->is_signed && std::isfinite(cell) ? std::abs(w) > std::abs(cell) : w > cell;
        if (std::isnan(w) || larger) cell = w;  // a NaN stays: nothing compares above it
      }
    }
  }
  const auto thin = [](std::vector<std::string>* labels, int64_t group) {
    std::vector<std::string> kept;
    for (size_t i = 0; i < labels->size(); i += static_cast<size_t>(group)) kept.push_back((*labels)[i]);
    *labels = std::move(kept);
  };
  thin(&panels->query_labels, query_group);
  thin(&panels->key_labels, key_group);
  panels->notes.push_back("a cell shows the largest of " +
                          (panels->patches
                               ? std::to_string(query_group) + " x " + plural(key_group, "patch", "patches")
                               : plural(query_group, "query", "queries") + " x " + plural(key_group, "key", "keys")));
  panels->queries = queries;
  panels->keys = keys;
  panels->values = std::move(pooled);
}

}  // namespace heed::inline v0
