#include "heed/weights_file.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <map>

#include "heed/checked.h"
#include "heed/io.h"
#include "heed/label.h"
#include "heed/text.h"

namespace heed::inline v0 {
namespace {

// More than any model has, and less than a file of a few kilobytes can claim by being deflated.
constexpr uint64_t kMostWeights = uint64_t{1} << 29, kMostHeads = uint64_t{1} << 14;
constexpr int64_t kLongest = int64_t{1} << 16;
constexpr uint64_t kMostBytes = uint64_t{1} << 31;

constexpr int kNameColumns = 60;

struct Array {
  std::string name, where;  // where: how messages call it
  NpyInfo info;
};

// `*total` counts the weights of all arrays.
void check_array(const Array& array, CheckedSize* total) {
  const auto fail = [&](const std::string& reason) { throw ShapeError(array.where + reason); };
  const std::vector<int64_t>& shape = array.info.shape;
  const auto text = [&] { return to_string(Dims(shape.begin(), shape.end())); };
  if (!is_floating(array.info.dtype))
    fail(" is " + std::string(name_of(array.info.dtype)) + "; weights are float16, float32 or float64");
  if (shape.size() < 2 || shape.size() > 4)
    fail(" has rank " + std::to_string(shape.size()) + "; weights are (Lq, Lk), (H, Lq, Lk) or (N, H, Lq, Lk)");
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) fail(" " + text() + " is empty");
  const CheckedSize heads = checked_product(std::span(shape).first(shape.size() - 2));
  *total = checked_add(*total, checked_product(shape));
  if (std::max(shape.end()[-1], shape.end()[-2]) > kLongest || !heads || *heads > kMostHeads || !*total ||
      **total > kMostWeights)
    fail(" " + text() + " is too large to look at; save a part: up to " + std::to_string(kLongest) + " tokens, " +
         std::to_string(kMostHeads) + " heads and " + std::to_string(kMostWeights) + " weights");
}

void warn(const WeightsFile& file, const std::string& text) {
  if (file.on_warning) file.on_warning(text);
}

std::vector<std::string> read_labels(const std::string& path, const WeightsFile& file) {
  if (path.empty()) return {};
  int64_t replaced = 0;
  std::vector<std::string> labels = read_lines(path, &replaced);
  if (replaced > 0) warn(file, path + ": " + replaced_in_words(replaced));
  return labels;
}

// The file that `sides` name for an array: one for it alone before one for all, an earlier side before a later one.
std::string labels_of(const std::string& array, std::initializer_list<const std::vector<std::string>*> sides,
                      const std::vector<Array>& arrays) {
  const auto owner = [&](const std::string& entry) {
    return std::find_if(arrays.begin(), arrays.end(), [&](const Array& a) { return entry.starts_with(a.name + "="); });
  };
  for (const bool of_one : {true, false})
    for (const std::vector<std::string>* side : sides)
      for (const std::string& entry : *side) {
        const auto named = owner(entry);
        if (of_one && named != arrays.end() && named->name == array) return entry.substr(array.size() + 1);
        if (!of_one && named == arrays.end()) return entry;
      }
  return {};
}

AttentionMap map_of(const NpyArray& array, const std::string& where, const WeightsFile& file) {
  if (array.was_fortran) warn(file, where + " is in Fortran order; it was read into row-major order");
  const Tensor weights = array.tensor.to(DType::f32);
  const auto size = [&](int from_last) { return weights.rank() >= from_last ? weights.size(-from_last) : 1; };
  return {.weights = weights.contiguous().reshape({size(4), size(3), size(2), size(1)})};
}

void check_label_count(const std::string& path, const std::vector<std::string>& labels, int64_t count,
                       const std::string& where, const char* what) {
  if (!path.empty() && std::ssize(labels) != count)
    throw ShapeError(path + " has " + std::to_string(labels.size()) + " lines for the " + std::to_string(count) + " " +
                     what + " of " + where + "; give one label a line");
}

std::vector<NamedMap> read_maps(const WeightsFile& file) {
  const bool archive = file.weights.ends_with(".npz");
  std::vector<Array> found;
  if (archive) {
    for (auto& [name, info] : read_npz_info(file.weights))
      found.push_back({name, file.weights + ": array " + array_in_quotes(name), info});
  } else {
    if (!file.arrays.empty())
      throw ShapeError(file.weights + " is no .npz file; names choose among the arrays of one, leave them out");
    found.push_back({std::filesystem::path(file.weights).stem().string(), file.weights, read_npy_info(file.weights)});
  }
  if (found.empty()) throw ShapeError(file.weights + " holds no array");
  std::vector<size_t> chosen;
  for (const std::string& name : file.arrays) {
    const auto at = std::find_if(found.begin(), found.end(), [&](const Array& a) { return a.name == name; });
    if (at == found.end()) {
      std::string names;
      for (size_t i = 0; i < std::min<size_t>(found.size(), 8); ++i)
        names += (names.empty() ? "" : ", ") + array_in_quotes(found[i].name);
      if (found.size() > 8) names += " and " + std::to_string(found.size() - 8) + " more";
      throw ShapeError(file.weights + " has no array " + array_in_quotes(name) + "; it has " + names);
    }
    chosen.push_back(static_cast<size_t>(at - found.begin()));
  }
  if (file.arrays.empty())
    for (size_t i = 0; i < found.size(); ++i) chosen.push_back(i);
  CheckedSize total = 0;
  for (const size_t i : chosen) check_array(found[i], &total);

  std::vector<NamedMap> maps;
  if (archive) {
    const auto arrays = load_npz(file.weights, kMostBytes);
    for (const size_t i : chosen) maps.push_back({found[i].name, map_of(arrays.at(i).second, found[i].where, file)});
  } else {
    maps.push_back({found[0].name, map_of(load_npy(file.weights), found[0].where, file)});
  }
  std::map<std::string, std::vector<std::string>> read;  // each file once
  const auto labels_in = [&](const std::string& path) -> const std::vector<std::string>& {
    const auto [at, fresh] = read.try_emplace(path);
    if (fresh) at->second = read_labels(path, file);
    return at->second;
  };
  for (size_t n = 0; n < maps.size(); ++n) {
    auto& [name, map] = maps[n];
    const std::string& where = found[chosen[n]].where;
    const std::string query_path = labels_of(name, {&file.query_labels, &file.labels}, found);
    const std::string key_path = labels_of(name, {&file.key_labels, &file.labels}, found);
    map.query_labels = labels_in(query_path);
    map.key_labels = labels_in(key_path);
    check_label_count(query_path, map.query_labels, map.weights.size(2), where, "queries");
    check_label_count(key_path, map.key_labels, map.weights.size(3), where, "keys");
  }
  return maps;
}

}  // namespace

std::string array_in_quotes(const std::string& name) { return '"' + truncate(printable(name), kNameColumns) + '"'; }

std::vector<NamedMap> read_weights(const WeightsFile& file) {
  try {
    return read_maps(file);
  } catch (const FormatError& e) {
    throw ShapeError(e.what());  // whoever names a file that holds something else has named the wrong one
  }
}

}  // namespace heed::inline v0
