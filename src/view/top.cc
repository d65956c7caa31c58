// What each token attends to most, as numbers and as text.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "view/panels.h"
#include "view/terminal_pen.h"

namespace heed::inline v0 {
namespace {

constexpr int kWidestKey = 24;  // columns of a key's label

std::string weight_text(double weight) {
  std::array<char, 32> buffer;
  std::snprintf(buffer.data(), buffer.size(), weight >= 10 ? "%.3g" : weight >= 0.0005 ? "%.3f" : "%.0e", weight);
  return buffer.data();
}

// Weights of one row -> keys, largest weight first.
std::vector<KeyWeight> largest_of(const double* row, int64_t keys, int64_t count) {
  std::vector<KeyWeight> found;
  for (int64_t key = 0; key < keys; ++key)
    if (std::isfinite(row[key]) && row[key] > 0) found.push_back({key, row[key]});
  const auto kept = static_cast<int64_t>(std::min(found.size(), static_cast<size_t>(count)));
  std::partial_sort(found.begin(), found.begin() + kept, found.end(), [](const KeyWeight& a, const KeyWeight& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.key < b.key;
  });
  found.resize(static_cast<size_t>(kept));
  return found;
}

Panels one_head(const AttentionMap& map, int64_t count, const char* operation, bool ascii) {
  check_map(map, operation);
  if (map.weights.rank() != 2)
    throw ShapeError(std::string(operation) + ": weights " + to_string(map.weights.shape()) +
                     " are several heads; pass one of them or their mean, (Lq, Lk)");
  if (count < 1) throw ShapeError(std::string(operation) + ": count " + std::to_string(count) + " is below 1");
  return make_panels(map, operation, 0, ascii);
}

// Labels cut to fit; those that several keys have carry their position.
std::vector<std::string> names_of(const std::vector<std::string>& labels, bool named, int width, bool ascii) {
  std::map<std::string, int> uses;
  std::vector<std::string> names;
  for (const std::string& label : labels) {
    names.push_back(truncate(label, width, ascii));
    ++uses[names.back()];
  }
  for (size_t key = 0; key < names.size(); ++key)
    if (named && uses[names[key]] > 1) {
      const std::string place = "[" + std::to_string(key) + "]";
      names[key] = truncate(labels[key], std::max(2, width - static_cast<int>(place.size())), ascii) + place;
    }
  return names;
}

}  // namespace

std::vector<std::vector<KeyWeight>> top_keys(const Tensor& weights, int64_t count) {
  const Panels panels = one_head({.weights = weights}, count, "top_keys", false);
  std::vector<std::vector<KeyWeight>> out;
  for (int64_t query = 0; query < panels.queries; ++query)
    out.push_back(largest_of(panels.values.data() + query * panels.keys, panels.keys, count));
  return out;
}

std::string render_top(const AttentionMap& map, int64_t count, const TerminalOptions& wanted) {
  const TerminalOptions options = at_least_20_columns(wanted);
  const bool ascii = !options.unicode;
  const Panels panels = one_head(map, count, "render_top", ascii);
  std::string out;
  TerminalPen pen(options, &out);
  pen.paragraph(panels.title);

  const int label_width = std::min(widest_of(panels.query_labels), std::max(8, options.width / 3));
  const int room = options.width - label_width - 2;
  constexpr int kGap = 2;
  std::vector<std::vector<KeyWeight>> rows;
  size_t widest_number = 1;
  for (int64_t query = 0; query < panels.queries; ++query) {
    rows.push_back(largest_of(panels.values.data() + query * panels.keys, panels.keys, count));
    for (const KeyWeight& x : rows.back()) widest_number = std::max(widest_number, weight_text(x.weight).size());
  }
  const int number_width = 1 + static_cast<int>(widest_number);
  const std::vector<std::string> names =
      names_of(panels.key_labels, !map.key_labels.empty(), std::min(kWidestKey, room - number_width), ascii);
  int entry_width = 1;
  for (const std::vector<KeyWeight>& row : rows)
    for (const KeyWeight& x : row)
      entry_width = std::max(entry_width, display_width(names[static_cast<size_t>(x.key)]) + number_width);
  const auto across = static_cast<size_t>(std::max(1, (room + kGap) / (entry_width + kGap)));

  for (size_t query = 0; query < rows.size(); ++query) {
    const std::string label = truncate(panels.query_labels[query], label_width, ascii);
    pen.spaces(label_width - display_width(label));
    pen.label(label);
    pen.spaces(2);
    if (rows[query].empty()) pen.write("nothing");
    for (size_t n = 0; n < rows[query].size(); ++n) {
      if (n > 0 && n % across == 0) {
        pen.end_line();
        pen.spaces(label_width + 2);
      } else if (n > 0) {
        pen.spaces(kGap);
      }
      const auto& [key, weight] = rows[query][n];
      const std::string& name = names[static_cast<size_t>(key)];
      const std::string number = weight_text(weight);
      const Rgb ground = terminal_color(std::clamp(weight / panels.maximum, 0.0, 1.0));
      const Rgb ink = is_light(ground) ? Rgb{0, 0, 0} : Rgb{255, 255, 255};
      pen.label(name, ink, ground);
      pen.write(" " + number, ink, ground);
      pen.spaces(entry_width - display_width(name) - 1 - static_cast<int>(number.size()));
    }
    pen.end_line();
  }
  if (rows.empty()) pen.paragraph("no weights: 0 queries, " + std::to_string(panels.keys) + " keys");
  for (const std::string& note : panels.notes) pen.paragraph("note: " + note);
  return out;
}

}  // namespace heed::inline v0
