// Tensors that PEFT saves whole beside its adapters.
#include "load/adapters.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heed/adapters.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/random.h"
#include "load/adapter_config.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWidth = 8, kPieces = 20;

class SavedModules : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("heed_saved_modules_" + std::to_string(getpid()));
    for (const char* name : {"base", "adapters"}) fs::create_directories(directory_ / name);
    manual_seed(5);
    std::ofstream(directory_ / "base/config.json")
        << R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 20, "n_embd": 8, "n_head": 2,
               "n_layer": 1, "n_positions": 16, "n_inner": 12})";
    std::ofstream(directory_ / "adapters/adapter_config.json") << R"({"peft_type": "LORA", "task_type": "CAUSAL_LM"})";
    for (const auto& [name, in, out] : {std::tuple("attn.c_attn", kWidth, 3 * kWidth),
                                        {"attn.c_proj", kWidth, kWidth},
                                        {"mlp.c_fc", kWidth, int64_t{12}},
                                        {"mlp.c_proj", int64_t{12}, kWidth}}) {
      base_.emplace_back(std::string("transformer.h.0.") + name + ".weight", normal({in, out}, 0, 0.3));
      base_.emplace_back(std::string("transformer.h.0.") + name + ".bias", normal({out}, 0, 0.3));
    }
    for (const char* norm : {"h.0.ln_1", "h.0.ln_2", "ln_f"})
      for (const char* kind : {".weight", ".bias"})
        base_.emplace_back(std::string("transformer.") + norm + kind, normal({kWidth}, 0, 0.3));
    base_.emplace_back("transformer.wpe.weight", normal({16, kWidth}, 0, 0.3));
    table_ = normal({kPieces, kWidth}, 0, 0.3);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }

  // `table_name`: the name under which the base stores the embedding, which is also its head.
  PretrainedModel load(const NamedTensors& saved, const std::string& table_name = "transformer.wte.weight") const {
    NamedTensors base = base_, adapters;
    base.emplace_back(table_name, table_);
    for (const auto& [name, tensor] : saved) adapters.emplace_back("base_model.model." + name, tensor);
    save_safetensors(path("base/model.safetensors"), base);
    save_safetensors(path("adapters/adapter_model.safetensors"), adapters);
    return load_adapted(path("adapters"), path("base"));
  }

  fs::path directory_;
  NamedTensors base_;
  Tensor table_;
};

void expect_equal(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  const Tensor a = got.to(DType::f32).contiguous(), b = want.contiguous();
  for (int64_t i = 0; i < a.numel(); ++i) ASSERT_EQ(a.data<float>()[i], b.data<float>()[i]) << i;
}

class Patterns : public SavedModules {
 protected:
  // The scale of the adapter of h.0.attn.c_attn, of rank 1, whose alpha is 8.
  double scale_with(const std::string& members) const {
    std::ofstream(directory_ / "adapters/adapter_config.json")
        << R"({"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 1, "lora_alpha": 8, "target_modules": ["c_attn"], )"
        << members << "}";
    return AdapterConfig(path("adapters")).scale("transformer.h.0.attn.c_attn", 1);
  }
};

TEST_F(Patterns, TheFirstInTheFileThatFitsCounts) {
  EXPECT_EQ(scale_with(R"("alpha_pattern": {})"), 8);
  EXPECT_EQ(scale_with(R"("alpha_pattern": null)"), 8);
  EXPECT_EQ(scale_with(R"("alpha_pattern": {"z": 2, "c_attn": 3, "attn.c_attn": 5})"), 3);
  EXPECT_EQ(scale_with(R"("alpha_pattern": {"h.0.*": 0.5, "c_attn": 3})"), 0.5);
  for (const char* value : {"0", "-1", "null", "\"3\"", "[3]", "{}"})
    EXPECT_THROW(scale_with(R"("alpha_pattern": {"z": )" + std::string(value) + "}"), FormatError) << value;
  EXPECT_THROW(scale_with(R"("alpha_pattern": [3])"), FormatError);
}

TEST_F(Patterns, TimeGrowsWithTheFile) {
  const auto begun = std::chrono::steady_clock::now();
  std::string others = R"("others": {"": 0)";
  for (int i = 0; i < 80000; ++i) others += ",\"" + std::to_string(i) + "\":0";
  EXPECT_EQ(scale_with(others + R"(}, "alpha_pattern": {"c_attn": 3})"), 3);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
}

TEST_F(SavedModules, CopiesUnderOtherNames) {
  const Tensor trained = normal({kWidth}, 0, 1), other = normal({kWidth}, 0, 1);
  for (const char* copy : {"transformer.ln_f.modules_to_save.bias", "transformer.ln_f.modules_to_save.default.bias"}) {
    const PretrainedModel model = load({{"transformer.ln_f.bias", trained},
                                        {copy, trained},
                                        {"transformer.ln_f.original_module.bias", other}});  // which computes nothing
    for (const auto& [name, parameter] : model.module->named_parameters())
      if (name == "norm.bias") expect_equal(parameter.value(), trained);
    EXPECT_THROW(load({{"transformer.ln_f.bias", trained}, {copy, other}}), FormatError) << copy;
    EXPECT_THROW(load({{copy, trained}}), FormatError) << copy;
  }
}

TEST_F(SavedModules, AHeadThatIsNoLongerTheEmbedding) {
  const Tensor changed = normal({kPieces, kWidth}, 0, 1);
  for (const char* stored : {"transformer.wte.weight", "lm_head.weight"})
    for (const bool head : {true, false}) {
      SCOPED_TRACE(std::string(stored) + (head ? ", the head changes" : ", the embedding changes"));
      const PretrainedModel model = load({{head ? "lm_head.weight" : "transformer.wte.weight", changed}}, stored);
      fs::remove_all(path("merged"));
      save_pretrained(model, path("merged"));
      const PretrainedModel merged = load_pretrained(path("merged"));
      EXPECT_EQ(nlohmann::json::parse(merged.config)["tie_word_embeddings"], false);
      for (const PretrainedModel* one : {&model, &merged}) {
        const auto& gpt2 = dynamic_cast<const LanguageModel&>(*one->module);
        expect_equal(gpt2.embedding().value(), head ? table_ : changed);
        expect_equal(gpt2.output_weight().value(), head ? changed : table_);
      }
    }
}

}  // namespace
}  // namespace heed
