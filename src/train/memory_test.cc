// Tensors of an update live in blocks of earlier ones: once each shape has been seen, the system is asked for none.
#include "core/memory.h"

#include <gtest/gtest.h>

#include "heed/executor.h"
#include "heed/models.h"
#include "heed/optim.h"
#include "tests/allocations.h"

namespace heed {
namespace {

class Updates {
 public:
  Updates() : arena_(model_), optimiser_(arena_, {}) {}

  void operator()(size_t sentences, size_t length) {
    const std::vector<std::vector<int32_t>> batch(sentences, std::vector<int32_t>(length, 5));
    arena_.zero_gradients();
    model_.loss(TokenBatch::pad(batch, 0), batch, {.label_smoothing = 0.1}).backward();
    optimiser_.step(1e-3, clip_scale(arena_.gradient_norm(), 1));
  }

 private:
  static TransformerConfig config() {
    return {.vocab_size = 50,
            .d_model = 16,
            .nhead = 2,
            .num_encoder_layers = 2,
            .num_decoder_layers = 2,
            .dim_feedforward = 32,
            .dropout = 0.3};
  }
  Transformer model_{config()};
  ParameterArena arena_;
  AdamW optimiser_;
};

TEST(TrainMemory, AnUpdateOfAKnownShapeAsksTheSystemForNoBlock) {
  set_threads(1);  // with more, how many blocks of scratch live at once is a matter of timing
  Updates update;
  const auto pass = [&] {
    update(40, 9);
    update(13, 30);
    update(64, 3);
  };
  for (int warm = 0; warm < 3; ++warm) pass();
  const size_t in_use = memory_in_use();
  const int64_t before = test::aligned_blocks();
  for (int again = 0; again < 3; ++again) pass();
  EXPECT_EQ(test::aligned_blocks(), before);
  EXPECT_EQ(memory_in_use(), in_use);
  update(200, 40);  // the count itself works: more than was ever in use
  EXPECT_GT(test::aligned_blocks(), before);
}

}  // namespace
}  // namespace heed
