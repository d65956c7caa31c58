#include "kernels/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <memory>
#include <string>

#include "core/memory.h"
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

// One thread a call: OpenBLAS's own threads would change the bits with their number, and tiles come from many threads
// at once. For that its pool of buffers must have locks, which the flavour built without threads lacks: two calls at a
// time then pack into one buffer, and now and then a product is wrong.
void prepare_library() {
  static const bool locked = [] {
    openblas_set_num_threads(1);
    return openblas_get_parallel() != 0;
  }();
  if (!locked)
    throw Error(
        "gemm: this OpenBLAS was built without threads and is not safe to call from several; heed needs "
        "libopenblas-pthread-dev");
}

constexpr int64_t kSide = 256;   // of a tile: smaller ones spend their time packing
constexpr int64_t kTiles = 8;    // to feed as many threads; more where the rows give more
constexpr int64_t kDepth = 512;  // of a piece of a long sum, at least

// OpenBLAS has kernels that do not pack, two to three times as fast on few rows, for a C up to about this and products
// up to a million.
constexpr int64_t kUnpacked = 1152;
bool fits_unpacked(int64_t m, int64_t k) { return m <= 32 && kUnpacked * k <= 1'000'000; }

int64_t pieces_of(int64_t n, int64_t piece) { return (n + piece - 1) / piece; }

// [0, n) in `pieces` parts of equal length, up to 16: whole micro-kernels.
struct Cut {
  Cut(int64_t length, int64_t pieces)
      : n(length), step((pieces_of(length, pieces) + 15) / 16 * 16), count(pieces_of(length, step)) {}
  int64_t begin(int64_t i) const { return i * step; }
  int size(int64_t i) const { return static_cast<int>(std::min(step, n - i * step)); }
  int64_t n, step, count;
};

int narrow(int64_t value) {
  if (value > INT32_MAX) throw ShapeError("gemm: a dimension of " + std::to_string(value) + " is past 2^31 - 1");
  return static_cast<int>(value);
}

}  // namespace

template <class T>
void gemm(Trans ta, Trans tb, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda, const T* b,
          int64_t ldb, T beta, T* c, int64_t ldc, Executor& ex) {
  if (m == 0 || n == 0) return;
  prepare_library();
  const int stride_a = narrow(std::max<int64_t>(lda, 1)), stride_b = narrow(std::max<int64_t>(ldb, 1)),
            stride_c = narrow(ldc), width = narrow(n);
  for (const int64_t size : {m, k}) narrow(size);
  // Whole rows of C where there are enough of them, then columns; a small C over a long sum is cut along the sum.
  const Cut rows(m, pieces_of(m, kSide));
  const bool unpacked = ta == Trans::no && fits_unpacked(m, k);
  const int64_t widest = unpacked ? std::min(kSide, kUnpacked / m / 16 * 16) : m < kSide ? kSide / 2 : kSide;
  const int64_t most = pieces_of(n, widest);
  const Cut columns(n, unpacked ? most : std::clamp(pieces_of(kTiles, rows.count), int64_t{1}, most));
  const Cut depth(std::max<int64_t>(k, 1), std::clamp(pieces_of(kTiles, rows.count * columns.count), int64_t{1},
                                                      std::max<int64_t>(k / kDepth, 1)));
  // The first piece of the sum goes to C, each other one to a matrix of its own.
  const std::shared_ptr<void> memory =
      depth.count > 1 ? allocate(static_cast<size_t>((depth.count - 1) * m * n) * sizeof(T)) : nullptr;
  T* const partial = static_cast<T*>(memory.get());
  const auto run = [&](int64_t tile) {
    const int64_t t = tile % depth.count, at = tile / depth.count;
    const int64_t i = at / columns.count, j = at % columns.count;
    const int64_t row = rows.begin(i), column = columns.begin(j), from = depth.begin(t);
    T* const to = (t == 0 ? c + row * ldc : partial + ((t - 1) * m + row) * n) + column;
    product(ta == Trans::yes ? CblasTrans : CblasNoTrans, tb == Trans::yes ? CblasTrans : CblasNoTrans, rows.size(i),
            columns.size(j), k == 0 ? 0 : depth.size(t), alpha,
            a + (ta == Trans::yes ? from * lda + row : row * lda + from), stride_a,
            b + (tb == Trans::yes ? column * ldb + from : from * ldb + column), stride_b, t == 0 ? beta : T{0}, to,
            t == 0 ? stride_c : width);
  };
  const int64_t tiles = rows.count * columns.count * depth.count;
  if (m * n * k < 500'000) {  // waking a thread costs more
    for (int64_t tile = 0; tile < tiles; ++tile) run(tile);
  } else {
    parallel_for(ex, tiles, run);
  }
  if (depth.count == 1) return;
  for_rows(m, n, ex, [&](int64_t begin, int64_t end) {
    for (int64_t t = 0; t + 1 < depth.count; ++t)
      for (int64_t row = begin; row < end; ++row) {
        const T* const from = partial + (t * m + row) * n;
        for (int64_t j = 0; j < n; ++j) c[row * ldc + j] += from[j];
      }
  });
}

template void gemm(Trans, Trans, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*, int64_t, float,
                   float*, int64_t, Executor&);
template void gemm(Trans, Trans, int64_t, int64_t, int64_t, double, const double*, int64_t, const double*, int64_t,
                   double, double*, int64_t, Executor&);

}  // namespace heed::inline v0
