#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "heed/error.h"
#include "heed/io.h"
#include "io/unpacking.h"

namespace heed::inline v0 {
namespace {

constexpr size_t kPiece = size_t{1} << 18;

// Unpacks members that stand one behind the other, as their bytes come.
class Unpacker {
 public:
  Unpacker(ReadBytes packed, std::string where) : packed_(std::move(packed)), where_(std::move(where)) {
    if (inflateInit2(&stream_, /*a gzip header:*/ 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Unpacker() { inflateEnd(&stream_); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  size_t read(std::span<char> into) {
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(into.size());
    while (stream_.avail_out == into.size() && (within_ || begin_member())) unpack();
    return into.size() - stream_.avail_out;
  }

 private:
  uint64_t used() const { return read_ - stream_.avail_in; }

  // Makes at least `wanted` bytes of input be there, unless it ends before.
  void look(size_t wanted) {
    while (stream_.avail_in < wanted && !ended_) {
      if (stream_.avail_in > 0) std::memmove(input_.data(), stream_.next_in, stream_.avail_in);
      const size_t got = packed_(std::span(input_).subspan(stream_.avail_in));
      stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
      stream_.avail_in += static_cast<uInt>(got);
      read_ += got;
      ended_ = got == 0;
    }
  }

  bool begin_member() {
    look(2);
    if (stream_.avail_in == 0) return false;
    const std::string_view next(reinterpret_cast<const char*>(stream_.next_in), stream_.avail_in);
    if (is_gzip(next)) {
      inflateReset(&stream_);
      return within_ = true;
    }
    const uint64_t at = used();
    while (at > 0 && stream_.avail_in > 0 && *stream_.next_in == 0) {  // padding of a tape
      ++stream_.next_in;
      --stream_.avail_in;
      look(1);
    }
    if (stream_.avail_in == 0) return false;
    throw FormatError(where_ + ": what stands at byte " + std::to_string(at) +
                      " is not gzip; compress the file again, or unpack it");
  }

  void unpack() {
    look(1);
    const uInt room = stream_.avail_out;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    unpacked_ += room - stream_.avail_out;
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (unpacked_ > most_unpacked(used()))
      throw FormatError(where_ + ": unpacks to more than " + std::to_string(kMostUnpackedRatio) +
                        " times its size; unpack it yourself if it is meant to");
    if (result == Z_STREAM_END) {
      within_ = false;
    } else if (result == Z_BUF_ERROR && ended_) {
      throw FormatError(where_ + ": the compressed data is cut off after " + std::to_string(read_) +
                        " bytes; get the whole file");
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw FormatError(where_ + ": the compressed data is broken at byte " + std::to_string(used()) + ": " +
                        (stream_.msg ? stream_.msg : "it needs a dictionary"));
    }
  }

  ReadBytes packed_;
  std::string where_;
  z_stream stream_{};
  std::array<char, kPiece> input_;
  uint64_t read_ = 0, unpacked_ = 0;
  bool within_ = false, ended_ = false;  // a member; the input
};

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

ReadBytes gunzip(ReadBytes packed, const std::string& where) {
  return [unpacker = std::make_shared<Unpacker>(std::move(packed), where)](std::span<char> into) {
    return unpacker->read(into);
  };
}

std::string gunzip(std::string_view packed, const std::string& where) {
  const ReadBytes unpacked = gunzip(
      [packed](std::span<char> into) mutable {
        const size_t count = packed.copy(into.data(), into.size());
        packed.remove_prefix(count);
        return count;
      },
      where);
  std::string text;
  for (size_t size = 0;; text.resize(size)) {
    text.resize(size + kPiece);
    const size_t got = unpacked(std::span(text).subspan(size));
    size += got;
    if (got == 0) {
      text.resize(size);
      return text;
    }
  }
}

}  // namespace heed::inline v0
