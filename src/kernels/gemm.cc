#include "kernels/gemm.h"

#include <cblas.h>

#include <algorithm>

#include "heed/error.h"
#include "kernels/chunks.h"

namespace heed::inline v0 {
namespace {

void product(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, float alpha, const float* a, int lda,
             const float* b, int ldb, float beta, float* c, int ldc) {
  cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void product(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, double alpha, const double* a, int lda,
             const double* b, int ldb, double beta, double* c, int ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

// A threaded OpenBLAS would change its bits with its number of threads.
void check_library() {
  static const bool serial = openblas_get_parallel() == 0;
  if (!serial) throw Error("gemm: this is a threaded OpenBLAS; heed needs the serial one, libopenblas-serial-dev");
}

// The side of a tile: large enough to amortise packing, small enough that eight threads find work.
int64_t tile_side(int64_t m, int64_t n) { return m * n > 512 * 1024 ? 256 : 128; }

int narrow(int64_t value) {
  if (value > INT32_MAX) throw ShapeError("gemm: a dimension of " + std::to_string(value) + " is past 2^31 - 1");
  return static_cast<int>(value);
}

}  // namespace

template <class T>
void gemm(Trans ta, Trans tb, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda, const T* b,
          int64_t ldb, T beta, T* c, int64_t ldc, Executor& ex) {
  if (m == 0 || n == 0) return;
  check_library();
  const int depth = narrow(k), stride_a = narrow(std::max<int64_t>(lda, 1)),
            stride_b = narrow(std::max<int64_t>(ldb, 1)), stride_c = narrow(ldc);
  const int64_t side = tile_side(m, n), across = (n + side - 1) / side, down = (m + side - 1) / side;
  const auto run = [&](int64_t tile) {
    const int64_t i = tile / across * side, j = tile % across * side;
    product(ta == Trans::yes ? CblasTrans : CblasNoTrans, tb == Trans::yes ? CblasTrans : CblasNoTrans,
            static_cast<int>(std::min(side, m - i)), static_cast<int>(std::min(side, n - j)), depth, alpha,
            a + (ta == Trans::yes ? i : i * lda), stride_a, b + (tb == Trans::yes ? j * ldb : j), stride_b, beta,
            c + i * ldc + j, stride_c);
  };
  if (m * n * k < 500'000) {  // waking a thread costs more
    for (int64_t tile = 0; tile < across * down; ++tile) run(tile);
  } else {
    parallel_for(ex, across * down, run);
  }
}

template void gemm(Trans, Trans, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*, int64_t, float,
                   float*, int64_t, Executor&);
template void gemm(Trans, Trans, int64_t, int64_t, int64_t, double, const double*, int64_t, const double*, int64_t,
                   double, double*, int64_t, Executor&);

}  // namespace heed::inline v0
