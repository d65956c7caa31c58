// GGUF files with a model that is whole, and broken in one way; tests/models/make_gguf.py has the numbers.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include "core/testing.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/pretrained.h"
#include "heed/random.h"

namespace heed {
namespace {

constexpr int64_t kWidth = 8, kWords = 12;

std::string bytes_of(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.raw()), static_cast<size_t>(tensor.nbytes())};
}

uint32_t type_of(DType dtype) {
  return std::map<DType, uint32_t>{{DType::f32, 0}, {DType::q8, 8}, {DType::q4_k, 12}, {DType::q6_k, 14}}.at(dtype);
}

// What differs from the file that is whole.
struct Change {
  std::string without{};  // a fact or a tensor
  std::function<void(GgufBytes&)> more = [](GgufBytes&) {};
  std::function<DType(const std::string&)> dtype = [](const std::string&) { return DType::f32; };
  uint32_t layers = 1;
};

class GgufModels : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  static GgufBytes llama(const Change& change = {}, int64_t width = kWidth) {
    GgufBytes file;
    const auto fact = [&](const std::string& key, uint32_t value) {
      if (key != change.without) file.integer(key, value);
    };
    if (change.without != "general.architecture") file.text("general.architecture", "llama");
    fact("llama.block_count", change.layers);
    fact("llama.context_length", 32);
    fact("llama.embedding_length", static_cast<uint32_t>(width));
    fact("llama.feed_forward_length", static_cast<uint32_t>(2 * width));
    fact("llama.attention.head_count", 2);
    fact("llama.attention.head_count_kv", 1);
    if (change.without != "llama.attention.layer_norm_rms_epsilon")
      file.number("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    fact("tokenizer.ggml.eos_token_id", 2);
    fact("tokenizer.ggml.eot_token_id", 7);
    manual_seed(4);
    const auto tensor = [&](const std::string& name, int64_t rows, int64_t columns) {
      const Tensor values = normal({rows, columns}, 0, 0.3);
      if (name == change.without) return;
      std::vector<uint64_t> shape{static_cast<uint64_t>(columns)};
      if (rows > 1) shape.push_back(static_cast<uint64_t>(rows));
      const DType dtype = change.dtype(name);
      file.tensor(name, shape, type_of(dtype),
                  bytes_of(dtype <= DType::q8 ? values.to(dtype) : random_blocks(dtype, values.shape())));
    };
    tensor("token_embd.weight", kWords, width);
    for (uint32_t layer = 0; layer < change.layers; ++layer) {
      const std::string at = "blk." + std::to_string(layer) + ".";
      tensor(at + "attn_norm.weight", 1, width);
      tensor(at + "attn_q.weight", width, width);
      tensor(at + "attn_k.weight", width / 2, width);
      tensor(at + "attn_v.weight", width / 2, width);
      tensor(at + "attn_output.weight", width, width);
      tensor(at + "ffn_norm.weight", 1, width);
      tensor(at + "ffn_gate.weight", 2 * width, width);
      tensor(at + "ffn_up.weight", 2 * width, width);
      tensor(at + "ffn_down.weight", width, 2 * width);
    }
    tensor("output_norm.weight", 1, width);
    change.more(file);
    return file;
  }

  std::string refusal(const std::string& bytes) const {
    write_anew(path_, bytes);
    try {
      load_pretrained(path_);
    } catch (const FormatError& e) {
      return e.what();
    } catch (const IoError& e) {  // what does not begin as such a file is taken for a directory
      return e.what();
    }
    return "none";
  }
  void expect_refused(const Change& change, const std::string& part) const {
    const std::string text = refusal(llama(change).bytes());
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_NE(text.find(path_), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("heed_gguf_model_" + std::to_string(getpid()))).string();
};

TEST_F(GgufModels, LoadsWhatIsWhole) {
  llama().write(path_);
  const PretrainedModel loaded = load_pretrained(path_);
  EXPECT_EQ(loaded.model_type, "llama");
  EXPECT_EQ(loaded.generate.stop, (std::vector<int32_t>{2, 7}));
  const auto& model = dynamic_cast<const LanguageModel&>(*loaded.module);
  EXPECT_FALSE(model.training());
  EXPECT_TRUE(model.config().tie_embeddings);
  const NoGrad no_grad;
  const Tensor logits = model.logits(TokenBatch::pad({{4, 5, 6}}, 0)).value();
  EXPECT_EQ(logits.shape(), (Dims{1, 3, kWords}));
  for (const float x : logits.span<float>()) EXPECT_TRUE(std::isfinite(x));
}

// A head of 4 rows: llama.cpp turns rows (0, 1) and (2, 3), heed (0, 2) and (1, 3).
TEST_F(GgufModels, RowsOfHeadsComeInHalves) {
  std::vector<float> rows;
  for (int64_t r = 0; r < kWidth; ++r) rows.insert(rows.end(), kWidth, static_cast<float>(r));
  const std::string bytes(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(float));
  llama({"blk.0.attn_q.weight",
         [&](GgufBytes& f) {
           f.tensor("blk.0.attn_q.weight", {kWidth, kWidth}, 0, bytes);
         }})
      .write(path_);
  const PretrainedModel loaded = load_pretrained(path_);
  for (const auto& [name, parameter] : loaded.module->named_parameters()) {
    if (!name.ends_with("in_proj_weight")) continue;
    std::vector<float> firsts;
    for (int64_t r = 0; r < kWidth; ++r) firsts.push_back(parameter.value().at<float>(r, 0));
    EXPECT_EQ(firsts, (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
    return;
  }
  FAIL() << "no in_proj_weight";
}

TEST_F(GgufModels, MatricesStayHalf) {
  std::string halves;
  for (int64_t i = 0; i < kWords * kWidth; ++i) halves += GgufBytes::bytes_of(to_float16(0.25f).bits);
  llama({"token_embd.weight",
         [&](GgufBytes& f) {
           f.tensor("token_embd.weight", {kWidth, kWords}, 1, halves);
         }})
      .write(path_);
  const PretrainedModel mixed = load_pretrained(path_);
  for (const auto& [name, parameter] : mixed.module->named_parameters())
    EXPECT_EQ(parameter.dtype(), name == "embedding.weight" ? DType::f16 : DType::f32) << name;
  const NoGrad no_grad;
  const Tensor logits =
      dynamic_cast<const LanguageModel&>(*mixed.module).logits(TokenBatch::pad({{4, 5, 6}}, 0)).value();
  EXPECT_EQ(logits.dtype(), DType::f32);
}

bool is_matrix(const std::string& name) { return name.find("norm") == std::string::npos; }

Tensor logits_of(const PretrainedModel& loaded) {
  const NoGrad no_grad;
  return dynamic_cast<const LanguageModel&>(*loaded.module).logits(TokenBatch::pad({{4, 5, 6}}, 0)).value();
}

TEST_F(GgufModels, BlocksAreUsedAsTheyAre) {
  for (const auto& [dtype, width] : {std::pair{DType::q8, int64_t{32}}, {DType::q4_k, 256}, {DType::q6_k, 256}}) {
    const auto of = [dtype = dtype](const std::string& name) { return is_matrix(name) ? dtype : DType::f32; };
    llama({.dtype = of}, width).write(path_);
    const PretrainedModel loaded = load_pretrained(path_);
    for (const auto& [name, parameter] : loaded.module->named_parameters())
      EXPECT_EQ(parameter.dtype(), parameter.shape().rank() == 2 ? dtype : DType::f32) << name;
    const Tensor logits = logits_of(loaded);
    loaded.module->keep_matrices_as(DType::f32);
    EXPECT_EQ(bytes_of(logits), bytes_of(logits_of(loaded))) << name_of(dtype);
  }
}

TEST_F(GgufModels, BlocksAreThoseOfTheFloats) {
  llama({.dtype = [](const std::string& name) { return is_matrix(name) ? DType::q8 : DType::f32; }}, 32).write(path_);
  const Tensor in_blocks = logits_of(load_pretrained(path_));
  llama({}, 32).write(path_);
  const PretrainedModel from_floats = load_pretrained(path_);
  EXPECT_NE(bytes_of(logits_of(from_floats)), bytes_of(in_blocks));
  from_floats.module->keep_matrices_as(DType::q8);
  EXPECT_EQ(bytes_of(logits_of(from_floats)), bytes_of(in_blocks));
}

// As files of several types have them: queries and keys are of one, values of another. A norm in blocks becomes
// float32.
TEST_F(GgufModels, BlocksBesideOtherTypes) {
  const auto of = [](const std::string& name) { return name == "blk.0.attn_v.weight" ? DType::q6_k : DType::q4_k; };
  llama({.dtype = of}, 256).write(path_);
  const PretrainedModel mixed = load_pretrained(path_);
  for (const auto& [name, parameter] : mixed.module->named_parameters())
    EXPECT_EQ(parameter.dtype(), parameter.shape().rank() != 2      ? DType::f32
                                 : name.ends_with("in_proj_weight") ? DType::f16
                                                                    : DType::q4_k)
        << name;
}

TEST_F(GgufModels, FactsThatChangeResults) {
  const auto with = [](const std::function<void(GgufBytes&)>& more) { return Change{"", more}; };
  expect_refused({"general.architecture"}, "'general.architecture' is not there; heed has bert, gemma,");
  expect_refused({"general.architecture", [](GgufBytes& f) { f.text("general.architecture", "mam\nba"); }},
                 "is 'mam?ba'; heed has bert, gemma, gemma2, gpt2, llama, qwen2 and qwen3");
  expect_refused({"llama.embedding_length"}, "'llama.embedding_length' is not there; this kind of model needs it");
  expect_refused({"llama.attention.layer_norm_rms_epsilon"}, "epsilon' is not there");
  expect_refused({"llama.embedding_length", [](GgufBytes& f) { f.text("llama.embedding_length", "8"); }},
                 "is not a whole number");
  expect_refused({"llama.attention.head_count", [](GgufBytes& f) { f.integer("llama.attention.head_count", 0); }},
                 "is below 1");
  expect_refused({"llama.attention.head_count", [](GgufBytes& f) { f.integer("llama.attention.head_count", 3); }},
                 "asks for (8, 6)");
  expect_refused(with([](GgufBytes& f) { f.integer("llama.expert_count", 8); }), "layers have experts");
  expect_refused(with([](GgufBytes& f) { f.integer("llama.attention.value_length", 5); }), "the size of a head, 4");
  expect_refused(with([](GgufBytes& f) { f.integer("llama.rope.dimension_count", 2); }), "the size of a head, 4");
  expect_refused(with([](GgufBytes& f) { f.text("llama.rope.scaling.type", "longrope"); }), "none, linear and yarn");
  expect_refused(with([](GgufBytes& f) { f.number("llama.rope.scaling.attn_factor", 2); }), "is not 1");
  expect_refused(with([](GgufBytes& f) { f.integer("split.count", 2); }), "join its parts");
  expect_refused(with([](GgufBytes& f) { f.text("general.type", "adapter"); }), "heed reads whole models");
  expect_refused(with([](GgufBytes& f) { f.tensor("rope_freqs.weight", {3}, 0, std::string(12, '\1')); }),
                 "short_factor");
}

// llama.cpp takes a factor without a type as linear.
TEST_F(GgufModels, AFactorOfPositionsAlone) {
  const TokenBatch batch = TokenBatch::pad({{4, 5, 6}}, 0);
  const NoGrad no_grad;
  const auto logits = [&](const std::function<void(GgufBytes&)>& more) {
    write_anew(path_, llama({"", more}).bytes());
    return bytes_of(dynamic_cast<const LanguageModel&>(*load_pretrained(path_).module).logits(batch).value());
  };
  const auto factor = [](GgufBytes& f) { f.number("llama.rope.scaling.factor", 4); };
  const std::string linear = logits([&](GgufBytes& f) { f.text("llama.rope.scaling.type", "linear"), factor(f); });
  const std::string none = logits([](GgufBytes&) {});
  EXPECT_NE(linear, none);
  EXPECT_EQ(logits(factor), linear);
  EXPECT_EQ(logits([&](GgufBytes& f) { f.text("llama.rope.scaling.type", "none"), factor(f); }), none);
}

TEST_F(GgufModels, PoolingOfVectors) {
  using Pooling = SentenceModules::Pooling;
  const auto pooling = [&](std::optional<uint32_t> type) {
    const auto more = [&](GgufBytes& f) {
      if (type) f.integer("llama.pooling_type", *type);
    };
    write_anew(path_, llama({"", more}).bytes());
    return load_sentence_modules(path_).pooling;
  };
  EXPECT_EQ(pooling({}), std::vector{Pooling::mean});
  EXPECT_EQ(pooling(1), std::vector{Pooling::mean});
  EXPECT_EQ(pooling(2), std::vector{Pooling::first});
  EXPECT_EQ(pooling(3), std::vector{Pooling::last});
  EXPECT_THROW(pooling(4), FormatError);  // a reranker
}

// Each of these facts may be a list of one number for each layer; heed supports equal layers.
TEST_F(GgufModels, ListsOfOneNumberForEachLayer) {
  const auto listed = [](const std::string& key, const std::vector<uint32_t>& numbers) {
    return Change{.without = key, .more = [=](GgufBytes& f) { f.numbers<uint32_t>(key, numbers); }, .layers = 2};
  };
  const TokenBatch batch = TokenBatch::pad({{4, 5, 6}}, 0);
  const NoGrad no_grad;
  const auto logits = [&](const Change& change) {
    write_anew(path_, llama(change).bytes());
    return bytes_of(dynamic_cast<const LanguageModel&>(*load_pretrained(path_).module).logits(batch).value());
  };
  const std::string expected = logits({.layers = 2});
  EXPECT_NE(expected, logits({}));
  for (const auto& [key, number] : {std::pair<std::string, uint32_t>("llama.attention.head_count_kv", 1),
                                    {"llama.attention.head_count", 2},
                                    {"llama.feed_forward_length", 2 * kWidth}}) {
    SCOPED_TRACE(key);
    EXPECT_EQ(logits(listed(key, {number, number})), expected);
    expect_refused(listed(key, {number, number + 1}),
                   "'" + key + "' is " + std::to_string(number) + " in one layer and " + std::to_string(number + 1));
    for (const std::vector<uint32_t>& wrong : {std::vector<uint32_t>{}, {number}, {number, number, number}})
      expect_refused(listed(key, wrong), "'" + key + "' is a list of " + std::to_string(wrong.size()) +
                                             " numbers and llama.block_count is 2");
  }
}

TEST_F(GgufModels, TensorsThatAreMissingOrUnknown) {
  expect_refused({"token_embd.weight"}, "there is no tensor 'token_embd.weight'");
  expect_refused({"blk.0.ffn_up.weight"}, "there is no tensor 'blk.0.ffn_up.weight'");
  expect_refused({"", [](GgufBytes& f) { f.tensor("blk.0.more.weight", {1}, 0, "1234"); }},
                 "'blk.0.more.weight' has no place");
  expect_refused({"output_norm.weight", [](GgufBytes& f) { f.tensor("output_norm.weight", {1}, 0, "1234"); }},
                 "'output_norm.weight' gives (1), the configuration asks for (8)");
  expect_refused({"output_norm.weight", [](GgufBytes& f) { f.tensor("output_norm.weight", {256}, 23, "1234"); }},
                 "is of type 23; heed reads F32, F16");
  expect_refused({"blk.0.attn_q.weight",
                  [](GgufBytes& f) {
                    f.tensor("blk.0.attn_q.weight", {8, 7}, 0, std::string(4 * 56, '\0'));
                  }},
                 "gives (15, 8)");
}

TEST_F(GgufModels, IsNotSaved) {
  llama().write(path_);
  EXPECT_THROW(save_pretrained(load_pretrained(path_), path_ + ".directory"), UsageError);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".directory"));
}

// Of the facts and the list of tensors; what follows are numbers, any of which are some model's.
TEST_F(GgufModels, CutAndChangedAnywhere) {
  const std::string good = llama().bytes();
  const size_t header = good.rfind("output_norm.weight") + 64;
  for (size_t length = 0; length < good.size(); length += length < header ? 1 : 97)
    EXPECT_NE(refusal(good.substr(0, length)), "none");
  for (size_t at = 0; at < header; ++at)
    for (const int change : {1, 0x40, 0xFF}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      EXPECT_EQ(refusal(bytes).find('\n'), std::string::npos);
    }
}

}  // namespace
}  // namespace heed
