// Files: safetensors, npy and npz, configurations, and writing that never leaves half a file.
//
// FormatError: the content breaks its format. IoError: the operating system refused. Both name the file.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/tensor.h"

namespace heed::inline v0 {

struct FileBytes;  // io/mapped_file.h

// ---------------------------------------------------------------------------------------------- whole files

/// The content of a file. Throws IoError, and FormatError when it is larger than `limit` bytes.
std::string read_file(const std::string& path, uint64_t limit = uint64_t{1} << 32);

/// Takes the bytes of a file that is being written. Throws IoError (a full disk, for one).
class FileWriter {
 public:
  virtual ~FileWriter() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
};
using FillFile = std::function<void(FileWriter&)>;

/// Writes to a temporary name in the same directory (.NAME.heed-*.part), fsyncs it, renames it and fsyncs the
/// directory: readers of `path` find all of the old content or all of the new, also after a crash. On any failure
/// (`fill` may throw) the temporary file is removed and the old content is untouched. The next write of the same file
/// removes what a killed writer left. A replaced file keeps its permissions, and its owner if root writes. Symbolic
/// links are followed; pipes and devices (/dev/stdout) are written directly. Throws IoError.
void write_file_atomically(const std::string& path, const FillFile& fill);
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::string& path, std::string_view text);

// ---------------------------------------------------------------------------------------------- directories

/// Length and CRC-32 (that of zlib, gzip and zip) of a file's content.
struct Checksum {
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
  bool operator==(const Checksum&) const = default;
};
Checksum checksum_of(std::string_view content);
/// The checksum of a content that begins with the content of `sum` and continues with `more`.
Checksum extended(Checksum sum, std::span<const std::byte> more);
Checksum checksum_of_file(const std::string& path);  // throws IoError

/// Replaces files of a directory all at once, on any file system. Only the files named here are written, replaced or
/// removed. docs/decisions/0007-saving.md has the reasons and the proof.
///
/// Names must satisfy is_model_file() (heed/model_files.h): a journal that names another file is refused by the next
/// process, since an untrusted directory may come with one.
///
/// New files are written and fsynced under temporary names in the directory. commit() writes a journal beside them
/// (.heed-journal) with the renames to make, then renames the files, then removes the journal.
///
/// Guarantee: after a kill or a power cut at any moment, DirectorySnapshot finds all the old files or all the new ones,
/// never a mixture, and the next transaction completes the renames. Programs that ignore the journal may find a mixture
/// during the renames, or, after a kill in that moment, until the next transaction.
///
/// A directory has at most one transaction at a time (.heed-lock; not enforced on file systems without locks).
class DirectoryTransaction {
 public:
  /// Makes the directory and missing parents, and completes what a killed transaction committed. Throws IoError, also
  /// while another transaction is open.
  explicit DirectoryTransaction(const std::string& directory);
  /// Without commit(), discards everything written and removes the directories that were made.
  ~DirectoryTransaction();
  DirectoryTransaction(const DirectoryTransaction&) = delete;
  DirectoryTransaction& operator=(const DirectoryTransaction&) = delete;

  /// Throws IoError, also if `name` is not a name that heed uses, or exists and is a mount point or not a regular file.
  /// Links are neither followed nor replaced.
  Checksum write(const std::string& name, const FillFile& fill);
  Checksum write(const std::string& name, std::string_view text);
  void remove(const std::string& name);
  /// Removes the other files of the model that is replaced (is_model_file). Call it after the last write(). Throws
  /// IoError for README.md and licences, which heed does not remove, for mount points, and for irregular files.
  void remove_others();
  /// Later writes belong to the next set.
  void commit();

  /// Directories that the transaction made, outermost first.
  const std::vector<std::string>& made() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class SafetensorsFile;

/// Files of a directory as they were at one moment: complete sets of a DirectoryTransaction, even while one is open or
/// after one was killed. The files are kept open, so that they can be read later. Changes nothing on the disk. Copies
/// share the open files.
class DirectorySnapshot {
 public:
  /// Opens `names`; missing files are left out. Throws IoError, and FormatError for a broken journal.
  DirectorySnapshot(const std::string& directory, const std::vector<std::string>& names);
  /// Files in memory, contents by name; `where` stands for the directory in messages.
  static DirectorySnapshot in_memory(std::string where, std::map<std::string, std::string> files);

  /// The directory.
  const std::string& where() const;
  /// The path of a file, for messages.
  std::string path(const std::string& name) const;
  /// The files that exist, sorted.
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const;
  /// The content of a file. Throws IoError if it is missing, FormatError if it is larger than `limit` bytes.
  std::string read(const std::string& name, uint64_t limit = uint64_t{1} << 32) const;
  SafetensorsFile safetensors(const std::string& name) const;

 private:
  struct Files;  // io/snapshot.h
  struct OnDisk;
  struct InMemory;
  explicit DirectorySnapshot(std::shared_ptr<const Files> files) : files_(std::move(files)) {}
  std::shared_ptr<const Files> files_;
};

/// Names of the files in a directory, sorted, as its snapshots have them: without temporary files and subdirectories.
/// Throws as DirectorySnapshot.
std::vector<std::string> list_files(const std::string& directory);

// ---------------------------------------------------------------------------------------------- safetensors

struct TensorInfo {
  std::string name;
  std::string dtype_name;      // as the file has it: "F32", "BF16", ...
  std::optional<DType> dtype;  // absent for types that heed does not support ("F8_E4M3", "C64")
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes, from the start of the data
};

/// A memory-mapped safetensors file. Opening checks the whole header (sizes, overlaps, holes, duplicate names) and
/// reads no data. The file must not be truncated while it is open; replacing it by rename is fine.
class SafetensorsFile {
 public:
  /// Throws IoError, FormatError.
  explicit SafetensorsFile(const std::string& path);
  /// Takes the content of such a file; `where` names it in messages. Throws FormatError.
  SafetensorsFile(std::string content, const std::string& where);

  const std::string& path() const { return path_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in the header's order
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  uint64_t data_bytes() const { return data_bytes_; }

  bool contains(const std::string& name) const { return index_.contains(name); }
  const TensorInfo& info(const std::string& name) const;  // FormatError when there is none

  /// A view of the mapping if that is aligned for the dtype (writes stay private to the process), else a copy. The
  /// tensor may outlive this object. Throws FormatError if there is no such tensor, or if it has an unsupported dtype
  /// or more than 8 dimensions.
  Tensor tensor(const std::string& name) const;
  /// The first number that is not finite: "m/model.safetensors: tensor 'wte.weight' holds NaN at (3, 17)"; none if all
  /// are finite. Skips types that heed does not support.
  std::optional<std::string> first_non_finite() const;

 private:
  friend class DirectorySnapshot;
  SafetensorsFile(const std::string& path, const FileBytes& file);

  std::string path_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, size_t> index_;  // name -> place in tensors_
  std::map<std::string, std::string> metadata_;
  uint64_t data_bytes_ = 0;
  std::byte* data_ = nullptr;
  std::shared_ptr<void> owner_;
};

/// "(2, 3)"; at most 16 sizes.
std::string shape_text(const std::vector<int64_t>& shape);

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using Metadata = std::map<std::string, std::string>;

/// Writes a safetensors file; equal arguments give equal bytes. Larger element types come first, so all are aligned.
/// Throws FormatError for a name that is used twice, is not UTF-8, or is "__metadata__".
void write_safetensors(FileWriter& file, const NamedTensors& tensors, const Metadata& metadata = {});
void save_safetensors(const std::string& path, const NamedTensors& tensors, const Metadata& metadata = {});

// ---------------------------------------------------------------------------------------------- npy and npz

/// The header of an npy file (numpy.lib.format, versions 1 to 3).
struct NpyInfo {
  std::string descr;  // NumPy's name of the type: "<f4"
  DType dtype = DType::f32;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  uint64_t data_begin = 0;  // bytes, from the start of the file
  uint64_t data_bytes = 0;
};

struct NpyArray {
  Tensor tensor;             // row major
  bool was_fortran = false;  // the file was column major and was transposed: worth a warning
};

/// Reads and checks the header only: the length of the data must match the shape. Supports booleans, floats of 2, 4 and
/// 8 bytes and integers of 1 to 8 bytes, either byte order. Throws IoError; FormatError also for object, structured and
/// text types.
NpyInfo read_npy_info(const std::string& path);
NpyArray load_npy(const std::string& path);
/// Throws FormatError for bfloat16, which NumPy does not have.
void save_npy(const std::string& path, const Tensor& tensor);
void write_npy(FileWriter& file, const Tensor& tensor);

/// The arrays of an npz file (a zip of npy files, stored or deflated), in the file's order, named without ".npy".
/// Throws FormatError when they take more than `limit` bytes unpacked, or more than 64 MiB and 100 times the file's
/// size.
std::vector<std::pair<std::string, NpyInfo>> read_npz_info(const std::string& path);
std::vector<std::pair<std::string, NpyArray>> load_npz(const std::string& path, uint64_t limit = uint64_t{1} << 33);
/// Equal arguments give equal bytes. Builds the archive in memory first.
void save_npz(const std::string& path, const NamedTensors& tensors, bool compress = false);

// ---------------------------------------------------------------------------------------------- compressed files

/// A stream of bytes: writes the next ones to `into`, which is not empty, and returns their number; 0 only at the end.
using ReadBytes = std::function<size_t(std::span<char> into)>;

/// Whether the bytes begin as gzip's do.
bool is_gzip(std::string_view bytes);

/// Unpacks all members and concatenates them. Throws FormatError for data that is broken, cut off or followed by
/// anything else, and, beyond 64 MiB, for data that unpacks to more than 100 times its size, which text never does.
std::string gunzip(std::string_view packed, const std::string& where);
/// Unpacks while reading, and throws then.
ReadBytes gunzip(ReadBytes packed, const std::string& where);

// ---------------------------------------------------------------------------------------------- configurations

/// `text` in double quotes, with control characters escaped and shortened to about 80 characters, for messages.
std::string in_quotes(std::string_view text);

/// Reads one JSON object strictly: each getter names a key with its type and range, and finish() refuses keys that no
/// getter asked for. Getters with a fallback return it where the key is absent; the others need the key.
/// Throws FormatError with `where`, the key, the value and what is permitted.
class ConfigReader {
 public:
  /// `where` names the source in messages, usually the file.
  ConfigReader(std::string_view json, std::string where);
  ~ConfigReader();
  ConfigReader(ConfigReader&&) noexcept;
  ConfigReader& operator=(ConfigReader&&) noexcept;

  bool has(std::string_view key) const;
  int64_t integer(const std::string& key, int64_t lowest, int64_t highest, std::optional<int64_t> fallback = {});
  /// Both ends are permitted.
  double number(const std::string& key, double lowest, double highest, std::optional<double> fallback = {});
  bool boolean(const std::string& key, std::optional<bool> fallback = {});
  std::string string(const std::string& key, std::optional<std::string> fallback = {});
  std::string one_of(const std::string& key, const std::vector<std::string>& permitted,
                     std::optional<std::string> fallback = {});
  ConfigReader object(const std::string& key);  // call finish() on it, too

  void finish() const;

 private:
  struct State;
  explicit ConfigReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Writes one JSON object, keys in the order of set(). Numbers read back to the same bits.
class ConfigWriter {
 public:
  ConfigWriter();
  ~ConfigWriter();
  ConfigWriter(const ConfigWriter&) = delete;
  ConfigWriter& operator=(const ConfigWriter&) = delete;

  template <std::integral T>
  ConfigWriter& set(std::string_view key, T value) {
    if constexpr (std::same_as<T, bool>) return set_boolean(key, value);
    return set_integer(key, static_cast<int64_t>(value));
  }
  ConfigWriter& set(std::string_view key, double value);  // finite, else FormatError
  ConfigWriter& set(std::string_view key, std::string_view value);
  ConfigWriter& set(std::string_view key, const char* value) { return set(key, std::string_view(value)); }
  ConfigWriter& set(std::string_view key, const ConfigWriter& object);
  std::string text() const;  // indented by two spaces, ends with a newline

 private:
  ConfigWriter& set_integer(std::string_view key, int64_t value);
  ConfigWriter& set_boolean(std::string_view key, bool value);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heed::inline v0
