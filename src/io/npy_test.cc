#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "heed/io.h"
#include "tests/shared.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

class Npy : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "heed-npy-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string at(const std::string& name) const { return (root_ / name).string(); }
  void put(const std::string& name, std::string_view bytes) const {
    FILE* f = std::fopen(at(name).c_str(), "wb");
    std::fwrite(bytes.data(), 1, bytes.size(), f);
    std::fclose(f);
  }
  std::string error_of(const std::string& bytes) const {
    put("x.npy", bytes);
    try {
      load_npy(at("x.npy"));
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find(at("x.npy")), std::string::npos) << error.what();
      return error.what();
    }
    return "accepted";
  }
  fs::path root_;
};

std::string npy(const std::string& header, const std::string& data = "", int major = 1) {
  const auto length = static_cast<uint32_t>(header.size());
  return "\x93NUMPY"s + static_cast<char>(major) + '\0' +
         std::string(reinterpret_cast<const char*>(&length), major == 1 ? 2 : 4) + header + data;
}

std::string header(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string content_of(const NpyArray& array) {
  const Tensor& t = array.tensor;
  return std::string(name_of(t.dtype())) + to_string(t.shape()) + (array.was_fortran ? "F" : "C") +
         std::string(static_cast<const char*>(t.raw()), static_cast<size_t>(t.nbytes()));
}

TEST_F(Npy, ConformanceCases) {
  HEED_NEEDS_SHARED("conformance/formats/manifest.json");
  const auto manifest = nlohmann::json::parse(read_file(test::shared_path("conformance/formats/manifest.json")));
  int cases = 0;
  for (const auto& c : manifest) {
    const auto name = c.at("file").get<std::string>();
    const std::string path = test::shared_path("conformance/formats/" + name);
    std::function<void()> load;
    if (name.ends_with(".npy")) load = [&] { load_npy(path), read_npy_info(path); };
    if (name.ends_with(".npz")) load = [&] { load_npz(path), read_npz_info(path); };
    if (!load) continue;
    ++cases;
    if (c.at("accept").get<bool>()) {
      EXPECT_NO_THROW(load()) << name;
    } else {
      EXPECT_THROW(load(), FormatError) << name;
    }
  }
  EXPECT_GE(cases, 14);
}

TEST_F(Npy, ConformanceValues) {
  HEED_NEEDS_SHARED("conformance/formats/manifest.json");
  const std::string folder = test::shared_path("conformance/formats/npy/");
  for (const char* name : {"ok_f4_2x3", "ok_f4_fortran", "ok_v2", "ok_v3", "ok_align16", "ok_key_order"}) {
    const NpyArray array = load_npy(folder + name + ".npy");
    ASSERT_EQ(array.tensor.shape(), (Dims{2, 3})) << name;
    EXPECT_EQ(array.was_fortran, name == "ok_f4_fortran"s);
  }
  const Tensor turned = load_npy(folder + "ok_f4_fortran.npy").tensor;
  EXPECT_TRUE(turned.contiguous());
  EXPECT_EQ(turned.at<float>(0, 1), 2.0f);
  EXPECT_EQ(load_npy(folder + "ok_f4_2x3.npy").tensor.at<float>(0, 0), turned.at<float>(0, 0));
  EXPECT_EQ(load_npy(folder + "ok_f8_scalar.npy").tensor.rank(), 0);
  EXPECT_EQ(load_npy(folder + "ok_empty.npy").tensor.shape(), (Dims{0, 4}));
  EXPECT_EQ(load_npy(folder + "ok_bool.npy").tensor.dtype(), DType::boolean);
  EXPECT_EQ(load_npy(folder + "ok_f2.npy").tensor.dtype(), DType::f16);
  const auto stored = load_npz(folder + "ok_stored.npz"), deflated = load_npz(folder + "ok_deflate.npz");
  EXPECT_FALSE(stored.empty());
  EXPECT_FALSE(deflated.empty());
}

TEST_F(Npy, ReadsEveryDtypeAndByteOrder) {
  const struct {
    std::string descr, bytes;
    DType dtype;
    double value;
  } cases[] = {{"<f4", "\0\0\x20\xC0"s, DType::f32, -2.5},
               {">f4", "\xC0\x20\0\0"s, DType::f32, -2.5},
               {"<f8", "\0\0\0\0\0\0\x04\xC0"s, DType::f64, -2.5},
               {">f8", "\xC0\x04\0\0\0\0\0\0"s, DType::f64, -2.5},
               {"<f2", "\0\xC1"s, DType::f16, -2.5},
               {">f2", "\xC1\0"s, DType::f16, -2.5},
               {"=f2", "\0\xC1"s, DType::f16, -2.5},
               {"|i1", "\xFD"s, DType::i8, -3},
               {">i1", "\xFD"s, DType::i8, -3},
               {"<i2", "\xFD\xFF"s, DType::i16, -3},
               {">i4", "\xFF\xFF\xFF\xFD"s, DType::i32, -3},
               {"<i8", "\xFD\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s, DType::i64, -3},
               {"|u1", "\xFD"s, DType::u8, 253},
               {">u2", "\x01\x02"s, DType::u16, 258},
               {"<u4", "\xFF\xFF\xFF\xFF"s, DType::u32, 4294967295.0},
               {"<u8", "\x05\0\0\0\0\0\0\0"s, DType::u64, 5},
               {"|b1", "\1"s, DType::boolean, 1}};
  for (const auto& c : cases) {
    put("x.npy", npy(header(c.descr, "(1,)"), c.bytes));
    const Tensor t = load_npy(at("x.npy")).tensor;
    EXPECT_EQ(t.dtype(), c.dtype) << c.descr;
    EXPECT_EQ(t.item(), c.value) << c.descr;
  }
}

// cat x.npy | heed attention --q /dev/stdin
TEST_F(Npy, ReadsFromAPipe) {
  ASSERT_EQ(::mkfifo(at("pipe.npy").c_str(), 0600), 0);
  std::thread writer([&] { save_npy(at("pipe.npy"), Tensor::from<int32_t>({3, 1, 4}, {3})); });
  const Tensor t = load_npy(at("pipe.npy")).tensor;
  writer.join();
  EXPECT_EQ(t.at<int32_t>(2), 4);
}

TEST_F(Npy, FortranOrderOfThreeDimensions) {
  std::string data;
  for (char i = 0; i < 24; ++i) data += i;
  put("x.npy", npy(header("|i1", "(2, 3, 4)", "True"), data));
  const NpyArray array = load_npy(at("x.npy"));
  EXPECT_TRUE(array.was_fortran);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) EXPECT_EQ(array.tensor.at<int8_t>(i, j, k), i + 2 * j + 6 * k);
  put("x.npy", npy(header(">i2", "(2, 2)", "True"), "\0\1\0\2\0\3\0\4"s));
  EXPECT_EQ(load_npy(at("x.npy")).tensor.at<int16_t>(0, 1), 3);
  put("x.npy", npy(header("|i1", "(3,)", "True"), "123"));
  EXPECT_FALSE(load_npy(at("x.npy")).was_fortran);
}

TEST_F(Npy, AcceptsWhatPythonWouldPrint) {
  for (const std::string& text : {"{'descr':'<f4','fortran_order':False,'shape':(1,)}"s,
                                  "{\"shape\": (1 ,), \"descr\": \"<f4\", \"fortran_order\": False,}"s,
                                  "  {'descr': '<f4',\n 'fortran_order': True , 'shape': ( 1L, ) , }   \n"s,
                                  "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1,), }"s})
    for (const int major : {1, 2, 3}) {
      put("x.npy", npy(text, "1234", major));
      EXPECT_NO_THROW(load_npy(at("x.npy"))) << text;
    }
}

TEST_F(Npy, RefusesWhatItCannotRead) {
  const std::string one = "1234";
  const struct {
    std::string bytes, says;
  } cases[] = {
      {"", "not an npy"},
      {"\x93NUMP", "not an npy"},
      {"\x93NUMPY\x01", "cut short"},
      {"\x93NUMPY\x01\0\x10"s, "cut short"},
      {npy(header("<f4", "(1,)"), one, 4), "format 4.0"},
      {npy(header("<f4", "(1,)"), one, 0), "format 0.0"},
      {npy(header("<f4", "(1,)"), "123"), "cut short"},
      {npy(header("<f4", "(1,)"), "12345"), "has a tail"},
      {npy(header("<f4", "(2,)"), one), "takes 8 bytes, the file has 4"},
      {npy(header("<f4", "()"), ""), "cut short"},
      {npy(header("|O", "(1,)"), one), "Python objects"},
      {npy(header("O", "(1,)"), one), "Python objects"},
      {npy(header("<c8", "(1,)"), "12345678"), "complex"},
      {npy(header("<U1", "(1,)"), one), "heed does not support"},
      {npy(header("|S4", "(1,)"), one), "heed does not support"},
      {npy(header("<M8[ns]", "(1,)"), "12345678"), "heed does not support"},
      {npy(header("|V4", "(1,)"), one), "raw bytes"},
      {npy(header("<f16", "(1,)"), "1234567812345678"), "heed does not support"},
      {npy(header("<f3", "(1,)"), "123"), "heed does not support"},
      {npy(header("", "(1,)"), one), "heed does not support"},
      {npy(header("<", "(1,)"), one), "heed does not support"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", one), "structured"},
      {npy(header("<f4", "(-1,)"), one), "negative"},
      {npy(header("<f4", "(1.0,)"), one), "no comma"},
      {npy(header("<f4", "(nan,)"), one), "whole numbers"},
      {npy(header("<f4", "(1)"), one), "tuple of one"},
      {npy(header("<f4", "[1]"), one), "no tuple"},
      {npy(header("<f4", "1"), one), "no tuple"},
      {npy(header("<f4", "(1 1)"), one), "no comma"},
      {npy(header("<f4", "(1,,)"), one), "whole numbers"},
      {npy(header("<f4", "(1"), one), "whole numbers"},
      {npy(header("<f4", "(99999999999999999999,)"), one), "beyond 64 bits"},
      {npy(header("<f4", "(9223372036854775808,)"), one), "beyond 64 bits"},
      {npy(header("<f4", "(4294967296, 4294967296)"), one), "overflows"},
      {npy(header("<f4", "(4611686018427387905,)"), one), "overflows"},
      {npy(header("<f4", "(0, 4611686018427387904, 4611686018427387904)"), ""), "overflow"},
      {npy(header("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), one), "at most 8"},
      {npy(header("<f4", "(1,)", "false"), one), "True nor False"},
      {npy(header("<f4", "(1,)", "0"), one), "True nor False"},
      {npy(header("|b1", "(2,)"), "\1\2"), "boolean 1 has the byte 2"},
      {npy("", one), "no '{'"},
      {npy("{}", one), "no descr"},
      {npy("{'descr': '<f4', 'shape': (1,)}", one), "no fortran_order"},
      {npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", one), "twice"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", one), "unknown key"},
      {npy("{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", one), "no comma"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", one), "after the closing"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", one), "no comma or brace"},
      {npy("{'de\\x73cr': '<f4', 'fortran_order': False, 'shape': (1,)}", one), "escaped"},
      {npy("{'descr': '<f4, }", one), "open string"},
      {npy(header("<f4", "(1,)") + std::string(1 << 20, ' '), one, 2), "header of"},
  };
  for (const auto& c : cases) {
    const std::string text = error_of(c.bytes);
    EXPECT_NE(text.find(c.says), std::string::npos) << c.bytes << "\n" << text;
  }
  std::string lies = npy(header("<f4", "(1,)"), one, 2);
  lies[11] = '\x7F';  // a header of two billion bytes
  EXPECT_NE(error_of(lies).find("cut short"), std::string::npos);
  EXPECT_THROW(load_npy(at("none")), IoError);
}

TEST_F(Npy, WritesWhatItReads) {
  const Tensor f32 = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const NamedTensors tensors = {{"matrix", f32},
                                {"turned", f32.transpose(0, 1)},
                                {"scalar", Tensor::from<double>({0.1}, {})},
                                {"row", Tensor::from<int64_t>({-1, 2}, {2})},
                                {"half", Tensor::full({3}, 0.5, DType::f16)},
                                {"mask", Tensor::full({2, 2}, 1, DType::boolean)},
                                {"empty", Tensor::empty({3, 0, 2}, DType::u16)}};
  for (const auto& [name, t] : tensors) {
    save_npy(at("x.npy"), t);
    EXPECT_EQ(content_of(load_npy(at("x.npy"))), content_of({t.contiguous(), false})) << name;
    EXPECT_EQ(read_npy_info(at("x.npy")).data_begin % 64, 0u);
  }
  for (const bool compress : {false, true}) {
    save_npz(at("x.npz"), tensors, compress);
    const auto arrays = load_npz(at("x.npz"));
    const auto infos = read_npz_info(at("x.npz"));
    ASSERT_EQ(arrays.size(), tensors.size());
    for (size_t i = 0; i < arrays.size(); ++i) {
      EXPECT_EQ(arrays[i].first, tensors[i].first);
      EXPECT_EQ(infos[i].first, tensors[i].first);
      EXPECT_EQ(content_of(arrays[i].second), content_of({tensors[i].second.contiguous(), false}));
    }
    const std::string first = read_file(at("x.npz"));
    save_npz(at("x.npz"), tensors, compress);
    EXPECT_EQ(read_file(at("x.npz")), first);
  }
  EXPECT_THROW(save_npy(at("y.npy"), Tensor::zeros({1}, DType::bf16)), FormatError);
  EXPECT_THROW(save_npz(at("y.npz"), {{"a", f32}, {"a", f32}}), FormatError);
  EXPECT_FALSE(fs::exists(root_ / "y.npy"));
  save_npz(at("none.npz"), {});
  EXPECT_TRUE(load_npz(at("none.npz")).empty());
}

TEST_F(Npy, ReadsWhatIsNotAlignedInTheFile) {
  const std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
  for (const std::string& pad : {""s, " "s, "  "s, "   "s}) {
    put("x.npy", npy(text + pad, "\0\0\x20\xC0\0\0\x80\x3F"s));
    EXPECT_EQ(load_npy(at("x.npy")).tensor.at<float>(1), 1.0f);
  }
}

/// An archive with one entry of these bytes under this name.
void zip_one(const std::string& path, const std::string& name, const std::string& bytes, zip_int32_t method,
             const char* password = nullptr) {
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
  ASSERT_EQ(zip_file_add(archive, name.c_str(), source, 0), 0);
  zip_set_file_compression(archive, 0, method, 0);
  if (password) {
    ASSERT_EQ(zip_file_set_encryption(archive, 0, ZIP_EM_AES_256, password), 0);
  }
  ASSERT_EQ(zip_close(archive), 0);
}

TEST_F(Npy, ArchivesThatLieOrBurst) {
  const std::string good = npy(header("<f4", "(1,)"), "1234");
  zip_one(at("x.npz"), "a.npy", good, ZIP_CM_STORE);
  EXPECT_EQ(load_npz(at("x.npz")).at(0).first, "a");
  EXPECT_THROW(load_npz(at("x.npz"), 10), FormatError);
  zip_one(at("x.npz"), "readme.txt", "hello", ZIP_CM_STORE);
  EXPECT_THROW(load_npz(at("x.npz")), FormatError);
  zip_one(at("x.npz"), "a.npy", good + "tail", ZIP_CM_DEFLATE);
  EXPECT_THROW(load_npz(at("x.npz")), FormatError);
  zip_one(at("x.npz"), "a.npy", good, ZIP_CM_STORE, "secret");
  EXPECT_THROW(load_npz(at("x.npz")), FormatError);
  zip_one(at("x.npz"), "bomb.npy", npy(header("|u1", "(67108864,)"), std::string(67108864, '\0')), ZIP_CM_DEFLATE);
  EXPECT_LT(fs::file_size(root_ / "x.npz"), 100000u);
  EXPECT_THROW(load_npz(at("x.npz"), 1 << 20), FormatError);
  EXPECT_EQ(read_npz_info(at("x.npz"))[0].second.data_bytes, 67108864u);  // unpacks the header only
  put("x.npz", "PK\5\6 nothing");
  EXPECT_THROW(load_npz(at("x.npz")), FormatError);
  put("x.npz", "");
  EXPECT_THROW(load_npz(at("x.npz")), FormatError);
  EXPECT_THROW(load_npz(at("none.npz")), IoError);
}

TEST_F(Npy, DamagedFilesNeverCrash) {
  save_npy(at("a.npy"), Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}));
  save_npz(at("a.npz"), {{"x", Tensor::from<float>({1, 2, 3, 4}, {2, 2})}, {"m", Tensor::full({3}, 1, DType::boolean)}},
           true);
  std::mt19937 random(11);
  const std::string alphabet = "{}()[]'\",:0123456789-.L<>|fiubTF \0\xff"s;
  for (const std::string name : {"a.npy", "a.npz"}) {
    const std::string whole = read_file(at(name));
    const auto load = [&] {
      if (name == "a.npy")
        content_of(load_npy(at("d")));
      else
        for (const auto& [key, array] : load_npz(at("d"))) content_of(array);
    };
    for (size_t size = 0; size < whole.size(); ++size) {
      put("d", std::string_view(whole).substr(0, size));
      EXPECT_THROW(load(), FormatError) << name << " " << size;
    }
    int accepted = 0;
    for (int round = 0; round < 2000; ++round) {
      std::string damaged = whole;
      for (size_t n = random() % 3 + 1; n > 0; --n) {
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
      put("d", damaged);
      try {
        load();
        ++accepted;
      } catch (const FormatError&) {
      }
    }
    EXPECT_GT(accepted, 10) << name;
    EXPECT_LT(accepted, 1500) << name;
  }
}

}  // namespace
}  // namespace heed
