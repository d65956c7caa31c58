#include "heed/pretrained.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "heed/io.h"
#include "heed/random.h"
#include "pretrained/keys.h"
#include "pretrained/names.h"
#include "pretrained/rotation.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = R"({"model_type": "gpt2", "vocab_size": 20, "n_embd": 8, "n_head": 2, "n_layer": 2,
  "n_positions": 16, "attn_pdrop": 0.1, "some_key_of_a_later_version": [1, {"a": null}], "eos_token_id": 3})";

// A directory with a GPT-2 that is broken in one way.
class Pretrained : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("heed_pretrained_" + std::to_string(getpid()));
    fs::create_directory(directory_);
    manual_seed(3);
    const int64_t width = 8;
    const auto matrix = [&](const std::string& name, int64_t rows, int64_t columns) {
      tensors_.emplace_back(name, normal({rows, columns}, 0, 0.3));
    };
    const auto vector = [&](const std::string& name, int64_t size) {
      tensors_.emplace_back(name, normal({size}, 0, 0.3));
    };
    matrix("wte.weight", 20, width);
    matrix("wpe.weight", 16, width);
    for (const std::string layer : {"h.0.", "h.1."}) {
      for (const auto& [name, in, out] : {std::tuple("attn.c_attn", width, 3 * width),
                                          {"attn.c_proj", width, width},
                                          {"mlp.c_fc", width, 4 * width},
                                          {"mlp.c_proj", 4 * width, width}}) {
        matrix(layer + name + ".weight", in, out);
        vector(layer + name + ".bias", out);
      }
      for (const char* norm : {"ln_1", "ln_2"})
        for (const char* kind : {".weight", ".bias"}) vector(layer + norm + kind, width);
    }
    for (const char* kind : {".weight", ".bias"}) vector(std::string("ln_f") + kind, width);
    write("config.json", kConfig);
    save_safetensors(path("model.safetensors"), tensors_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  std::string refusal() const {
    try {
      load_pretrained(directory_.string());
    } catch (const FormatError& e) {
      return e.what();
    } catch (const IoError& e) {
      return e.what();
    }
    return "none";
  }
  void expect_refused(const std::string& part) const {
    const std::string text = refusal();
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
  std::string config_with(const std::string& from, const std::string& to) const {
    std::string text = kConfig;
    return text.replace(text.find(from), from.size(), to);
  }

  fs::path directory_;
  NamedTensors tensors_;
};

TEST_F(Pretrained, LoadsWhatIsWhole) {
  const PretrainedModel model = load_pretrained(directory_.string());
  EXPECT_EQ(model.model_type, "gpt2");
  EXPECT_EQ(model.generate.stop, std::vector<int32_t>{3});
  EXPECT_NE(model.config.find("\"some_key_of_a_later_version\":[1,{\"a\":null}]"), std::string::npos) << model.config;
  const auto& gpt = dynamic_cast<const LanguageModel&>(*model.module);
  EXPECT_FALSE(gpt.training());
  const NoGrad no_grad;
  const Tensor logits = gpt.logits(TokenBatch::pad({{4, 5, 6}}, 0)).value();
  EXPECT_EQ(logits.shape(), (Dims{1, 3, 20}));
  for (const float x : logits.span<float>()) EXPECT_TRUE(std::isfinite(x));
}

TEST_F(Pretrained, KeepsItsModulesWhereItsDirectoryHasGone) {
  fs::create_directory(path("1_Pooling"));
  write("1_Pooling/config.json", "{}");
  write("1_Pooling/notes.txt", "mine");
  write("modules.json", R"([{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Normalize"}])");
  const PretrainedModel model = load_pretrained(directory_.string());
  const std::string moved = directory_.string() + ".moved", saved = directory_.string() + ".saved";
  fs::remove_all(moved), fs::remove_all(saved);
  fs::rename(directory_, moved);
  save_pretrained(model, saved);
  EXPECT_EQ(module_files(model), (std::map<std::string, std::string>{{"1_Pooling/config.json", "{}"}}));
  EXPECT_EQ(read_file(saved + "/1_Pooling/config.json"), "{}");
  EXPECT_FALSE(fs::exists(saved + "/1_Pooling/notes.txt"));
  EXPECT_EQ(module_files(load_pretrained(saved)), module_files(model));
  fs::remove_all(moved), fs::remove_all(saved);
}

TEST_F(Pretrained, FilesThatAreMissingOrBroken) {
  fs::rename(path("model.safetensors"), path("weights"));
  expect_refused("there is no model.safetensors");
  write("pytorch_model.bin", "x");
  expect_refused("pytorch_model.bin, which can hold programs; save them as model.safetensors");
  fs::remove(path("pytorch_model.bin"));
  fs::rename(path("weights"), path("model.safetensors"));
  fs::resize_file(path("model.safetensors"), fs::file_size(path("model.safetensors")) - 8);
  EXPECT_NE(refusal(), "none");
  fs::remove(path("config.json"));
  EXPECT_NE(refusal(), "none");
  for (const char* text : {"", "[]", "{", "{\"model_type\": 3}", "null", "{\"model_type\": \"gpt2\"}"}) {
    write("config.json", text);
    EXPECT_NE(refusal(), "none") << text;
  }
  write("config.json", std::string(5'000'000, '['));
  EXPECT_NE(refusal(), "none");
}

TEST_F(Pretrained, ConfigurationsThatChangeResults) {
  for (const auto& [from, to, says] :
       {std::tuple("\"gpt2\"", "\"mamba\"", "\"model_type\" is"),
        {"\"n_head\": 2", "\"n_head\": 3", "not a multiple"},
        {"\"n_head\": 2", "\"n_head\": -1", "whole number in"},
        {"\"n_head\": 2", "\"n_head\": 2.5", "whole number in"},
        {"\"n_embd\": 8", "\"n_embd\": 16", "gives (20, 8), the configuration asks for (20, 16)"},
        {"\"vocab_size\": 20", "\"vocab_size\": 9000000000000000000", "whole number in"},
        {"\"n_layer\": 2", "\"n_layer\": 1", "h.1.attn.c_attn.bias' has no place"},
        {"\"n_layer\": 2", "\"n_layer\": 3", "there is no tensor 'h.2."},
        {"\"attn_pdrop\": 0.1", "\"add_cross_attention\": true", "heed supports this kind of model only with false"},
        {"\"attn_pdrop\": 0.1", "\"activation_function\": \"mish\"", "heed has relu"},
        {"\"attn_pdrop\": 0.1", "\"attn_pdrop\": 7", "it must be in 0..0.99"}}) {
    write("config.json", config_with(from, to));
    expect_refused(says);
  }
  write("config.json", config_with("\"n_embd\": 8", "\"n_embd\": 8, \"n_inner\": null"));
  EXPECT_EQ(refusal(), "none");
}

// What no file holds is not made before it is looked at.
TEST_F(Pretrained, PositionsThatWouldTakeTheMemory) {
  write("config.json", R"({"model_type": "marian", "vocab_size": 20, "d_model": 512, "encoder_layers": 1,
    "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 8,
    "decoder_ffn_dim": 8, "max_position_embeddings": 10000000, "pad_token_id": 1, "decoder_start_token_id": 1,
    "eos_token_id": 0, "activation_function": "swish"})");
  expect_refused("would take more than 256 MiB");
}

// Of pictures and of what comes before them nothing is taken that would be computed otherwise.
TEST_F(Pretrained, ConfigurationsOfPictures) {
  const std::string config =
      R"({"model_type": "vit", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1,
    "intermediate_size": 8, "image_size": 8, "patch_size": 4, "architectures": ["ViTForImageClassification"]})";
  for (const auto& [from, to, says] :
       {std::tuple("\"image_size\": 8", "\"image_size\": [8, 8, 8]", "one whole number, or two, height and width"),
        {"\"image_size\": 8", "\"image_size\": [8, 4.5]", "one whole number, or two, height and width"},
        {"\"image_size\": 8", "\"image_size\": 40000", "whole number in 1..32767"},
        {"\"image_size\": 8", "\"image_size\": 2", "patches of 4 x 4 in a picture of 2 x 2"},
        {"\"image_size\": 8", "\"image_size\": 32767", "there is no tensor 'embeddings.cls_token'"}}) {
    std::string changed = config;
    write("config.json", changed.replace(changed.find(from), std::string(from).size(), to));
    expect_refused(says);
  }
}

TEST_F(Pretrained, PreparationsOfPictures) {
  const auto preparation = [&](const std::string& text) {
    write("preprocessor_config.json", text);
    return load_image_preparation(directory_.string());
  };
  EXPECT_THROW(load_image_preparation(directory_.string()), IoError);
  const ImagePreparation plain = preparation("{}");
  EXPECT_EQ(plain.size->height, 224);
  EXPECT_EQ(plain.resampling, Resampling::bilinear);
  EXPECT_FALSE(plain.crop);
  EXPECT_DOUBLE_EQ(plain.factor, 1.0 / 255);
  EXPECT_EQ(plain.deviation[2], 0.5);
  const ImagePreparation deit = preparation(R"({"feature_extractor_type": "DeiTFeatureExtractor"})");
  EXPECT_EQ(deit.size->width, 256);
  EXPECT_EQ(deit.resampling, Resampling::bicubic);
  EXPECT_EQ(deit.crop->width, 224);
  const ImagePreparation bare =
      preparation(R"({"do_resize": false, "do_rescale": false, "do_normalize": false, "size": {"shortest_edge": 9}})");
  EXPECT_FALSE(bare.size || bare.shorter_side);
  EXPECT_EQ(bare.factor, 1);
  EXPECT_EQ(bare.mean[0], 0);
  EXPECT_EQ(bare.deviation[0], 1);
  EXPECT_EQ(preparation(R"({"size": {"shortest_edge": 9}})").shorter_side, 9);
  EXPECT_EQ(preparation(R"({"image_mean": 0.25})").mean, (std::array<double, 3>{0.25, 0.25, 0.25}));
  const ImagePreparation listed = preparation(R"({"size": [11, 14]})");
  EXPECT_EQ(std::pair(listed.size->height, listed.size->width), std::pair(int64_t{11}, int64_t{14}));
  const Resampling by_number[] = {Resampling::nearest, Resampling::lanczos, Resampling::bilinear,
                                  Resampling::bicubic, Resampling::box,     Resampling::hamming};
  for (size_t i = 0; i < std::size(by_number); ++i)
    EXPECT_EQ(preparation("{\"resample\": " + std::to_string(i) + "}").resampling, by_number[i]) << i;
  for (const char* text :
       {"", "[]", R"({"image_processor_type": "CLIPImageProcessor"})", R"({"resample": 6})", R"({"size": 0})",
        R"({"size": 40000})", R"({"size": {"height": 4}})", R"({"size": "large"})", R"({"do_resize": 1})",
        R"({"size": {"shortest_edge": 4, "longest_edge": 9}})", R"({"image_std": [0, 1, 1]})",
        R"({"size": [4.5, 4.5]})", R"({"image_mean": [0.5]})", R"({"do_pad": true})", R"({"rescale_factor": "x"})"})
    EXPECT_THROW(preparation(text), FormatError) << text;
}

TEST_F(Pretrained, TensorsThatAreMissingOrUnknown) {
  const auto with = [&](const std::function<void(NamedTensors&)>& change) {
    NamedTensors tensors = tensors_;
    change(tensors);
    save_safetensors(path("model.safetensors"), tensors);
  };
  with([](NamedTensors& t) { t.pop_back(); });
  expect_refused("there is no tensor 'ln_f.bias'");
  with([](NamedTensors& t) { t.emplace_back("h.0.adapter.weight", Tensor::zeros({2})); });
  expect_refused("'h.0.adapter.weight' has no place");
  with([](NamedTensors& t) { t[0].second = Tensor::zeros({20}); });
  expect_refused("gives (20)");
  with([](NamedTensors& t) { t[0].second = Tensor::zeros({20, 8}, DType::i32); });
  expect_refused("is i32; a parameter is floating");
  with([](NamedTensors& t) { t[2].second = Tensor::zeros({8}); });
  expect_refused("it must be a matrix");
  with([](NamedTensors& t) { t.emplace_back("transformer.ln_f.bias", Tensor::zeros({8})); });
  expect_refused("tensors 'ln_f.bias' and 'transformer.ln_f.bias' are both names of one parameter; store it once");
  with([](NamedTensors& t) {  // masks are no parameters
    t.emplace_back("h.0.attn.bias", Tensor::zeros({1, 1, 16, 16}));
    for (auto& [name, tensor] : t) name = "transformer." + name;
  });
  EXPECT_EQ(refusal(), "none");
}

TEST_F(Pretrained, Shards) {
  const NamedTensors first(tensors_.begin(), tensors_.begin() + 5), rest(tensors_.begin() + 5, tensors_.end());
  fs::remove(path("model.safetensors"));
  save_safetensors(path("a.safetensors"), first);
  save_safetensors(path("b.safetensors"), rest);
  const auto index = [&](const std::string& file_of_first, const std::string& more = "") {
    std::string map;
    for (const auto& [name, tensor] : first) map += "\"" + name + "\": \"" + file_of_first + "\",";
    for (const auto& [name, tensor] : rest) map += "\"" + name + "\": \"b.safetensors\",";
    map.pop_back();
    write("model.safetensors.index.json", "{\"metadata\": {}, \"weight_map\": {" + map + more + "}}");
  };
  index("a.safetensors");
  EXPECT_EQ(refusal(), "none");
  index("../a.safetensors");
  expect_refused("it must be the name of a file in the same directory");
  index("c.safetensors");
  expect_refused("it names c.safetensors, which is not there");
  index("a.safetensors", ", \"rotary_emb.inv_freq\": \"a.safetensors\"");  // a buffer that is not there
  EXPECT_EQ(refusal(), "none");
  NamedTensors twice = tensors_;  // the later file counts, as in transformers
  twice[0].second = Tensor::full(twice[0].second.shape(), 7);
  save_safetensors(path("b.safetensors"), twice);
  index("a.safetensors");
  const auto loaded = load_pretrained(directory_.string());
  EXPECT_EQ(dynamic_cast<LanguageModel&>(*loaded.module).embedding().value().at<float>(0, 0), 7);
  index("b.safetensors");
  save_safetensors(path("b.safetensors"), rest);
  expect_refused("there is no tensor 'wte.weight'");
  write("model.safetensors.index.json", "{}");
  expect_refused("there is no \"weight_map\"");
}

TEST(Names, WritesBackWhatItRead) {
  struct Two : Module {
    Two() {
      stacked = register_parameter("layers.0.stacked", Tensor::zeros({5, 2}));
      turned = register_parameter("turned", Tensor::zeros({2, 3}));
      with_gap = register_parameter("with_gap", Tensor::zeros({7}));
      norm = register_parameter("norm", Tensor::zeros({2}));
      row = register_parameter("row", Tensor::zeros({4}));
      cube = register_parameter("cube", Tensor::zeros({2, 6}));
      expert = register_parameter("expert", Tensor::zeros({4, 3}));
      expert_bias = register_parameter("expert_bias", Tensor::zeros({4}));
    }
    Variable stacked, turned, with_gap, norm, row, cube, expert, expert_bias;
  } model;
  const Names names{.rules = {{"layers.{}.stacked", {"l.{}.a", "l.{}.b"}},
                              {"turned", {"t"}, Change::transpose},
                              {"with_gap", {"g.a", "", "g.b"}},
                              {"norm", {"n.weight"}, Change::add_one},
                              {"row", {"row"}, Change::reshape},
                              {"cube", {"cube"}, Change::reshape},
                              {"expert", {"expert"}, Change::transpose, /*alternating=*/true},
                              {"expert_bias", {"expert_bias"}, Change::reshape, true},
                              {"absent", {"absent"}}},
                    .layers = 1,
                    .prefixes = {"model.", ""},
                    .heads = {"row", "cube", "expert"},
                    .old_endings = {{".gamma", ".weight"}}};
  NamedTensors stored{
      {"model.l.0.a", normal({2, 2}, 0, 1)}, {"model.l.0.b", normal({3, 2}, 0, 1)},
      {"model.t", normal({3, 2}, 0, 1)},     {"model.g.a", normal({2}, 0, 1)},
      {"model.g.b", normal({3}, 0, 1)},      {"model.n.gamma", Tensor::from<float>({0.5f, -0.25f}, {2})},
      {"row", normal({1, 4}, 0, 1)},         {"cube", normal({2, 3, 2}, 0, 1)},
      {"expert", normal({1, 3, 4}, 0, 1)},   {"expert_bias", normal({1, 4}, 0, 1)}};
  std::vector<std::string> all;
  std::map<std::string, Tensor> by_name(stored.begin(), stored.end());
  for (const auto& [name, tensor] : stored) all.push_back(name);
  const auto shape = [&](const std::string& name) {
    const Dims& dims = by_name.at(name).shape();
    return std::vector<int64_t>(dims.begin(), dims.end());
  };
  model.load(read_named(
      names, model, all, [&](const std::string& name) { return by_name.at(name); }, "test"));
  EXPECT_EQ(model.norm.value().data<float>()[0], 1.5f);
  EXPECT_EQ(model.stacked.value().at<float>(2, 1), by_name.at("model.l.0.b").at<float>(0, 1));
  EXPECT_EQ(model.turned.value().at<float>(1, 2), by_name.at("model.t").at<float>(2, 1));
  for (const auto& [at, want] : {std::pair(int64_t{1}, by_name.at("model.g.a").at<float>(1)),
                                 {2, 0.0f},
                                 {3, 0.0f},
                                 {4, by_name.at("model.g.b").at<float>(0)}})
    EXPECT_EQ(model.with_gap.value().at<float>(at), want) << at;
  EXPECT_EQ(model.cube.value().at<float>(1, 3), by_name.at("cube").at<float>(1, 1, 1));
  for (int64_t row = 0; row < 4; ++row) {  // columns 0 and 2, then 1 and 3
    const int64_t there = row < 2 ? 2 * row : 2 * row - 3;
    EXPECT_EQ(model.expert.value().at<float>(row, 1), by_name.at("expert").at<float>(0, 1, there));
    EXPECT_EQ(model.expert_bias.value().at<float>(row), by_name.at("expert_bias").at<float>(0, there));
  }
  NamedTensors own;
  for (const auto& [name, parameter] : model.named_parameters()) own.emplace_back(name, parameter.value());
  const NamedTensors written = write_named(names, own, all, shape);
  ASSERT_EQ(written.size(), stored.size());
  for (const auto& [name, tensor] : written) {
    const Tensor& before = by_name.at(name);
    ASSERT_EQ(tensor.shape(), before.shape()) << name;
    for (int64_t i = 0; i < tensor.numel(); ++i) EXPECT_EQ(tensor.data<float>()[i], before.data<float>()[i]) << name;
  }
}

TEST(Rotation, ScalingsThatAreNotKnown) {
  const auto rotate = [](const char* text, const RotationRules& rules = {}) {
    nlohmann::json json = nlohmann::json::parse(text);
    json.update({{"model_type", rules.partial ? "phi3" : "llama"}, {"max_position_embeddings", 64}});
    return rotation(Keys(json, "config.json"), 8, rules);
  };
  EXPECT_EQ(rotate(R"({"rope_theta": 500.0})").base, 500);
  EXPECT_EQ(rotate(R"({"rope_theta": 500.0, "rope_scaling": {"rope_theta": 3.0, "type": "default"}})").base, 3);
  EXPECT_EQ(rotate(R"({"partial_rotary_factor": 0.5})").size, 8);  // Llama's class does not read it
  EXPECT_EQ(rotate(R"({"partial_rotary_factor": 0.5})", {.partial = true}).size, 4);
  EXPECT_THROW(rotate(R"({"partial_rotary_factor": 0.5, "rope_scaling": {"type": "linear", "factor": 2}})"),
               FormatError);
  EXPECT_THROW(rotate(R"({"rope_scaling": {"rope_type": "spiral"}})"), FormatError);
  EXPECT_THROW(rotate(R"({"rope_scaling": {"type": "linear"}})"), FormatError);
  EXPECT_THROW(rotate(R"({"rope_scaling": 3})"), FormatError);
  const Tensor linear = rotate(R"({"rope_scaling": {"type": "linear", "factor": 4}})").frequencies;
  EXPECT_DOUBLE_EQ(linear.data<double>()[0], 0.25);
}

}  // namespace
}  // namespace heed
