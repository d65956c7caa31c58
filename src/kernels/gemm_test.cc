#include "kernels/gemm.h"

#include <limits>

#include "kernels/testing.h"

namespace heed {
namespace {

using test::Values;

struct Product {
  Trans ta, tb;
  int64_t m, n, k, extra;  // `extra`: by how much every leading dimension exceeds the row
  double alpha, beta;
};

int64_t rows_of(Trans t, int64_t rows, int64_t columns) { return t == Trans::no ? rows : columns; }

template <class T>
struct Operands {
  explicit Operands(const Product& p)
      : lda(rows_of(p.ta, p.k, p.m) + p.extra),
        ldb(rows_of(p.tb, p.n, p.k) + p.extra),
        ldc(p.n + p.extra),
        a(test::normals<T>(rows_of(p.ta, p.m, p.k) * lda, 1)),
        b(test::normals<T>(rows_of(p.tb, p.k, p.n) * ldb, 2)),
        c(test::normals<T>(p.m * ldc, 3)) {}
  int64_t lda, ldb, ldc;
  Values<T> a, b, c;
};

template <class T>
void multiply(const Product& p, Operands<T>& o, Executor& ex) {
  gemm<T>(p.ta, p.tb, p.m, p.n, p.k, static_cast<T>(p.alpha), o.a.data(), o.lda, o.b.data(), o.ldb,
          static_cast<T>(p.beta), o.c.data(), o.ldc, ex);
}

template <class T>
void check(const Product& p, double tolerance) {
  Operands<T> o(p);
  Values<double> expected = test::widen(o.c);
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (int64_t t = 0; t < p.k; ++t)
        sum += static_cast<double>(p.ta == Trans::no ? o.a[i * o.lda + t] : o.a[t * o.lda + i]) *
               static_cast<double>(p.tb == Trans::no ? o.b[t * o.ldb + j] : o.b[j * o.ldb + t]);
      double& c = expected[static_cast<size_t>(i * o.ldc + j)];
      c = p.alpha * sum + p.beta * c;
    }
  multiply(p, o, test::one_thread());
  test::expect_near(o.c, expected, tolerance * std::sqrt(static_cast<double>(p.k + 1)));
}

// A library without locks on its buffers gives wrong products now and then when tiles run side by side.
TEST(Gemm, ConcurrentProducts) {
  const auto executor = make_executor(4);
  for (const Product& p :
       {Product{Trans::no, Trans::yes, 1500, 768, 256, 0, 1, 0}, Product{Trans::no, Trans::yes, 64, 768, 256, 0, 1, 0},
        Product{Trans::yes, Trans::no, 256, 512, 1500, 0, 1, 0}}) {
    Operands<float> expected(p);
    multiply(p, expected, test::one_thread());
    for (int repeat = 0; repeat < 100; ++repeat) {
      Operands<float> got = expected;
      std::fill(got.c.begin(), got.c.end(), 0.f);
      multiply(p, got, *executor);
      ASSERT_EQ(got.c, expected.c) << "repeat " << repeat;
    }
  }
}

TEST(Gemm, AgreesWithLoopsAndLeavesTheGapsAlone) {
  const int64_t shapes[][3] = {{1, 1, 1},   {1, 7, 5},    {5, 2400, 33}, {2, 3, 0},      {7, 1, 300},
                               {31, 33, 5}, {64, 64, 64}, {130, 257, 9}, {300, 200, 70}, {129, 131, 1500}};
  for (const auto& s : shapes)
    for (const Trans ta : {Trans::no, Trans::yes})
      for (const Trans tb : {Trans::no, Trans::yes})
        for (const int64_t extra : {0, 3}) {
          SCOPED_TRACE(testing::Message() << s[0] << " x " << s[1] << " x " << s[2] << " transposed "
                                          << (ta == Trans::yes) << (tb == Trans::yes) << " extra " << extra);
          check<float>({ta, tb, s[0], s[1], s[2], extra, 1, 0}, 1e-6);
          check<double>({ta, tb, s[0], s[1], s[2], extra, -0.5, 2}, 1e-15);
        }
}

TEST(Gemm, BetaZeroIgnoresWhatCHolds) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Values<double> a = {1, 2, 3, 4}, b = {5, 6, 7, 8};
  Values<double> c(4, nan);
  gemm<double>(Trans::no, Trans::no, 2, 2, 2, 1, a.data(), 2, b.data(), 2, 0, c.data(), 2, test::one_thread());
  EXPECT_EQ(c, (Values<double>{19, 22, 43, 50}));
  // No terms to add: C is beta * C all the same.
  Values<float> none(3, std::numeric_limits<float>::quiet_NaN());
  gemm<float>(Trans::no, Trans::yes, 1, 3, 0, 1, nullptr, 1, nullptr, 1, 0, none.data(), 3, test::one_thread());
  EXPECT_EQ(none, (Values<float>{0, 0, 0}));
}

TEST(Gemm, EmptyResultTouchesNothing) {
  gemm<float>(Trans::no, Trans::no, 0, 5, 3, 1, nullptr, 3, nullptr, 5, 0, nullptr, 5, test::one_thread());
  gemm<float>(Trans::no, Trans::no, 5, 0, 3, 1, nullptr, 3, nullptr, 1, 0, nullptr, 1, test::one_thread());
}

TEST(GemmThreads, SameBits) {
  // Square, long sums into a small result, and few rows: each is cut in its own way.
  const Product shapes[] = {{Trans::no, Trans::yes, 300, 257, 100, 0, 1, 0},
                            {Trans::yes, Trans::no, 130, 140, 4099, 0, 1, 1},
                            {Trans::no, Trans::no, 1, 2400, 513, 0, 1, 0},
                            {Trans::no, Trans::yes, 5, 2400, 513, 0, 1, 0}};
  for (const Product& p : shapes) {
    SCOPED_TRACE(testing::Message() << p.m << " x " << p.n << " x " << p.k);
    test::expect_same_bits([&](Executor& ex) {
      Operands<float> o(p);
      multiply(p, o, ex);
      return o.c;
    });
  }
}

}  // namespace
}  // namespace heed
