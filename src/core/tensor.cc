#include "heed/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/memory.h"
#include "core/quantised.h"

namespace heed::inline v0 {

float to_float(float16 x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16;
  const uint32_t exponent = (x.bits >> 10) & 31u, mantissa = x.bits & 1023u;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

float to_float(bfloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

float16 to_float16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return {static_cast<uint16_t>(sign | 0x7E00u)};   // NaN
  if (magnitude >= 0x477FF000u) return {static_cast<uint16_t>(sign | 0x7C00u)};  // rounds past 65504: infinity
  if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 leaves round(x * 2^24) in the low mantissa bits, rounded by the hardware.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000u))};
  }
  const uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

bfloat16 to_bfloat16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

namespace {

[[noreturn]] void throw_blocks(DType dtype) {
  throw ShapeError(std::string("tensor: ") + name_of(dtype) + " has blocks of " + std::to_string(block_of(dtype)) +
                   " numbers, none of its own; convert it with to(DType::f32)");
}

}  // namespace

size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
    case DType::u64:
      return 8;
    case DType::f32:
    case DType::i32:
    case DType::u32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
    case DType::u16:
      return 2;
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return 1;
    default:
      throw_blocks(dtype);
  }
}

int64_t block_of(DType dtype) { return !is_quantised(dtype) ? 1 : dtype < DType::q4_k ? kQ8Block : 256; }

// The blocks of llama.cpp's ggml-common.h.
static int64_t block_bytes(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
      return 18;
    case DType::q4_1:
      return 20;
    case DType::q5_0:
      return 22;
    case DType::q5_1:
      return 24;
    case DType::q8:
      return sizeof(q8_block);
    case DType::q4_k:
      return 144;
    case DType::q5_k:
      return 176;
    case DType::q6_k:
      return 210;
    default:
      return static_cast<int64_t>(size_of(dtype));
  }
}

int64_t bytes_of(DType dtype, int64_t elements) { return elements / block_of(dtype) * block_bytes(dtype); }

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "i32";
    case DType::i16:
      return "i16";
    case DType::i8:
      return "i8";
    case DType::u64:
      return "u64";
    case DType::u32:
      return "u32";
    case DType::u16:
      return "u16";
    case DType::u8:
      return "u8";
    case DType::boolean:
      return "bool";
    case DType::q8:
      return "q8";
    case DType::q4_0:
      return "q4_0";
    case DType::q4_1:
      return "q4_1";
    case DType::q5_0:
      return "q5_0";
    case DType::q5_1:
      return "q5_1";
    case DType::q4_k:
      return "q4_k";
    case DType::q5_k:
      return "q5_k";
    case DType::q6_k:
      return "q6_k";
  }
  return "?";
}

std::string to_string(const Dims& dims) {
  std::string text = "(";
  for (int i = 0; i < dims.rank(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + ")";
}

int64_t numel(const Dims& shape) {
  int64_t product = 1;
  bool overflow = false, zero = false;
  for (const int64_t size : shape) {
    if (size < 0) throw ShapeError("tensor: shape " + to_string(shape) + " has a negative size");
    zero |= size == 0;
    overflow |= __builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product);
  }
  if (zero) return 0;
  if (overflow) throw ShapeError("tensor: shape " + to_string(shape) + " has more than 2^63 - 1 elements");
  return product;
}

namespace {

Dims contiguous_strides(const Dims& shape) {
  Dims strides = shape;
  int64_t stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[d] = stride;
    // Past 2^63 only in a tensor without elements, whose strides nobody walks.
    if (__builtin_mul_overflow(stride, std::max<int64_t>(shape[d], 1), &stride)) stride = 1;
  }
  return strides;
}

int checked_dim(int dim, int rank, const char* operation) {
  const int positive = dim < 0 ? dim + rank : dim;
  if (positive < 0 || positive >= rank)
    throw ShapeError(std::string("tensor: ") + operation + " of dimension " + std::to_string(dim) +
                     " of a tensor of rank " + std::to_string(rank));
  return positive;
}

// Calls f(pointer type tag) for the stored type.
template <class F>
void with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::f16:
      return f(float16{});
    case DType::bf16:
      return f(bfloat16{});
    case DType::i64:
      return f(int64_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::i16:
      return f(int16_t{});
    case DType::i8:
      return f(int8_t{});
    case DType::u64:
      return f(uint64_t{});
    case DType::u32:
      return f(uint32_t{});
    case DType::u16:
      return f(uint16_t{});
    case DType::u8:
      return f(uint8_t{});
    case DType::boolean:
      return f(bool{});
    default:
      throw_blocks(dtype);
  }
}

template <class To, class From>
To convert(From x) {
  constexpr bool from_half = std::is_same_v<From, float16> || std::is_same_v<From, bfloat16>;
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (from_half) {
    return convert<To>(to_float(x));
  } else if constexpr (std::is_same_v<To, float16>) {
    return to_float16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bfloat16>) {
    return to_bfloat16(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

void check_blocks(const Dims& shape, DType dtype) {
  if (is_quantised(dtype) && (shape.empty() || shape.back() % block_of(dtype) != 0))
    throw ShapeError("tensor: rows of shape " + to_string(shape) + " are not whole blocks of " + name_of(dtype) +
                     ", which have " + std::to_string(block_of(dtype)) + " numbers; keep it as f16");
}

// The bits of a float without its sign are in the order of its magnitude, with NaN above all.
constexpr int32_t kMagnitude = 0x7FFFFFFF, kInfinity = 0x7F800000;

q8_block to_q8(const float* x) {
  int32_t largest = 0;
  for (int64_t i = 0; i < kQ8Block; ++i) largest = std::max(largest, std::bit_cast<int32_t>(x[i]) & kMagnitude);
  q8_block block{to_float16(std::bit_cast<float>(largest) / 127), {}};
  const float scale = to_float(block.scale);
  if (scale == 0 || largest >= kInfinity) return block;  // nothing to tell apart; times infinity or NaN all are NaN
  constexpr float kRounds = 0x1.8p23f;                   // beside it a float has no place for fractions
  for (int64_t i = 0; i < kQ8Block; ++i) {
    const int32_t nearest = std::bit_cast<int32_t>(x[i] / scale + kRounds) - std::bit_cast<int32_t>(kRounds);
    block.numbers[i] = static_cast<int8_t>(std::clamp(nearest, -127, 127));
  }
  return block;
}

// Visits every innermost row: f(offset of the row in a, offset in b, length).
template <class F>
void for_rows(const Dims& shape, const Dims& a, const Dims& b, F&& f) {
  if (numel(shape) == 0) return;
  const int rank = shape.rank();
  const int64_t length = rank ? shape[rank - 1] : 1;
  Dims index = shape;
  std::fill(index.begin(), index.end(), 0);
  int64_t at_a = 0, at_b = 0;
  for (;;) {
    f(at_a, at_b, length);
    int d = rank - 2;
    for (; d >= 0; --d) {
      at_a += a[d], at_b += b[d];
      if (++index[d] < shape[d]) break;
      at_a -= a[d] * shape[d], at_b -= b[d] * shape[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace

Tensor Tensor::empty(const Dims& shape, DType dtype) {
  check_blocks(shape, dtype);
  ptrdiff_t bytes = 0;
  if (__builtin_mul_overflow(heed::numel(shape) / block_of(dtype), block_bytes(dtype), &bytes))
    throw ShapeError("tensor: shape " + to_string(shape) + " of " + name_of(dtype) + " does not fit in memory");
  Tensor t;
  t.owner_ = allocate(static_cast<size_t>(bytes));
  t.data_ = t.owner_.get();
  t.defined_ = true;
  t.dtype_ = dtype;
  t.shape_ = shape;
  t.strides_ = contiguous_strides(shape);
  return t;
}

Tensor Tensor::zeros(const Dims& shape, DType dtype) {
  Tensor t = empty(shape, dtype);
  if (t.nbytes() > 0) std::memset(t.data_, 0, static_cast<size_t>(t.nbytes()));
  return t;
}

Tensor Tensor::full(const Dims& shape, double value, DType dtype) {
  Tensor t = empty(shape, dtype);
  t.fill(value);
  return t;
}

Tensor Tensor::borrow(void* data, DType dtype, const Dims& shape, const Dims& strides, std::shared_ptr<void> owner) {
  if (shape.rank() != strides.rank())
    throw ShapeError("tensor: shape " + to_string(shape) + " and strides " + to_string(strides) + " differ in rank");
  heed::numel(shape);
  check_blocks(shape, dtype);
  Tensor t;
  t.owner_ = std::move(owner);
  t.data_ = data;
  t.defined_ = true;
  t.dtype_ = dtype;
  t.shape_ = shape;
  t.strides_ = strides;
  return t;
}

Tensor Tensor::borrow(void* data, DType dtype, const Dims& shape) {
  return borrow(data, dtype, shape, contiguous_strides(shape));
}

int64_t Tensor::size(int dim) const { return shape_[checked_dim(dim, rank(), "size")]; }
int64_t Tensor::stride(int dim) const { return strides_[checked_dim(dim, rank(), "stride")]; }

bool Tensor::is_contiguous() const {
  if (std::find(shape_.begin(), shape_.end(), 0) != shape_.end()) return true;
  int64_t expected = 1;
  for (int d = rank() - 1; d >= 0; --d) {
    if (shape_[d] != 1 && strides_[d] != expected) return false;
    expected *= shape_[d];
  }
  return true;
}

void Tensor::throw_dtype(DType asked) const {
  throw ShapeError(std::string("tensor: data of dtype ") + name_of(dtype_) + " read as " + name_of(asked) +
                   "; convert with to()");
}

double Tensor::item() const {
  if (numel() != 1) throw ShapeError("tensor: item() of shape " + to_string(shape_) + "; it needs one element");
  double value = 0;
  with_type(dtype_, [&](auto tag) { value = convert<double>(*static_cast<decltype(tag)*>(data_)); });
  return value;
}

Tensor Tensor::reshape(const Dims& shape) const {
  Dims target = shape;
  int64_t known = 1;
  bool overflow = false;
  int unknown = -1;
  for (int d = 0; d < target.rank(); ++d) {
    if (target[d] != -1) {
      overflow |= __builtin_mul_overflow(known, target[d], &known);
    } else {
      if (unknown >= 0) throw ShapeError("tensor: reshape to " + to_string(shape) + " leaves more than one size open");
      unknown = d;
    }
  }
  if (unknown >= 0) target[unknown] = known && !overflow ? numel() / known : 0;
  if (heed::numel(target) != numel())
    throw ShapeError("tensor: shape " + to_string(shape_) + " does not reshape to " + to_string(shape));
  check_blocks(target, dtype_);
  Tensor t = contiguous();
  t.shape_ = target;
  t.strides_ = contiguous_strides(target);
  return t;
}

Tensor Tensor::transpose(int dim0, int dim1) const {
  dim0 = checked_dim(dim0, rank(), "transpose"), dim1 = checked_dim(dim1, rank(), "transpose");
  Tensor t = *this;
  std::swap(t.shape_[dim0], t.shape_[dim1]);
  std::swap(t.strides_[dim0], t.strides_[dim1]);
  return t;
}

Tensor Tensor::slice(int dim, int64_t begin, int64_t end) const {
  dim = checked_dim(dim, rank(), "slice");
  if (begin < 0 || begin > end || end > shape_[dim])
    throw ShapeError("tensor: slice " + std::to_string(begin) + ".." + std::to_string(end) + " of dimension " +
                     std::to_string(dim) + " of shape " + to_string(shape_));
  Tensor t = *this;
  t.shape_[dim] = end - begin;
  if (dim == rank() - 1) check_blocks(Dims{begin}, dtype_), check_blocks(t.shape_, dtype_);
  t.data_ = static_cast<char*>(data_) + bytes_of(dtype_, begin * strides_[dim]);
  return t;
}

Tensor Tensor::select(int dim, int64_t index) const {
  dim = checked_dim(dim, rank(), "select");
  Tensor t = slice(dim, index, index + 1);
  Dims shape, strides;
  for (int d = 0; d < rank(); ++d)
    if (d != dim) shape.push_back(shape_[d]), strides.push_back(strides_[d]);
  t.shape_ = shape;
  t.strides_ = strides;
  return t;
}

Tensor Tensor::expand(const Dims& shape) const {
  const int added = shape.rank() - rank();
  bool fits = added >= 0;
  Dims strides = shape;
  for (int d = 0; fits && d < shape.rank(); ++d) {
    const int from = d - added;
    const int64_t size = from >= 0 ? shape_[from] : 1;
    fits = size == shape[d] || size == 1;
    strides[d] = from >= 0 && size == shape[d] ? strides_[from] : 0;
  }
  if (!fits) throw ShapeError("tensor: shape " + to_string(shape_) + " does not broadcast to " + to_string(shape));
  Tensor t = *this;
  t.shape_ = shape;
  t.strides_ = strides;
  return t;
}

Tensor Tensor::as_strided(const Dims& shape, const Dims& strides, int64_t offset) const {
  Tensor t = *this;
  t.data_ = static_cast<char*>(data_) + bytes_of(dtype_, offset);
  t.shape_ = shape;
  t.strides_ = strides;
  return t;
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const {
  Tensor t = empty(shape_, dtype_);
  t.copy_from(*this);
  return t;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor t = empty(shape_, dtype);
  t.copy_from(*this);
  return t;
}

namespace {

// The numbers [first, first + count) that stand `step` apart in t's memory, where blocks are side by side.
void read_numbers(const Tensor& t, int64_t first, int64_t step, int64_t count, float* to) {
  if (is_quantised(t.dtype())) return dequantise(element(Quantised(t), first), count, to);
  with_type(t.dtype(), [&](auto tag) {
    const auto* const from = static_cast<const decltype(tag)*>(t.raw()) + first;
    for (int64_t i = 0; i < count; ++i) to[i] = convert<float>(from[i * step]);
  });
}
void write_numbers(const Tensor& t, int64_t first, int64_t step, int64_t count, const float* from) {
  if (t.dtype() == DType::q8) {
    auto* const blocks = static_cast<q8_block*>(t.raw()) + first / kQ8Block;
    for (int64_t i = 0; i < count; i += kQ8Block) blocks[i / kQ8Block] = to_q8(from + i);
    return;
  }
  with_type(t.dtype(), [&](auto tag) {
    auto* const to = static_cast<decltype(tag)*>(t.raw()) + first;
    for (int64_t i = 0; i < count; ++i) to[i * step] = convert<decltype(tag)>(from[i]);
  });
}

// to = from, where one of them, or both, are quantised.
void copy_blocks(const Tensor& to, const Tensor& from) {
  for (const Tensor* t : {&to, &from})
    if (is_quantised(t->dtype()) && t->stride(-1) != 1)
      throw ShapeError(std::string("tensor: ") + name_of(t->dtype()) +
                       " turned on its side cannot be copied; convert it with to(DType::f32) before");
  const bool same = to.dtype() == from.dtype();
  if (!same && is_quantised(to.dtype()) && to.dtype() != DType::q8)
    throw ShapeError(std::string("tensor: nothing is converted to ") + name_of(to.dtype()) +
                     ", which files have; q8 is what numbers can be rounded to");
  for_rows(to.shape(), to.strides(), from.strides(), [&](int64_t at, int64_t source, int64_t length) {
    if (same) {
      const auto byte = [&](const Tensor& t, int64_t i) {
        return static_cast<char*>(t.raw()) + bytes_of(t.dtype(), i);
      };
      std::memmove(byte(to, at), byte(from, source), static_cast<size_t>(bytes_of(to.dtype(), length)));
      return;
    }
    constexpr int64_t kSome = 256;
    alignas(64) float wide[kSome];
    const int64_t step = to.stride(-1), from_step = from.stride(-1);
    for (int64_t i = 0; i < length; i += kSome) {
      const int64_t count = std::min(kSome, length - i);
      read_numbers(from, source + i * from_step, from_step, count, wide);
      write_numbers(to, at + i * step, step, count, wide);
    }
  });
}

}  // namespace

void Tensor::copy_from(const Tensor& source) const {
  if (!(source.shape_ == shape_))
    throw ShapeError("tensor: copy of shape " + to_string(source.shape_) + " into shape " + to_string(shape_));
  if (is_quantised(dtype_) || is_quantised(source.dtype_)) return copy_blocks(*this, source);
  const int last = rank() - 1;
  const int64_t to_step = last >= 0 ? strides_[last] : 1, from_step = last >= 0 ? source.strides_[last] : 1;
  with_type(dtype_, [&](auto to_tag) {
    with_type(source.dtype_, [&](auto from_tag) {
      using To = decltype(to_tag);
      using From = decltype(from_tag);
      for_rows(shape_, strides_, source.strides_, [&](int64_t to, int64_t from, int64_t length) {
        To* out = static_cast<To*>(data_) + to;
        const From* in = static_cast<const From*>(source.data_) + from;
        if (std::is_same_v<To, From> && to_step == 1 && from_step == 1) {
          std::memmove(out, in, static_cast<size_t>(length) * sizeof(To));
        } else {
          for (int64_t i = 0; i < length; ++i) out[i * to_step] = convert<To>(in[i * from_step]);
        }
      });
    });
  });
}

void Tensor::fill(double value) const {
  const int last = rank() - 1;
  const int64_t step = last >= 0 ? strides_[last] : 1;
  with_type(dtype_, [&](auto tag) {
    using T = decltype(tag);
    for_rows(shape_, strides_, strides_, [&](int64_t at, int64_t, int64_t length) {
      for (int64_t i = 0; i < length; ++i) static_cast<T*>(data_)[at + i * step] = convert<T>(value);
    });
  });
}

}  // namespace heed::inline v0
