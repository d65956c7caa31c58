#include "kernels/embedding.h"

#include "core/testing.h"
#include "kernels/linear.h"
#include "kernels/testing.h"

namespace heed {
namespace {

using test::Values;

std::vector<int32_t> ids_of(int64_t tokens, int64_t vocab) {
  std::mt19937 bits(7);
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  for (int32_t& id : ids) id = static_cast<int32_t>(bits() % static_cast<uint32_t>(vocab));
  return ids;
}

TEST(Embedding, TakesRowsAndAddsTheirGradients) {
  for (const int64_t width : {1, 5, 64, 133})
    for (const int64_t tokens : {0, 1, 40}) {
      const int64_t vocab = 9;  // every id comes several times
      const std::vector<int32_t> ids = ids_of(tokens, vocab);
      const Values<double> table = test::normals<double>(vocab * width, 1),
                           dy = test::normals<double>(tokens * width, 2);
      Values<double> y(dy.size(), NAN), dtable(table.size(), 1);
      embedding_forward<double>(ids.data(), table.data(), 2, y.data(), tokens, width, test::one_thread());
      embedding_backward<double>(ids.data(), dy.data(), 2, dtable.data(), tokens, width, test::one_thread());
      Values<double> expected_y(y.size()), expected_dtable(table.size(), 1);
      for (size_t t = 0; t < ids.size(); ++t)
        for (size_t j = 0, w = static_cast<size_t>(width); j < w; ++j) {
          expected_y[t * w + j] = 2 * table[static_cast<size_t>(ids[t]) * w + j];
          expected_dtable[static_cast<size_t>(ids[t]) * w + j] += 2 * dy[t * w + j];
        }
      test::expect_near(y, expected_y, 1e-15);
      test::expect_near(dtable, expected_dtable, 1e-14);
    }
}

TEST(Embedding, ATableInFewerBitsIsWidened) {
  for (const auto& [dtype, width] :
       {std::pair{DType::f16, int64_t{37}}, {DType::bf16, 37}, {DType::q8, 64}, {DType::q6_k, 512}}) {
    const int64_t vocab = 9, tokens = 40;
    const std::vector<int32_t> ids = ids_of(tokens, vocab);
    Values<float> drawn = test::normals<float>(vocab * width, 1), y(static_cast<size_t>(tokens * width), NAN);
    const Tensor table = is_quantised(dtype) ? random_blocks(dtype, {vocab, width})
                                             : Tensor::borrow(drawn.data(), DType::f32, {vocab, width}).to(dtype);
    Values<float> expected = y;
    with_weights<float>(table, [&, width = width](const auto& kept) {
      embedding_forward(ids.data(), kept, 3.f, y.data(), tokens, width, test::one_thread());
    });
    embedding_forward(ids.data(), table.to(DType::f32).data<float>(), 3.f, expected.data(), tokens, width,
                      test::one_thread());
    EXPECT_EQ(y, expected) << name_of(dtype);
  }
}

TEST(EmbeddingThreads, SameBits) {
  const int64_t tokens = 3000, vocab = 50, width = 130;
  const std::vector<int32_t> ids = ids_of(tokens, vocab);
  const Values<float> dy = test::normals<float>(tokens * width, 2);
  test::expect_same_bits([&](Executor& ex) {
    Values<float> dtable(static_cast<size_t>(vocab * width));
    embedding_backward<float>(ids.data(), dy.data(), 1, dtable.data(), tokens, width, ex);
    return dtable;
  });
}

}  // namespace
}  // namespace heed
