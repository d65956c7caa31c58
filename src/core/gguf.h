// GGUF, the files of llama.cpp: facts about a model, then the places of its tensors, then their bytes.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
// Header only: heed::text, which links no other library of heed, reads a tokenizer out of it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/checked.h"
#include "heed/error.h"
#include "heed/file_kind.h"

namespace heed::inline v0 {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

/// How a tensor's numbers are kept: so many elements of a row in so many bytes.
struct GgufType {
  uint32_t id;
  const char* name;
  uint32_t elements, bytes;
};

/// Those that heed reads.
inline constexpr GgufType kGgufTypes[] = {
    {0, "F32", 1, 4},       {1, "F16", 1, 2},       {30, "BF16", 1, 2},     {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},    {6, "Q5_0", 32, 22},    {7, "Q5_1", 32, 24},    {8, "Q8_0", 32, 34},
    {12, "Q4_K", 256, 144}, {13, "Q5_K", 256, 176}, {14, "Q6_K", 256, 210},
};

struct GgufTensor {
  std::string name;
  uint32_t type_id = 0;
  const GgufType* type = nullptr;  // null for one that heed does not read
  std::vector<int64_t> shape{};    // rows of a matrix first: the file has it the other way round
  std::byte* data = nullptr;
  uint64_t bytes = 0;
};

/// Names of others in messages: one line, not too long.
inline std::string printable(std::string_view text) {
  constexpr size_t kLongest = 80;
  std::string line;
  for (const char c : text.substr(0, kLongest)) line += c >= 0x20 && c < 0x7f ? c : '?';
  return "'" + line + (text.size() > kLongest ? "..." : "") + "'";
}

/// Whether a regular file stands at `path` and begins as one of GGUF's does. Throws IoError for one that cannot be
/// read.
inline bool is_gguf(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  char beginning[4] = {};
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError("open " + path + ": " + std::strerror(errno));
  file.read(beginning, sizeof beginning);
  return std::string_view(beginning, sizeof beginning) == "GGUF";
}

/// A GGUF file, mapped. Opening checks everything before the tensors' bytes and reads none of those. The file must not
/// be shortened in place while it is open.
class GgufFile {
 public:
  /// Versions 2 and 3, little-endian. Throws IoError, FormatError.
  explicit GgufFile(const std::string& path) : path_(path) {
    map();
    rest_ = {data_.get(), static_cast<size_t>(size_)};
    read_header();
  }

  const std::string& path() const { return path_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* tensor(std::string_view name) const {
    const auto at = index_.find(name);
    return at == index_.end() ? nullptr : &tensors_[at->second];
  }
  /// Keeps the file's bytes, which tensors point to.
  std::shared_ptr<void> owner() const { return data_; }

  // The facts, by key; nothing where there is none. FormatError for one of another type. Texts point into the file, and
  // nobody has looked whether they are UTF-8.
  bool has(std::string_view key) const { return values_.contains(key); }
  bool is_list(std::string_view key) const {
    const auto at = values_.find(key);
    return at != values_.end() && at->second.is_list;
  }
  std::optional<std::string_view> text(std::string_view key) const {
    const Value* const value = one(key);
    if (!value) return {};
    if (value->type != Type::string) fail(key, "is not a text");
    return text_at(value->bytes);
  }
  std::optional<bool> flag(std::string_view key) const {
    const Value* const value = one(key);
    if (!value) return {};
    if (value->type != Type::boolean) fail(key, "is neither true nor false");
    return value->bytes[0] != 0;
  }
  std::optional<int64_t> integer(std::string_view key) const {
    const Value* const value = one(key);
    if (!value) return {};
    return integer_at(*value, 0, key);
  }
  std::optional<double> number(std::string_view key) const {
    const Value* const value = one(key);
    if (!value) return {};
    return number_at(*value, 0, key);
  }
  std::vector<std::string_view> texts(std::string_view key) const {
    const Value* const value = list(key);
    if (!value) return {};
    if (value->type != Type::string) fail(key, "is not a list of texts");
    std::vector<std::string_view> all;
    all.reserve(value->count);
    for (std::string_view rest = value->bytes; !rest.empty(); rest.remove_prefix(8 + all.back().size()))
      all.push_back(text_at(rest));
    return all;
  }
  std::vector<int64_t> integers(std::string_view key) const {
    return each<int64_t>(key, [&](const Value& value, uint64_t i) { return integer_at(value, i, key); });
  }
  std::vector<double> numbers(std::string_view key) const {
    return each<double>(key, [&](const Value& value, uint64_t i) { return number_at(value, i, key); });
  }

  [[noreturn]] void fail(std::string_view key, const std::string& what) const {
    throw FormatError(path_ + ": " + printable(key) + " " + what);
  }

 private:
  enum class Type : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
  static constexpr uint64_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // bytes; 0 where they differ
  // More than any model has, so that what is kept of them is small beside the file's bytes or beside nothing.
  static constexpr uint64_t kMostKeys = 1 << 16, kMostTensors = 1 << 16;

  struct Value {
    Type type;  // of each element
    bool is_list;
    uint64_t count;
    std::string_view bytes;
  };

  void map() {
    const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw IoError("open " + path_ + ": " + std::strerror(errno));
    const std::unique_ptr<const int, void (*)(const int*)> closed(&fd, [](const int* f) { ::close(*f); });
    struct stat status {};
    if (::fstat(fd, &status) != 0) throw IoError("open " + path_ + ": " + std::strerror(errno));
    if (!S_ISREG(status.st_mode)) throw IoError("read " + path_ + ": this has to be a regular file");
    const auto size = static_cast<size_t>(status.st_size);
    if (size == 0) throw FormatError(path_ + ": the file is empty");
    void* const data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) throw IoError("map " + path_ + ": " + std::strerror(errno));
    data_ = std::shared_ptr<char>(static_cast<char*>(data), [size](char* p) { ::munmap(p, size); });
    size_ = size;
  }

  std::string_view take(uint64_t bytes, const char* what) {
    if (bytes > rest_.size())
      throw FormatError(path_ + ": the file ends within " + what + "; it is cut off or broken, fetch it again");
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  template <class T>
  static T as(const char* bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    return value;
  }
  template <class T>
  T take_number(const char* what) {
    return as<T>(take(sizeof(T), what).data());
  }
  std::string_view take_text(const char* what) { return take(take_number<uint64_t>(what), what); }

  void read_header() {
    if (take(4, "its beginning") != "GGUF") throw FormatError(path_ + ": this is not a GGUF file");
    const auto version = take_number<uint32_t>("its beginning");
    if (version != 0 && (version & 0xFFFF) == 0)
      throw FormatError(path_ + ": its numbers are big-endian; heed reads little-endian files");
    if (version != 2 && version != 3)
      throw FormatError(path_ + ": version " + std::to_string(version) + " of GGUF; heed reads 2 and 3");
    const auto tensors = take_number<uint64_t>("its beginning"), keys = take_number<uint64_t>("its beginning");
    if (tensors > kMostTensors || keys > kMostKeys)
      throw FormatError(path_ + ": " + std::to_string(tensors) + " tensors and " + std::to_string(keys) +
                        " keys; heed reads up to " + std::to_string(kMostTensors) + " of each");
    for (uint64_t i = 0; i < keys; ++i) read_key();
    const int64_t alignment = integer("general.alignment").value_or(32);
    if (alignment < 1 || alignment > 1 << 20 || !std::has_single_bit(static_cast<uint64_t>(alignment)))
      fail("general.alignment", "is " + std::to_string(alignment) + "; it must be a power of two up to 1048576");
    std::vector<uint64_t> offsets;
    for (uint64_t i = 0; i < tensors; ++i) offsets.push_back(read_tensor());
    place_tensors(offsets, static_cast<uint64_t>(alignment));
  }

  void read_key() {
    const std::string_view key = take_text("its metadata");
    if (!values_.emplace(key, read_value(key)).second) fail(key, "is there twice");
  }

  Value read_value(std::string_view key) {
    auto type = take_number<uint32_t>("its metadata");
    Value value{.type = {}, .is_list = type == static_cast<uint32_t>(Type::array), .count = 1, .bytes = {}};
    if (value.is_list) {
      type = take_number<uint32_t>("its metadata");
      value.count = take_number<uint64_t>("its metadata");
    }
    if (type > static_cast<uint32_t>(Type::f64) || type == static_cast<uint32_t>(Type::array))
      fail(key, "is of type " + std::to_string(type) + (value.is_list ? " in a list" : "") +
                    ", which heed does not support");
    value.type = static_cast<Type>(type);
    if (value.type != Type::string) {
      const CheckedSize bytes = checked_multiply(value.count, kSizes[type]);
      value.bytes = take(bytes.value_or(UINT64_MAX), "its metadata");
      return value;
    }
    const char* const begin = rest_.data();
    for (uint64_t i = 0; i < value.count; ++i) take_text("its metadata");
    value.bytes = {begin, static_cast<size_t>(rest_.data() - begin)};
    return value;
  }

  // Returns where its bytes begin, from the first tensor's on.
  uint64_t read_tensor() {
    GgufTensor& tensor = tensors_.emplace_back();
    const char* const what = "its list of tensors";
    const std::string_view name = take_text(what);
    tensor.name = name;
    if (!index_.emplace(name, tensors_.size() - 1).second)
      throw FormatError(path_ + ": tensor " + printable(name) + " is there twice");
    const auto dimensions = take_number<uint32_t>(what);
    if (dimensions < 1 || dimensions > 4)
      throw FormatError(path_ + ": tensor " + printable(name) + " has " + std::to_string(dimensions) +
                        " dimensions; a tensor has 1 to 4");
    for (uint32_t d = 0; d < dimensions; ++d) {
      const auto size = take_number<uint64_t>(what);
      if (size > INT64_MAX) throw FormatError(path_ + ": the size of tensor " + printable(name) + " overflows 64 bits");
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
    }
    tensor.type_id = take_number<uint32_t>(what);
    const auto* const type = std::find_if(std::begin(kGgufTypes), std::end(kGgufTypes),
                                          [&](const GgufType& t) { return t.id == tensor.type_id; });
    if (type != std::end(kGgufTypes)) tensor.type = type;
    return take_number<uint64_t>(what);
  }

  // Each must lie within the file, and no byte belongs to two: a small file makes no large model.
  void place_tensors(const std::vector<uint64_t>& offsets, uint64_t alignment) {
    const uint64_t header = size_ - rest_.size();
    const uint64_t begin = std::min<uint64_t>(*checked_round_up(header, alignment), size_);
    std::vector<std::pair<uint64_t, size_t>> order;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      GgufTensor& tensor = tensors_[i];
      if (!tensor.type) continue;
      const std::string where = path_ + ": tensor " + printable(tensor.name);
      const CheckedSize elements = checked_product(tensor.shape);
      if (!elements || *elements > INT64_MAX / 8) throw FormatError(where + ": its size overflows 64 bits");
      if (tensor.shape.back() % tensor.type->elements != 0)
        throw FormatError(where + ": rows of " + std::to_string(tensor.shape.back()) + " are not whole blocks of " +
                          tensor.type->name + ", which have " + std::to_string(tensor.type->elements));
      const CheckedSize bytes = checked_multiply(*elements / tensor.type->elements, tensor.type->bytes);
      const CheckedSize end = checked_add(checked_add(begin, offsets[i]), bytes);
      if (!end || *end > size_ || offsets[i] % alignment != 0)
        throw FormatError(where + " has " + std::to_string(bytes.value_or(0)) + " bytes from " +
                          std::to_string(offsets[i]) + " on, which do not fit a file of " + std::to_string(size_) +
                          "; it is cut off or broken, fetch it again");
      tensor.bytes = *bytes;
      tensor.data = reinterpret_cast<std::byte*>(data_.get()) + begin + offsets[i];
      order.emplace_back(offsets[i], i);
    }
    std::sort(order.begin(), order.end());
    for (size_t i = 1; i < order.size(); ++i) {
      const GgufTensor &before = tensors_[order[i - 1].second], &tensor = tensors_[order[i].second];
      if (order[i - 1].first + before.bytes > order[i].first)
        throw FormatError(path_ + ": tensors " + printable(before.name) + " and " + printable(tensor.name) +
                          " overlap");
    }
  }

  const Value* find(std::string_view key, bool list) const {
    const auto at = values_.find(key);
    if (at == values_.end()) return nullptr;
    if (at->second.is_list != list) fail(key, list ? "is not a list" : "is a list");
    return &at->second;
  }
  const Value* one(std::string_view key) const { return find(key, false); }
  const Value* list(std::string_view key) const { return find(key, true); }

  static std::string_view text_at(std::string_view bytes) { return bytes.substr(8, as<uint64_t>(bytes.data())); }

  int64_t integer_at(const Value& value, uint64_t i, std::string_view key) const {
    const char* const at = value.bytes.data() + i * kSizes[static_cast<size_t>(value.type)];
    switch (value.type) {
      case Type::u8:
        return as<uint8_t>(at);
      case Type::i8:
        return as<int8_t>(at);
      case Type::u16:
        return as<uint16_t>(at);
      case Type::i16:
        return as<int16_t>(at);
      case Type::u32:
        return as<uint32_t>(at);
      case Type::i32:
        return as<int32_t>(at);
      case Type::i64:
        return as<int64_t>(at);
      case Type::u64:
        if (as<uint64_t>(at) <= INT64_MAX) return static_cast<int64_t>(as<uint64_t>(at));
        [[fallthrough]];
      default:
        fail(key, "is not a whole number");
    }
  }
  double number_at(const Value& value, uint64_t i, std::string_view key) const {
    const char* const at = value.bytes.data() + i * kSizes[static_cast<size_t>(value.type)];
    if (value.type == Type::f32) return static_cast<double>(as<float>(at));
    if (value.type == Type::f64) return as<double>(at);
    return static_cast<double>(integer_at(value, i, key));
  }
  template <class T, class F>
  std::vector<T> each(std::string_view key, F&& f) const {
    std::vector<T> all;
    const Value* const value = list(key);
    if (!value) return all;
    if (value->type == Type::string) fail(key, "is not a list of numbers");
    all.reserve(value->count);
    for (uint64_t i = 0; i < value->count; ++i) all.push_back(f(*value, i));
    return all;
  }

  std::string path_;
  std::shared_ptr<char> data_;
  uint64_t size_ = 0;
  std::string_view rest_;  // that is not read yet
  std::map<std::string_view, Value> values_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string_view, size_t> index_;  // place in tensors_
};

}  // namespace heed::inline v0
