// Other makers' models on their way through heed's training: losses of their texts, new heads, adapters.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/adapters.h"
#include "heed/load.h"
#include "heed/random.h"
#include "heed/text_encoder.h"
#include "heed/translator.h"
#include "tests/shared.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

std::string model(const std::string& name) { return test::shared_path("conformance/models/" + name); }

#define NEEDS_CASES() \
  if (!fs::exists(model("bert"))) GTEST_SKIP() << "needs shared/conformance/models, which is not here"

class Tuning : public testing::Test {
 protected:
  void SetUp() override {
    to_ = (fs::temp_directory_path() / ("heed_tuning_" + std::to_string(getpid()))).string();
    fs::remove_all(to_);
  }
  void TearDown() override { fs::remove_all(to_); }

  static void expect_same(const Module& a, const Module& b, double tolerance) {
    const auto first = a.named_parameters(), second = b.named_parameters();
    ASSERT_EQ(first.size(), second.size());
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(first[i].first, second[i].first);
      const Tensor x = first[i].second.value().to(DType::f32).contiguous(),
                   y = second[i].second.value().to(DType::f32).contiguous();
      ASSERT_EQ(x.numel(), y.numel());
      for (int64_t j = 0; j < x.numel(); ++j)
        ASSERT_NEAR(x.data<float>()[j], y.data<float>()[j], tolerance) << first[i].first;
    }
  }
  std::string to_;
};

// What the reference's tokenizers give the decoder to learn.
TEST_F(Tuning, PairsAreTheReferencesLabels) {
  NEEDS_CASES();
  for (const char* name : {"marian", "marian-separate", "bart", "t5", "t5-v1.1"}) {
    SCOPED_TRACE(name);
    const nlohmann::json facts = nlohmann::json::parse(read_file(model(name) + "/expected.json"));
    const SafetensorsFile expected(model(name) + "/expected.safetensors");
    TextPairs texts;
    for (const auto& pair : facts["texts"]) {
      texts.source.push_back(pair["source"]);
      texts.target.push_back(pair["target"]);
    }
    const StoredModel stored = load(model(name));
    const SentencePairs pairs = encode_pairs(stored, texts);
    const Tensor labels = expected.tensor("labels"), ids = expected.tensor("input_ids");
    const auto row = [](const Tensor& x, int64_t b, size_t length) {
      std::vector<int32_t> result;
      for (int64_t l = 0; l < std::min<int64_t>(x.size(1), static_cast<int64_t>(length)); ++l)
        result.push_back(static_cast<int32_t>(x.at<int64_t>(b, l)));
      return result;
    };
    for (size_t b = 0; b < pairs.source.size(); ++b) {
      const auto at = static_cast<int64_t>(b);
      std::vector<int32_t> target = pairs.target[b];
      target.push_back(stored.as<Transformer>().config().eos_id);
      EXPECT_EQ(pairs.source[b], row(ids, at, pairs.source[b].size()));
      EXPECT_EQ(target, row(labels, at, target.size()));
    }
  }
}

TEST_F(Tuning, ANewHead) {
  NEEDS_CASES();
  for (const char* name : {"bert", "bert-classifier", "distilbert", "roberta", "mpnet", "sentence-encoder"}) {
    SCOPED_TRACE(name);
    manual_seed(7);
    const PretrainedModel made = load_classifier(model(name), {"a \"b\"", "ñ", "z"});
    EXPECT_EQ(dynamic_cast<TextEncoder&>(*made.module).config().head->outputs, 3);
    const PretrainedModel before = load_pretrained(model(name));
    std::map<std::string, Tensor> values;
    for (const auto& [own, parameter] : before.module->named_parameters()) values[own] = parameter.value();
    for (const auto& [own, parameter] : made.module->named_parameters()) {
      if (own.starts_with("head.")) continue;
      const Tensor was = values.at(own).to(DType::f32).contiguous(), is = parameter.value().contiguous();
      ASSERT_TRUE(std::equal(was.span<float>().begin(), was.span<float>().end(), is.span<float>().begin())) << own;
    }
    fs::remove_all(to_);
    save_pretrained(made, to_);
    const PretrainedModel again = load_pretrained(to_);
    EXPECT_EQ(labels_of(again), labels_of(made));
    EXPECT_EQ(labels_of(again)[1], "ñ");
    expect_same(*again.module, *made.module, 1e-3);  // the head is rounded where the file has halves
    expect_same(*load_classifier(to_, {"z", "ñ"}).module, *again.module, 0);  // it knows them
  }
  EXPECT_EQ(labels_of(load_classifier(model("bert-classifier"), {"positive"})),
            (std::vector<std::string>{"negative", "neutral", "positive"}));
  EXPECT_THROW(load_classifier(model("gpt2"), {"a", "b"}), FormatError);
  EXPECT_THROW(load_classifier(model("bert"), {"a"}), ShapeError);  // one class is no choice
  EXPECT_THROW(load_classifier(model("bert-classifier"), {"new"}), ShapeError);
  EXPECT_THROW(load_classifier(model("bert"), {}), ShapeError);
}

// Whose tensors have other shapes than the parameters.
TEST_F(Tuning, ANewHeadOfAModelOfPictures) {
  NEEDS_CASES();
  manual_seed(7);
  const PretrainedModel made = load_classifier(model("vit"), {"a", "ñ", "z"});
  save_pretrained(made, to_);
  EXPECT_EQ(labels_of(load_pretrained(to_)), labels_of(made));
  expect_same(*load_pretrained(to_).module, *made.module, 0);
  const SafetensorsFile before(model("vit") + "/model.safetensors"), after(to_ + "/model.safetensors");
  ASSERT_EQ(after.tensors().size(), before.tensors().size());
  for (const TensorInfo& info : before.tensors()) {
    if (info.name.starts_with("classifier.")) continue;
    EXPECT_EQ(after.info(info.name).shape, info.shape) << info.name;
  }
}

TEST_F(Tuning, AdaptersAreLoadedMerged) {
  NEEDS_CASES();
  for (const char* name : {"gpt2", "llama", "phi3", "gemma2", "marian", "bart", "t5-v1.1", "bert", "distilbert"}) {
    for (const LowRankLayers which : {LowRankLayers::attention, LowRankLayers::all}) {
      SCOPED_TRACE(name);
      const PretrainedModel base = load_pretrained(model(name));
      base.module->to(DType::f32);
      manual_seed(3);
      const auto adapters = make_adapters(base, which, {.rank = 2, .alpha = 5});
      EXPECT_GE(adapters->layers().size(), 2U);
      NamedTensors parameters;
      for (const auto& [own, parameter] : adapters->named_parameters()) {
        parameter.value().copy_from(normal(parameter.shape(), 0, 0.3));
        parameters.emplace_back(own, parameter.value());
      }
      adapters->eval();
      adapters->apply();
      fs::remove_all(to_);
      DirectoryTransaction transaction(to_);
      for (const auto& [file, text] : pretrained_texts(base)) transaction.write(file, text);
      transaction.write(kAdapterConfigFile, adapter_config(base, *adapters, model(name)));
      transaction.write(kAdapterFile, [&](FileWriter& file) { write_adapters(file, base, parameters); });
      transaction.commit();
      EXPECT_EQ(adapted_base(to_), model(name));
      expect_same(load(to_).module(), *base.module, 0);
    }
  }
}

TEST_F(Tuning, AdaptersThatDoNotFit) {
  NEEDS_CASES();
  const auto refused = [&](const std::string& config, const std::string& part) {
    fs::remove_all(to_);
    DirectoryTransaction transaction(to_);
    transaction.write(kConfigFile, read_file(model("gpt2") + "/" + kConfigFile));
    transaction.write(kAdapterConfigFile, config);
    transaction.write(kAdapterFile, [&](FileWriter& file) {
      write_safetensors(file, {{"base_model.model.transformer.h.7.attn.c_attn.lora_A.weight", normal({2, 32}, 0, 1)}});
    });
    transaction.commit();
    try {
      load(to_);
      ADD_FAILURE() << "taken";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  const std::string base = "\"base_model_name_or_path\": \"" + model("gpt2") + "\", \"r\": 2, \"lora_alpha\": 4";
  refused("[]", kAdapterConfigFile);
  refused("{}", "peft_type");
  refused("{\"peft_type\": \"IA3\", " + base + "}", "peft_type");
  refused("{\"peft_type\": \"LORA\", \"lora_bias\": true, " + base + "}", "lora_bias");
  refused("{\"peft_type\": \"LORA\", \"rank_pattern\": {\"a\": 0}, " + base + "}", "rank_pattern");
  refused("{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, \"base_model_name_or_path\": \"nowhere\"}",
          "nowhere");
  refused("{\"peft_type\": \"LORA\", " + base + "}", "h.7");
}

}  // namespace
}  // namespace heed
