#include <cairo.h>
#include <glib.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "heed/view.h"
#include "view/color_map.h"

namespace heed {
namespace {

using namespace std::string_literals;

struct Image {
  int width = 0, height = 0;
  std::vector<uint32_t> pixels;  // (height, width) 0xRRGGBB
  uint32_t at(int x, int y) const {
    return pixels[static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)];
  }
};

Image decode(const std::string& png) {
  struct Reader {
    const std::string* bytes;
    size_t at = 0;
  } reader{&png};
  const auto read = [](void* context, unsigned char* data, unsigned int length) {
    auto& r = *static_cast<Reader*>(context);
    if (r.at + length > r.bytes->size()) return CAIRO_STATUS_READ_ERROR;
    std::memcpy(data, r.bytes->data() + r.at, length);
    r.at += length;
    return CAIRO_STATUS_SUCCESS;
  };
  cairo_surface_t* surface = cairo_image_surface_create_from_png_stream(read, &reader);
  EXPECT_EQ(cairo_surface_status(surface), CAIRO_STATUS_SUCCESS);
  Image image;
  image.width = cairo_image_surface_get_width(surface);
  image.height = cairo_image_surface_get_height(surface);
  const unsigned char* data = cairo_image_surface_get_data(surface);
  for (int y = 0; y < image.height; ++y) {
    const auto* row =
        reinterpret_cast<const uint32_t*>(data + static_cast<ptrdiff_t>(y) * cairo_image_surface_get_stride(surface));
    for (int x = 0; x < image.width; ++x) image.pixels.push_back(row[x] & 0xFFFFFF);
  }
  cairo_surface_destroy(surface);
  return image;
}

uint32_t pixel(Rgb c) { return static_cast<uint32_t>(c.red) << 16 | static_cast<uint32_t>(c.green) << 8 | c.blue; }

struct Box {
  int left = 1 << 30, top = 1 << 30, right = -1, bottom = -1;
};

// What runs of at least `run` pixels of one colour span: cells, and not the colour bar or letters.
Box find(const Image& image, uint32_t color, int run) {
  Box box;
  for (int y = 0; y < image.height; ++y) {
    int length = 0;
    for (int x = 0; x < image.width; ++x) {
      length = image.at(x, y) == color ? length + 1 : 0;
      if (length < run) continue;
      box.left = std::min(box.left, x - length + 1);
      box.right = std::max(box.right, x + 1);
      box.top = std::min(box.top, y);
      box.bottom = std::max(box.bottom, y + 1);
    }
  }
  return box;
}

AttentionMap one_hot(int queries, int keys, int query, int key) {
  AttentionMap map;
  map.weights = Tensor::zeros({queries, keys});
  map.weights.at<float>(query, key) = 1;
  return map;
}

TEST(Picture, TheDarkCellIsWhereTheWeightIs) {
  const Image image = decode(render_png(one_hot(4, 5, 1, 3)));
  const Box panel = find(image, pixel(paper_color(0)), 40);
  const Box dark = find(image, pixel(paper_color(1)), 40);
  ASSERT_GT(panel.right, panel.left);
  ASSERT_GT(dark.right, dark.left);
  const double cell = (panel.right - panel.left) / 5.0;
  EXPECT_NEAR(dark.left, panel.left + 3 * cell, 3);
  EXPECT_NEAR(dark.right, panel.left + 4 * cell, 3);
  EXPECT_NEAR(dark.top, panel.top + 1 * cell, 3);
  EXPECT_NEAR(dark.bottom, panel.top + 2 * cell, 3);
}

TEST(Picture, ManyCellsKeepTheirPlace) {
  const Image image = decode(render_png(one_hot(300, 300, 30, 240), {.width = 2000}));
  const Box panel = find(image, pixel(paper_color(0)), 100);
  const Box dark = find(image, pixel(paper_color(1)), 4);
  const double cell = (panel.right - panel.left) / 300.0;
  EXPECT_NEAR(dark.left, panel.left + 240 * cell, 2);
  EXPECT_NEAR(dark.top, panel.top + 30 * cell, 2);
  EXPECT_NEAR(dark.right - dark.left, cell, 2);
}

TEST(Picture, PooledCellsKeepTheLargest) {
  const Image image = decode(render_png(one_hot(3, 5000, 1, 2500), {.width = 3000}));
  const Box panel = find(image, pixel(paper_color(0)), 100);
  const Box dark = find(image, pixel(paper_color(1)), 1);
  EXPECT_NEAR(dark.left, (panel.left + panel.right) / 2.0, 6);
}

TEST(Picture, PngHasTheAskedSize) {
  const std::string png = render_png(one_hot(4, 5, 1, 3), {.width = 777});
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n"s);
  EXPECT_EQ(decode(png).width, 777);
  const Image image =
      decode(render_png(one_hot(40, 50, 1, 3), {.width = 84, .unit = LengthUnit::millimetres, .dpi = 300}));
  EXPECT_EQ(image.width, std::lround(84 / 25.4 * 300));
}

TEST(Picture, ColorsComeInTheOrderOfWeights) {
  AttentionMap map;
  map.weights = Tensor::from<float>({0.1F, 0.2F, 0.3F, 0.4F}, {1, 4});
  const Image image = decode(render_png(map));
  int before = -1;
  for (const double t : {0.25, 0.5, 0.75, 1.0}) {  // the scale ends at 0.4
    const Box box = find(image, pixel(paper_color(t)), 40);
    EXPECT_GT(box.left, before) << t;
    before = box.left;
  }
}

TEST(Picture, BothSidesOfZeroHaveColours) {
  const AttentionMap map{.weights = Tensor::from<float>({-0.5F, 0.25F, 0.5F, 0}, {2, 2}), .shares = false};
  const Image image = decode(render_png(map));
  const Box below = find(image, pixel(signed_paper_color(-1)), 15),
            above = find(image, pixel(signed_paper_color(1)), 15),
            half = find(image, pixel(signed_paper_color(0.5)), 15);
  EXPECT_GT(below.right, 0);
  EXPECT_LT(below.bottom, above.bottom);  // in the first row
  EXPECT_LT(below.right, half.right);     // in the first column
  const std::string svg = render_svg(map);
  EXPECT_EQ(svg.find("does not sum"), std::string::npos);
  EXPECT_EQ(svg.find("below 0"), std::string::npos);
}

TEST(Picture, NotFiniteCellsAreGrey) {
  AttentionMap map = one_hot(4, 5, 1, 3);
  map.weights.at<float>(2, 0) = NAN;
  EXPECT_GT(find(decode(render_png(map)), 0xC8C8C8, 15).right, 0);
  EXPECT_EQ(find(decode(render_png(one_hot(4, 5, 1, 3))), 0xC8C8C8, 15).right, -1);
}

// Groups of columns with ink in the rows [top, bottom).
std::vector<int> ink_groups(const Image& image, int left, int right, int top, int bottom) {
  std::vector<int> widths;
  int width = 0;
  for (int x = left; x <= right; ++x) {
    bool ink = false;
    for (int y = top; y < bottom && x < right; ++y) ink = ink || (image.at(x, y) & 0xFF) < 0x80;
    if (ink) {
      ++width;
    } else if (width > 0) {
      widths.push_back(width);
      width = 0;
    }
  }
  return widths;
}

TEST(Picture, KeyLabelsNeverTouch) {
  for (const int keys : {12, 50, 200}) {
    AttentionMap map = one_hot(keys, keys, 0, 0);
    for (int i = 0; i < keys; ++i) map.key_labels.push_back("MMMMMM");
    const Image image = decode(render_png(map, {.width = 900, .key_axis = ""}));
    const Box panel = find(image, pixel(paper_color(0)), 20);
    // Turned upright the letters are as wide as a capital is high: about 0.73 of 8 points, 16 pixels.
    const auto groups = ink_groups(image, panel.left - 5, panel.right + 5, panel.top - 60, panel.top - 20);
    if (keys > 12) {
      EXPECT_GE(groups.size(), 20U) << keys;
      for (const int width : groups) EXPECT_LE(width, 19) << keys;
    } else {
      EXPECT_GE(groups.size(), 1U);
    }
  }
}

// Strict about tags, entities and UTF-8; collects the text.
std::string parse_xml(const std::string& xml) {
  std::string text;
  GMarkupParser parser{};
  parser.text = [](GMarkupParseContext*, const gchar* part, gsize length, gpointer out, GError**) {
    static_cast<std::string*>(out)->append(part, length);
  };
  GMarkupParseContext* context = g_markup_parse_context_new(&parser, GMarkupParseFlags{}, &text, nullptr);
  GError* error = nullptr;
  const bool good = g_markup_parse_context_parse(context, xml.data(), static_cast<gssize>(xml.size()), &error) &&
                    g_markup_parse_context_end_parse(context, &error);
  EXPECT_TRUE(good) << (error ? error->message : "");
  g_clear_error(&error);
  g_markup_parse_context_free(context);
  return text;
}

TEST(Picture, SvgIsWellFormedAndHoldsTheWords) {
  AttentionMap map = one_hot(2, 3, 1, 2);
  map.title = "A & B <title>";
  map.query_labels = {"<script>", "\x1b[31m\0"s};
  map.key_labels = {"]]>", "注意", "\xff"};
  const std::string svg = render_svg(map, {.key_axis = "Chinese"});
  const std::string text = parse_xml(svg);
  EXPECT_NE(text.find("A & B <title>"), std::string::npos);
  EXPECT_NE(text.find("query: <script> \\x1b[31m\\x00\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Chinese: ]]> 注意 \uFFFD\n"), std::string::npos);
  EXPECT_EQ(svg.find("<script>"), std::string::npos);
}

TEST(Picture, LargeSvgStaysSmall) {
  AttentionMap map;
  map.weights = Tensor::full({400, 400}, 1.0 / 400);
  EXPECT_LT(render_svg(map).size(), 2'000'000U);
}

TEST(Picture, PdfIsWhole) {
  const std::string pdf = render_pdf(one_hot(9, 9, 1, 3));
  EXPECT_EQ(pdf.substr(0, 5), "%PDF-");
  EXPECT_NE(pdf.find("%%EOF", pdf.size() - 10), std::string::npos);
  EXPECT_EQ(pdf.find("/CreationDate"), std::string::npos);
}

TEST(Picture, SameMapSameBytes) {
  const AttentionMap map = one_hot(9, 9, 1, 3);
  EXPECT_EQ(render_png(map), render_png(map));
  EXPECT_EQ(render_pdf(map), render_pdf(map));
}

TEST(Picture, GridsOfHeads) {
  AttentionMap map;
  map.weights = Tensor::zeros({5, 3, 3});
  for (int head = 0; head < 5; ++head)
    for (int i = 0; i < 3; ++i) map.weights.at<float>(head, i, i) = 1;
  const Image row = decode(render_png(map, {.columns = 5}));
  const Image column = decode(render_png(map, {.columns = 1}));
  EXPECT_GT(row.width, 2 * row.height);
  EXPECT_GT(column.height, 2 * column.width);
  map.weights = map.weights.reshape({5, 1, 3, 3});
  EXPECT_GT(decode(render_png(map)).height, 2 * decode(render_png(map)).width);
}

TEST(Picture, HostileAndLongLabels) {
  AttentionMap map = one_hot(3, 4, 0, 0);
  map.query_labels = {std::string(10000, 'W'), "\0\x1b"s, ""};
  map.key_labels = {std::string(10000, '\n'), "<b>&amp;", "שלום", std::string(5000, '\xff')};
  map.title = std::string(10000, 'T');
  EXPECT_LT(decode(render_png(map)).width, 2500);
  parse_xml(render_svg(map));
}

TEST(Picture, NothingToDraw) {
  for (const auto& shape : {Dims{0, 4}, Dims{4, 0}, Dims{0, 3, 3}, Dims{0, 0, 0, 0}})
    EXPECT_GT(decode(render_png({Tensor::zeros(shape), {}, {}, "empty"})).width, 10);
}

TEST(Picture, RefusesWhatCannotBeDrawn) {
  const auto message = [](const PictureOptions& options) -> std::string {
    try {
      render_png(one_hot(4, 5, 1, 3), options);
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message({.dpi = 0}), "picture: dpi 0 is out of range; pass 10 to 2.4e+03");
  EXPECT_NE(message({.width = -5}), "accepted");
  EXPECT_NE(message({.width = NAN}), "accepted");
  EXPECT_NE(message({.font_size = 1e9}), "accepted");
  EXPECT_NE(message({.columns = -1}), "accepted");
  EXPECT_NE(message({.maximum = -1}), "accepted");
  EXPECT_NE(message({.width = 15, .unit = LengthUnit::millimetres}).find("leaves no room beside the labels"),
            std::string::npos);
  EXPECT_NE(message({.width = 5000, .unit = LengthUnit::millimetres, .dpi = 2400}).find("too many for a PNG"),
            std::string::npos);
  AttentionMap map = one_hot(4, 5, 1, 3);
  map.key_labels = {"one"};
  EXPECT_THROW(render_pdf(map), ShapeError);
}

// ------------------------------------------------------------------------------------------------ over a picture

// A picture of one colour, with the weight 1 in one patch.
PatchMap patch_map(int64_t rows, int64_t columns, int64_t row, int64_t column) {
  const Tensor picture = Tensor::empty({rows * 16, columns * 16, 3}, DType::u8);
  for (int64_t i = 0; i < picture.numel(); ++i) picture.data<uint8_t>()[i] = i % 3 == 0 ? 200 : 40;
  PatchMap map{.weights = Tensor::zeros({rows, columns}), .picture = picture};
  map.weights.at<float>(row, column) = 1;
  return map;
}

constexpr Rgb kPlain = {200, 40, 40}, kPaper = {255, 255, 255};

TEST(PictureOfPatches, WeightsLieOverThePictureBesideIt) {
  const Image image = decode(render_overlay_png(patch_map(4, 5, 1, 3)));
  const Box plain = find(image, pixel(kPlain), 100);
  const Box faded = find(image, pixel(over_picture(kPlain, 0, paper_color(0), kPaper)), 40);
  const Box weight = find(image, pixel(over_picture(kPlain, 1, paper_color(1), kPaper)), 20);
  EXPECT_LT(plain.right, faded.left);
  EXPECT_NEAR(plain.top, faded.top, 2);
  const double width = (faded.right - faded.left) / 5.0, height = (faded.bottom - faded.top) / 4.0;
  EXPECT_NEAR(width, height, 2);  // patches are square
  EXPECT_NEAR(weight.left, faded.left + 3 * width, 4);
  EXPECT_NEAR(weight.right, faded.left + 4 * width, 4);
  EXPECT_NEAR(weight.top, faded.top + height, 4);
  EXPECT_NEAR(weight.bottom, faded.top + 2 * height, 4);
}

TEST(PictureOfPatches, APanelForEachHead) {
  PatchMap map = patch_map(2, 2, 0, 0);
  map.weights = Tensor::full({3, 2, 2}, 0.25);
  const std::string svg = render_overlay_svg(map);
  EXPECT_NE(svg.find("weights of 2 x 2 patches over a picture"), std::string::npos);
  const auto images = [](const std::string& text) {
    int count = 0;
    for (size_t at = 0; (at = text.find("<image ", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(images(svg), 4);  // and the picture itself
  map.weights = Tensor::full({2, 3, 2, 2}, 0.25);
  EXPECT_EQ(images(render_overlay_svg(map)), 6);
  EXPECT_TRUE(render_overlay_pdf(map, {.width = 120, .unit = LengthUnit::millimetres}).starts_with("%PDF"));
}

TEST(PictureOfPatches, ThePatchThatLooksIsFramed) {
  PatchMap map = patch_map(4, 4, 0, 0);
  const std::string none = render_overlay_png(map);
  map.from = 5;
  EXPECT_NE(render_overlay_png(map), none);
}

TEST(PictureOfPatches, RefusesWhatDoesNotFit) {
  const auto refusal = [](const PatchMap& map) {
    try {
      render_overlay_png(map);
    } catch (const ShapeError& error) {
      return std::string(error.what());
    }
    return std::string("(no error)");
  };
  PatchMap map = patch_map(2, 2, 0, 0);
  map.from = 4;
  EXPECT_EQ(refusal(map), "picture: there is no patch 4; they are numbered from 0, row by row");
  map = patch_map(2, 2, 0, 0);
  map.picture = Tensor::zeros({1, 2, 3}, DType::u8);
  EXPECT_NE(refusal(map).find("2 x 2 patches in a picture of 1 x 2 pixels"), std::string::npos);
  map.picture = Tensor::zeros({4, 4, 3});
  EXPECT_NE(refusal(map).find("a picture (4, 4, 3) of f32"), std::string::npos);
  map.picture = {};
  EXPECT_NE(refusal(map).find("a picture (undefined)"), std::string::npos);
  map = patch_map(2, 2, 0, 0);
  map.weights = Tensor::zeros({4});
  EXPECT_NE(refusal(map).find("(4) are no map"), std::string::npos);
  map.weights = Tensor::zeros({0, 2});
  EXPECT_NE(refusal(map).find("0 x 2 patches"), std::string::npos);
}

// ------------------------------------------------------------------------------------------------ read_png

std::string big_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return text;
}

std::string chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const uLong sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(data.size(), 4) + body + big_endian(sum, 4);
}

std::string deflated(const std::string& data) {
  uLongf size = compressBound(data.size());
  std::string result(size, '\0');
  EXPECT_EQ(compress(reinterpret_cast<Bytef*>(result.data()), &size, reinterpret_cast<const Bytef*>(data.data()),
                     data.size()),
            Z_OK);
  result.resize(size);
  return result;
}

const std::string kSignature = "\x89PNG\r\n\x1a\n"s;

// `rows` are the bytes of each line; `more` stands in front of them.
std::string png(uint64_t width, uint64_t height, int depth, int kind, const std::vector<std::string>& rows,
                const std::string& more = "", bool interlaced = false) {
  std::string lines;
  for (const std::string& row : rows) lines += '\0' + row;
  const std::string header = big_endian(width, 4) + big_endian(height, 4) +
                             big_endian(static_cast<uint64_t>(depth), 1) + big_endian(static_cast<uint64_t>(kind), 1) +
                             "\0\0"s + (interlaced ? '\1' : '\0');
  return kSignature + chunk("IHDR", header) + more + chunk("IDAT", deflated(lines)) + chunk("IEND", "");
}

class ReadPng : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(path_); }
  Tensor read(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    return read_png(path_);
  }
  void expect_pixels(const std::string& bytes, const Dims& shape, const std::vector<int>& want) const {
    const Tensor got = read(bytes);
    ASSERT_EQ(got.shape(), shape);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got.data<uint8_t>()[i], want[i]) << i;
  }
  void expect_refused(const std::string& bytes, const std::string& part) const {
    try {
      read(bytes);
      ADD_FAILURE() << "taken, without: " << part;
    } catch (const FormatError& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find(part), std::string::npos) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  }
  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("heed_read_png_" + std::to_string(getpid()))).string();
};

constexpr int kGrey = 0, kColors = 2, kPalette = 3, kGreyAlpha = 4, kWithAlpha = 6;

TEST_F(ReadPng, EveryKindOfColor) {
  expect_pixels(png(2, 2, 8, kColors, {"\x01\x02\x03\xff\x00\x80"s, "\x10\x20\x30\x40\x50\x60"}), {2, 2, 3},
                {1, 2, 3, 255, 0, 128, 16, 32, 48, 64, 80, 96});
  expect_pixels(png(3, 1, 8, kGrey, {"\x00\x7f\xff"s}), {1, 3, 3}, {0, 0, 0, 127, 127, 127, 255, 255, 255});
  expect_pixels(png(8, 1, 1, kGrey, {"\xa0"}), {1, 8, 3}, {255, 255, 255, 0, 0, 0, 255, 255, 255, 0, 0, 0});
  expect_pixels(png(1, 1, 16, kColors, {"\x12\xff\x34\x00\x56\x80"s}), {1, 1, 3}, {0x12, 0x34, 0x56});
  expect_pixels(png(1, 1, 16, kGreyAlpha, {"\x12\x34\x80\x00"s}), {1, 1, 3}, {0x12, 0x12, 0x12});
  const std::string palette = chunk("PLTE", "\x0a\x0b\x0c\xc8\xc9\xca"s);
  expect_pixels(png(2, 1, 8, kPalette, {"\x00\x01"s}, palette), {1, 2, 3}, {10, 11, 12, 200, 201, 202});
}

// Pillow takes the smaller of the value and 255.
TEST_F(ReadPng, GreyOf16BitsIsRefused) {
  expect_refused(png(1, 1, 16, kGrey, {"\x12\x34"}), "convert the picture to 8");
}

// Adam7 of 2 x 2 pixels: the first; the one beside it; the line below.
TEST_F(ReadPng, LinesMayBeInterlaced) {
  expect_pixels(png(2, 2, 8, kGrey, {"\x01"s, "\x02"s, "\x03\x04"s}, "", true), {2, 2, 3},
                {1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4});
}

// Pillow's convert("RGB") does so.
TEST_F(ReadPng, TransparentPixelsKeepTheirColor) {
  expect_pixels(png(2, 1, 8, kWithAlpha, {"\x01\x02\x03\xff\x01\x02\x03\x00"s}), {1, 2, 3}, {1, 2, 3, 1, 2, 3});
  const std::string palette = chunk("PLTE", "\x0a\x0b\x0c\xc8\xc9\xca"s), clear = chunk("tRNS", "\xff\x00"s);
  expect_pixels(png(2, 1, 8, kPalette, {"\x00\x01"s}, palette + clear), {1, 2, 3}, {10, 11, 12, 200, 201, 202});
  expect_pixels(png(2, 1, 8, kGrey, {"\x07\x09"}, chunk("tRNS", "\x00\x07"s)), {1, 2, 3}, {7, 7, 7, 9, 9, 9});
}

// EXIF data whose first directory has an entry before the orientation.
std::string exif(int orientation, bool little_endian = false, int type = 3) {
  const auto number = [&](int value, int bytes) {
    std::string text = big_endian(static_cast<uint64_t>(value), bytes);
    if (little_endian) std::reverse(text.begin(), text.end());
    return text;
  };
  return (little_endian ? "II" : "MM") + number(42, 2) + number(8, 4) + number(2, 2) + number(0x10f, 2) + number(2, 2) +
         number(2, 4) + "a\0\0\0"s + number(0x112, 2) + number(type, 2) + number(1, 4) +
         (type == 3 ? number(orientation, 2) + "\0\0"s : number(orientation, 4)) + number(0, 4);
}

std::string raw_profile(const std::string& data) {
  std::string text = "\nexif\n      " + std::to_string(data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(data[i]));
    text += (i % 36 == 0 ? "\n" : "") + std::string(digits);
  }
  return text + "\n";
}

std::string xmp(const std::string& text, bool compressed = false) {
  return chunk(
      "iTXt", "XML:com.adobe.xmp\0"s + (compressed ? "\1"s : "\0"s) + "\0\0\0"s + (compressed ? deflated(text) : text));
}

class Orientation : public ReadPng {
 protected:
  // `after`: the metadata follow the pixels.
  void expect_turned(const std::string& metadata, int orientation, bool after = false) {
    std::string bytes = png(3, 2, 8, kGrey, {"\x01\x02\x03"s, "\x04\x05\x06"s}, after ? "" : metadata);
    if (after) bytes.insert(bytes.size() - 12, metadata);
    const Tensor got = read(bytes);
    const auto& [height, width, want] = kTurned.at(orientation);
    ASSERT_EQ(got.shape(), Dims({height, width, 3})) << orientation;
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t color = 0; color < 3; ++color)
        EXPECT_EQ(got.data<uint8_t>()[i * 3 + color], want[static_cast<size_t>(i)] - '0') << orientation;
  }
  struct Turned {
    int64_t height, width;
    std::string pixels;
  };
  // From Pillow 12.0: ImageOps.exif_transpose of rows 123, 456.
  const std::map<int, Turned> kTurned = {{1, {2, 3, "123456"}}, {2, {2, 3, "321654"}}, {3, {2, 3, "654321"}},
                                         {4, {2, 3, "456123"}}, {5, {3, 2, "142536"}}, {6, {3, 2, "415263"}},
                                         {7, {3, 2, "635241"}}, {8, {3, 2, "362514"}}};
};

TEST_F(Orientation, OfEveryFormOfMetadata) {
  for (int i = 1; i <= 8; ++i) {
    SCOPED_TRACE(i);
    expect_turned(chunk("eXIf", exif(i)), i);
    expect_turned(chunk("eXIf", exif(i, true)), i);
    expect_turned(chunk("eXIf", exif(i, true, 4)), i);
    expect_turned(chunk("eXIf", "Exif\0\0"s + exif(i)), i);
    expect_turned(chunk("eXIf", exif(i)), i, true);
    const std::string keyword = "Raw profile type exif\0"s, profile = raw_profile("Exif\0\0"s + exif(i));
    expect_turned(chunk("tEXt", keyword + profile), i);
    expect_turned(chunk("zTXt", keyword + "\0"s + deflated(profile)), i);
    const std::string value = std::to_string(i);
    expect_turned(xmp("<x tiff:Orientation=\"" + value + "\"/>"), i);
    expect_turned(xmp("<tiff:Orientation>" + value + "</tiff:Orientation>", true), i, true);
  }
}

TEST_F(Orientation, TheFirstOfSeveralCounts) {
  const std::string profile = chunk("tEXt", "Raw profile type exif\0"s + raw_profile(exif(8)));
  const std::string text = xmp("tiff:Orientation=\"6\"");
  std::string without = exif(3);
  without[23] = '\x13';  // another tag
  expect_turned(profile + text + chunk("eXIf", exif(3)), 3);
  expect_turned(profile + text, 8);
  expect_turned(profile + text + chunk("eXIf", without), 6);
  expect_turned(profile + chunk("eXIf", without), 1);
}

TEST_F(Orientation, MetadataWithoutOneLeaveThePictureUpright) {
  const std::string whole = exif(6);
  for (size_t bytes = 0; bytes < whole.size() - 8; ++bytes) {
    SCOPED_TRACE(bytes);
    expect_turned(chunk("eXIf", whole.substr(0, bytes)), 1);
    expect_turned(chunk("tEXt", "Raw profile type exif\0"s + raw_profile(whole.substr(0, bytes))), 1);
  }
  for (const int value : {0, 9, 255, 65535}) expect_turned(chunk("eXIf", exif(value)), 1);
  expect_turned(chunk("eXIf", exif(65542, false, 4)), 1);
  expect_turned(chunk("eXIf", exif(6, false, 7)), 1);
  for (const char* text : {"tiff:Orientation='6'", "tiff:Orientation=\"", "tiff:Orientation>x"})
    expect_turned(xmp(text), 1);
  expect_turned(chunk("tEXt", "Comment\0tiff:Orientation=\"6\""s) + chunk("tEXt", "no end") + chunk("iTXt", "") +
                    chunk("zTXt", "Raw profile type exif\0"s),
                1);
}

TEST_F(Orientation, TextsAreUnpackedUpToOneMebibyte) {
  const std::string long_text(1'000'000, ' ');
  expect_turned(xmp(long_text + "tiff:Orientation=\"6\"", true), 6);
  expect_refused(png(1, 1, 8, kColors, {"\x01\x02\x03"}, xmp(std::string(100'000'000, ' '), true)),
                 "remove the picture's metadata");
}

TEST_F(ReadPng, WhatIsBrokenOrTooLargeIsRefused) {
  const std::string row(300, 'a'), whole = png(100, 2, 8, kColors, {row, row});
  for (const std::string& text : {""s, "GIF89a"s, "\xff\xd8\xff\xe0 a JPEG, with some more bytes"s, whole.substr(1)})
    expect_refused(text, "it is no PNG");
  for (size_t bytes = 33; bytes + 12 < whole.size(); ++bytes)
    expect_refused(whole.substr(0, bytes), "the PNG cannot be read");
  std::string spoiled = whole;
  spoiled[50] ^= 1;
  expect_refused(spoiled, "the PNG cannot be read");
  expect_refused(png(0, 2, 8, kColors, {}), "0 x 2 pixels; sides must be in 1..32767");
  expect_refused(png(40000, 1, 8, kColors, {}), "40000 x 1 pixels");
  expect_refused(png(uint64_t{1} << 31, uint64_t{1} << 31, 8, kColors, {}), "sides must be in 1..32767");
  expect_refused(png(6000, 6000, 8, kColors, {}), "at most 33554432 pixels are read");
  expect_refused(png(5000, 5000, 8, kColors, {row}), "does not fit a file of");
  expect_refused(png(2, 2, 7, kColors, {row}), "the PNG cannot be read");  // no such depth
}

// Text beside the picture that is compressed a thousandfold.
TEST_F(ReadPng, TextThatWouldTakeTheMemoryIsNotRead) {
  const std::string text = chunk("zTXt", "Comment\0\0"s + deflated(std::string(100'000'000, ' ')));
  expect_pixels(png(1, 1, 8, kColors, {"\x01\x02\x03"}, text), {1, 1, 3}, {1, 2, 3});
}

TEST_F(ReadPng, WhatIsNoFile) {
  EXPECT_THROW(read_png(path_), IoError);
  EXPECT_THROW(read_png(std::filesystem::temp_directory_path().string()), IoError);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THROW(read_png(path_), IoError);
}

}  // namespace
}  // namespace heed
