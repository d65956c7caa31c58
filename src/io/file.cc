#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "heed/io.h"
#include "io/file_system.h"
#include "io/mapped_file.h"

namespace heed::inline v0 {

namespace fs = std::filesystem;

void throw_errno(const std::string& doing, const std::string& path, int error) {
  std::string remedy;
  if (error == ENOSPC || error == EDQUOT) remedy = "; free some space or write elsewhere";
  if (error == EFBIG) remedy = "; raise the limit of a file's size (ulimit -f), or write elsewhere";
  if (error == EBUSY) remedy = "; if it is mounted by itself, mount its directory instead, or write elsewhere";
  if (error == EACCES || error == EPERM || error == EROFS) remedy = "; check the permissions of the directory";
  throw IoError(doing + " " + path + ": " + std::generic_category().message(error) + remedy);
}

void DescriptorWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      throw_errno("write", path_, errno);
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void sync(int fd, const std::string& path) {
  while (::fsync(fd) != 0) {
    if (errno == EINTR) continue;
    // Nothing there that could be synced, or a directory that may be written to but not be read.
    if (errno == EINVAL || errno == ENOTSUP || errno == EROFS || errno == EBADF) return;
    throw_errno("write", path, errno);
  }
}

Descriptor open_directory(const std::string& path) {
  Descriptor fd(path, O_RDONLY | O_DIRECTORY);
  return fd.ok() || errno != EACCES ? std::move(fd) : Descriptor(path, O_PATH | O_DIRECTORY);
}

std::vector<std::string> entries_of(int directory, const std::string& shown) {
  Descriptor fd(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok()) throw_errno("list", shown, errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(fd.get()), ::closedir);
  if (!list) throw_errno("list", shown, errno);
  fd.release();
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(list.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) throw_errno("list", shown, errno);
  return names;
}

struct stat status_of(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno("open", path, errno);
  return status;
}

std::string random_name() {
  uint64_t value = 0;
  while (::getrandom(&value, sizeof value, 0) != sizeof value)
    if (errno != EINTR) throw IoError(std::string("draw a random name: ") + std::strerror(errno));
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// ---------------------------------------------------------------------------------------------- parts

namespace {

constexpr std::string_view kMark = ".heed-", kTail = ".part";
constexpr size_t kDigits = 16;  // of random_name()

/// A name may have 255 bytes, and so may the name of its part.
std::string part_head(std::string_view name) {
  constexpr size_t kMost = 200;
  return "." + std::string(name.substr(0, kMost)) + std::string(kMark);
}

bool linked(int directory, const std::string& name, int fd) {
  struct stat by_name {
  }, by_fd{};
  return ::fstatat(directory, name.c_str(), &by_name, AT_SYMLINK_NOFOLLOW) == 0 && ::fstat(fd, &by_fd) == 0 &&
         by_name.st_dev == by_fd.st_dev && by_name.st_ino == by_fd.st_ino;
}

}  // namespace

bool is_part(std::string_view entry) {
  if (entry.size() < 2 + kMark.size() + kDigits + kTail.size() || entry[0] != '.' || !entry.ends_with(kTail))
    return false;
  entry.remove_suffix(kTail.size());
  const std::string_view digits = entry.substr(entry.size() - kDigits);
  return entry.substr(0, entry.size() - kDigits).ends_with(kMark) &&
         digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_part_of(std::string_view entry, std::string_view name) {
  const std::string head = part_head(name);
  return is_part(entry) && entry.starts_with(head) && entry.size() == head.size() + kDigits + kTail.size();
}

PartFile::PartFile(int directory, const std::string& name, const std::string& shown, const struct stat* replaced)
    : directory_(directory) {
  while (true) {
    std::string part = part_head(name) + random_name() + std::string(kTail);
    Descriptor fd(::openat(directory, part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!fd.ok() && errno == EEXIST) continue;
    if (!fd.ok()) throw_errno("create", shown, errno);
    // A file system without locks answers otherwise; parts are not taken for stale there.
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) continue;
    if (!linked(directory, part, fd.get())) continue;  // taken for stale before the lock stood
    fd_ = std::move(fd);
    part_ = std::move(part);
    break;
  }
  if (!replaced) return;
  const struct stat made = status_of(fd_.get(), shown);
  // Only root may give files away; for everybody else the new file is theirs, as with any editor that saves this way.
  if (made.st_uid != replaced->st_uid || made.st_gid != replaced->st_gid)
    static_cast<void>(::fchown(fd_.get(), replaced->st_uid, replaced->st_gid) == 0);
  if (made.st_mode != replaced->st_mode && ::fchmod(fd_.get(), replaced->st_mode & 07777) != 0) {
    const int error = errno;
    ::unlinkat(directory_, part_.c_str(), 0);
    throw_errno("create", shown, error);
  }
}

PartFile::~PartFile() {
  if (!part_.empty()) ::unlinkat(directory_, part_.c_str(), 0);
}

int PartFile::rename_to(const std::string& name) {
  if (::renameat(directory_, part_.c_str(), directory_, name.c_str()) != 0) return errno;
  keep();
  return 0;
}

void remove_stale_parts(int directory, const std::function<bool(std::string_view)>& ours) {
  std::vector<std::string> entries;
  try {
    entries = entries_of(directory, "");
  } catch (const IoError&) {
    return;  // it may be written to, but not be listed
  }
  for (const std::string& entry : entries) {
    if (!is_part(entry) || !ours(entry)) continue;
    const Descriptor fd(::openat(directory, entry.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    if (fd.ok() && ::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode) &&
        ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0)
      ::unlinkat(directory, entry.c_str(), 0);
  }
}

// ---------------------------------------------------------------------------------------------- reading

std::string read_descriptor(int fd, const std::string& path, uint64_t limit) {
  const struct stat status = status_of(fd, path);
  std::string text;
  if (S_ISREG(status.st_mode) && static_cast<uint64_t>(status.st_size) <= limit)
    text.reserve(static_cast<size_t>(status.st_size) + 1);  // one more: the read that finds the end
  size_t size = 0;
  while (true) {
    text.resize(std::max(text.capacity(), size + 65536));
    const ssize_t got = ::read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("read", path, errno);
    size += static_cast<size_t>(got);
    if (size > limit) throw FormatError(path + ": larger than the " + std::to_string(limit) + " bytes permitted here");
    if (got == 0) break;
  }
  text.resize(size);
  return text;
}

void read_at(int fd, uint64_t offset, std::span<std::byte> into, const std::string& path) {
  while (!into.empty()) {
    const ssize_t got = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("read", path, errno);
    if (got == 0) throw FormatError(path + ": ends at byte " + std::to_string(offset) + ", before what it should hold");
    offset += static_cast<uint64_t>(got);
    into = into.subspan(static_cast<size_t>(got));
  }
}

std::string read_file(const std::string& path, uint64_t limit) {
  const Descriptor fd(path, O_RDONLY);
  if (!fd.ok()) throw_errno("open", path, errno);
  return read_descriptor(fd.get(), path, limit);
}

FileBytes map_descriptor(int fd, const std::string& path) {
  const struct stat status = status_of(fd, path);
  if (S_ISDIR(status.st_mode)) throw_errno("read", path, EISDIR);
  if (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)) {
    auto text = std::make_shared<std::string>(read_descriptor(fd, path, uint64_t{1} << 32));
    return {text, reinterpret_cast<std::byte*>(text->data()), text->size()};
  }
  if (!S_ISREG(status.st_mode)) throw IoError("read " + path + ": neither a regular file nor a pipe");
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return {};
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) throw_errno("map", path, errno);
  return {std::shared_ptr<void>(data, [size](void* p) { ::munmap(p, size); }), static_cast<std::byte*>(data), size};
}

FileBytes map_file(const std::string& path) {
  const Descriptor fd(path, O_RDONLY);
  if (!fd.ok()) throw_errno("open", path, errno);
  return map_descriptor(fd.get(), path);
}

// ---------------------------------------------------------------------------------------------- one file

namespace {

/// Renaming over a pipe or a device would replace it.
void write_through(const std::string& path, const FillFile& fill) {
  Descriptor fd(path, O_WRONLY);
  if (!fd.ok()) throw_errno("open", path, errno);
  DescriptorWriter writer(fd.get(), path);
  fill(writer);
  if (const int error = fd.close()) throw_errno("write", path, error);
}

}  // namespace

void write_file_atomically(const std::string& path, const FillFile& fill) {
  fs::path target = path;
  struct stat status {};
  const bool replaces = ::stat(path.c_str(), &status) == 0;
  if (replaces) {
    if (S_ISDIR(status.st_mode)) throw_errno("write", path, EISDIR);
    if (!S_ISREG(status.st_mode)) return write_through(path, fill);
    if (const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free); real)
      target = real.get();
  } else if (struct stat link{}; ::lstat(path.c_str(), &link) == 0) {
    throw IoError("write " + path + ": it is a symbolic link that leads nowhere; remove it or make what it names");
  }
  const Descriptor directory = open_directory(target.has_parent_path() ? target.parent_path().string() : ".");
  if (!directory.ok()) throw_errno("create", path, errno);
  const std::string name = target.filename().string();
  remove_stale_parts(directory.get(), [&](std::string_view entry) { return is_part_of(entry, name); });
  PartFile part(directory.get(), name, path, replaces ? &status : nullptr);
  DescriptorWriter writer(part.fd(), path);
  fill(writer);
  sync(part.fd(), path);
  if (const int error = part.rename_to(name)) throw_errno("write", path, error);
  sync(directory.get(), path);
}

void write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  write_file_atomically(path, [&](FileWriter& file) { file.write(bytes); });
}

void write_file_atomically(const std::string& path, std::string_view text) {
  write_file_atomically(path, [&](FileWriter& file) { file.write(text); });
}

}  // namespace heed::inline v0
