#include "cli/attention_layout.h"

namespace heed::cli {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& reason) {
  throw ShapeError("attention: " + name + " has " + reason);
}

Dims with_leading_ones(const Dims& shape, int count) {
  Dims longer;
  for (int d = 0; d < count; ++d) longer.push_back(1);
  for (const int64_t size : shape) longer.push_back(size);
  return longer;
}

}  // namespace

AttentionLayout::AttentionLayout(const Tensor& q, int64_t q_heads, int64_t kv_heads, bool ragged)
    : shape_(q.shape()), dtype_(q.dtype()), q_heads_(q_heads), kv_heads_(kv_heads), ragged_(ragged) {
  if (dtype_ != DType::f32 && dtype_ != DType::f64 && dtype_ != DType::f16)
    refuse("q", std::string("dtype ") + name_of(dtype_) + "; convert to float16, float32 or float64");
  if (packed() && q.rank() != 3)
    refuse("q", "shape " + to_string(shape_) + "; --q-heads and --kv-heads are for packed files, (B, L, H*D)");
  if (ragged && q.rank() != 3)
    refuse("q", "shape " + to_string(shape_) + "; with --q-offsets and --k-offsets pass (T, H, D), T tokens");
  if (q.rank() < 2 || q.rank() > 4)
    refuse("q", "shape " + to_string(shape_) +
                    "; pass (L, D), (H, L, D) or (B, H, L, D), or (B, L, H*D) with --q-heads and --kv-heads");
}

void AttentionLayout::check_dtype(const Tensor& file, const std::string& name) const {
  if (file.dtype() != dtype_)
    refuse(name,
           std::string("dtype ") + name_of(file.dtype()) + " and q has " + name_of(dtype_) + "; convert one of them");
}

Tensor AttentionLayout::queries(const Tensor& file, const std::string& name) const {
  check_dtype(file, name);
  return from_file(file, name, q_heads_);
}

Tensor AttentionLayout::keys(const Tensor& file, const std::string& name) const {
  if (!(dtype_ == DType::f32 && file.dtype() == DType::f16)) check_dtype(file, name);
  return from_file(file, name, kv_heads_);
}

Tensor AttentionLayout::from_file(const Tensor& file, const std::string& name, int64_t heads) const {
  if (file.rank() != shape_.rank())
    refuse(name, "shape " + to_string(file.shape()) + " and q has " + to_string(shape_) +
                     "; pass the same number of dimensions");
  if (ragged_) return file;
  if (!packed()) return file.reshape(with_leading_ones(file.shape(), missing()));
  const int64_t width = file.size(2);
  if (width % heads != 0)
    refuse(name, "shape " + to_string(file.shape()) + ", whose last dimension is not a multiple of " +
                     std::to_string(heads) + " heads; pass (B, L, H*D)");
  return file.reshape({file.size(0), file.size(1), heads, width / heads}).transpose(1, 2);
}

Tensor AttentionLayout::empty(const Dims& shape, DType dtype) const {
  if (!packed()) return Tensor::empty(shape, dtype);
  return Tensor::empty({shape[0], shape[2], shape[1], shape[3]}, dtype).transpose(1, 2);
}

Tensor AttentionLayout::to_file(const Tensor& t) const {
  if (packed()) return t.transpose(1, 2).reshape({t.size(0), t.size(2), t.size(1) * t.size(3)});
  return rows_to_file(t);
}

Tensor AttentionLayout::rows_to_file(const Tensor& t) const {
  return t.reshape(Dims(t.shape().begin() + missing(), t.shape().end()));
}

Tensor AttentionLayout::rows_from_file(const Tensor& file) const {
  return file.reshape(with_leading_ones(file.shape(), missing()));
}

}  // namespace heed::cli
