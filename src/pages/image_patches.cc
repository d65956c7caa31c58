#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "heed/error.h"
#include "heed/label.h"
#include "heed/pages.h"

namespace heed::inline v0 {
namespace {

std::string three_digits(double x) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.3g", x);
  return text.data();
}

}  // namespace

Patches patches_of(const Tensor& pixels, const ImagePreparation& how, const ImageEncoderConfig& model) {
  const ImageSize &image = model.image, &patch = model.patch;
  const int64_t rows = image.height / patch.height, columns = image.width / patch.width;
  return {restore_image(pixels, how).slice(0, 0, rows * patch.height).slice(1, 0, columns * patch.width), rows,
          columns};
}

int64_t token_of_patch(const std::string& patch, const Patches& patches) {
  if (patch.empty()) return 0;
  int64_t row = 0, column = 0;
  const char* const end = patch.data() + patch.size();
  const auto [comma, error] = std::from_chars(patch.data(), end, row);
  const bool whole = error == std::errc() && comma != end && *comma == ',';
  const auto [rest, second_error] = std::from_chars(whole ? comma + 1 : end, end, column);
  if (!whole || second_error != std::errc() || rest != end)
    throw UsageError(patch + " is no patch; write its row and its column, 3,4");
  if (row < 1 || row > patches.rows || column < 1 || column > patches.columns)
    throw UsageError(patch + ": the picture has " + std::to_string(patches.rows) + " rows of " +
                     std::to_string(patches.columns) + " patches");
  return 1 + (row - 1) * patches.columns + column - 1;
}

PatchMap over_picture(const AttentionMap& map, const Patches& patches, int64_t token) {
  const Tensor row = map.weights.select(-2, token).contiguous();  // (1 + P), (H, 1 + P) or (N, H, 1 + P)
  Dims grid = row.shape();
  grid.back() = patches.rows;
  grid.push_back(patches.columns);
  PatchMap over{.weights = row.slice(-1, 1, row.size(-1)).contiguous().reshape(grid),
                .picture = patches.picture,
                .from = token - 1,
                .title = map.title,
                .head_labels = map.head_labels};
  const Tensor elsewhere = row.slice(-1, 0, 1).to(DType::f64).contiguous();
  const auto [least, most] = std::minmax_element(elsewhere.span<double>().begin(), elsewhere.span<double>().end());
  over.notes.push_back(
      (row.rank() == 1 ? three_digits(*least) : three_digits(*least) + " to " + three_digits(*most) + ", by head,") +
      " of the weight is on the class token, which is no part of the picture");
  return over;
}

std::string likeliest(const std::vector<ScoredLabel>& classes) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(classes.size(), 3); ++i)
    text += (i > 0 ? ", " : "") + printable(classes[i].label) + " " + three_digits(classes[i].score);
  return text;
}

}  // namespace heed::inline v0
