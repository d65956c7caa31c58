// preprocessor_config.json: how pictures become the input of a model.
#include <algorithm>

#include "heed/pretrained.h"
#include "pretrained/keys.h"

namespace heed::inline v0 {
namespace {

// Those of vit and of deit differ in what files leave out.
bool is_deit(const Keys& keys) {
  const std::string key = keys.first_of({"image_processor_type", "feature_extractor_type"});
  const std::string type = keys.text(key, "ViTImageProcessor");
  for (const std::string kind : {"ViT", "DeiT"})
    for (const char* ending : {"ImageProcessor", "ImageProcessorFast", "FeatureExtractor"})
      if (type == kind + ending) return kind == "DeiT";
  keys.fail(key, "heed prepares pictures as ViTImageProcessor and DeiTImageProcessor do");
}

int64_t side(const Keys& keys, const std::string& key) { return keys.integer(key, 1, kLongestSide); }

ImageSize size_at(const Keys& keys, const std::string& key, int64_t fallback) {
  if (!keys.has(key)) return {fallback, fallback};
  if (keys.is_number(key)) return {side(keys, key), side(keys, key)};
  const Keys both = *keys.object(key);
  return {side(both, "height"), side(both, "width")};
}

std::array<double, 3> of_channels(const Keys& keys, const std::string& key, double lowest) {
  if (!keys.has(key)) return {0.5, 0.5, 0.5};
  const std::vector<double> given = keys.numbers(key, lowest, 1e6);
  if (given.size() != 3) keys.fail(key, "it must have three numbers, for red, green and blue");
  return {given[0], given[1], given[2]};
}

}  // namespace

ImagePreparation load_image_preparation(const std::string& directory) {
  const std::string name = "preprocessor_config.json";
  const Keys keys = read_keys(DirectorySnapshot(directory, {name}), name);
  const bool deit = is_deit(keys);
  keys.require_flag("do_pad", false);
  ImagePreparation how;
  if (keys.flag("do_resize", true)) {
    const std::optional<Keys> size = keys.is_number("size") ? std::nullopt : keys.object("size");
    if (size && size->has("longest_edge"))
      size->fail("longest_edge", "heed resizes to height and width or shortest_edge");
    if (size && size->has("shortest_edge"))
      how.shorter_side = side(*size, "shortest_edge");
    else
      how.size = size_at(keys, "size", deit ? 256 : 224);
  }
  const int64_t resampling = keys.integer("resample", 0, 100, deit ? 3 : 2);
  if (resampling != 2 && resampling != 3) keys.fail("resample", "heed has 2 (bilinear) and 3 (bicubic)");
  how.resampling = resampling == 2 ? Resampling::bilinear : Resampling::bicubic;
  if (keys.flag("do_center_crop", deit)) how.crop = size_at(keys, "crop_size", 224);
  how.factor = keys.flag("do_rescale", true) ? keys.number("rescale_factor", 1e-9, 1e9, 1.0 / 255) : 1;
  if (keys.flag("do_normalize", true)) {
    how.mean = of_channels(keys, "image_mean", -1e6);
    how.deviation = of_channels(keys, "image_std", 1e-9);
  }
  return how;
}

}  // namespace heed::inline v0
