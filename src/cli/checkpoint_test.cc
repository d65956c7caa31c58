#include "cli/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/io.h"
#include "heed/random.h"
#include "models/fields.h"

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
        for (int flags = 0; flags < 16; ++flags) {
          TransformerConfig c = small();
          c.activation = activation;
          c.norm = norm;
          c.positions = positions;
          c.norm_first = flags & 1;
          c.bias = flags & 2;
          c.tie_embeddings = flags & 4;
          c.source_vocab_size = flags & 8 ? 311 : 0;
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

// Sets one integer field.
struct SetInteger {
  std::string field;
  int64_t to;
  template <class T>
  void integer(const std::string& name, T& value, int64_t, int64_t) const {
    if (name == field) value = static_cast<T>(to);
  }
  void optional(const std::string& name, int64_t& value, int64_t) const { integer(name, value, 0, 0); }
  void probability(const std::string&, double&) const {}
  void choice(const std::string&, std::string&, const std::vector<std::string>&) const {}
  void flag(const std::string&, bool&) const {}
};
struct Bounds {
  std::vector<std::tuple<std::string, int64_t, int64_t>>& all;
  template <class T>
  void integer(const std::string& name, const T&, int64_t low, int64_t high) const {
    all.emplace_back(name, low, high);
  }
  void optional(const std::string& name, const int64_t&, int64_t high) const { all.emplace_back(name, 0, high); }
  void probability(const std::string&, const double&) const {}
  void choice(const std::string&, const std::string&, const std::vector<std::string>&) const {}
  void flag(const std::string&, const bool&) const {}
};

template <class F>
bool refuses(F&& f) {
  try {
    f();
  } catch (const Error&) {
    return true;
  }
  return false;
}

TEST(Checkpoint, WhatIsValidCanBeReadAndNothingElse) {
  const auto all_agree = [](const auto& base) {
    std::vector<std::tuple<std::string, int64_t, int64_t>> bounds;
    visit_fields(base, Bounds{bounds});
    EXPECT_GE(bounds.size(), 7u);
    for (const auto& [field, low, high] : bounds)
      for (const int64_t value : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{2}, low - 1, low, high, high + 1}) {
        auto c = base;
        visit_fields(c, SetInteger{field, value});
        const bool absent = field == "source_vocab_size" && value <= 0;  // not written
        EXPECT_EQ(refuses([&] { read_config(write_config(c), "config.json"); }),
                  !absent && refuses([&] { validate(c); }))
            << field << ' ' << value;
        const bool outside = value < low || value > high;
        EXPECT_TRUE(!outside || refuses([&] { validate(c); })) << field << ' ' << value;
      }
  };
  all_agree(small());
  all_agree(LanguageModelConfig{.vocab_size = 65});
}

TEST(Checkpoint, PaddingIsNoPieceOfItsText) {
  TransformerConfig c = small();
  c.eos_id = c.pad_id;
  EXPECT_THROW(validate(c), ShapeError);
  c = small();
  c.source_vocab_size = 3;  // eos is 3
  EXPECT_THROW(validate(c), ShapeError);
}

TEST(Checkpoint, TheSourceMayHaveAVocabularyOfItsOwn) {
  for (const bool tied : {true, false}) {
    TransformerConfig c = small();
    c.source_vocab_size = 400;
    c.vocab_size = 310;
    c.tie_embeddings = tied;
    c.dropout = 0;
    manual_seed(2);
    Transformer model(c);
    const auto loss = [&](int32_t source, int32_t target) {
      const NoGrad no_grad;
      return model.loss(TokenBatch::pad({{source, 3}}, 0), {{target}}).value().item();
    };
    EXPECT_NO_THROW(loss(399, 309));
    EXPECT_THROW(loss(399, 310), ShapeError);
    EXPECT_THROW(loss(400, 309), ShapeError);
    EXPECT_NE(loss(309, 5), loss(308, 5));
    EXPECT_EQ(model.translate({{399}})[0].size(), 1u);
    // Of its source's embedding the loss moves the rows that were read, of the target's those read and the output.
    model.loss(TokenBatch::pad({{399, 3}}, 0), {{309}}).backward();
    for (const auto& [name, parameter] : model.named_parameters())
      if (name == "source_embedding.weight") {
        double other = 0;
        for (int64_t row = 0; row < 399; ++row)
          if (row != 3)
            for (int64_t i = 0; i < c.d_model; ++i) other += std::abs(parameter.grad().at<float>(row, i));
        EXPECT_EQ(other, 0);
        EXPECT_NE(parameter.grad().at<float>(399, 0), 0);
      }
  }
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
