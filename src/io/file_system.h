// What writing files is made of: descriptors, and temporary files that are locked while their writer lives.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/io.h"
#include "io/mapped_file.h"

namespace heed::inline v0 {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC)) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  int close() {  // 0 or errno: some file systems report a failed write only here
    return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno;
  }

 private:
  int fd_;
};

class DescriptorWriter : public FileWriter {
 public:
  /// `path` is the name the caller knows, not the temporary one.
  DescriptorWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  using FileWriter::write;
  void write(std::span<const std::byte> bytes) override;

 private:
  int fd_;
  std::string path_;
};

/// Waits until what was written lies on the disk. Throws IoError.
void sync(int fd, const std::string& path);

/// For *at() calls and sync(): a directory that may not be listed is opened all the same. Not ok() where that fails.
Descriptor open_directory(const std::string& path);

/// Names of what is in it but . and .., in no order. Throws IoError.
std::vector<std::string> entries_of(int directory, const std::string& shown);

struct stat status_of(int fd, const std::string& path);  // throws IoError
std::string read_descriptor(int fd, const std::string& path, uint64_t limit);
/// Fills `into` with what stands at `offset`. Throws IoError, and FormatError where the file ends before.
void read_at(int fd, uint64_t offset, std::span<std::byte> into, const std::string& path);
FileBytes map_descriptor(int fd, const std::string& path);

std::string random_name();  // 16 hexadecimal digits

/// A file being written, .NAME.heed-0123456789abcdef.part in the directory of the file that it will replace, locked
/// as long as this object lives. It is removed unless it was renamed.
class PartFile {
 public:
  /// `replaced`, where it is not null, gives owner and permissions. Throws IoError, which names `shown`.
  PartFile(int directory, const std::string& name, const std::string& shown, const struct stat* replaced);
  ~PartFile();
  PartFile(PartFile&& other) noexcept
      : directory_(other.directory_), fd_(std::move(other.fd_)), part_(std::exchange(other.part_, {})) {}
  PartFile& operator=(PartFile&&) = delete;

  const std::string& name() const { return part_; }
  int fd() const { return fd_.get(); }
  int rename_to(const std::string& name);  // 0 or errno
  void keep() { part_.clear(); }           // somebody else renames it

 private:
  int directory_;
  Descriptor fd_;
  std::string part_;
};

/// Whether an entry of a directory has the form of PartFile's names, or is one for the file `name`.
bool is_part(std::string_view entry);
bool is_part_of(std::string_view entry, std::string_view name);

/// Removes the parts that `ours` accepts and whose writers are gone. What cannot be removed stays.
void remove_stale_parts(int directory, const std::function<bool(std::string_view)>& ours);

}  // namespace heed::inline v0
