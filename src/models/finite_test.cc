#include "heed/models.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heed/finite.h"
#include "heed/random.h"

namespace heed::inline v0 {
namespace {

template <class F>
std::string what_of(F&& f) {
  try {
    f();
  } catch (const ShapeError& e) {
    return std::string("wrong use: ") + e.what();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

void spoil(Module& model, const std::string& name, const Dims& index, float value) {
  for (auto& [mine, parameter] : model.named_parameters()) {
    if (mine != name) continue;
    Tensor at = parameter.value();
    for (const int64_t i : index) at = at.slice(0, i, i + 1).select(0, 0);
    at.copy_from(Tensor::full({}, value, at.dtype()));
    return;
  }
  FAIL() << "no tensor " << name;
}

TransformerConfig translator() {
  return {.vocab_size = 20,
          .d_model = 8,
          .nhead = 2,
          .num_encoder_layers = 1,
          .num_decoder_layers = 2,
          .dim_feedforward = 12,
          .dropout = 0,
          .max_positions = 32};
}

TEST(Finite, TheFirstBadNumberIsNamed) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor good = Tensor::from({1.0f, std::numeric_limits<float>::max(), -1.0f, 0.0f}, {4});
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    Tensor bad = Tensor::zeros({2, 3}, dtype);
    EXPECT_EQ(first_non_finite(std::vector<std::pair<std::string, Tensor>>{{"a", good}, {"b", bad}}), std::nullopt);
    for (const auto& [value, says] : {std::pair{NAN, "NaN"}, {inf, "Inf"}, {-inf, "-Inf"}}) {
      bad.select(0, 1).slice(0, 2, 3).copy_from(Tensor::full({1}, value, dtype));
      EXPECT_EQ(first_non_finite(std::vector<std::pair<std::string, Tensor>>{{"a", good}, {"b", bad}}),
                std::string("tensor 'b' holds ") + says + " at (1, 2)");
      EXPECT_EQ(first_non_finite(std::vector<std::pair<std::string, Tensor>>{{"turned", bad.transpose(0, 1)}}),
                std::string("tensor 'turned' holds ") + says + " at (2, 1)");
    }
  }
  EXPECT_EQ(first_non_finite(std::vector<std::pair<std::string, Tensor>>{{"none", Tensor::empty({0, 3})},
                                                                         {"ids", Tensor::zeros({3}, DType::i32)}}),
            std::nullopt);
}

TEST(Finite, ADamagedTranslatorStopsAndSaysWhere) {
  for (const int64_t beam : {1, 3})
    for (const float value : {NAN, std::numeric_limits<float>::infinity()}) {
      manual_seed(1);
      Transformer model(translator());
      model.eval();
      spoil(model, "decoder.layers.1.linear1.weight", {3, 5}, value);
      const std::string says = what_of([&] { model.translate({{4, 5, 6}, {7}}, {.beam = beam}); });
      EXPECT_EQ(says, std::string("translate: a logit is not finite; tensor 'decoder.layers.1.linear1.weight' holds ") +
                          (std::isnan(value) ? "NaN" : "Inf") +
                          " at (3, 5); the model is damaged: use another copy, or train it again");
    }
}

TEST(Finite, OneTokenThatIsNotFiniteSuffices) {  // the sum over the others would hide -Inf
  manual_seed(1);
  TransformerConfig config = translator();
  config.tie_embeddings = false;
  Transformer model(config);
  model.eval();
  spoil(model, "output.weight", {19, 0}, -std::numeric_limits<float>::infinity());
  EXPECT_NE(what_of([&] {
              model.translate({{4, 5, 6}});
            }).find("'output.weight' holds -Inf at (19, 0)"),
            std::string::npos);
}

TEST(Finite, OverflowOfFiniteWeightsHasARemedy) {
  manual_seed(1);
  TransformerConfig config = translator();
  config.tie_embeddings = false;
  Transformer model(config);
  model.eval();
  for (auto& [name, parameter] : model.named_parameters())
    if (name == "output.weight") parameter.value().copy_from(Tensor::full(parameter.shape(), 3e38f));
  const std::string says = what_of([&] { model.translate({{4, 5, 6}}); });
  EXPECT_NE(says.find("all weights are"), std::string::npos) << says;
  EXPECT_NE(says.find("float32 or bfloat16"), std::string::npos) << says;
}

TEST(Finite, ADamagedLanguageModelStopsAndSaysWhere) {
  manual_seed(2);
  LanguageModel model({.vocab_size = 13,
                       .d_model = 8,
                       .nhead = 2,
                       .num_layers = 2,
                       .dim_feedforward = 12,
                       .dropout = 0,
                       .max_positions = 8,
                       .tie_embeddings = false});
  model.eval();
  spoil(model, "output.weight", {12, 7}, NAN);  // of one token, which need not be drawn
  std::vector<int32_t> drawn;
  const auto generate = [&](double temperature) {
    model.generate({1, 2}, {.max_tokens = 5,
                            .sampling = {.temperature = temperature},
                            .rules = {.never = {12}},
                            .on_token = [&](int32_t id) {
                              drawn.push_back(id);
                              return true;
                            }});
  };
  for (const double temperature : {0.0, 1.0})
    EXPECT_EQ(what_of([&] { generate(temperature); }),
              "generate: a logit is not finite; tensor 'output.weight' holds NaN at (12, 7); the model is damaged: use "
              "another copy, or train it again");
  EXPECT_TRUE(drawn.empty());
}

}  // namespace
}  // namespace heed::inline v0
