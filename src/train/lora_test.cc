#include "heed/lora.h"

#include <gtest/gtest.h>

#include <map>

#include "heed/models.h"
#include "tests/gradcheck.h"
#include "train/testing.h"

namespace heed {
namespace {

class Lora : public TrainTest {
 protected:
  void SetUp() override {
    TrainTest::SetUp();
    make();
  }
  void make() {
    manual_seed(5);
    model_.emplace(LanguageModelConfig{.vocab_size = 11,
                                       .d_model = 8,
                                       .nhead = 2,
                                       .num_layers = 2,
                                       .dim_feedforward = 12,
                                       .dropout = 0,
                                       .max_positions = 16});
    for (const auto& [name, parameter] : model_->named_parameters())  // as wide as those of a model that has learned
      if (parameter.shape().rank() == 2) parameter.value().copy_from(normal(parameter.shape(), 0, 0.4));
  }
  static const std::vector<AdaptedRows>& layers() {
    static const std::vector<AdaptedRows> all{{"q", "layers.0.self_attn.in_proj_weight", 0, 8},
                                              {"v", "layers.0.self_attn.in_proj_weight", 16, 24},
                                              {"up", "layers.1.linear1.weight", 0, 12}};
    return all;
  }
  std::map<std::string, std::vector<float>> values() const {
    std::map<std::string, std::vector<float>> all;
    for (const auto& [name, parameter] : model_->named_parameters()) {
      const Tensor value = parameter.value().contiguous();
      all[name] = {value.span<float>().begin(), value.span<float>().end()};
    }
    return all;
  }
  // Other than 0, so that both matrices have a gradient.
  static void draw(const LowRankAdapters& adapters) {
    for (const auto& [name, parameter] : adapters.named_parameters())
      parameter.value().copy_from(normal(parameter.shape(), 0, 0.5, parameter.dtype()));
  }
  Variable loss() const { return model_->loss(TokenBatch::pad({{1, 2, 3, 4, 5}, {6, 7, 8}}, 0)); }

  std::optional<LanguageModel> model_;
};

TEST_F(Lora, BeginsAsTheModel) {
  const double before = loss().value().item();
  LowRankAdapters adapters(*model_, layers(), {.rank = 3});
  EXPECT_EQ(adapters([&] { return loss(); }).value().item(), before);
  EXPECT_EQ(adapters.parameter_count(), 3 * (8 + 8) + 3 * (8 + 8) + 3 * (8 + 12));
}

TEST_F(Lora, Gradients) {
  model_->to(DType::f64);
  LowRankAdapters adapters(*model_, layers(), {.rank = 2, .alpha = 3}, {"norm.weight"});
  draw(adapters);
  test::expect_gradients([&] { return adapters([&] { return loss(); }); }, adapters.parameters());
}

TEST_F(Lora, MergesTheSumOfThePaper) {
  const auto before = values();
  LowRankAdapters adapters(*model_, layers(), {.rank = 2, .alpha = 3});
  draw(adapters);
  adapters.apply();
  adapters.apply();  // not added twice
  std::map<std::string, Tensor> own;
  for (const auto& [name, parameter] : adapters.named_parameters()) own[name] = parameter.value();
  const auto after = values();
  for (const auto& [name, value] : after) {
    std::vector<float> want = before.at(name);
    for (const AdaptedRows& rows : layers()) {
      if (rows.parameter != name) continue;
      const Tensor a = own.at(rows.name + ".lora_A.weight"), b = own.at(rows.name + ".lora_B.weight");
      for (int64_t i = 0; i < b.size(0); ++i)
        for (int64_t j = 0; j < a.size(1); ++j)
          for (int64_t r = 0; r < 2; ++r)
            want[static_cast<size_t>((rows.begin + i) * a.size(1) + j)] += 1.5F * b.at<float>(i, r) * a.at<float>(r, j);
    }
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(value[i], want[i], 1e-5) << name << " " << i;
  }
}

TEST_F(Lora, TrainsTheAdaptersAlone) {
  const auto before = values();
  LowRankAdapters adapters(*model_, layers(), {.rank = 2});
  const std::vector<int32_t> text = counting(200, 1), validation = counting(60, 2);
  TrainOptions options = quick();
  options.batch = 4, options.block = 8, options.label_smoothing = 0;
  options.max_updates = 60;
  options.learning_rate.peak = 0.05;
  const std::string there = directory("m");
  TrainHooks hooks{.adapters = &adapters};
  const double first = validation_nll(*model_, validation, 8);
  const TrainResult result = train(*model_, text, validation, options, there, hooks);
  EXPECT_LT(result.best_nll, 0.97 * first);
  const SafetensorsFile file(there + "/" + kModelFile);
  EXPECT_EQ(file.tensors().size(), 6U);
  for (const auto& [name, value] : values())
    if (name != "layers.0.self_attn.in_proj_weight" && name != "layers.1.linear1.weight") {
      EXPECT_EQ(value, before.at(name)) << name;
    }
  // Killed and gone on with: the same bits.
  const std::string cut = directory("cut");
  for (const int64_t updates : {7, 60}) {
    make();
    LowRankAdapters again(*model_, layers(), {.rank = 2});
    options.max_updates = updates;
    hooks.adapters = &again;
    train(*model_, text, validation, options, cut, hooks);
  }
  EXPECT_EQ(model_bytes(cut), model_bytes(there));
}

TEST_F(Lora, Refusals) {
  EXPECT_THROW(LowRankAdapters(*model_, layers(), {.rank = 0}), ShapeError);
  EXPECT_THROW(LowRankAdapters(*model_, layers(), {.alpha = -1}), ShapeError);
  EXPECT_THROW(LowRankAdapters(*model_, {{"x", "nothing", 0, 1}}, {}), ShapeError);
  EXPECT_THROW(LowRankAdapters(*model_, {{"x", "layers.0.linear1.weight", 4, 13}}, {}), ShapeError);
  EXPECT_THROW(LowRankAdapters(*model_, {{"x", "norm.weight", 0, 1}}, {}), ShapeError);
}

}  // namespace
}  // namespace heed
