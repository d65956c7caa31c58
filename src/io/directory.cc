// Sets of files: one transaction writes, any number of snapshots read. docs/decisions/0007-saving.md
#include <sys/file.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "heed/model_files.h"
#include "io/file_system.h"
#include "io/json.h"
#include "io/snapshot.h"

namespace heed::inline v0 {

namespace fs = std::filesystem;

namespace {

constexpr const char* kJournal = ".heed-journal";
constexpr const char* kLock = ".heed-lock";
constexpr int64_t kJournalFormat = 1;

std::string shown_in(const std::string& directory, const std::string& name) {
  return (fs::path(directory) / name).string();
}

/// Of an entry of a directory, as readers list them.
bool is_file_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name != "." && name != ".." && name != kJournal &&
         name != kLock && !is_part(name);
}

/// Whether something is mounted at `name`, be it of the same file system.
bool is_mount_point(int directory, const std::string& name) {
  struct statx status {};
  if (::statx(directory, name.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &status) != 0) return false;
  if (status.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) return status.stx_attributes & STATX_ATTR_MOUNT_ROOT;
  struct stat of_name {
  }, of_directory{};  // Linux before 5.8 tells other file systems only
  return ::fstatat(directory, name.c_str(), &of_name, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstat(directory, &of_directory) == 0 && of_name.st_dev != of_directory.st_dev;
}

class SummingWriter : public DescriptorWriter {
 public:
  using DescriptorWriter::DescriptorWriter;
  using FileWriter::write;
  void write(std::span<const std::byte> bytes) override {
    DescriptorWriter::write(bytes);
    sum = extended(sum, bytes);
  }
  Checksum sum;
};

// ---------------------------------------------------------------------------------------------- the journal

struct Journal {
  std::map<std::string, std::string> part_of;  // of a file's name
  std::set<std::string> removed;
};

std::string write_journal(const Journal& journal) {
  nlohmann::ordered_json json{{"format", kJournalFormat},
                              {"rename", nlohmann::ordered_json::array()},
                              {"remove", nlohmann::ordered_json::array()}};
  for (const auto& [name, part] : journal.part_of) json["rename"].push_back({{"from", part}, {"to", name}});
  for (const std::string& name : journal.removed) json["remove"].push_back(name);
  return json.dump(1) + "\n";
}

/// A directory may be untrusted, and what its journal says is done to its files: it may name heed's own alone.
void expect_own_name(const std::string& name, const std::string& where) {
  if (!is_model_file(name))
    throw FormatError(where + ": it names " + in_quotes(name) +
                      ", which is no file of heed's, so heed did not write it; remove it");
}

Journal parse_journal(const std::string& text, const std::string& where) {
  const auto broken = [&] {
    return FormatError(where +
                       ": not the journal of a save by this version of heed; if nothing else wrote it, remove "
                       "it, and the files are what they were before that save");
  };
  Journal journal;
  try {
    const nlohmann::json json = parse_json(text, where);
    if (json.at("format") != kJournalFormat) throw broken();
    for (const nlohmann::json& one : json.at("rename"))
      journal.part_of[one.at("to").get<std::string>()] = one.at("from").get<std::string>();
    for (const nlohmann::json& one : json.at("remove")) journal.removed.insert(one.get<std::string>());
  } catch (const nlohmann::json::exception&) {
    throw broken();
  }
  for (const auto& [name, part] : journal.part_of) {
    expect_own_name(name, where);
    if (!is_part_of(part, name)) throw broken();
  }
  for (const std::string& name : journal.removed) expect_own_name(name, where);
  return journal;
}

std::optional<Journal> read_journal(int directory, const std::string& shown) {
  constexpr uint64_t kLargest = 1 << 20;
  const std::string path = shown_in(shown, kJournal);
  const Descriptor fd(::openat(directory, kJournal, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd.ok() && errno == ENOENT) return {};
  if (!fd.ok()) throw_errno("open", path, errno);
  if (!S_ISREG(status_of(fd.get(), path).st_mode)) throw FormatError(path + ": not a regular file; remove it");
  return parse_journal(read_descriptor(fd.get(), path, kLargest), path);
}

/// Does what a journal says as far as it was not done yet.
void complete(int directory, const Journal& journal, const std::string& shown) {
  for (const auto& [name, part] : journal.part_of)
    if (::renameat(directory, part.c_str(), directory, name.c_str()) != 0 && errno != ENOENT)
      throw_errno("replace", shown_in(shown, name), errno);
  for (const std::string& name : journal.removed)
    if (::unlinkat(directory, name.c_str(), 0) != 0 && errno != ENOENT && errno != EISDIR)
      throw_errno("remove", shown_in(shown, name), errno);
  sync(directory, shown);  // before the journal goes: it must not be gone while a rename is not there yet
  if (::unlinkat(directory, kJournal, 0) != 0 && errno != ENOENT)
    throw_errno("remove", shown_in(shown, kJournal), errno);
  sync(directory, shown);
}

// ---------------------------------------------------------------------------------------------- opening

/// What a directory that is not there may have become in a save of heed before it had journals.
std::string previous_of(const std::string& directory) {
  fs::path path = directory;
  if (!path.has_filename()) path = path.parent_path();
  return (path.parent_path() / ("." + path.filename().string() + ".previous")).string();
}

void refuse_previous(const std::string& directory) {
  std::error_code error;
  const std::string previous = previous_of(directory);
  if (!fs::exists(directory, error) && fs::is_directory(previous, error))
    throw IoError(directory + ": not there, but " + previous +
                  " is, which a save of an earlier heed left when it was cut off; rename that to " + directory);
}

/// mkdir -p; the directories that were not there yet, outermost first.
std::vector<std::string> make_directories(const std::string& directory) {
  std::vector<std::string> made;
  std::vector<fs::path> missing;
  std::error_code error;
  fs::path path = directory;
  if (!path.has_filename()) path = path.parent_path();
  for (; !path.empty() && fs::status(path, error).type() == fs::file_type::not_found; path = path.parent_path())
    missing.push_back(path);
  for (auto it = missing.rbegin(); it != missing.rend(); ++it) {
    if (::mkdir(it->c_str(), 0777) == 0)
      made.push_back(it->string());
    else if (errno != EEXIST) {
      const int reason = errno;
      for (auto back = made.rbegin(); back != made.rend(); ++back) ::rmdir(back->c_str());
      throw_errno("create directory", it->string(), reason);
    }
  }
  return made;
}

/// The lock of a directory: a file that is there while somebody writes.
class Lock {
 public:
  Lock(int directory, const std::string& shown) : directory_(directory) {
    const std::string path = shown_in(shown, kLock);
    while (true) {
      fd_ = Descriptor(::openat(directory, kLock, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
      if (!fd_.ok()) throw_errno("create", path, errno);
      // Whatever else the file system answers, there is no other run that is known of.
      while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        if (errno == EWOULDBLOCK)
          throw IoError("another run of heed is writing in " + shown + "; wait for it or choose another directory");
        break;
      }
      struct stat there {};
      const struct stat here = status_of(fd_.get(), path);
      if (::fstatat(directory, kLock, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_dev == here.st_dev &&
          there.st_ino == here.st_ino)
        return;  // else its holder removed it in between
    }
  }
  ~Lock() { ::unlinkat(directory_, kLock, 0); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int directory_;
  Descriptor fd_;
};

}  // namespace

Checksum extended(Checksum sum, std::span<const std::byte> bytes) {
  if (bytes.empty()) return sum;  // zlib begins anew at a null pointer
  sum.bytes += bytes.size();
  sum.crc32 = static_cast<uint32_t>(::crc32_z(sum.crc32, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  return sum;
}

Checksum checksum_of(std::string_view content) {
  return extended({}, std::as_bytes(std::span(content.data(), content.size())));
}

Checksum checksum_of_file(const std::string& path) {
  const FileBytes file = map_file(path);
  return extended({}, {file.data, file.size});
}

// ------------------------------------------------------------------------------------------- DirectoryTransaction

struct DirectoryTransaction::State {
  explicit State(const std::string& path) : shown(path) {
    refuse_previous(shown);
    made = make_directories(shown);
  }
  ~State() {
    parts.clear();
    lock.reset();
    if (kept) return;
    for (auto it = made.rbegin(); it != made.rend(); ++it)
      if (::rmdir(it->c_str()) != 0) break;
  }

  void open() {
    directory = Descriptor(shown, O_RDONLY | O_DIRECTORY);
    if (!directory.ok()) throw_errno("open directory", shown, errno);
    lock.emplace(directory.get(), shown);
    if (const auto journal = read_journal(directory.get(), shown)) complete(directory.get(), *journal, shown);
    remove_stale_parts(directory.get(), [](std::string_view) { return true; });
  }

  /// A file that is mounted by itself, as containers do, can be neither replaced nor removed: the system says so only
  /// after the commit, when the others have changed.
  void expect_no_mount(const std::string& name) const {
    if (is_mount_point(directory.get(), name))
      throw IoError("write " + shown_in(shown, name) + ": it is a mount point, which cannot be replaced; mount " +
                    shown + " instead of its files, or choose another directory");
  }

  /// Where a directory was made the entry in its parent must last, too.
  void sync_parents() const {
    for (const std::string& one : made) {
      const std::string parent = fs::path(one).parent_path().string();
      if (const Descriptor fd = open_directory(parent.empty() ? "." : parent); fd.ok()) sync(fd.get(), parent);
    }
  }

  std::string shown;
  std::vector<std::string> made;
  bool kept = false;  // something was committed
  Descriptor directory;
  std::optional<Lock> lock;
  std::map<std::string, PartFile> parts;  // by the name of the file
  std::set<std::string> removed;
};

DirectoryTransaction::DirectoryTransaction(const std::string& directory) : state_(new State(directory)) {
  state_->open();
}
DirectoryTransaction::~DirectoryTransaction() = default;

void DirectoryTransaction::remove_others() {
  State& s = *state_;
  for (const std::string& name : entries_of(s.directory.get(), s.shown)) {
    if (!is_model_file(name) || s.parts.contains(name) || s.removed.contains(name)) continue;
    struct stat status {};
    if (::fstatat(s.directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const bool lasting = is_lasting_text(name) && name != kModelCardFile;
    if (lasting || !S_ISREG(status.st_mode))
      throw IoError(
          "remove " + shown_in(s.shown, name) + ": it belongs to the model that is replaced, and heed removes " +
          (lasting ? "no licence and no README.md" : "regular files alone") + "; remove it, or name another directory");
    remove(name);
  }
}

const std::vector<std::string>& DirectoryTransaction::made() const { return state_->made; }

Checksum DirectoryTransaction::write(const std::string& name, const FillFile& fill) {
  State& s = *state_;
  const std::string path = shown_in(s.shown, name);
  if (!is_model_file(name))
    throw IoError("write " + s.shown + ": " + in_quotes(name) +
                  " is not the name of a file of heed's (heed/model_files.h)");
  if (s.parts.contains(name) || s.removed.contains(name))
    throw IoError("write " + s.shown + ": \"" + name + "\" was written or removed already");
  struct stat old {};
  const bool replaces = ::fstatat(s.directory.get(), name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0;
  if (replaces && !S_ISREG(old.st_mode))
    throw IoError("write " + path + ": it is " +
                  (S_ISLNK(old.st_mode)   ? "a symbolic link"
                   : S_ISDIR(old.st_mode) ? "a directory"
                                          : "no regular file") +
                  ", which heed neither follows nor replaces; remove it or choose another directory");
  s.expect_no_mount(name);
  PartFile part(s.directory.get(), name, path, replaces ? &old : nullptr);
  SummingWriter writer(part.fd(), path);
  fill(writer);
  sync(part.fd(), path);
  s.parts.emplace(name, std::move(part));
  return writer.sum;
}

Checksum DirectoryTransaction::write(const std::string& name, std::string_view text) {
  return write(name, [&](FileWriter& file) { file.write(text); });
}

void DirectoryTransaction::remove(const std::string& name) {
  State& s = *state_;
  if (!is_model_file(name) || s.parts.contains(name))
    throw IoError("remove from " + s.shown + ": " + in_quotes(name) +
                  " is not the name of a file of heed's (heed/model_files.h), or was written");
  s.expect_no_mount(name);
  s.removed.insert(name);
}

void DirectoryTransaction::commit() {
  State& s = *state_;
  const int directory = s.directory.get();
  // Only what failed after a commit leaves one: its set comes before this one.
  if (const auto journal = read_journal(directory, s.shown)) complete(directory, *journal, s.shown);
  Journal journal{.part_of = {}, .removed = s.removed};
  for (const auto& [name, part] : s.parts) journal.part_of[name] = part.name();
  PartFile file(directory, kJournal, shown_in(s.shown, kJournal), nullptr);
  DescriptorWriter(file.fd(), shown_in(s.shown, kJournal)).write(write_journal(journal));
  sync(file.fd(), shown_in(s.shown, kJournal));
  s.sync_parents();
  sync(directory, s.shown);  // what the journal names must be there before it is
  if (const int error = file.rename_to(kJournal)) throw_errno("write", shown_in(s.shown, kJournal), error);
  s.kept = true;
  for (auto& [name, part] : s.parts) part.keep();
  s.parts.clear();
  s.removed.clear();
  sync(directory, s.shown);
  complete(directory, journal, s.shown);
}

// ------------------------------------------------------------------------------------------- DirectorySnapshot

namespace {

struct Held {
  Descriptor fd;
  dev_t device = 0;
  ino_t inode = 0;
};

/// Each name as it was at some moment of the call.
std::map<std::string, Held> look(int directory, const std::vector<std::string>& names, const std::string& shown) {
  std::map<std::string, Held> found;
  const std::optional<Journal> journal = read_journal(directory, shown);
  for (const std::string& name : names) {
    if (journal && journal->removed.contains(name)) continue;
    constexpr int kHow = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
    Descriptor fd;
    if (journal)
      if (const auto renamed = journal->part_of.find(name); renamed != journal->part_of.end())
        fd = Descriptor(::openat(directory, renamed->second.c_str(), kHow | O_NOFOLLOW));
    if (!fd.ok()) fd = Descriptor(::openat(directory, name.c_str(), kHow));
    if (!fd.ok() && errno == ENOENT) continue;
    const std::string path = shown_in(shown, name);
    if (!fd.ok()) throw_errno("open", path, errno);
    const struct stat status = status_of(fd.get(), path);
    if (!S_ISREG(status.st_mode)) throw IoError("read " + path + ": not a regular file");
    found[name] = {std::move(fd), status.st_dev, status.st_ino};
  }
  return found;
}

bool same(const std::map<std::string, Held>& a, const std::map<std::string, Held>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.device == y.second.device && x.second.inode == y.second.inode;
  });
}

Descriptor open_to_read(const std::string& directory) {
  Descriptor fd(directory, O_PATH | O_DIRECTORY);  // it need not be readable itself
  if (!fd.ok()) {
    const int error = errno;
    refuse_previous(directory);
    throw_errno("open directory", directory, error);
  }
  return fd;
}

}  // namespace

struct DirectorySnapshot::OnDisk : Files {
  OnDisk(const std::string& directory, const std::vector<std::string>& wanted);

  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, held] : files) all.push_back(name);
    return all;
  }

  bool contains(const std::string& name) const override { return files.contains(name); }

  std::string read(const std::string& name, uint64_t limit) const override {
    const int fd = held(name).fd.get();
    const std::string path = shown_in(where, name);
    if (::lseek(fd, 0, SEEK_SET) != 0) throw_errno("read", path, errno);
    return read_descriptor(fd, path, limit);
  }

  FileBytes bytes(const std::string& name) const override {
    return map_descriptor(held(name).fd.get(), shown_in(where, name));
  }

  const Held& held(const std::string& name) const {
    const auto it = files.find(name);
    if (it == files.end()) throw_errno("open", shown_in(where, name), ENOENT);
    return it->second;
  }

  std::map<std::string, Held> files;
};

// A file's name leads to one inode after the other and never back, and what is held open keeps its inode's number from
// being given away. So names that lead to the same files in two looks did so in between, all of them at once. Nothing
// marks a name that is not there, which a save may make and the next one remove between the looks: the second one
// begins with those. A save removes behind its renames, so what it replaced has changed when the rest is looked at.
DirectorySnapshot::OnDisk::OnDisk(const std::string& directory, const std::vector<std::string>& wanted)
    : Files(directory) {
  constexpr int kMostLooks = 1000;
  const Descriptor fd = open_to_read(directory);
  files = look(fd.get(), wanted, directory);
  std::vector<std::string> order = wanted;
  for (int looks = 1;; ++looks) {
    std::stable_partition(order.begin(), order.end(), [&](const std::string& name) { return !files.contains(name); });
    auto again = look(fd.get(), order, directory);
    if (same(files, again)) return;
    files = std::move(again);
    if (looks == kMostLooks)
      throw IoError("read " + directory +
                    ": it is saved all the time; try again, or copy it while no process saves it");
    std::this_thread::sleep_for(std::chrono::microseconds(10 * looks));
  }
}

DirectorySnapshot::DirectorySnapshot(const std::string& directory, const std::vector<std::string>& names)
    : files_(std::make_shared<OnDisk>(directory, names)) {}

std::vector<std::string> list_files(const std::string& directory) {
  Descriptor fd(directory, O_RDONLY | O_DIRECTORY);
  if (!fd.ok()) {
    const int error = errno;
    refuse_previous(directory);
    throw_errno("list", directory, error);
  }
  std::set<std::string> names;
  const std::optional<Journal> journal = read_journal(fd.get(), directory);
  for (const std::string& entry : entries_of(fd.get(), directory)) {
    struct stat status {};
    if (is_file_name(entry) && ::fstatat(fd.get(), entry.c_str(), &status, 0) == 0 && S_ISREG(status.st_mode))
      names.insert(entry);
  }
  if (journal) {
    for (const auto& [name, part] : journal->part_of) names.insert(name);
    for (const std::string& name : journal->removed) names.erase(name);
  }
  return {names.begin(), names.end()};
}

}  // namespace heed::inline v0
