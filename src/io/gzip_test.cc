#include "heed/io.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "heed/error.h"

namespace heed::inline v0 {
namespace {

std::string gzip(const std::string& text, int level = 9) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, level, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "line " + std::to_string(i * 7919 % 10007) + "\n";
  return text;
}

TEST(Gzip, UnpacksAllMembers) {
  EXPECT_EQ(gunzip(gzip(""), "f"), "");
  for (const int count : {1, 30000, 200000})  // pieces of one read and of many
    EXPECT_EQ(gunzip(gzip(lines(count)) + gzip("") + gzip("end\n"), "f"), lines(count) + "end\n");
  EXPECT_EQ(gunzip(gzip("a") + std::string(100, '\0'), "f"), "a");
  EXPECT_FALSE(is_gzip(""));
  EXPECT_FALSE(is_gzip("\x1f"));
  EXPECT_TRUE(is_gzip(gzip("")));
}

std::string complaint(const std::string& packed) {
  try {
    gunzip(packed, "f");
  } catch (const FormatError& e) {
    return e.what();
  }
  return "";
}

TEST(Gzip, RefusesEveryCut) {
  const std::string whole = gzip(lines(100));
  for (size_t size = 2; size < whole.size(); ++size)
    ASSERT_NE(complaint(whole.substr(0, size)).find("f: the compressed data is cut off"), std::string::npos) << size;
  EXPECT_NE(complaint(gzip(lines(200000)).substr(0, 300000)).find("cut off"), std::string::npos);
}

TEST(Gzip, RefusesWhatIsBrokenOrFollows) {
  std::string broken = gzip(lines(100));
  broken[broken.size() - 6] ^= 1;  // the checksum
  EXPECT_NE(complaint(broken).find("f: the compressed data is broken at byte"), std::string::npos);
  EXPECT_NE(complaint(gzip("a") + "b").find("f: what stands at byte 21 is not gzip"), std::string::npos);
  EXPECT_NE(complaint("plain").find("at byte 0"), std::string::npos);
}

TEST(Gzip, RefusesABomb) {
  EXPECT_EQ(gunzip(gzip(std::string(60 << 20, 'a'), 1), "f").size(), 60u << 20);
  EXPECT_NE(complaint(gzip(std::string(70 << 20, 'a'), 1)).find("f: unpacks to more than 100 times"),
            std::string::npos);
}

}  // namespace
}  // namespace heed::inline v0
