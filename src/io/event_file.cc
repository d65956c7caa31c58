#include "heed/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "io/mapped_file.h"

namespace heed::inline v0 {
namespace {

// CRC-32C (Castagnoli): RFC 3720, appendix B.4. zlib has another polynomial.
uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> remainders{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t x = i;
      for (int bit = 0; bit < 8; ++bit) x = x >> 1 ^ (x & 1 ? 0x82f63b78u : 0);
      remainders[i] = x;
    }
    return remainders;
  }();
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> 8 * i & 0xff);
  return bytes;
}

// A checksum within data that is checksummed, too, is masked.
std::string masked_crc(std::string_view bytes) {
  return little_endian(std::rotr(crc32c(bytes), 15) + uint32_t{0xa282ead8});
}

// Protocol buffers' wire format (protobuf.dev/programming-guides/encoding).
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes += static_cast<char>(value);
}
enum Wire : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
std::string key(uint64_t field, Wire wire) { return varint(field << 3 | wire); }
std::string bytes_field(uint64_t field, std::string_view value) {
  return key(field, kBytes) + varint(value.size()) + std::string(value);
}

// Event: wall_time = 1, step = 2, then one of file_version = 3, summary = 5, session_log = 7.
std::string event(int64_t step, const std::string& what) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return key(1, kFixed64) + little_endian(std::bit_cast<uint64_t>(now)) + key(2, kVarint) +
         varint(static_cast<uint64_t>(step)) + what;
}

}  // namespace

EventFile::EventFile(const std::string& directory, int64_t step) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw_errno("create directory", directory, error.value());
  const std::string name = directory + "/events.out.tfevents." +
                           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(
                                              std::chrono::system_clock::now().time_since_epoch())
                                              .count()) +
                           ".heed";
  for (int more = 0; fd_ < 0; ++more) {
    path_ = name + (more > 0 ? "." + std::to_string(more) : "");
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) throw_errno("create", path_, errno);
  }
  append(event(0, bytes_field(3, "brain.Event:2")));
  append(event(step, bytes_field(7, key(1, kVarint) + varint(/*SessionLog::START*/ 1))));
}

EventFile::~EventFile() {
  if (fd_ >= 0) ::close(fd_);
}

void EventFile::write(int64_t step, const Scalars& scalars) {
  std::string summary;  // of values: tag = 1, simple_value = 2
  for (const auto& [tag, value] : scalars)
    summary += bytes_field(
        1, bytes_field(1, tag) + key(2, kFixed32) + little_endian(std::bit_cast<uint32_t>(static_cast<float>(value))));
  append(event(step, bytes_field(5, summary)));
}

void EventFile::append(std::string_view event) {
  const std::string length = little_endian(uint64_t{event.size()});
  const std::string record = length + masked_crc(length) + std::string(event) + masked_crc(event);
  for (size_t done = 0; done < record.size();) {
    const ssize_t written = ::write(fd_, record.data() + done, record.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_errno("write", path_, errno);
    done += static_cast<size_t>(written);
  }
}

}  // namespace heed::inline v0
