// Files that lack the head of the class that config.json names, and files with other heads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "heed/io.h"
#include "heed/pretrained.h"
#include "heed/random.h"
#include "heed/text_encoder.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kWidth = 8, kPieces = 20;

const json kBert{{"model_type", "bert"},          {"vocab_size", kPieces},  {"hidden_size", kWidth},
                 {"num_attention_heads", 2},      {"num_hidden_layers", 1}, {"intermediate_size", 12},
                 {"max_position_embeddings", 16}, {"type_vocab_size", 2}};
const json kLlama{{"model_type", "llama"},         {"vocab_size", kPieces},  {"hidden_size", kWidth},
                  {"num_attention_heads", 2},      {"num_hidden_layers", 1}, {"intermediate_size", 12},
                  {"max_position_embeddings", 16}, {"eos_token_id", 2}};
const json kT5{{"model_type", "t5"}, {"vocab_size", kPieces}, {"d_model", kWidth}, {"d_kv", 4},
               {"d_ff", 12},         {"num_layers", 1},       {"num_heads", 2}};

class Heads : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("heed_heads_" + std::to_string(getpid()));
    fs::create_directories(directory_ / "model");
    manual_seed(5);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string path(const std::string& name = "model") const { return (directory_ / name).string(); }

  void add(const std::string& name, const std::vector<int64_t>& shape) {
    tensors_.emplace_back(name, normal(Dims(shape), 0, 0.3));
  }
  void add_linear(const std::string& name, int64_t out, int64_t in) {
    add(name + ".weight", {out, in});
    add(name + ".bias", {out});
  }
  void add_norm(const std::string& name) {
    add(name + ".weight", {kWidth});
    add(name + ".bias", {kWidth});
  }
  void drop(const std::string& name) {
    std::erase_if(tensors_, [&](const auto& tensor) { return tensor.first == name; });
  }

  void make_bert(const std::string& prefix) {
    const std::string embeddings = prefix + "embeddings.", layer = prefix + "encoder.layer.0.";
    add(embeddings + "word_embeddings.weight", {kPieces, kWidth});
    add(embeddings + "position_embeddings.weight", {16, kWidth});
    add(embeddings + "token_type_embeddings.weight", {2, kWidth});
    add_norm(embeddings + "LayerNorm");
    for (const char* part : {"self.query", "self.key", "self.value", "output.dense"})
      add_linear(layer + "attention." + part, kWidth, kWidth);
    add_norm(layer + "attention.output.LayerNorm");
    add_linear(layer + "intermediate.dense", 12, kWidth);
    add_linear(layer + "output.dense", kWidth, 12);
    add_norm(layer + "output.LayerNorm");
  }
  void make_words() {
    add_linear("cls.predictions.transform.dense", kWidth, kWidth);
    add_norm("cls.predictions.transform.LayerNorm");
    add("cls.predictions.bias", {kPieces});
  }
  void make_llama() {
    add("model.embed_tokens.weight", {kPieces, kWidth});
    const std::string layer = "model.layers.0.";
    for (const char* part : {"q_proj", "k_proj", "v_proj", "o_proj"})
      add(layer + "self_attn." + part + ".weight", {kWidth, kWidth});
    for (const char* part : {"gate_proj", "up_proj"}) add(layer + "mlp." + part + ".weight", {12, kWidth});
    add(layer + "mlp.down_proj.weight", {kWidth, 12});
    for (const char* norm : {"layers.0.input_layernorm", "layers.0.post_attention_layernorm", "norm"})
      add(std::string("model.") + norm + ".weight", {kWidth});
  }

  PretrainedModel load(json config, const char* architecture) {
    if (*architecture) config["architectures"] = {architecture};
    std::ofstream(path() + "/config.json") << config;
    save_safetensors(path() + "/model.safetensors", tensors_);
    return load_pretrained(path());
  }
  void expect_refused(const json& config, const char* architecture, const std::string& why) {
    try {
      load(config, architecture);
      ADD_FAILURE() << architecture << " loads";
    } catch (const FormatError& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    }
  }

  fs::path directory_;
  NamedTensors tensors_;
};

const TokenBatch kText{{4, 5, 6}};

std::vector<float> numbers(const Variable& values) {
  const Tensor flat = values.value().contiguous();
  return {flat.span<float>().begin(), flat.span<float>().end()};
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& e) {
    return e.what();
  }
  return "none";
}

TEST_F(Heads, TheRestLoadsWithoutTheHeadThatIsNamed) {
  const NoGrad no_grad;
  make_bert("");
  const std::vector<float> states = numbers(dynamic_cast<TextEncoder&>(*load(kBert, "BertModel").module).hidden(kText));
  for (const auto& [name, lacks] : {std::pair("BertForMaskedLM", "no tensor 'cls.predictions.transform.dense.weight'"),
                                    {"BertForPreTraining", "no tensor 'cls.predictions.transform.dense.weight'"},
                                    {"BertForSequenceClassification", "no tensor 'pooler.dense.weight'"},
                                    {"BertForTokenClassification", "no tensor 'classifier.weight'"},
                                    {"BertForQuestionAnswering", "no tensor 'qa_outputs.weight'"},
                                    {"BertForMultipleChoice", "heed does not have"}}) {
    const PretrainedModel model = load(kBert, name);
    EXPECT_EQ(model.head.task, HeadTask::none) << name;
    EXPECT_TRUE(model.head.labels.empty()) << name;
    EXPECT_NE(model.head.missing.find(lacks), std::string::npos) << model.head.missing;
    EXPECT_NE(model.head.missing.find(name), std::string::npos) << model.head.missing;
    const auto& encoder = dynamic_cast<const TextEncoder&>(*model.module);
    EXPECT_EQ(numbers(encoder.hidden(kText)), states) << name;
    EXPECT_THROW(encoder.logits(kText), UsageError) << name;
  }
  EXPECT_EQ(load(kBert, "BertModel").head.missing, "");
}

TEST_F(Heads, APartOfAHeadIsNotUsed) {
  make_bert("bert.");
  make_words();
  EXPECT_EQ(load(kBert, "BertForMaskedLM").head.task, HeadTask::masked_words);
  drop("cls.predictions.transform.LayerNorm.bias");
  const PretrainedModel model = load(kBert, "BertForMaskedLM");
  EXPECT_EQ(model.head.task, HeadTask::none);
  EXPECT_NE(model.head.missing.find("'cls.predictions.transform.LayerNorm.bias'"), std::string::npos);
  add("cls.predictions.transform.LayerNorm.bias", {kWidth + 1});
  expect_refused(kBert, "BertForMaskedLM", "gives (9), the configuration asks for (8)");
}

TEST_F(Heads, AnotherHeadIsIgnored) {
  make_bert("bert.");
  make_words();
  add_linear("cls.seq_relationship", 2, kWidth);
  add_linear("bert.pooler.dense", kWidth, kWidth);
  for (const char* name : {"", "BertModel"})  // the head for words is the one that AutoModelForMaskedLM would use
    EXPECT_EQ(load(kBert, name).head.task, HeadTask::masked_words) << name;
  EXPECT_NE(load(kBert, "BertForTokenClassification").head.missing, "");
  add_linear("classifier", 2, kWidth);
  EXPECT_EQ(load(kBert, "BertForTokenClassification").head.task, HeadTask::token_classes);
  EXPECT_EQ(load(kBert, "BertForSequenceClassification").head.task, HeadTask::text_classes);
  EXPECT_EQ(load(kBert, "BertForMaskedLM").head.task, HeadTask::masked_words);
  for (const char* other :
       {"cls.predictions.other", "bert.encoder.layer.0.adapter.weight", "lm_head.bias", "classifiers.bias"}) {
    add(other, {3});
    expect_refused(kBert, "BertModel", std::string(other) + "' has no place");
    drop(other);
  }
}

TEST_F(Heads, DecodersWithoutTheirHead) {
  const NoGrad no_grad;
  make_llama();
  for (const auto& [name, lacks] : {std::pair("LlamaForCausalLM", "no tensor 'lm_head.weight'"),
                                    {"LlamaForSequenceClassification", "no tensor 'score.weight'"},
                                    {"LlamaForTokenClassification", "heed does not have"},
                                    {"", "no tensor 'lm_head.weight'"},
                                    {"LlamaModel", "the model has no head that predicts tokens"}}) {
    const PretrainedModel model = load(kLlama, name);
    const auto& llama = dynamic_cast<const LanguageModel&>(*model.module);
    EXPECT_FALSE(llama.has_logits()) << name;
    EXPECT_EQ(llama.hidden(kText).shape(), (Dims{1, 3, kWidth})) << name;
    for (const std::string& refused : {refusal([&] { llama.logits(kText); }), refusal([&] { llama.generate({4}); }),
                                       refusal([&] { llama.loss(kText); })})
      EXPECT_NE(refused.find(lacks), std::string::npos) << name << ": " << refused;
  }
  json tied = kLlama;
  tied["tie_word_embeddings"] = true;
  EXPECT_TRUE(dynamic_cast<const LanguageModel&>(*load(tied, "LlamaForCausalLM").module).has_logits());
  add("lm_head.weight", {kPieces, kWidth});
  add("score.weight", {2, kWidth});
  EXPECT_TRUE(dynamic_cast<const LanguageModel&>(*load(kLlama, "LlamaForCausalLM").module).has_logits());
  EXPECT_EQ(load(kLlama, "LlamaForSequenceClassification").head.task, HeadTask::text_classes);
  add("lm_head.bias", {kPieces});
  expect_refused(kLlama, "LlamaForCausalLM", "'lm_head.bias' has no place");
}

TEST_F(Heads, TheEncoderOfT5Alone) {
  const NoGrad no_grad;
  add("shared.weight", {kPieces, kWidth});
  const std::string layer = "encoder.block.0.layer.";
  for (const char* part : {"q", "k", "v"}) add(layer + "0.SelfAttention." + part + ".weight", {8, kWidth});
  add(layer + "0.SelfAttention.o.weight", {kWidth, 8});
  add(layer + "0.SelfAttention.relative_attention_bias.weight", {32, 2});
  add(layer + "1.DenseReluDense.wi.weight", {12, kWidth});
  add(layer + "1.DenseReluDense.wo.weight", {kWidth, 12});
  for (const char* norm : {"block.0.layer.0.layer_norm", "block.0.layer.1.layer_norm", "final_layer_norm"})
    add(std::string("encoder.") + norm + ".weight", {kWidth});
  for (const char* name : {"T5EncoderModel", "T5ForConditionalGeneration", "T5Model", ""}) {
    const PretrainedModel model = load(kT5, name);
    const auto& t5 = dynamic_cast<const Transformer&>(*model.module);
    EXPECT_EQ(t5.encode(TokenBatch::pad({{4, 5, 6}}, 0)).shape(), (Dims{1, 3, kWidth})) << name;
    EXPECT_NE(refusal([&] { t5.translate({{4, 5}}); }).find("no decoder"), std::string::npos) << name;
  }
  add("decoder.block.0.layer.0.layer_norm.weight", {kWidth});  // a part of the decoder
  expect_refused(kT5, "T5ForConditionalGeneration", "there is no tensor 'decoder.");
}

TEST_F(Heads, SavedAndLoadedAgain) {
  const NoGrad no_grad;
  make_bert("");
  add_linear("pooler.dense", kWidth, kWidth);
  const PretrainedModel first = load(kBert, "BertForMaskedLM");
  save_pretrained(first, path("saved"));
  const PretrainedModel again = load_pretrained(path("saved"));
  EXPECT_EQ(again.head.missing, first.head.missing);
  EXPECT_EQ(json::parse(again.config)["architectures"], json{"BertForMaskedLM"});
  EXPECT_EQ(pretrained_tensors(again).size() + 2, tensors_.size());  // the pooler is kept, but no parameter
  EXPECT_EQ(numbers(dynamic_cast<TextEncoder&>(*again.module).hidden(kText)),
            numbers(dynamic_cast<TextEncoder&>(*first.module).hidden(kText)));
}

TEST_F(Heads, ANewHeadTakesThePlaceOfTheMissingOne) {
  make_bert("");
  make_words();
  for (const char* name : {"BertForMaskedLM", "BertForSequenceClassification", "BertModel", ""}) {
    load(kBert, name);
    const PretrainedModel model = load_classifier(path(), {"no", "yes"});
    EXPECT_EQ(model.head.task, HeadTask::text_classes) << name;
    EXPECT_EQ(dynamic_cast<TextEncoder&>(*model.module).logits(kText).shape(), (Dims{1, 2})) << name;
    fs::remove_all(path("saved"));
    save_pretrained(model, path("saved"));
    EXPECT_EQ(load_pretrained(path("saved")).head.labels, (std::vector<std::string>{"no", "yes"})) << name;
  }
}

}  // namespace
}  // namespace heed
