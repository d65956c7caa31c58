// npy: a magic number, a Python dict as text, the data.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "heed/checked.h"
#include "io/json.h"
#include "io/load.h"
#include "io/mapped_file.h"
#include "io/npy_header.h"

namespace heed::inline v0 {

namespace {

static_assert(std::endian::native == std::endian::little, "files are taken to hold this machine's byte order");

constexpr std::string_view kMagic = "\x93NUMPY";

struct Kind {
  const char* code;  // without the byte order
  DType dtype;
};

constexpr Kind kKinds[] = {{"f4", DType::f32}, {"f8", DType::f64}, {"f2", DType::f16}, {"i8", DType::i64},
                           {"i4", DType::i32}, {"i2", DType::i16}, {"i1", DType::i8},  {"u8", DType::u64},
                           {"u4", DType::u32}, {"u2", DType::u16}, {"u1", DType::u8},  {"b1", DType::boolean}};

/// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }: that subset of Python and no more.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  NpyInfo parse() {
    NpyInfo info;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string("a key");
      bool* const seen = key == "descr"           ? &has_descr
                         : key == "fortran_order" ? &has_order
                         : key == "shape"         ? &has_shape
                                                  : nullptr;
      if (!seen) fail("the unknown key " + in_quotes(key));
      if (std::exchange(*seen, true)) fail("the key " + in_quotes(key) + " twice");
      expect(':');
      if (seen == &has_descr) {
        if (peek() == '[' || peek() == '(')
          throw FormatError(where_ + ": a structured dtype; save its fields as arrays of their own");
        info.descr = string("the descr");
      } else if (seen == &has_order) {
        info.fortran_order = boolean();
      } else {
        info.shape = tuple();
      }
      if (!accept(',') && peek() != '}') fail("no comma or brace after " + in_quotes(key));
    }
    skip_space();
    if (at_ != text_.size()) fail("more after the closing brace");
    if (!has_descr || !has_order || !has_shape)
      fail(std::string("no ") + (!has_descr ? "descr" : !has_order ? "fortran_order" : "shape"));
    return info;
  }

 private:
  [[noreturn]] void fail(const std::string& found) const {
    throw FormatError(where_ + ": the npy header has " + found);
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  char peek() {  // 0 at the end
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("no '") + c + "' where one is needed");
  }
  std::string string(const std::string& what) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("no string for " + what);
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("an open string for " + what);
    const std::string value(text_.substr(at_ + 1, end - at_ - 1));
    if (value.find('\\') != std::string::npos) fail("an escaped character in " + what);
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    fail("neither True nor False for fortran_order");
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> values;
    bool comma = true;
    if (!accept('(')) fail("no tuple for the shape");
    while (!accept(')')) {
      if (!comma) fail("no comma between the sizes of the shape");
      values.push_back(integer());
      comma = accept(',');
    }
    if (values.size() == 1 && !comma) fail("(n) for the shape; a tuple of one is (n,)");
    return values;
  }
  int64_t integer() {
    if (peek() == '-') fail("a negative size in the shape");
    CheckedSize value = 0;
    const size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      value = checked_add(checked_multiply(value, 10), static_cast<uint64_t>(text_[at_] - '0'));
    if (at_ == begin) fail("something else than whole numbers in the shape");
    if (!value || *value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) fail("a size beyond 64 bits");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
    return static_cast<int64_t>(*value);
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
};

void set_dtype(NpyInfo& info, const std::string& where) {
  const std::string_view descr = info.descr;
  const bool prefixed = !descr.empty() && std::string_view("<>=|").find(descr[0]) != std::string_view::npos;
  const std::string_view code = prefixed ? descr.substr(1) : descr;
  for (const Kind& kind : kKinds) {
    if (kind.code != code) continue;
    info.dtype = kind.dtype;
    info.big_endian = descr[0] == '>' && size_of(kind.dtype) > 1;
    return;
  }
  const char first = code.empty() ? '\0' : code[0];
  const std::string reason = first == 'O' ? "Python objects, which only Python can read; save an array of numbers"
                             : first == 'c'
                                 ? "complex numbers, which heed does not support; save real and imaginary part"
                             : first == 'V' ? "raw bytes; save an array of numbers"
                                            : "a dtype that heed does not support; convert with astype(numpy.float32)";
  throw FormatError(where + ": dtype " + in_quotes(descr) + ": " + reason);
}

void swap_bytes(std::byte* data, size_t count, size_t width) {
  for (size_t i = 0; i < count; ++i) std::reverse(data + i * width, data + (i + 1) * width);
}

}  // namespace

NpyInfo parse_npy_header(std::span<const std::byte> start, uint64_t size, const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (!text.starts_with(kMagic)) throw FormatError(where + ": not an npy file (it does not start with \\x93NUMPY)");
  const auto cut = [&] { return FormatError(where + ": cut short in the npy header"); };
  if (text.size() < 8) throw cut();
  const int major = static_cast<unsigned char>(text[6]), minor = static_cast<unsigned char>(text[7]);
  if (major < 1 || major > 3 || minor != 0)
    throw FormatError(where + ": npy format " + std::to_string(major) + "." + std::to_string(minor) +
                      "; 1.0, 2.0 and 3.0 are known");
  const size_t width = major == 1 ? 2 : 4;
  if (text.size() < 8 + width) throw cut();
  uint32_t length = 0;
  std::memcpy(&length, text.data() + 8, width);
  const uint64_t begin = 8 + width + uint64_t{length};
  if (begin > size) throw cut();
  if (begin > kLongestNpyHeader || begin > text.size())
    throw FormatError(where + ": an npy header of " + std::to_string(length) + " bytes; an array needs a few hundred");
  NpyInfo info = HeaderParser(text.substr(8 + width, length), where).parse();
  set_dtype(info, where);
  const CheckedSize bytes = checked_multiply(checked_product(info.shape), size_of(info.dtype));
  if (!bytes) throw FormatError(where + ": the size of shape " + shape_text(info.shape) + " overflows 64 bits");
  if (*bytes != size - begin)
    throw FormatError(where + ": " + info.descr + " " + shape_text(info.shape) + " takes " + std::to_string(*bytes) +
                      " bytes, the file has " + std::to_string(size - begin) +
                      (*bytes > size - begin ? "; it is cut short" : "; it has a tail"));
  info.data_begin = begin;
  info.data_bytes = *bytes;
  return info;
}

NpyArray npy_array(const NpyInfo& info, std::byte* data, const std::shared_ptr<void>& owner, const std::string& where) {
  // A Fortran-order array is the row-major one of the reversed shape, turned.
  const bool turn = info.fortran_order && info.shape.size() > 1;
  Dims shape = loadable_shape(info.shape, info.dtype, where);
  if (turn) std::reverse(shape.begin(), shape.end());
  if (info.dtype == DType::boolean) check_booleans(data, info.data_bytes, where);

  const size_t width = size_of(info.dtype);
  Tensor tensor;
  if (info.data_bytes > 0 && !info.big_endian && reinterpret_cast<uintptr_t>(data) % width == 0) {
    tensor = Tensor::borrow(data, info.dtype, shape, row_major_strides(shape), owner);
  } else {
    tensor = Tensor::empty(shape, info.dtype);
    if (info.data_bytes > 0) std::memcpy(tensor.raw(), data, info.data_bytes);
    if (info.big_endian) swap_bytes(static_cast<std::byte*>(tensor.raw()), info.data_bytes / width, width);
  }
  if (turn) {
    for (int d = 0; d < shape.rank() / 2; ++d) tensor = tensor.transpose(d, shape.rank() - 1 - d);
    tensor = tensor.contiguous();
  }
  return {tensor, turn};
}

NpyInfo read_npy_info(const std::string& path) {
  const FileBytes file = map_file(path);
  return parse_npy_header(std::span(file.data, std::min(file.size, kLongestNpyHeader)), file.size, path);
}

NpyArray load_npy(const std::string& path) {
  const FileBytes file = map_file(path);
  const NpyInfo info = parse_npy_header(std::span(file.data, std::min(file.size, kLongestNpyHeader)), file.size, path);
  return npy_array(info, file.data + info.data_begin, file.owner, path);
}

void write_npy(FileWriter& file, const Tensor& tensor) {
  const auto* kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.dtype == tensor.dtype(); });
  if (kind == std::end(kKinds))
    throw FormatError(std::string("npy: NumPy has no ") + name_of(tensor.dtype()) + "; convert to f32 first");
  std::string shape;
  for (const int64_t size : tensor.shape()) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
  std::string header = std::string("{'descr': '") + (size_of(tensor.dtype()) == 1 ? '|' : '<') + kind->code +
                       "', 'fortran_order': False, 'shape': (" + shape + (tensor.rank() == 1 ? "," : "") + "), }";
  header.resize(*checked_round_up(10 + header.size() + 1, 64) - 11, ' ');  // the data starts on a cache line
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());  // at most 8 sizes of 19 digits: far below 65,536
  file.write(kMagic);
  file.write(std::string_view("\x01\x00", 2));
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  const Tensor t = tensor.contiguous();
  file.write(std::span(static_cast<const std::byte*>(t.raw()), static_cast<size_t>(t.nbytes())));
}

void save_npy(const std::string& path, const Tensor& tensor) {
  write_file_atomically(path, [&](FileWriter& file) { write_npy(file, tensor); });
}

}  // namespace heed::inline v0
