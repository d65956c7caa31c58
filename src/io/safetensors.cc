// safetensors: 8 bytes with the header's length, a JSON header, the data. https://huggingface.co/docs/safetensors
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>

#include "heed/checked.h"
#include "heed/file_kind.h"
#include "heed/finite.h"
#include "heed/io.h"
#include "io/json.h"
#include "io/load.h"
#include "io/mapped_file.h"

namespace heed::inline v0 {

namespace {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

constexpr uint64_t kLongestHeader = 100'000'000;

struct DTypeName {
  const char* name;
  std::optional<DType> dtype;
  uint64_t bits;  // of one element
};

constexpr DTypeName kDTypeNames[] = {
    {"F32", DType::f32, 32},      {"F64", DType::f64, 64},      {"F16", DType::f16, 16},
    {"BF16", DType::bf16, 16},    {"I64", DType::i64, 64},      {"I32", DType::i32, 32},
    {"I16", DType::i16, 16},      {"I8", DType::i8, 8},         {"U64", DType::u64, 64},
    {"U32", DType::u32, 32},      {"U16", DType::u16, 16},      {"U8", DType::u8, 8},
    {"BOOL", DType::boolean, 8},  {"F8_E4M3", std::nullopt, 8}, {"F8_E5M2", std::nullopt, 8},
    {"F8_E8M0", std::nullopt, 8}, {"F6_E2M3", std::nullopt, 6}, {"F6_E3M2", std::nullopt, 6},
    {"F4", std::nullopt, 4},      {"C64", std::nullopt, 64},
};

const DTypeName* find_dtype(std::string_view name) {
  for (const DTypeName& d : kDTypeNames)
    if (d.name == name) return &d;
  return nullptr;
}

/// Builds the list of tensors while the header is being parsed: {"NAME": {"dtype": "F32", "shape": [2, 3],
/// "data_offsets": [0, 24]}, ..., "__metadata__": {"KEY": "VALUE", ...}}. Members it does not know are skipped.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderHandler(const std::string& path, std::vector<TensorInfo>& tensors, std::map<std::string, size_t>& index,
                std::map<std::string, std::string>& metadata)
      : path_(path), tensors_(tensors), index_(index), metadata_(metadata) {}

  bool null() override {
    if (state_ == State::metadata_or_null) {
      state_ = State::header;
      return true;
    }
    return skipped() || fail("null");
  }
  bool boolean(bool) override { return skipped() || fail("true or false"); }
  bool number_float(number_float_t, const string_t& text) override { return skipped() || fail(text); }
  bool number_integer(number_integer_t value) override { return skipped() || fail(std::to_string(value)); }
  bool binary(binary_t&) override { return fail("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (skipped()) return true;
    if (state_ == State::shape) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) overflow();
      current().shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (state_ == State::offsets && offsets_ < 2) {
      (offsets_++ == 0 ? current().begin : current().end) = value;
      return true;
    }
    return fail(std::to_string(value));
  }

  bool string(string_t& value) override {
    if (skipped()) return true;
    if (state_ == State::metadata_value) {
      metadata_[key_] = value;
      state_ = State::metadata;
      return true;
    }
    if (state_ != State::dtype) return fail(in_quotes(value));
    const DTypeName* dtype = find_dtype(value);
    if (!dtype) throw FormatError(where() + ": unknown dtype " + in_quotes(value));
    current().dtype_name = value;
    current().dtype = dtype->dtype;
    has_dtype_ = true;
    state_ = State::tensor;
    return true;
  }

  bool start_object(size_t) override {
    if (enter_skipped()) return true;
    switch (state_) {
      case State::start:
        state_ = State::header;
        return true;
      case State::metadata_or_null:
        state_ = State::metadata;
        return true;
      case State::tensor_object:
        state_ = State::tensor;
        return true;
      default:
        return fail("an object");
    }
  }

  bool key(string_t& name) override {
    if (depth_ > 0) return true;
    switch (state_) {
      case State::header:
        if (name == "__metadata__") {
          if (std::exchange(seen_metadata_, true)) twice("", name);
          state_ = State::metadata_or_null;
          return true;
        }
        if (!index_.emplace(name, tensors_.size()).second) twice("", name);
        tensors_.emplace_back().name = name;
        members_.clear();
        has_dtype_ = has_shape_ = has_offsets_ = false;
        state_ = State::tensor_object;
        return true;
      case State::metadata:
        if (metadata_.contains(name)) twice(" in __metadata__", name);
        key_ = name;
        state_ = State::metadata_value;
        return true;
      default:  // State::tensor
        if (!members_.insert(name).second) twice(" in tensor " + in_quotes(current().name), name);
        state_ = name == "dtype"          ? State::dtype
                 : name == "shape"        ? State::shape_array
                 : name == "data_offsets" ? State::offsets_array
                                          : State::skip;
        return true;
    }
  }

  bool end_object() override {
    if (leave_skipped()) return true;
    if (state_ == State::tensor) {
      if (!has_dtype_ || !has_shape_ || !has_offsets_)
        throw FormatError(where() + ": no " + (!has_dtype_ ? "dtype" : !has_shape_ ? "shape" : "data_offsets"));
      state_ = State::header;
    } else if (state_ == State::metadata) {
      state_ = State::header;
    }
    return true;
  }

  bool start_array(size_t) override {
    if (enter_skipped()) return true;
    if (state_ == State::shape_array) {
      has_shape_ = true;
      state_ = State::shape;
      return true;
    }
    if (state_ == State::offsets_array) {
      has_offsets_ = true;
      offsets_ = 0;
      state_ = State::offsets;
      return true;
    }
    return fail("a list");
  }

  bool end_array() override {
    if (leave_skipped()) return true;
    if (state_ == State::offsets && offsets_ != 2)
      throw FormatError(where() + ": data_offsets has " + std::to_string(offsets_) + " numbers; it must have 2");
    state_ = State::tensor;
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    throw FormatError(path_ + ": the header is not JSON: " + json_reason(error));
  }

 private:
  enum class State {
    start,
    header,
    metadata_or_null,
    metadata,
    metadata_value,
    tensor_object,
    tensor,
    dtype,
    shape_array,
    shape,
    offsets_array,
    offsets,
    skip,
  };

  TensorInfo& current() { return tensors_.back(); }
  std::string where() const { return tensors_.empty() ? path_ : path_ + ": tensor " + in_quotes(tensors_.back().name); }
  [[noreturn]] bool fail(const std::string& value) const {
    switch (state_) {
      case State::start:
        throw FormatError(path_ + ": the header is " + value + "; it must be a JSON object");
      case State::metadata_or_null:
        throw FormatError(path_ + ": __metadata__ is " + value + "; it must be an object of strings");
      case State::metadata_value:
        throw FormatError(path_ + ": __metadata__ has " + value + " for " + in_quotes(key_) + "; it must be a string");
      case State::dtype:
        throw FormatError(where() + ": the dtype is " + value + "; it must be a string");
      case State::shape:
      case State::shape_array:
        throw FormatError(where() + ": the shape has " + value + "; it must be a list of whole numbers from 0");
      case State::offsets:
      case State::offsets_array:
        throw FormatError(where() + ": data_offsets has " + value + "; it must be two whole numbers from 0");
      default:
        throw FormatError(where() + ": is " + value + "; it must be an object with dtype, shape and data_offsets");
    }
  }
  [[noreturn]] void twice(const std::string& place, const std::string& name) const {
    throw FormatError(path_ + ": the key " + in_quotes(name) + " occurs twice" + place);
  }
  [[noreturn]] void overflow() const { throw FormatError(where() + ": the size of its shape overflows 64 bits"); }

  // The value of an unknown member: a scalar, or everything up to the bracket that closes it.
  bool skipped() {
    if (state_ != State::skip) return false;
    if (depth_ == 0) state_ = State::tensor;
    return true;
  }
  bool enter_skipped() {
    if (state_ != State::skip) return false;
    if (++depth_ > kJsonDepth)
      throw FormatError(path_ + ": the header is nested deeper than " + std::to_string(kJsonDepth) + " levels");
    return true;
  }
  bool leave_skipped() {
    if (state_ != State::skip) return false;
    if (--depth_ == 0) state_ = State::tensor;
    return true;
  }

  const std::string& path_;
  std::vector<TensorInfo>& tensors_;
  std::map<std::string, size_t>& index_;
  std::map<std::string, std::string>& metadata_;
  State state_ = State::start;
  size_t depth_ = 0;  // open brackets inside a skipped member
  int offsets_ = 0;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false, seen_metadata_ = false;
  std::set<std::string> members_;
  std::string key_;
};

/// Every byte of the data must belong to exactly one tensor, and each tensor must be as long as its shape says.
void check_layout(const std::string& path, const std::vector<TensorInfo>& tensors, uint64_t data_bytes) {
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& t : tensors) order.push_back(&t);
  std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t reached = 0;
  for (const TensorInfo* t : order) {
    const std::string where = path + ": tensor " + in_quotes(t->name);
    const std::string range = std::to_string(t->begin) + ".." + std::to_string(t->end);
    const CheckedSize bits = checked_multiply(checked_product(t->shape), find_dtype(t->dtype_name)->bits);
    if (!bits) throw FormatError(where + ": the size of shape " + shape_text(t->shape) + " overflows 64 bits");
    if (t->end < t->begin) throw FormatError(where + ": bytes " + range + " end before they begin");
    if (t->begin != reached)
      throw FormatError(where + ": bytes " + range + (t->begin < reached ? " overlap" : " leave a hole after") +
                        " the tensor before, which ends at " + std::to_string(reached));
    if (*bits % 8 != 0 || *bits / 8 != t->end - t->begin)
      throw FormatError(where + ": bytes " + range + " are not what " + t->dtype_name + " " + shape_text(t->shape) +
                        " takes (" + std::to_string(*bits / 8) + ")");
    reached = t->end;
  }
  if (reached != data_bytes)
    throw FormatError(path + ": the tensors take " + std::to_string(reached) + " bytes, the file has " +
                      std::to_string(data_bytes) + (reached > data_bytes ? "; it is cut short" : "; it has a tail"));
}

}  // namespace

// What could block or never end is not opened.
static FileBytes map_regular(const std::string& path) {
  expect_regular_file(path, std::numeric_limits<uint64_t>::max());
  return map_file(path);
}

SafetensorsFile::SafetensorsFile(const std::string& path) : SafetensorsFile(path, map_regular(path)) {}

static FileBytes bytes_of(std::string content) {
  const auto kept = std::make_shared<std::string>(std::move(content));
  return {kept, reinterpret_cast<std::byte*>(kept->data()), kept->size()};
}

SafetensorsFile::SafetensorsFile(std::string content, const std::string& where)
    : SafetensorsFile(where, bytes_of(std::move(content))) {}

SafetensorsFile::SafetensorsFile(const std::string& path, const FileBytes& file) : path_(path) {
  if (file.size < 8)
    throw FormatError(path + ": " + std::to_string(file.size) + " bytes are too few for a safetensors file");
  uint64_t header = 0;
  std::memcpy(&header, file.data, 8);
  if (header > std::min<uint64_t>(kLongestHeader, file.size - 8)) {
    const std::string_view beginning(reinterpret_cast<const char*>(file.data), std::min<size_t>(file.size, 64));
    const std::string_view other = foreign_format(beginning);
    if (!other.empty() && other.find("safetensors") == other.npos)
      throw FormatError(path + " is " + std::string(other) + "; heed reads safetensors here");
  }
  if (header > kLongestHeader)
    throw FormatError(path + ": a header of " + std::to_string(header) + " bytes; at most " +
                      std::to_string(kLongestHeader) + " are permitted (is this a safetensors file?)");
  if (header > file.size - 8)
    throw FormatError(path + ": a header of " + std::to_string(header) + " bytes does not fit a file of " +
                      std::to_string(file.size));
  const std::string_view text(reinterpret_cast<const char*>(file.data) + 8, header);
  check_json_bytes(text, path);
  HeaderHandler handler(path_, tensors_, index_, metadata_);
  try {
    nlohmann::json::sax_parse(text, &handler);
  } catch (const nlohmann::json::exception& error) {
    throw FormatError(path + ": the header is not JSON: " + json_reason(error));
  }
  data_bytes_ = file.size - 8 - header;
  check_layout(path, tensors_, data_bytes_);
  data_ = file.data + 8 + header;
  owner_ = file.owner;
}

const TensorInfo& SafetensorsFile::info(const std::string& name) const {
  const auto it = index_.find(name);
  if (it == index_.end()) throw FormatError(path_ + ": no tensor " + in_quotes(name));
  return tensors_[it->second];
}

std::optional<std::string> SafetensorsFile::first_non_finite() const {
  for (const TensorInfo& info : tensors_) {
    if (!info.dtype || info.shape.size() > static_cast<size_t>(kMaxRank)) continue;
    const std::pair<std::string, Tensor> one{info.name, tensor(info.name)};
    if (const auto found = heed::first_non_finite({&one, 1})) return path_ + ": " + *found;
  }
  return std::nullopt;
}

Tensor SafetensorsFile::tensor(const std::string& name) const {
  const TensorInfo& t = info(name);
  const std::string where = path_ + ": tensor " + in_quotes(name);
  if (!t.dtype) throw FormatError(where + ": heed has no dtype " + t.dtype_name + "; convert the file to F32 or BF16");
  const Dims shape = loadable_shape(t.shape, *t.dtype, where);
  const size_t bytes = t.end - t.begin;
  std::byte* data = data_ + t.begin;
  if (*t.dtype == DType::boolean) check_booleans(data, bytes, where);
  if (bytes > 0 && reinterpret_cast<uintptr_t>(data) % size_of(*t.dtype) == 0)
    return Tensor::borrow(data, *t.dtype, shape, row_major_strides(shape), owner_);
  Tensor copy = Tensor::empty(shape, *t.dtype);
  if (bytes > 0) std::memcpy(copy.raw(), data, bytes);
  return copy;
}

void write_safetensors(FileWriter& file, const NamedTensors& tensors, const Metadata& metadata) {
  std::vector<const std::pair<std::string, Tensor>*> order;
  std::set<std::string_view> names;
  for (const auto& named : tensors) {
    if (named.first == "__metadata__" || !names.insert(named.first).second)
      throw FormatError("safetensors: the name " + in_quotes(named.first) + " is " +
                        (named.first == "__metadata__" ? "reserved" : "used twice") + "; rename the tensor");
    if (!named.second.defined())
      throw FormatError("safetensors: tensor " + in_quotes(named.first) + " is undefined; leave it out");
    if (is_quantised(named.second.dtype()))
      throw FormatError("safetensors: tensor " + in_quotes(named.first) + " is " + name_of(named.second.dtype()) +
                        ", which the format does not have; convert it with to(DType::f32)");
    order.push_back(&named);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](auto* a, auto* b) { return size_of(a->second.dtype()) > size_of(b->second.dtype()); });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  // push_back into the vector below ordered_json: looking each key up again would be quadratic.
  auto& members = header.get_ref<nlohmann::ordered_json::object_t&>();
  if (!metadata.empty()) {
    nlohmann::ordered_json values = nlohmann::ordered_json::object();
    for (const auto& [key, value] : metadata)
      values.get_ref<nlohmann::ordered_json::object_t&>().Container::emplace_back(key, value);
    members.Container::emplace_back("__metadata__", std::move(values));
  }
  uint64_t begin = 0;
  for (const auto* named : order) {
    const Tensor& t = named->second;
    const auto end = begin + static_cast<uint64_t>(t.nbytes());
    const auto* dtype = std::find_if(std::begin(kDTypeNames), std::end(kDTypeNames),
                                     [&](const DTypeName& d) { return d.dtype == t.dtype(); });
    members.Container::emplace_back(
        named->first, nlohmann::ordered_json{{"dtype", dtype->name},
                                             {"shape", std::vector<int64_t>(t.shape().begin(), t.shape().end())},
                                             {"data_offsets", {begin, end}}});
    begin = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    throw FormatError("safetensors: a name is not UTF-8: " + json_reason(error));
  }
  // Spaces up to a cache line, so that the mapped data is aligned.
  text.resize(*checked_round_up(8 + text.size(), 64) - 8, ' ');
  if (text.size() > kLongestHeader)
    throw FormatError("safetensors: a header of " + std::to_string(text.size()) + " bytes; at most " +
                      std::to_string(kLongestHeader) + " are permitted; save fewer tensors to a file");
  const uint64_t length = text.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  for (const auto* named : order) {
    const Tensor t = named->second.contiguous();
    file.write(std::span(static_cast<const std::byte*>(t.raw()), static_cast<size_t>(t.nbytes())));
  }
}

void save_safetensors(const std::string& path, const NamedTensors& tensors, const Metadata& metadata) {
  write_file_atomically(path, [&](FileWriter& file) { write_safetensors(file, tensors, metadata); });
}

}  // namespace heed::inline v0
