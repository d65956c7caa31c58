// Tensor: a handle on strided memory that mirrors DLPack (device, dtype, shape, strides in elements, owner).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "heed/error.h"

namespace heed::inline v0 {

enum class Device : uint8_t { cpu };

enum class DType : uint8_t {
  f32,
  f64,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  // Quantised: blocks of numbers that share factors, as GGUF's types of these names have them. q8 is Q8_0.
  q8,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k,
  q5_k,
  q6_k
};

/// IEEE binary16, storage only. Convert with heed::to_float / heed::to_float16.
struct float16 {
  uint16_t bits;
};
/// The upper half of a float32, storage only.
struct bfloat16 {
  uint16_t bits;
};
float to_float(float16 x);
float to_float(bfloat16 x);
float16 to_float16(float x);    // rounds to nearest, ties to even
bfloat16 to_bfloat16(float x);  // rounds to nearest, ties to even

inline constexpr int64_t kQ8Block = 32;
/// 32 numbers of a row, storage only: each is an integer times the factor that all share, which float32 holds exactly.
/// GGUF's Q8_0. Where floats are converted, the factor is the largest magnitude / 127.
struct q8_block {
  float16 scale;
  int8_t numbers[kQ8Block];
};

size_t size_of(DType dtype);                      // bytes of one element; throws ShapeError for quantised ones
int64_t bytes_of(DType dtype, int64_t elements);  // of elements side by side, whole blocks of quantised ones
int64_t block_of(DType dtype);     // elements that only stand together: 32 or 256 of quantised ones, or 1
const char* name_of(DType dtype);  // "f32", "i64", "bool", ...
inline bool is_floating(DType t) { return t <= DType::bf16; }
inline bool is_quantised(DType t) { return t >= DType::q8; }

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, float16>) return DType::f16;
  if constexpr (std::is_same_v<T, bfloat16>) return DType::bf16;
  if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, int16_t>) return DType::i16;
  if constexpr (std::is_same_v<T, int8_t>) return DType::i8;
  if constexpr (std::is_same_v<T, uint64_t>) return DType::u64;
  if constexpr (std::is_same_v<T, uint32_t>) return DType::u32;
  if constexpr (std::is_same_v<T, uint16_t>) return DType::u16;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::u8;
  if constexpr (std::is_same_v<T, bool>) return DType::boolean;
}

inline constexpr int kMaxRank = 8;

/// A short list of int64 (a shape, strides, axes) that lives on the stack.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values) : Dims(values.begin(), values.end()) {}
  template <class It>
  Dims(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }
  explicit Dims(std::span<const int64_t> values) : Dims(values.begin(), values.end()) {}

  void push_back(int64_t value) {
    if (rank_ == kMaxRank) throw ShapeError("tensor: more than 8 dimensions; merge some with reshape");
    values_[static_cast<size_t>(rank_++)] = value;
  }
  int rank() const { return rank_; }
  size_t size() const { return static_cast<size_t>(rank_); }
  bool empty() const { return rank_ == 0; }
  int64_t& operator[](int i) { return values_[static_cast<size_t>(i)]; }
  int64_t operator[](int i) const { return values_[static_cast<size_t>(i)]; }
  int64_t& back() { return (*this)[rank_ - 1]; }
  int64_t back() const { return (*this)[rank_ - 1]; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + rank_; }
  int64_t* begin() { return values_.data(); }
  int64_t* end() { return values_.data() + rank_; }
  bool operator==(const Dims& o) const { return std::equal(begin(), end(), o.begin(), o.end()); }

 private:
  int rank_ = 0;
  std::array<int64_t, kMaxRank> values_{};
};

std::string to_string(const Dims& dims);  // "(2, 3, 4)"
int64_t numel(const Dims& shape);         // product; throws ShapeError past 2^63 - 1 or below 0

/// A handle: copies share memory, and constness is of the handle. Strides count elements.
/// Owned memory is 64-byte aligned and comes from a pool, so a training step allocates nothing new after the first.
/// Quantised rows are whole blocks: what would cut one, and reading their elements one by one, throws ShapeError; so
/// does converting to any of these dtypes but q8.
class Tensor {
 public:
  Tensor() = default;  // undefined: defined() is false

  static Tensor empty(const Dims& shape, DType dtype = DType::f32);
  static Tensor zeros(const Dims& shape, DType dtype = DType::f32);
  static Tensor full(const Dims& shape, double value, DType dtype = DType::f32);
  /// Copies `values` (row major) into a new tensor. Throws ShapeError when the count does not fit `shape`.
  template <class T>
  static Tensor from(std::span<const T> values, const Dims& shape);
  template <class T>
  static Tensor from(std::initializer_list<T> values, const Dims& shape) {
    return from(std::span<const T>(values.begin(), values.size()), shape);
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, const Dims& shape) {
    return from(std::span<const T>(values), shape);
  }
  /// A view of external memory; `owner` (may be null) is kept alive as long as the tensor.
  static Tensor borrow(void* data, DType dtype, const Dims& shape, const Dims& strides,
                       std::shared_ptr<void> owner = nullptr);
  static Tensor borrow(void* data, DType dtype, const Dims& shape);  // contiguous, not owned

  bool defined() const { return data_ != nullptr || defined_; }
  explicit operator bool() const { return defined(); }
  Device device() const { return Device::cpu; }
  DType dtype() const { return dtype_; }
  const Dims& shape() const { return shape_; }
  const Dims& strides() const { return strides_; }
  int rank() const { return shape_.rank(); }
  int64_t size(int dim) const;    // negative counts from the end
  int64_t stride(int dim) const;  // likewise, in elements
  int64_t numel() const { return heed::numel(shape_); }
  int64_t nbytes() const { return bytes_of(dtype_, numel()); }
  bool is_contiguous() const;
  bool unique() const { return owner_.use_count() == 1; }  // no other tensor shares the memory

  void* raw() const { return data_; }
  /// Typed pointer to the first element; throws ShapeError when T is not the dtype.
  template <class T>
  T* data() const {
    if (dtype_ != dtype_of<T>()) throw_dtype(dtype_of<T>());
    return static_cast<T*>(data_);
  }
  template <class T>
  std::span<T> span() const {  // contiguous tensors only
    if (!is_contiguous()) throw ShapeError("tensor: span() of a strided view; call contiguous() first");
    return {data<T>(), static_cast<size_t>(numel())};
  }
  template <class T, class... I>
  T& at(I... index) const {  // no bounds check beyond the rank
    const int64_t at[] = {static_cast<int64_t>(index)..., 0};
    if (static_cast<int>(sizeof...(I)) != rank()) throw ShapeError("tensor: at() needs one index a dimension");
    int64_t offset = 0;
    for (int d = 0; d < rank(); ++d) offset += at[d] * strides_[d];
    return data<T>()[offset];
  }
  double item() const;  // the only element, as double

  // Views (no copy).
  Tensor reshape(const Dims& shape) const;  // one dimension may be -1; a strided tensor is copied first
  Tensor transpose(int dim0, int dim1) const;
  Tensor slice(int dim, int64_t begin, int64_t end) const;
  Tensor select(int dim, int64_t index) const;  // drops `dim`
  Tensor expand(const Dims& shape) const;       // broadcasts size 1 (stride 0), aligned from the right

  /// Any view of the same memory, `offset` elements on. The caller answers for its bounds.
  Tensor as_strided(const Dims& shape, const Dims& strides, int64_t offset = 0) const;

  Tensor contiguous() const;                   // itself when contiguous already, else a copy
  Tensor clone() const;                        // always a contiguous copy
  Tensor to(DType dtype) const;                // a converted copy, or itself when the dtype is the same
  void copy_from(const Tensor& source) const;  // same shape; converts the dtype
  void fill(double value) const;

 private:
  [[noreturn]] void throw_dtype(DType asked) const;
  std::shared_ptr<void> owner_;
  void* data_ = nullptr;
  bool defined_ = false;
  DType dtype_ = DType::f32;
  Dims shape_, strides_;
};

template <class T>
Tensor Tensor::from(std::span<const T> values, const Dims& shape) {
  Tensor t = empty(shape, dtype_of<T>());
  if (static_cast<int64_t>(values.size()) != t.numel())
    throw ShapeError("tensor: " + std::to_string(values.size()) + " values do not fill shape " + to_string(shape));
  std::copy(values.begin(), values.end(), t.data<T>());
  return t;
}

}  // namespace heed::inline v0
