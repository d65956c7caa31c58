#include "heed/executor.h"
#include "train/testing.h"

namespace heed::inline v0 {
namespace {

using TrainThreads = TrainTest;

// Large enough that products, attention, norms and the loss are each cut into several tiles; all dropouts on.
TEST_F(TrainThreads, AnyNumberGivesTheSameBits) {
  TransformerConfig config = tiny();
  config.vocab_size = 600;
  config.d_model = 64;
  config.nhead = 4;
  config.dim_feedforward = 128;
  config.attention_dropout = config.activation_dropout = 0.1;
  const SentencePairs training = reversing(120, 20, config.vocab_size, 3);
  TrainOptions options = quick();
  options.batch_tokens = 800;
  options.max_updates = 4;
  options.validate_every = 2;
  const auto weights = [&](int count) {
    set_threads(count);
    manual_seed(7);
    Transformer model(config);
    const std::string where = directory(std::to_string(count));
    train(model, training, reversing(20, 20, config.vocab_size, 4), options, where);
    set_threads(0);
    return model_bytes(where);
  };
  const std::string one = weights(1);
  EXPECT_TRUE(weights(2) == one);
  EXPECT_TRUE(weights(3) == one);
}

}  // namespace
}  // namespace heed::inline v0
