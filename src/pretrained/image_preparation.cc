// preprocessor_config.json: how images are prepared as input of a model.
#include <algorithm>

#include "heed/pretrained.h"
#include "pretrained/family.h"
#include "pretrained/tables.h"

namespace heed::inline v0 {

KeyTable image_processor_keys(bool deit) {
  constexpr const char* kCall = "it selects what a call in Python takes or returns";
  const auto square = [](int side) { return nlohmann::json{{"height", side}, {"width", side}}; };
  const nlohmann::json half{0.5, 0.5, 0.5};
  return {applied("image_processor_type"),
          applied("feature_extractor_type"),
          applied("do_resize", true),
          applied("size", square(deit ? 256 : 224)),
          applied("default_to_square", true),
          applied("resample", deit ? 3 : 2),
          applied("do_center_crop", deit),
          applied("crop_size", deit ? square(224) : nlohmann::json()),
          applied("do_rescale", true),
          applied("rescale_factor", 1.0 / 255),
          applied("do_normalize", true),
          applied("image_mean", half),
          applied("image_std", half),
          only("do_pad", false),
          only("data_format", "channels_first"),
          harmless("pad_size", "nothing is padded"),
          harmless("do_convert_rgb", "pictures are red, green and blue"),
          harmless("input_data_format", kCall),
          harmless("device", kCall),
          harmless("return_tensors", kCall),
          harmless("disable_grouping", "pictures are prepared one by one"),
          harmless("image_seq_length", "a processor of texts and pictures reads it"),
          harmless("processor_class", "a processor of texts and pictures reads it")};
}

namespace {

// The defaults of vit and deit differ.
bool is_deit(const Keys& keys) {
  const std::string key = keys.first_of({"image_processor_type", "feature_extractor_type"});
  const std::string type = keys.text(key, "ViTImageProcessor");
  for (const std::string kind : {"ViT", "DeiT"})
    for (const char* ending : {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor"})
      if (type == kind + ending) return kind == "DeiT";
  keys.fail(key, "heed prepares pictures as ViTImageProcessor and DeiTImageProcessor do");
}

int64_t side(const Keys& keys, const std::string& key) { return keys.integer(key, 1, kLongestSide); }

// A number, a list of two, or an object with height and width or the shortest edge.
struct Sides {
  std::optional<ImageSize> both{};
  std::optional<int64_t> shorter{};
};

Sides sides_at(const Keys& keys, const std::string& key, bool square) {
  if (keys.is_number(key)) {
    const int64_t one = side(keys, key);
    return square ? Sides{.both = ImageSize{one, one}} : Sides{.shorter = one};
  }
  if (keys.is_list(key)) {
    return {.both = height_and_width(keys, key)};
  }
  const std::optional<Keys> object = keys.object(key);
  if (!object) keys.fail(key, "it must be a size");
  const Keys edges =
      object->under({applied("height"), applied("width"), applied("shortest_edge"), only("longest_edge", nullptr),
                     only("max_height", nullptr), only("max_width", nullptr), only("min_pixels", nullptr),
                     only("max_pixels", nullptr)});
  if (edges.has("shortest_edge")) return {.shorter = side(edges, "shortest_edge")};
  return {.both = ImageSize{side(edges, "height"), side(edges, "width")}};
}

std::array<double, 3> of_channels(const Keys& keys, const std::string& key, double lowest) {
  if (keys.is_number(key)) {
    const double one = keys.number(key, lowest, 1e6);
    return {one, one, one};
  }
  const std::vector<double> given = keys.numbers(key, lowest, 1e6);
  if (given.size() != 3) keys.fail(key, "it must have three numbers, for red, green and blue");
  return {given[0], given[1], given[2]};
}

}  // namespace

ImagePreparation load_image_preparation(const std::string& directory) {
  const std::string name = "preprocessor_config.json";
  const Keys given = read_keys(DirectorySnapshot(directory, {name}), name);
  const Keys keys = given.under(image_processor_keys(is_deit(given)));
  ImagePreparation how;
  if (keys.flag("do_resize")) {
    const Sides sides = sides_at(keys, "size", keys.flag("default_to_square"));
    how.size = sides.both;
    how.shorter_side = sides.shorter;
  }
  // Pillow's numbering of filters.
  constexpr Resampling kResamplings[] = {Resampling::nearest, Resampling::lanczos, Resampling::bilinear,
                                         Resampling::bicubic, Resampling::box,     Resampling::hamming};
  how.resampling = kResamplings[keys.integer("resample", 0, std::ssize(kResamplings) - 1)];
  if (keys.flag("do_center_crop")) {
    how.crop = sides_at(keys, "crop_size", true).both;
    if (!how.crop) keys.fail("crop_size", "it must have height and width");
  }
  how.factor = keys.flag("do_rescale") ? keys.number("rescale_factor", 1e-9, 1e9) : 1;
  if (keys.flag("do_normalize")) {
    how.mean = of_channels(keys, "image_mean", -1e6);
    how.deviation = of_channels(keys, "image_std", 1e-9);
  }
  return how;
}

}  // namespace heed::inline v0
