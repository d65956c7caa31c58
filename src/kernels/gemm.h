// Matrix products: the one seam to a linear algebra library.
#pragma once

#include <cstdint>

#include "heed/executor.h"

namespace heed::inline v0 {

enum class Trans : uint8_t { no, yes };

/// C (m, n) = alpha * op(A) (m, k) * op(B) (k, n) + beta * C, row major, leading dimensions in elements; beta 0 ignores
/// what C holds. C is cut into tiles that depend on the shape alone and each tile is one serial product, so the bits do
/// not depend on the number of threads.
template <class T>
void gemm(Trans ta, Trans tb, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda, const T* b,
          int64_t ldb, T beta, T* c, int64_t ldc, Executor& ex);

}  // namespace heed::inline v0
