// npz: a zip archive of npy files.
#include <zip.h>

#include <set>

#include "heed/checked.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "io/npy_header.h"
#include "io/unpacking.h"

namespace heed::inline v0 {

namespace {

constexpr std::string_view kClosingRecord("PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);  // of an empty archive

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Archive = std::unique_ptr<zip_t, CloseArchive>;
using Entry = std::unique_ptr<zip_file_t, CloseEntry>;

struct ZipError {
  zip_error_t value;
  ZipError() { zip_error_init(&value); }
  ~ZipError() { zip_error_fini(&value); }
  std::string text() { return zip_error_strerror(&value); }
};

/// Calls visit(name, size, entry) for each array; `entry` is opened.
template <class Visit>
void for_each_entry(const std::string& path, const FileBytes& file, uint64_t limit, Visit visit) {
  // libzip takes an empty file for an empty archive; even that has a closing record.
  if (file.size < kClosingRecord.size()) throw FormatError(path + ": too short for an npz file");
  ZipError error;
  zip_source_t* source = zip_source_buffer_create(file.data, file.size, 0, &error.value);
  if (!source) throw IoError("read " + path + ": " + error.text());
  Archive archive(zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error.value));
  if (!archive) {
    zip_source_free(source);
    throw FormatError(path + ": not an npz file: " + error.text());
  }
  std::set<std::string> names;
  CheckedSize total = 0;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive.get(), 0); ++i) {
    zip_stat_t status;
    zip_stat_init(&status);
    constexpr zip_uint64_t kNeeded =
        ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(i), 0, &status) != 0 ||
        (status.valid & kNeeded) != kNeeded)
      throw FormatError(path + ": entry " + std::to_string(i) + " of the archive is damaged");
    const std::string entry_name = status.name;
    const std::string where = path + ": " + in_quotes(entry_name);
    if (!entry_name.ends_with(".npy")) throw FormatError(where + " is not an npy file; an npz holds nothing else");
    if (!names.insert(entry_name).second) throw FormatError(where + " occurs twice");
    if (status.encryption_method != ZIP_EM_NONE) throw FormatError(where + " is encrypted; decrypt it first");
    if (status.comp_method != ZIP_CM_STORE && status.comp_method != ZIP_CM_DEFLATE)
      throw FormatError(where + ": compression method " + std::to_string(status.comp_method) +
                        "; stored and deflated are known");
    // Deflate cannot pack better than 1032 to 1.
    const CheckedSize most = checked_add(checked_multiply(status.comp_size, 1032), 1032);
    if (!most || status.size > *most)
      throw FormatError(where + ": " + std::to_string(status.size) + " bytes unpacked from " +
                        std::to_string(status.comp_size) + ", more than deflate can pack; the archive is damaged");
    total = checked_add(total, status.size);
    if (!total || *total > limit)
      throw FormatError(where + ": the arrays up to it have " + (total ? std::to_string(*total) : "2^64 or more") +
                        " bytes unpacked; at most " + std::to_string(limit) + " are read from a file of " +
                        std::to_string(file.size) + ". Save it without compression, as numpy.savez does");
    Entry entry(zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(i), 0));
    if (!entry) throw FormatError(where + ": " + zip_strerror(archive.get()));
    visit(entry_name.substr(0, entry_name.size() - 4), status.size, entry.get(), where);
  }
}

/// Exactly `size` bytes, or FormatError.
void read_exactly(zip_file_t* entry, std::byte* data, uint64_t size, const std::string& where) {
  while (size > 0) {
    const zip_int64_t got = zip_fread(entry, data, size);
    if (got < 0) throw FormatError(where + ": " + zip_error_strerror(zip_file_get_error(entry)));
    if (got == 0) throw FormatError(where + ": cut short in the archive");
    data += got;
    size -= static_cast<uint64_t>(got);
  }
}

void expect_end(zip_file_t* entry, const std::string& where) {  // the checksum is compared here
  std::byte extra;
  const zip_int64_t got = zip_fread(entry, &extra, 1);
  if (got < 0) throw FormatError(where + ": " + zip_error_strerror(zip_file_get_error(entry)));
  if (got > 0) throw FormatError(where + ": longer than the archive says");
}

NpyInfo read_header(zip_file_t* entry, uint64_t size, std::vector<std::byte>& start, const std::string& where) {
  start.resize(std::min<uint64_t>(size, kLongestNpyHeader));
  read_exactly(entry, start.data(), start.size(), where);
  return parse_npy_header(start, size, where);
}

class MemoryWriter : public FileWriter {
 public:
  using FileWriter::write;
  void write(std::span<const std::byte> more) override { bytes.insert(bytes.end(), more.begin(), more.end()); }
  std::vector<std::byte> bytes;
};

}  // namespace

std::vector<std::pair<std::string, NpyInfo>> read_npz_info(const std::string& path) {
  std::vector<std::pair<std::string, NpyInfo>> infos;
  const FileBytes file = map_file(path);
  for_each_entry(path, file, ~uint64_t{0},
                 [&](const std::string& name, uint64_t size, zip_file_t* entry, const std::string& where) {
                   std::vector<std::byte> start;
                   infos.emplace_back(name, read_header(entry, size, start, where));
                 });
  return infos;
}

std::vector<std::pair<std::string, NpyArray>> load_npz(const std::string& path, uint64_t limit) {
  std::vector<std::pair<std::string, NpyArray>> arrays;
  const FileBytes file = map_file(path);
  for_each_entry(path, file, std::min(limit, most_unpacked(file.size)),
                 [&](const std::string& name, uint64_t size, zip_file_t* entry, const std::string& where) {
                   auto bytes = std::make_shared<std::vector<std::byte>>();
                   const NpyInfo info = read_header(entry, size, *bytes, where);
                   const size_t have = bytes->size();
                   bytes->resize(size);
                   read_exactly(entry, bytes->data() + have, size - have, where);
                   expect_end(entry, where);
                   arrays.emplace_back(name, npy_array(info, bytes->data() + info.data_begin, bytes, where));
                 });
  return arrays;
}

void save_npz(const std::string& path, const NamedTensors& tensors, bool compress) {
  const auto fail = [&](const std::string& reason) { throw IoError("write " + path + ": " + reason); };
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors)
    if (!names.insert(name).second) throw FormatError("npz: the name " + in_quotes(name) + " is used twice");
  if (tensors.empty()) return write_file_atomically(path, kClosingRecord);  // libzip would write nothing at all

  ZipError error;
  zip_source_t* target = zip_source_buffer_create(nullptr, 0, 0, &error.value);
  if (!target) fail(error.text());
  const std::unique_ptr<zip_source_t, void (*)(zip_source_t*)> keep(target, zip_source_free);
  zip_source_keep(target);  // once for the archive, once to read the result
  Archive archive(zip_open_from_source(target, ZIP_TRUNCATE, &error.value));
  if (!archive) {
    zip_source_free(target);
    fail(error.text());
  }
  std::vector<MemoryWriter> contents(tensors.size());  // the archive reads them when it is closed
  for (size_t i = 0; i < tensors.size(); ++i) {
    write_npy(contents[i], tensors[i].second);
    zip_source_t* source = zip_source_buffer(archive.get(), contents[i].bytes.data(), contents[i].bytes.size(), 0);
    const zip_int64_t index =
        source ? zip_file_add(archive.get(), (tensors[i].first + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8) : -1;
    if (index < 0) {
      if (source) zip_source_free(source);
      fail(zip_strerror(archive.get()));
    }
    const auto at = static_cast<zip_uint64_t>(index);
    zip_set_file_compression(archive.get(), at, compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    zip_file_set_dostime(archive.get(), at, 0, 0x21, 0);  // the first day of 1980, so that equal content is equal
  }
  zip_t* const closing = archive.release();
  if (zip_close(closing) != 0) {
    const std::string reason = zip_strerror(closing);
    zip_discard(closing);
    fail(reason);
  }
  zip_stat_t status;
  zip_stat_init(&status);
  if (zip_source_stat(target, &status) != 0 || zip_source_open(target) != 0)
    fail(zip_error_strerror(zip_source_error(target)));
  std::vector<std::byte> bytes(status.size);
  const zip_int64_t got = zip_source_read(target, bytes.data(), bytes.size());
  zip_source_close(target);
  if (got != static_cast<zip_int64_t>(bytes.size())) fail("the archive could not be read back from memory");
  write_file_atomically(path, bytes);
}

}  // namespace heed::inline v0
