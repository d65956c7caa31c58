// How the files of heed attention lay out entries and heads, and the way to the operator's dimensions and back.
#pragma once

#include <cstdint>
#include <string>

#include "heed/tensor.h"

namespace heed::cli {

/// (L, D), (H, L, D), (B, H, L, D), packed (B, L, H*D), or ragged (T, H, D), as q's file has it.
/// The operator's dimensions are (B, H, L, D), of ragged batches (T, H, D).
class AttentionLayout {
 public:
  /// Heads are 0 unless the files are packed. Throws ShapeError.
  AttentionLayout(const Tensor& q, int64_t q_heads, int64_t kv_heads, bool ragged);

  bool packed() const { return q_heads_ > 0; }
  bool ragged() const { return ragged_; }

  /// The files of q, k, v and the gradient of the output, as views with the operator's dimensions. Throws ShapeError,
  /// also when the dtype is not q's; k and v may be float16 beside float32.
  Tensor queries(const Tensor& file, const std::string& name) const;
  Tensor keys(const Tensor& file, const std::string& name) const;

  /// Memory of the operator's `shape` that to_file() need not copy.
  Tensor empty(const Dims& shape, DType dtype) const;
  Tensor to_file(const Tensor& t) const;

  /// (B, Hq, ...) -> with as many leading dimensions as the files have; lse, weights and scores.
  Tensor rows_to_file(const Tensor& t) const;
  Tensor rows_from_file(const Tensor& file) const;

 private:
  void check_dtype(const Tensor& file, const std::string& name) const;
  Tensor from_file(const Tensor& file, const std::string& name, int64_t heads) const;
  int missing() const { return packed() || ragged_ ? 0 : 4 - shape_.rank(); }  // leading dimensions the files leave out

  Dims shape_;  // q's
  DType dtype_;
  int64_t q_heads_, kv_heads_;
  bool ragged_;
};

}  // namespace heed::cli
