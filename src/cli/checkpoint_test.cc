#include "cli/checkpoint.h"

#include <gtest/gtest.h>

#include "heed/io.h"
#include "heed/random.h"

namespace heed::cli {
namespace {

TransformerConfig small() {
  TransformerConfig c;
  c.vocab_size = 300;
  c.d_model = 24;
  c.nhead = 3;
  c.num_encoder_layers = 2;
  c.num_decoder_layers = 3;
  c.dim_feedforward = 40;
  c.max_positions = 50;
  return c;
}

TEST(Checkpoint, ParameterCountIsThatOfTheModel) {
  const NoInit no_init;
  for (const char* activation : {"relu", "swiglu"})
    for (const char* norm : {"layer_norm", "rms_norm"})
      for (const char* positions : {"sinusoidal", "learned", "rotary"})
        for (int flags = 0; flags < 8; ++flags) {
          TransformerConfig c = small();
          c.activation = activation;
          c.norm = norm;
          c.positions = positions;
          c.norm_first = flags & 1;
          c.bias = flags & 2;
          c.tie_embeddings = flags & 4;
          EXPECT_EQ(parameter_count(c), Transformer(c).parameter_count())
              << activation << ' ' << norm << ' ' << positions << ' ' << flags;
        }
}

TEST(Checkpoint, ParameterCountOfTheLargestDoesNotOverflow) {
  TransformerConfig c = small();
  c.d_model = 65536;
  c.nhead = 1;
  c.num_encoder_layers = c.num_decoder_layers = 1000;
  c.dim_feedforward = 1'000'000;
  c.vocab_size = c.max_positions = 10'000'000;
  validate(c);
  EXPECT_GT(parameter_count(c), int64_t{1} << 47);
}

TEST(Checkpoint, NoInitDrawsNothing) {
  manual_seed(1);
  {
    const NoInit outer;
    { const NoInit inner; }
    for (const Variable& parameter : Transformer(small()).parameters()) {
      if (parameter.shape().rank() == 1) continue;  // norms begin with ones all the same
      for (const float x : parameter.value().span<float>()) ASSERT_EQ(x, 0);
    }
    EXPECT_EQ(default_generator().stream, 0u);
  }
  EXPECT_NE(normal({1}, 0, 1).at<float>(0), 0);
  EXPECT_EQ(default_generator().stream, 1u);
}

TEST(Checkpoint, ConfigReadsBack) {
  TransformerConfig c = small();
  c.dropout = 0.1 + 0.2;
  c.norm_first = true;
  c.positions = "rotary";
  c.pad_id = 7;
  const auto back = std::get<TransformerConfig>(read_config(write_config(c), "config.json"));
  EXPECT_EQ(write_config(back), write_config(c));
  EXPECT_EQ(back.dropout, c.dropout);
  EXPECT_EQ(back.pad_id, 7);
  EXPECT_EQ(back.num_decoder_layers, 3);
}

TEST(Checkpoint, ConfigOfALanguageModelReadsBack) {
  LanguageModelConfig c;
  c.vocab_size = 65;
  c.num_kv_heads = 4;
  c.num_layers = 7;
  c.bias = false;
  c.positions = "rotary";
  const auto back = std::get<LanguageModelConfig>(read_config(write_config(c), "config.json"));
  EXPECT_EQ(write_config(back), write_config(c));
  EXPECT_EQ(back.num_layers, 7);
  EXPECT_EQ(back.num_kv_heads, 4);
  EXPECT_EQ(back.max_positions, 1024);
  EXPECT_THROW(expect_config<TransformerConfig>(back, "m"), ShapeError);
  EXPECT_THROW(expect_config<LanguageModelConfig>(small(), "m"), ShapeError);
}

}  // namespace
}  // namespace heed::cli
