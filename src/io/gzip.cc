#include "heed/io.h"

#include <zlib.h>

#include <algorithm>
#include <new>

#include "heed/error.h"

namespace heed::inline v0 {
namespace {

constexpr size_t kAlwaysPermitted = size_t{64} << 20, kMostRatio = 100;
constexpr size_t kPiece = size_t{1} << 18;

class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream, /*a gzip header:*/ 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream stream{};
};

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

std::string gunzip(std::string_view packed, const std::string& where) {
  Inflater inflater;
  z_stream& stream = inflater.stream;
  std::string text;
  size_t used = 0;  // of packed
  for (bool within = false; within || used < packed.size();) {
    if (!within && !is_gzip(packed.substr(used))) {
      if (packed.find_first_not_of('\0', used) == std::string_view::npos && used > 0) break;  // padding of a tape
      throw FormatError(where + ": what stands at byte " + std::to_string(used) +
                        " is not gzip; compress the file anew, or unpack it");
    }
    within = true;
    const size_t in = std::min(packed.size() - used, kPiece), before = text.size();
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + used));
    stream.avail_in = static_cast<uInt>(in);
    text.resize(before + kPiece);
    stream.next_out = reinterpret_cast<Bytef*>(text.data() + before);
    stream.avail_out = static_cast<uInt>(kPiece);
    const int result = inflate(&stream, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    used += in - stream.avail_in;
    text.resize(before + kPiece - stream.avail_out);
    if (text.size() > kAlwaysPermitted && text.size() / kMostRatio > used)
      throw FormatError(where + ": unpacks to more than " + std::to_string(kMostRatio) +
                        " times its size; unpack it yourself if it is meant to");
    if (result == Z_STREAM_END) {
      within = false;
      inflateReset(&stream);
    } else if (result == Z_BUF_ERROR || (result == Z_OK && used == packed.size() && stream.avail_out > 0)) {
      throw FormatError(where + ": the compressed data is cut off after " + std::to_string(packed.size()) +
                        " bytes; get the whole file");
    } else if (result != Z_OK) {
      throw FormatError(where + ": the compressed data is broken at byte " + std::to_string(used) + ": " +
                        (stream.msg ? stream.msg : "it needs a dictionary"));
    }
  }
  return text;
}

}  // namespace heed::inline v0
