#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "heed/io.h"
#include "io/directory_swap.h"
#include "io/mapped_file.h"

namespace heed::inline v0 {

namespace fs = std::filesystem;

void throw_errno(const std::string& doing, const std::string& path, int error) {
  std::string remedy;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) remedy = "; free some space or write elsewhere";
  if (error == EACCES || error == EPERM || error == EROFS) remedy = "; check the permissions of the directory";
  throw IoError(doing + " " + path + ": " + std::generic_category().message(error) + remedy);
}

namespace {

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, mode_t mode = 0)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int close() {  // 0 or errno: some file systems report a failed write only here
    const int result = ::close(fd_);
    fd_ = -1;
    return result == 0 ? 0 : errno;
  }

 private:
  int fd_;
};

class DescriptorWriter : public FileWriter {
 public:
  DescriptorWriter(int fd, const std::string& path) : fd_(fd), path_(path) {}
  using FileWriter::write;
  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0) {
        if (errno == EINTR) continue;
        throw_errno("write", path_, errno);
      }
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }

 private:
  int fd_;
  std::string path_;  // the name the caller knows, not the temporary one
};

/// Removes a temporary file unless it was renamed.
struct TemporaryFile {
  std::string path;
  bool keep = false;
  ~TemporaryFile() {
    if (!keep) ::unlink(path.c_str());
  }
};

void sync_descriptor(int fd, const std::string& path) {
  while (::fsync(fd) != 0) {
    if (errno == EINTR) continue;
    if (errno == EINVAL || errno == ENOTSUP || errno == EROFS) return;  // nothing there that could be synced
    throw_errno("write", path, errno);
  }
}

void sync_directory(const std::string& directory) {
  Descriptor fd(directory, O_RDONLY | O_DIRECTORY);
  if (!fd.ok()) throw_errno("open directory", directory, errno);
  sync_descriptor(fd.get(), directory);
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string unique_suffix() {
  static std::atomic<unsigned> counter{0};
  return std::to_string(::getpid()) + "-" + std::to_string(counter++);
}

void write_new_file(const std::string& path, const std::string& shown, mode_t mode, bool force_mode,
                    const FillFile& fill) {
  Descriptor fd(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  if (!fd.ok()) throw_errno("create", shown, errno);
  TemporaryFile temporary{path};
  if (force_mode && ::fchmod(fd.get(), mode) != 0) throw_errno("create", shown, errno);
  DescriptorWriter writer(fd.get(), shown);
  fill(writer);
  sync_descriptor(fd.get(), shown);
  if (const int error = fd.close()) throw_errno("write", shown, error);
  temporary.keep = true;
}

}  // namespace

std::string read_file(const std::string& path, uint64_t limit) {
  Descriptor fd(path, O_RDONLY);
  if (!fd.ok()) throw_errno("open", path, errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw_errno("open", path, errno);
  std::string text;
  if (S_ISREG(status.st_mode) && static_cast<uint64_t>(status.st_size) <= limit)
    text.reserve(static_cast<size_t>(status.st_size) + 1);  // one more: the read that finds the end
  size_t size = 0;
  while (true) {
    text.resize(std::max(text.capacity(), size + 65536));
    const ssize_t got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("read", path, errno);
    size += static_cast<size_t>(got);
    if (size > limit) throw FormatError(path + ": larger than the " + std::to_string(limit) + " bytes permitted here");
    if (got == 0) break;
  }
  text.resize(size);
  return text;
}

FileBytes map_file(const std::string& path) {
  Descriptor fd(path, O_RDONLY);
  if (!fd.ok()) throw_errno("open", path, errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw_errno("open", path, errno);
  if (S_ISDIR(status.st_mode)) throw_errno("read", path, EISDIR);
  if (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)) {
    auto text = std::make_shared<std::string>(read_file(path));
    return {text, reinterpret_cast<std::byte*>(text->data()), text->size()};
  }
  if (!S_ISREG(status.st_mode)) throw IoError("read " + path + ": neither a regular file nor a pipe");
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return {};
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) throw_errno("map", path, errno);
  return {std::shared_ptr<void>(data, [size](void* p) { ::munmap(p, size); }), static_cast<std::byte*>(data), size};
}

void write_file_atomically(const std::string& path, const FillFile& fill) {
  std::string target = path;
  struct stat status {};
  bool replaces = false;
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) throw_errno("write", path, EISDIR);
    if (!S_ISREG(status.st_mode)) {  // renaming over a device would replace the device
      Descriptor fd(path, O_WRONLY);
      if (!fd.ok()) throw_errno("open", path, errno);
      DescriptorWriter writer(fd.get(), path);
      fill(writer);
      if (const int error = fd.close()) throw_errno("write", path, error);
      return;
    }
    replaces = true;
    if (char* real = ::realpath(path.c_str(), nullptr)) {
      target = real;
      std::free(real);
    }
  }
  const std::string parent = parent_of(target);
  const std::string part =
      (fs::path(parent) / ("." + fs::path(target).filename().string() + "." + unique_suffix() + ".part")).string();
  write_new_file(part, path, replaces ? status.st_mode & 07777 : 0666, replaces, fill);
  TemporaryFile temporary{part};
  if (::rename(part.c_str(), target.c_str()) != 0) throw_errno("write", path, errno);
  temporary.keep = true;
  sync_directory(parent);
}

void write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  write_file_atomically(path, [&](FileWriter& file) { file.write(bytes); });
}

void write_file_atomically(const std::string& path, std::string_view text) {
  write_file_atomically(path, [&](FileWriter& file) { file.write(text); });
}

// ------------------------------------------------------------------------------------------- DirectoryTransaction

namespace {

std::string previous_name(const std::string& parent, const std::string& name) {
  return (fs::path(parent) / ("." + name + ".previous")).string();
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat x {
  }, y{};
  return ::stat(a.c_str(), &x) == 0 && ::stat(b.c_str(), &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/// ".NAME.PID-N.part" and nothing else: the model "a" must not clean up after the model "a.b".
bool is_part_of(std::string_view entry, const std::string& name) {
  const std::string head = "." + name + ".";
  constexpr std::string_view kTail = ".part";
  if (!entry.starts_with(head) || !entry.ends_with(kTail) || entry.size() <= head.size() + kTail.size()) return false;
  const auto middle = entry.substr(head.size(), entry.size() - head.size() - kTail.size());
  return middle.find_first_not_of("0123456789-") == std::string_view::npos;
}

std::vector<std::string> entries_of(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  if (error) throw_errno("list", directory, error.value());
  return names;
}

void remove_quietly(const std::string& path) {
  std::error_code ignored;  // what stays behind is removed by the next transaction
  fs::remove_all(path, ignored);
}

/// Removes siblings whose writers are gone.
void remove_stale_parts(const std::string& parent, const std::string& name) {
  for (const std::string& entry : entries_of(parent)) {
    if (!is_part_of(entry, name)) continue;
    const std::string path = (fs::path(parent) / entry).string();
    Descriptor fd(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (fd.ok() && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) remove_quietly(path);
  }
}

/// Brings `from` to `to` without writing through it: hard links, or copies where the file system has none.
void carry_over(const fs::path& from, const fs::path& to, const std::string& shown) {
  constexpr auto kHow = fs::copy_options::recursive | fs::copy_options::copy_symlinks;
  std::error_code error;
  fs::copy(from, to, kHow | fs::copy_options::create_hard_links, error);
  if (!error) return;
  remove_quietly(to.string());
  fs::copy(from, to, kHow, error);
  if (error) throw_errno("copy", shown, error.value());
}

struct Location {
  std::string directory, parent, name;
};

/// Follows symbolic links, so that the sibling lies on the same file system as the directory.
Location locate(const std::string& directory) {
  std::error_code error;
  fs::path path = fs::weakly_canonical(fs::absolute(directory, error), error);
  if (error) throw_errno("open directory", directory, error.value());
  if (!path.has_filename()) path = path.parent_path();
  if (!path.has_filename())
    throw IoError("write " + directory + ": cannot replace the root directory; name one below it");
  return {path.string(), path.parent_path().string(), path.filename().string()};
}

}  // namespace

bool exchange_directories(const std::string& a, const std::string& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) return false;
  throw_errno("replace", b, errno);
}

void replace_directory_by_two_renames(const std::string& part, const std::string& directory,
                                      const std::string& previous) {
  if (::rename(directory.c_str(), previous.c_str()) != 0) throw_errno("replace", directory, errno);
  if (::rename(part.c_str(), directory.c_str()) != 0) {
    const int error = errno;
    ::rename(previous.c_str(), directory.c_str());
    throw_errno("replace", directory, error);
  }
  ::rename(previous.c_str(), part.c_str());  // where the caller removes it
}

void DirectoryTransaction::recover(const std::string& directory) {
  const Location at = locate(directory);
  const std::string previous = previous_name(at.parent, at.name);
  if (!exists(previous)) return;
  if (exists(at.directory))
    remove_quietly(previous);
  else if (::rename(previous.c_str(), at.directory.c_str()) != 0)
    throw_errno("recover", at.directory, errno);
}

DirectoryTransaction::DirectoryTransaction(const std::string& directory) {
  const Location at = locate(directory);
  directory_ = at.directory, parent_ = at.parent, name_ = at.name;
  std::error_code error;
  fs::create_directories(parent_, error);
  if (error) throw_errno("create directory", parent_, error.value());
  if (exists(directory_) && !fs::is_directory(directory_)) throw_errno("write", directory_, ENOTDIR);
  recover(directory_);
  remove_stale_parts(parent_, name_);
  while (lock_ < 0) {
    part_ = (fs::path(parent_) / ("." + name_ + "." + unique_suffix() + ".part")).string();
    if (::mkdir(part_.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      throw_errno("create directory", part_, errno);
    }
    lock_ = ::open(part_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0 && errno != ENOENT) {
      const int reason = errno;
      remove_quietly(part_);
      throw_errno("open directory", part_, reason);
    }
    if (lock_ < 0) continue;
    ::flock(lock_, LOCK_EX | LOCK_NB);
    if (!exists(part_)) {  // another transaction took it for stale before the lock stood
      ::close(lock_);
      lock_ = -1;
    }
  }
}

DirectoryTransaction::~DirectoryTransaction() {
  if (!part_.empty()) remove_quietly(part_);
  if (lock_ >= 0) ::close(lock_);
}

void DirectoryTransaction::write(const std::string& name, const FillFile& fill) {
  if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..")
    throw IoError("write " + directory_ + ": \"" + name + "\" is not the name of a file in it");
  if (!replaced_.insert(name).second) throw IoError("write " + directory_ + ": \"" + name + "\" was written already");
  write_new_file((fs::path(part_) / name).string(), (fs::path(directory_) / name).string(), 0666, false, fill);
}

void DirectoryTransaction::write(const std::string& name, std::string_view text) {
  write(name, [&](FileWriter& file) { file.write(text); });
}

void DirectoryTransaction::remove(const std::string& name) { replaced_.insert(name); }

void DirectoryTransaction::commit() {
  struct stat status {};
  const bool replaces = ::stat(directory_.c_str(), &status) == 0;
  std::set<std::string> known = replaced_;
  if (replaces) {
    for (const std::string& entry : entries_of(directory_)) {
      if (!known.insert(entry).second) continue;
      carry_over(fs::path(directory_) / entry, fs::path(part_) / entry, (fs::path(directory_) / entry).string());
    }
    if (::fchmod(lock_, status.st_mode & 07777) != 0) throw_errno("write", directory_, errno);
  }
  sync_directory(part_);
  const bool moves_working_directory = replaces && same_file(".", directory_);
  if (!replaces) {
    if (::rename(part_.c_str(), directory_.c_str()) != 0) throw_errno("write", directory_, errno);
  } else if (!exchange_directories(part_, directory_)) {
    replace_directory_by_two_renames(part_, directory_, previous_name(parent_, name_));
  }
  // From here on part_ is the old directory (or nothing).
  const std::string old = std::exchange(part_, "");
  if (replaces) {
    std::error_code ignored;
    for (fs::directory_iterator it(old, ignored), end; !ignored && it != end; it.increment(ignored)) {
      const std::string entry = it->path().filename().string();
      if (!known.contains(entry))  // somebody put it there while this was running
        ::renameat2(AT_FDCWD, it->path().c_str(), AT_FDCWD, (fs::path(directory_) / entry).c_str(), RENAME_NOREPLACE);
    }
    if (moves_working_directory && ::chdir(directory_.c_str()) != 0) throw_errno("enter", directory_, errno);
  }
  sync_directory(parent_);
  if (replaces) remove_quietly(old);
}

}  // namespace heed::inline v0
