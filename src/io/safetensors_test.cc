#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "heed/checked.h"
#include "heed/io.h"
#include "tests/shared.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

class Safetensors : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "heed-safetensors-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string at(const std::string& name) const { return (root_ / name).string(); }
  std::string file(const std::string& header, const std::string& data = "") const {
    const uint64_t length = header.size();
    write_file_atomically(at("x.safetensors"), std::string(reinterpret_cast<const char*>(&length), 8) + header + data);
    return at("x.safetensors");
  }
  std::string error_of(const std::string& header, const std::string& data = "") const {
    const std::string path = file(header, data);
    try {
      SafetensorsFile opened(path);
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      return error.what();
    }
    return "accepted";
  }
  fs::path root_;
};

/// Everything a file says, as bytes.
std::string content_of(const std::string& path) {
  const SafetensorsFile opened(path);
  std::string all;
  for (const auto& [key, value] : opened.metadata()) all += key + "=" + value + ";";
  for (const TensorInfo& info : opened.tensors()) {
    all += info.name + info.dtype_name;
    for (const int64_t size : info.shape) all += "," + std::to_string(size);
    const Tensor t = opened.tensor(info.name);
    all.append(static_cast<const char*>(t.raw()), static_cast<size_t>(t.nbytes()));
  }
  return all;
}

TEST(Checked, SaysWhenItOverflows) {
  constexpr uint64_t kMax = ~uint64_t{0};
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_FALSE(checked_add(kMax, 1));
  EXPECT_EQ(checked_multiply(kMax / 3, 3), kMax);
  EXPECT_FALSE(checked_multiply(uint64_t{1} << 32, uint64_t{1} << 32));
  EXPECT_FALSE(checked_add(checked_multiply(kMax, 2), 0));
  EXPECT_EQ(checked_round_up(0, 64), 0u);
  EXPECT_EQ(checked_round_up(65, 64), 128u);
  EXPECT_EQ(checked_round_up(kMax - 63, 64), kMax - 63);
  EXPECT_FALSE(checked_round_up(kMax - 62, 64));
  const std::vector<int64_t> zero_first = {0, int64_t{1} << 40, int64_t{1} << 40}, negative = {-1};
  EXPECT_EQ(checked_product(zero_first), 0u);
  EXPECT_FALSE(checked_product(negative));
}

TEST_F(Safetensors, ConformanceCases) {
  HEED_NEEDS_SHARED("conformance/formats/manifest.json");
  const auto manifest = nlohmann::json::parse(read_file(test::shared_path("conformance/formats/manifest.json")));
  int accepted = 0, refused = 0;
  for (const auto& c : manifest) {
    const auto name = c.at("file").get<std::string>();
    if (!name.ends_with(".safetensors")) continue;
    const std::string path = test::shared_path("conformance/formats/" + name);
    if (c.at("accept").get<bool>()) {
      EXPECT_NO_THROW(content_of(path)) << name;
      ++accepted;
    } else {
      EXPECT_THROW(SafetensorsFile{path}, FormatError) << name;
      ++refused;
    }
  }
  EXPECT_GE(accepted, 22);
  EXPECT_GE(refused, 11);
}

TEST_F(Safetensors, ConformanceValues) {
  HEED_NEEDS_SHARED("conformance/formats/manifest.json");
  const std::string folder = test::shared_path("conformance/formats/safetensors/");
  const SafetensorsFile all(folder + "ok_all_dtypes.safetensors");
  EXPECT_EQ(all.tensor("f32").at<float>(0), -2.5f);
  EXPECT_EQ(all.tensor("f64").at<double>(0), 1.5);
  EXPECT_EQ(to_float(all.tensor("bf16").at<bfloat16>(0)), 1.0f);
  EXPECT_TRUE(std::isinf(to_float(all.tensor("bf16").at<bfloat16>(1))));
  EXPECT_EQ(to_float(all.tensor("f16").at<float16>(0)), 1.0f);
  EXPECT_EQ(all.tensor("i64").at<int64_t>(0), -9);
  EXPECT_EQ(all.tensor("bool").at<bool>(1), false);
  EXPECT_EQ(all.tensor("bool").at<bool>(2), true);
  EXPECT_EQ(SafetensorsFile(folder + "ok_unaligned_data.safetensors").tensor("b").at<float>(0), 3.5f);
  const SafetensorsFile order(folder + "ok_order_not_offset_order.safetensors");
  EXPECT_EQ(order.tensors()[0].name, "b");
  EXPECT_EQ(order.tensor("a").at<float>(0), 1.0f);
  EXPECT_EQ(order.tensor("b").at<float>(0), 2.0f);
  EXPECT_EQ(SafetensorsFile(folder + "ok_escaped_name.safetensors").tensors()[0].name, "w\xC3\xA9\n\"x");
  const SafetensorsFile sample(folder + "ok_sample_overall.safetensors");
  EXPECT_EQ(sample.metadata().at("test"), "a");
  for (int i = 0; i < 6; ++i) {  // every type holds -3..2, wrapped where unsigned
    EXPECT_EQ(sample.tensor("f").at<float>(i), static_cast<float>(i - 3));
    EXPECT_EQ(sample.tensor("h").at<int16_t>(i), i - 3);
    EXPECT_EQ(sample.tensor("B").at<uint8_t>(i), static_cast<uint8_t>(i - 3));
  }
}

TEST_F(Safetensors, RefusesLyingHeaders) {
  const struct {
    std::string header, data, says;
  } cases[] = {
      {"", "", "not JSON"},
      {"null", "", "must be a JSON object"},
      {"[]", "", "must be a JSON object"},
      {"3", "", "must be a JSON object"},
      {"{}{}", "", "not JSON"},
      {"{}\0"s, "", "byte 2 is 0"},
      {"\xEF\xBB\xBF{}", "", "byte-order mark"},
      {R"({"a":1})", "", "must be an object"},
      {R"({"a":[]})", "", "must be an object"},
      {R"({"a":null})", "", "must be an object"},
      {R"({"a":{}})", "", "no dtype"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", "1234", "no data_offsets"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "1234", "no shape"},
      {R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", "1234", "unknown dtype \"F33\""},
      {R"({"a":{"dtype":"f32","shape":[1],"data_offsets":[0,4]}})", "1234", "unknown dtype"},
      {R"({"a":{"dtype":4,"shape":[1],"data_offsets":[0,4]}})", "1234", "must be a string"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "1234", "whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[1e0],"data_offsets":[0,4]}})", "1234", "whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234", "whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}})", "", "whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}})", "1234", "not JSON"},
      {R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", "1234", "whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[null],"data_offsets":[0,4]}})", "1234", "whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", "1234", "whole numbers"},
      {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", "1234", "whole numbers"},
      {R"({"a":{"dtype":"F32","shape":null,"data_offsets":[0,4]}})", "1234", "whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[99999999999999999999999],"data_offsets":[0,4]}})", "1234", "whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}})", "1234", "overflows"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "", "overflows"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", "", "overflows"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]}})", "1234", "overflows"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "1234", "has 1 numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[]}})", "1234", "has 0 numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})", "1234", "two whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,-4]}})", "1234", "two whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4.0]}})", "1234", "two whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234", "end before"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})", "12345", "hole"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,0]}})", "", "end before"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234", "are not what F32 (2) takes (8)"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "123", "cut short"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "12345", "tail"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "12345678", "\"a\" occurs twice"},
      {R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", "1", "\"dtype\" occurs twice"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       "1", "overlap"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       "123", "overlap"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
       "123", "hole"},
      {R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", "1", "are not what F4"},
      {R"({"__metadata__":{"a":1}})", "", "must be a string"},
      {R"({"__metadata__":{"a":{}}})", "", "must be a string"},
      {R"({"__metadata__":[]})", "", "object of strings"},
      {R"({"__metadata__":"x"})", "", "object of strings"},
      {R"({"__metadata__":{"a":"1","a":"1"}})", "", "\"a\" occurs twice in __metadata__"},
      {R"({"__metadata__":{},"__metadata__":{}})", "", "occurs twice"},
      {"{\"\xff\":{}}", "", "not JSON"},
  };
  for (const auto& c : cases) {
    const std::string text = error_of(c.header, c.data);
    EXPECT_NE(text.find(c.says), std::string::npos) << c.header << "\n" << text;
  }
}

TEST_F(Safetensors, DeepNestingIsRefusedWithoutRecursion) {
  for (const std::string& open : {"["s, "{\"a\":"s}) {
    std::string nest;
    for (int i = 0; i < 200000; ++i) nest += open;
    EXPECT_NE(error_of(nest), "accepted");
    EXPECT_NE(error_of(R"({"a":{"more":)" + nest).find("deeper than 64"), std::string::npos);
  }
}

TEST_F(Safetensors, SkipsMembersItDoesNotKnow) {
  const SafetensorsFile opened(file(
      R"({"a":{"more":{"x":[1,{"y":null}],"dtype":2},"dtype":"U8","n":-1.5,"shape":[1],"l":[],"data_offsets":[0,1],"z":"s"}})",
      "7"));
  EXPECT_EQ(opened.tensor("a").at<uint8_t>(0), '7');
}

TEST_F(Safetensors, FilesTooShortOrLongForTheirHeader) {
  for (size_t size = 0; size < 8; ++size) {
    write_file_atomically(at("x"), std::string(size, '\0'));
    EXPECT_THROW(SafetensorsFile(at("x")), FormatError) << size;
  }
  for (const uint64_t length : {uint64_t{3}, uint64_t{100'000'001}, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    write_file_atomically(at("x"), std::string(reinterpret_cast<const char*>(&length), 8) + "{}");
    EXPECT_THROW(SafetensorsFile(at("x")), FormatError) << length;
  }
  const uint64_t length = 1000;
  write_file_atomically(at("x"), std::string(reinterpret_cast<const char*>(&length), 8) + R"({"a":{"dtype":"F32",)");
  std::string error;
  try {
    const SafetensorsFile file(at("x"));
  } catch (const FormatError& e) {
    error = e.what();
  }
  EXPECT_NE(error.find("does not fit a file of 28"), std::string::npos) << error;
  EXPECT_THROW(SafetensorsFile(at("none")), IoError);
  EXPECT_THROW(SafetensorsFile(root_.string()), IoError);
  EXPECT_THROW(SafetensorsFile("/dev/zero"), IoError);
}

TEST_F(Safetensors, InspectsWhatItCannotLoad) {
  const SafetensorsFile opened(file(
      R"({"r9":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]},"f8":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[1,2]},)"
      R"("huge":{"dtype":"F32","shape":[0,1099511627776,1099511627776],"data_offsets":[2,2]},"bool":{"dtype":"BOOL","shape":[1],"data_offsets":[2,3]}})",
      "\1\1\2"));
  EXPECT_EQ(opened.info("r9").shape.size(), 9u);
  EXPECT_FALSE(opened.info("f8").dtype);
  EXPECT_EQ(opened.info("f8").dtype_name, "F8_E4M3");
  for (const char* name : {"r9", "f8", "huge", "bool", "none"}) EXPECT_THROW(opened.tensor(name), FormatError) << name;
}

TEST_F(Safetensors, WritesWhatItReads) {
  const Tensor f64 = Tensor::from<double>({1.5, -0.0, 1e300}, {3});
  const Tensor f32 = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor u8 = Tensor::from<uint8_t>({1, 2, 3}, {3});
  const Tensor scalar = Tensor::from<int64_t>({-7}, {});
  const NamedTensors tensors = {{"bytes", u8},
                                {"caf\xC3\xA9\n", f32},
                                {"turned", f32.transpose(0, 1)},
                                {"empty", Tensor::empty({0, 5}, DType::bf16)},
                                {"scalar", scalar},
                                {"f64", f64},
                                {"mask", Tensor::full({2}, 1, DType::boolean)}};
  save_safetensors(at("a"), tensors, {{"format", "heed"}, {"epoch", "3"}});
  const SafetensorsFile opened(at("a"));
  EXPECT_EQ(opened.metadata(), (Metadata{{"epoch", "3"}, {"format", "heed"}}));
  ASSERT_EQ(opened.tensors().size(), tensors.size());
  for (const auto& [name, expected] : tensors) {
    const Tensor got = opened.tensor(name);
    ASSERT_EQ(got.shape(), expected.shape()) << name;
    ASSERT_EQ(got.dtype(), expected.dtype()) << name;
    ASSERT_EQ(reinterpret_cast<uintptr_t>(got.raw()) % size_of(got.dtype()), 0u);
    if (expected.numel() > 0) {
      EXPECT_EQ(std::memcmp(got.raw(), expected.contiguous().raw(), static_cast<size_t>(got.nbytes())), 0) << name;
    }
  }
  EXPECT_EQ(opened.tensor("turned").at<float>(0, 1), 4.0f);
  save_safetensors(at("b"), tensors, {{"epoch", "3"}, {"format", "heed"}});
  EXPECT_EQ(read_file(at("a")), read_file(at("b")));
  save_safetensors(at("none"), {});
  EXPECT_TRUE(SafetensorsFile(at("none")).tensors().empty());
}

TEST_F(Safetensors, TheContentOfAFile) {
  save_safetensors(at("a.safetensors"), {{"x", Tensor::from({1.0f, 2.0f, 3.0f}, {3})}}, {{"key", "value"}});
  std::string content = read_file(at("a.safetensors"));
  Tensor x;
  {
    const SafetensorsFile opened(content, "the page");
    EXPECT_EQ(opened.metadata().at("key"), "value");
    x = opened.tensor("x");
    content.assign(content.size(), 'x');  // it has its own
  }
  EXPECT_EQ(x.at<float>(2), 3.0f);
  EXPECT_THROW(SafetensorsFile(content, "the page"), FormatError);
  EXPECT_THROW(SafetensorsFile(std::string("short"), "the page"), FormatError);
}

TEST_F(Safetensors, TensorsOutliveTheFileAndWritesStayPrivate) {
  save_safetensors(at("a"), {{"x", Tensor::from<float>({1, 2}, {2})}});
  const std::string before = read_file(at("a"));
  Tensor x;
  {
    const SafetensorsFile opened(at("a"));
    x = opened.tensor("x");
  }
  x.at<float>(0) = 9;
  EXPECT_EQ(x.at<float>(1), 2.0f);
  EXPECT_EQ(read_file(at("a")), before);
  save_safetensors(at("a"), {{"x", Tensor::from<float>({3, 4}, {2})}});  // a new file under the name
  EXPECT_EQ(x.at<float>(1), 2.0f);
}

TEST_F(Safetensors, RefusesToWriteWhatNobodyCouldRead) {
  const Tensor x = Tensor::zeros({1});
  EXPECT_THROW(save_safetensors(at("a"), {{"x", x}, {"x", x}}), FormatError);
  EXPECT_THROW(save_safetensors(at("a"), {{"__metadata__", x}}), FormatError);
  EXPECT_THROW(save_safetensors(at("a"), {{"\xff", x}}), FormatError);
  EXPECT_THROW(save_safetensors(at("a"), {{"x", Tensor()}}), FormatError);
  EXPECT_THROW(save_safetensors(at("a"), {}, {{"k", "\xff"}}), FormatError);
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(Safetensors, ManyTensorsAreNotQuadratic) {
  NamedTensors tensors;
  const Tensor x = Tensor::zeros({1});
  for (int i = 0; i < 50000; ++i) tensors.emplace_back("tensor." + std::to_string(i), x);
  save_safetensors(at("a"), tensors);
  EXPECT_EQ(SafetensorsFile(at("a")).tensors().size(), 50000u);
}

// Cut or change a valid file anywhere: it reads as some content or it throws FormatError; a cut one always throws.
TEST_F(Safetensors, DamagedFilesNeverCrash) {
  save_safetensors(at("a"),
                   {{"w", Tensor::from<float>({1, 2, 3, 4}, {2, 2})},
                    {"b", Tensor::full({3}, 1, DType::boolean)},
                    {"z", Tensor::empty({0, 2}, DType::f16)}},
                   {{"k", "v"}});
  const std::string whole = read_file(at("a"));
  for (size_t size = 0; size < whole.size(); ++size) {
    write_file_atomically(at("d"), std::string_view(whole).substr(0, size));
    EXPECT_THROW(SafetensorsFile(at("d")), FormatError) << size;
  }
  std::mt19937 random(7);
  const std::string alphabet =
      "{}[]\",:0123456789-.eE \0\xff"
      "aF"s;
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole;
    for (size_t n = random() % 4 + 1; n > 0; --n) {
      const size_t place = random() % damaged.size();
      switch (random() % 4) {
        case 0:
          damaged[place] = static_cast<char>(random());
          break;
        case 1:
          damaged[place] = alphabet[random() % alphabet.size()];
          break;
        case 2:
          damaged.erase(place, random() % 5);
          break;
        default:
          damaged.insert(place, 1, alphabet[random() % alphabet.size()]);
      }
    }
    // Straight to the disk: no fsync for three thousand files.
    FILE* f = std::fopen(at("d").c_str(), "wb");
    std::fwrite(damaged.data(), 1, damaged.size(), f);
    std::fclose(f);
    try {
      content_of(at("d"));
      ++accepted;
    } catch (const FormatError&) {
    }
  }
  EXPECT_GT(accepted, 50);  // changes of the data and of names are no errors
  EXPECT_LT(accepted, 2000);
}

}  // namespace
}  // namespace heed
