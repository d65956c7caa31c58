#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/memory.h"
#include "heed/executor.h"
#include "heed/models.h"
#include "heed/nn.h"
#include "heed/random.h"
#include "tests/gradcheck.h"
#include "tests/shared.h"

namespace heed {
namespace {

namespace F = functional;
using test::expect_gradients;
using test::leaf;
using test::probe;

class Layers : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(11); }
};

double largest_difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(to_string(a.shape()), to_string(b.shape()));
  const Tensor x = a.to(DType::f64).contiguous(), y = b.to(DType::f64).contiguous();
  double worst = 0;
  for (int64_t i = 0; i < x.numel(); ++i) worst = std::max(worst, std::abs(x.data<double>()[i] - y.data<double>()[i]));
  return worst;
}

void fill_with_cosines(Module& module) {
  for (const auto& [name, parameter] : module.named_parameters()) {
    const Tensor values = Tensor::empty(parameter.shape(), DType::f64);
    for (int64_t i = 0; i < values.numel(); ++i) values.data<double>()[i] = std::cos(static_cast<double>(i));
    parameter.value().copy_from(values);
  }
}

Tensor from_json(const nlohmann::json& j) {
  const auto a = j.get<std::vector<std::vector<std::vector<double>>>>();
  std::vector<double> flat;
  for (const auto& x : a)
    for (const auto& y : x) flat.insert(flat.end(), y.begin(), y.end());
  return Tensor::from(
      flat, {static_cast<int64_t>(a.size()), static_cast<int64_t>(a[0].size()), static_cast<int64_t>(a[0][0].size())});
}

TEST_F(Layers, ReproduceThePyTorchCases) {
  HEED_NEEDS_SHARED("conformance/pytorch_layers.json");
  std::ifstream file(test::shared_path("conformance/pytorch_layers.json"));
  const auto cases = nlohmann::json::parse(file).at("cases");
  ASSERT_FALSE(cases.empty());
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const auto& c : cases) {
      const auto& m = c.at("model");
      const TransformerLayerOptions options{.d_model = m.at("d_model"),
                                            .nhead = m.at("nhead"),
                                            .dim_feedforward = m.at("ff"),
                                            .dropout = 0,
                                            .activation = feed_forward_kind(m.at("activation").get<std::string>())};
      const bool batch_first = m.at("batch_first");
      const auto input = [&](const char* name) {
        const Tensor t = from_json(c.at("inputs").at(name)).to(dtype);
        return Variable(batch_first ? t : t.transpose(0, 1).contiguous());
      };
      const std::string type = m.at("type");
      const int64_t layers = m.value("layers", 1);
      const auto prepared = [&](Module& module) {
        fill_with_cosines(module);
        module.to(dtype);
      };
      Variable y;
      if (type == "TransformerEncoderLayer") {
        TransformerEncoderLayer layer(options);
        prepared(layer);
        y = layer(input("src"));
      } else if (type == "TransformerDecoderLayer") {
        TransformerDecoderLayer layer(options);
        prepared(layer);
        y = layer(input("tgt"), input("memory"), {}, {});
      } else if (type == "TransformerEncoder") {
        TransformerEncoder stack(options, layers, m.value("norm", false));
        prepared(stack);
        y = stack(input("src"), {});
      } else {
        ASSERT_EQ(type, "TransformerDecoder");
        TransformerDecoder stack(options, layers, m.value("norm", false));
        prepared(stack);
        y = stack(input("tgt"), input("memory"), {}, {});
      }
      const Tensor expected = from_json(c.at("expected"));
      const Tensor got = (batch_first ? y.value() : y.value().transpose(0, 1)).to(DType::f64).contiguous();
      const double rtol = c.at("rtol"), atol = c.at("atol");
      for (int64_t i = 0; i < expected.numel(); ++i) {
        const double e = expected.data<double>()[i];
        EXPECT_NEAR(got.data<double>()[i], e, atol + rtol * std::abs(e)) << c.at("test");
      }
    }
  }
}

TEST_F(Layers, PackedProjectionEqualsSeparateOnes) {
  MultiheadAttention attention(8, 2);
  attention.to(DType::f64);
  const Variable x = leaf({2, 5, 8}), copy(x.value().clone());
  EXPECT_LT(largest_difference(attention(x, x, x).value(), attention(x, copy, copy).value()), 1e-12);
  EXPECT_LT(largest_difference(attention(x, x, x).value(), attention(x, copy, Variable(x.value().clone())).value()),
            1e-12);
}

TEST_F(Layers, AttentionGradients) {
  const Tensor p = normal({2, 3, 8}, 0, 1, DType::f64);
  for (const bool wide : {false, true}) {
    MultiheadAttention attention({.embed_dim = 8, .num_heads = 4, .kv_heads = 2, .head_dim = wide ? 8 : 0});
    attention.to(DType::f64);
    Variable x = leaf({2, 3, 8}), memory = leaf({2, 4, 8});
    auto leaves = attention.parameters();
    leaves.push_back(x);
    expect_gradients([&] { return probe(attention(x, x, x, {.causal = Causal::top_left}), p); }, leaves);
    leaves.push_back(memory);
    expect_gradients([&] { return probe(attention(x, memory, memory), p); }, leaves);
  }
}

TEST_F(Layers, KeysAndValuesOfOtherWidths) {
  MultiheadAttention attention({.embed_dim = 6, .num_heads = 2, .kdim = 5, .vdim = 4});
  attention.to(DType::f64);
  for (auto& [name, parameter] : attention.named_parameters())
    if (name == "in_proj_bias") parameter.value().copy_from(normal({18}, 0, 1, DType::f64));
  Variable q = leaf({2, 3, 6}), k = leaf({2, 4, 5}), v = leaf({2, 4, 4});
  auto leaves = attention.parameters();
  EXPECT_EQ(leaves.size(), 6u);
  leaves.insert(leaves.end(), {q, k, v});
  const Tensor p = normal({2, 3, 6}, 0, 1, DType::f64);
  expect_gradients([&] { return probe(attention(q, k, v), p); }, leaves);
}

TEST_F(Layers, UnbatchedEqualsBatched) {
  MultiheadAttention attention(6, 3);
  const Variable one(normal({4, 6}, 0, 1)), batch(one.value().reshape({1, 4, 6}));
  EXPECT_EQ(attention(one, one, one).shape(), (Dims{4, 6}));
  EXPECT_EQ(
      largest_difference(attention(one, one, one).value(), attention(batch, batch, batch).value().reshape({4, 6})), 0);
}

TEST_F(Layers, PositionsNeedRotaryLayers) {
  const Variable x(normal({1, 3, 6}, 0, 1));
  Tensor positions = Tensor::zeros({3}, DType::i32);
  for (const bool rotary : {false, true}) {
    const MultiheadAttention attention({.embed_dim = 6, .num_heads = 3, .rotary = rotary});
    if (rotary)
      EXPECT_EQ(attention(x, x, x, {.positions = positions}).shape(), x.shape());
    else
      EXPECT_THROW(attention(x, x, x, {.positions = positions}), ShapeError);
  }
}

TEST_F(Layers, HeadsThatDoNotDivideAreAClearError) {
  try {
    MultiheadAttention attention(10, 3);
    FAIL();
  } catch (const ShapeError& e) {
    EXPECT_STREQ(e.what(),
                 "MultiheadAttention: embed_dim 10 is not a multiple of 3 heads; choose another number of heads or set "
                 "head_dim");
  }
}

TEST_F(Layers, FeedForwardsByName) {
  for (const auto& [name, kind] : kFeedForwardKinds) {
    const FeedForward layer(4, 6, feed_forward_kind(name));
    EXPECT_EQ(layer.linear1.weight.size(0), kind.gated ? 12 : 6) << name;
    const Variable x = Variable(normal({3, 4}, 0, 1));
    const Variable h = layer.linear1(x);
    const Variable bent =
        !kind.gated ? F::activation(kind.activation, h)
                    : F::multiply(F::activation(kind.activation, Variable(h.value().slice(1, 0, 6).contiguous())),
                                  Variable(h.value().slice(1, 6, 12).contiguous()));
    EXPECT_LT(largest_difference(layer(x).value(), layer.linear2(bent).value()), 1e-6) << name;
  }
  EXPECT_THROW(feed_forward_kind("tanh"), UsageError);
  for (const double alpha : {0.0, 1e-46, 1e39, std::nan("")})
    EXPECT_THROW(F::gated(Activation::gelu, Variable(normal({2, 4}, 0, 1)), alpha), ShapeError) << alpha;
}

// gpt-oss: (up + 1) * gate * sigmoid(alpha * gate), both held within a limit.
TEST_F(Layers, FeedForwardsWithABoundedGate) {
  const double alpha = 1.702, limit = 1.5;
  FeedForward layer(4, 6, {.activation = Activation::silu, .gated = true, .alpha = alpha, .limit = limit});
  layer.to(DType::f64);
  Variable x = leaf({3, 4}, 3);
  const Tensor h = layer.linear1(x).value(), bent = Tensor::empty({3, 6}, DType::f64);
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 6; ++j) {
      const double gate = std::min(h.at<double>(i, j), limit), up = std::clamp(h.at<double>(i, 6 + j), -limit, limit);
      bent.at<double>(i, j) = (up + 1) * gate / (1 + std::exp(-alpha * gate));
    }
  EXPECT_LT(largest_difference(layer(x).value(), layer.linear2(Variable(bent)).value()), 1e-12);
  auto leaves = layer.parameters();
  leaves.push_back(x);
  const Tensor p = normal({3, 4}, 0, 1, DType::f64);
  expect_gradients([&] { return probe(layer(x), p); }, leaves);
}

TEST_F(Layers, PackedTokensAreNotRecorded) {
  MultiheadAttention layer(4, 2);
  const Variable x = Variable(normal({1, 5, 4}, 0, 1));
  const std::vector<int32_t> offsets{0, 2, 5};
  const Tensor begins = Tensor::from(std::span<const int32_t>(offsets), {3});
  HeadRecord record;
  EXPECT_THROW(layer(x, x, x, {.tokens = PackedTokens{begins, begins}}, &record), ShapeError);
  EXPECT_NO_THROW(layer(x, x, x, {.tokens = PackedTokens{begins, begins}}));
}

TEST_F(Layers, BlockGradientsPreAndPostNorm) {
  for (const bool norm_first : {false, true})
    for (const char* kind : {"gelu", "swiglu", "geglu"}) {
      const TransformerLayerOptions options{.d_model = 6,
                                            .nhead = 2,
                                            .dim_feedforward = 5,
                                            .dropout = 0,
                                            .activation = feed_forward_kind(kind),
                                            .norm = norm_first ? NormKind::rms_norm : NormKind::layer_norm,
                                            .norm_first = norm_first,
                                            .rotary = false};
      TransformerDecoderLayer layer(options);
      layer.to(DType::f64);
      Variable x = leaf({2, 3, 6}), memory = leaf({2, 4, 6});
      auto leaves = layer.parameters();
      leaves.push_back(x);
      leaves.push_back(memory);
      const Tensor p = normal({2, 3, 6}, 0, 1, DType::f64);
      expect_gradients([&] { return probe(layer(x, memory, {.causal = Causal::top_left}, {}), p); }, leaves);
    }
}

// Normalised heads, a window, a cap, sinks, norms behind sub-layers, heads of their own size: gradients by differences.
TEST_F(Layers, GradientsOfBlocksAsOthersHaveThem) {
  for (const bool norms : {false, true}) {
    const TransformerLayerOptions options{
        .d_model = 6,
        .nhead = 2,
        .kv_heads = 1,
        .dim_feedforward = 5,
        .dropout = 0,
        .norm = NormKind::rms_norm,
        .norm_first = true,
        .norm_after = norms,
        .bias = false,
        .qkv_bias = true,
        .rotary = true,
        .head_dim = 4,
        .scale = 0.7,
        .heads = {.norm = norms, .window = {.left = 2, .right = 0}, .softcap = 1.5, .sinks = norms}};
    TransformerEncoderLayer layer(options);
    layer.to(DType::f64);
    Variable x = leaf({2, 5, 6}), mask = leaf({1, 2, 5, 5});
    auto leaves = layer.parameters();
    leaves.push_back(x);
    leaves.push_back(mask);
    const Tensor p = normal({2, 5, 6}, 0, 1, DType::f64);
    expect_gradients([&] { return probe(layer(x, {.causal = Causal::top_left, .learned_mask = mask}), p); }, leaves);
  }
  EXPECT_THROW(TransformerEncoderLayer({.d_model = 4, .nhead = 2, .norm_first = false, .norm_after = true}),
               ShapeError);
  EXPECT_THROW(MultiheadAttention({.embed_dim = 4, .kdim = 6, .heads = {.norm = true}}), ShapeError);
}

// What RMSNorm of heads is: q and k of length sqrt(D) times the weight, whatever the projection gives.
TEST_F(Layers, HeadsAreNormalisedBeforeTheyTurn) {
  MultiheadAttention attention(
      {.embed_dim = 6, .num_heads = 3, .head_dim = 4, .rotary = true, .heads = {.norm = true}});
  attention.eval();
  const Variable x(normal({1, 7, 6}, 0, 3));
  HeadRecord record{.want_vectors = true};
  attention(x, x, x, {}, &record);
  for (const Tensor& heads : {record.vectors.q, record.vectors.k})
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t l = 0; l < 7; ++l) {
        double squares = 0;
        for (int64_t d = 0; d < 4; ++d) squares += std::pow(heads.at<float>(0, h, l, d), 2);
        EXPECT_NEAR(squares, 4, 1e-3);
      }
}

TEST_F(Layers, CachedStepsEqualTheWholeSequence) {
  for (const HeadOptions& heads :
       {HeadOptions(), HeadOptions{.norm = true, .window = {2, 0}, .softcap = 2}, HeadOptions{.sinks = true}})
    for (const bool rotary : {false, true}) {
      MultiheadAttention attention({.embed_dim = 8, .num_heads = 2, .rotary = rotary, .heads = heads});
      if (heads.sinks) attention.sinks.value().copy_from(normal({2}, 0, 1));
      attention.eval();
      const NoGrad no_grad;
      const Variable x(normal({3, 6, 8}, 0, 1));
      const Tensor whole = attention(x, x, x, {.causal = Causal::top_left}).value();
      KVCache cache;
      for (int64_t t = 0; t < 6; ++t) {
        const Variable step(x.value().slice(1, t, t + 1).contiguous());
        const Tensor y = attention.step(step, cache).value();
        EXPECT_LT(largest_difference(y, whole.slice(1, t, t + 1)), 2e-6);
      }
      cache.reorder({2, 2, 0});
      EXPECT_EQ(cache.keys().size(0), 3);

      // Steps of the three texts together, each with its own cache.
      std::vector<KVCache> caches(3);
      std::vector<KVCache*> texts;
      for (int64_t b = 0; b < 3; ++b) {
        attention.step(Variable(x.value().slice(0, b, b + 1).slice(1, 0, 1).contiguous()), caches[b]);
        texts.push_back(&caches[b]);
      }
      for (int64_t t = 1; t < 6; ++t) {
        const Variable step(x.value().slice(1, t, t + 1).contiguous());
        EXPECT_LT(largest_difference(attention.step(step, texts).value(), whole.slice(1, t, t + 1)), 2e-6);
      }
    }
}

TEST_F(Layers, AttentionToAProjectedMemoryEqualsAttentionToTheMemory) {
  for (const HeadOptions& heads : {HeadOptions(), HeadOptions{.softcap = 2}, HeadOptions{.sinks = true}}) {
    MultiheadAttention attention({.embed_dim = 8, .num_heads = 2, .heads = heads});
    if (heads.sinks) attention.sinks.value().copy_from(normal({2}, 0, 1));
    attention.eval();
    const NoGrad no_grad;
    const Variable x(normal({3, 2, 8}, 0, 3)), memory(normal({3, 5, 8}, 0, 3));
    const Tensor whole = attention(x, memory, memory).value();
    const Tensor y = attention.attend_memory(x, attention.project_memory(memory), {}).value();
    EXPECT_LT(largest_difference(y, whole), 2e-6);
  }
}

TEST_F(Layers, SinusoidalPositionsFollowThePaper) {
  const SinusoidalPositions positions(6);
  const Tensor rows = positions.rows(100, 5, DType::f64);
  EXPECT_NEAR(rows.at<double>(2, 0), std::sin(102.0), 1e-12);
  EXPECT_NEAR(rows.at<double>(2, 3), std::cos(102.0 / std::pow(10000, 2.0 / 6)), 1e-12);
  EXPECT_EQ(largest_difference(positions.rows(0, 3, DType::f64), SinusoidalPositions(6).rows(0, 3, DType::f64)), 0);
  for (const DType dtype : {DType::f32, DType::f64})  // what is held and what is computed anew have the same bits
    EXPECT_EQ(largest_difference(SinusoidalPositions(6, 0).rows(250, 20, dtype),
                                 SinusoidalPositions(6, 300).rows(250, 20, dtype)),
              0);
  EXPECT_THROW(SinusoidalPositions(0), ShapeError);
}

TEST_F(Layers, ParametersHaveTorchNamesAndLoadByThem) {
  TransformerEncoderLayer layer({.d_model = 4, .nhead = 2, .dim_feedforward = 8});
  std::vector<std::string> names;
  std::vector<std::pair<std::string, Tensor>> values;
  for (const auto& [name, parameter] : layer.named_parameters()) {
    names.push_back(name);
    values.emplace_back(name, Tensor::full(parameter.shape(), 0.5, DType::f16));
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
                                      "self_attn.out_proj.bias", "linear1.weight", "linear1.bias", "linear2.weight",
                                      "linear2.bias", "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"}));
  layer.load(values);
  EXPECT_EQ(layer.feed_forward.linear1.weight.value().at<float>(7, 3), 0.5f);
  values.emplace_back("extra", Tensor::zeros({1}));
  EXPECT_THROW(layer.load(values), FormatError);
  values.resize(3);
  EXPECT_THROW(layer.load(values), FormatError);
}

TransformerConfig small_config() {
  return {.vocab_size = 13,
          .d_model = 8,
          .nhead = 2,
          .num_encoder_layers = 2,
          .num_decoder_layers = 2,
          .dim_feedforward = 12,
          .dropout = 0};
}

TEST_F(Layers, MatricesKeptInFewerBitsGiveTheSameBits) {
  for (const DType narrow : {DType::f16, DType::bf16, DType::q8})
    for (const bool tied : {true, false}) {
      TransformerConfig config = small_config();
      if (narrow == DType::q8) config.d_model = 32;
      config.tie_embeddings = tied;
      config.positions = tied ? "sinusoidal" : "learned";
      Transformer model(config), kept(config);
      model.eval();
      kept.eval();
      // The second layer of a feed-forward is 12 wide: no whole block.
      const auto is_kept = [&](const Variable& parameter) {
        return parameter.shape().rank() == 2 && (narrow != DType::q8 || parameter.size(1) == 32);
      };
      std::vector<std::pair<std::string, Tensor>> values;
      for (const auto& [name, parameter] : model.named_parameters()) {
        const Tensor drawn = normal(parameter.shape(), 0, 0.5);
        values.emplace_back(name, is_kept(parameter) ? drawn.to(narrow) : drawn);
      }
      model.load(values);  // widened
      kept.load(values);
      kept.keep_matrices_as(narrow);
      for (const auto& [name, parameter] : kept.named_parameters())
        EXPECT_EQ(parameter.dtype(), is_kept(parameter) ? narrow : DType::f32) << name;

      const std::vector<std::vector<int32_t>> sources{{5, 6, 7, 8}, {9}, {12, 4, 4}};
      for (const int64_t beam : {1, 4, 9}) {  // 9 beams of 3 sentences: the output weight is packed
        const auto expected = model.translate(sources, {.beam = beam}), got = kept.translate(sources, {.beam = beam});
        for (size_t i = 0; i < sources.size(); ++i) {
          EXPECT_EQ(got[i][0].ids, expected[i][0].ids);
          EXPECT_EQ(got[i][0].log_probability, expected[i][0].log_probability);
        }
      }
      const TokenBatch source = TokenBatch::pad(sources, 0), target = TokenBatch::pad({{2, 5}, {2}, {2, 4, 4}}, 0);
      EXPECT_THROW(kept.logits(source, target), ShapeError);  // would be recorded
      const NoGrad no_grad;
      EXPECT_EQ(largest_difference(kept.logits(source, target).value(), model.logits(source, target).value()), 0);
      kept.keep_matrices_as(DType::f32);
      EXPECT_EQ(largest_difference(kept.logits(source, target).value(), model.logits(source, target).value()), 0);
      EXPECT_THROW(kept.keep_matrices_as(DType::f64), ShapeError);
      EXPECT_THROW(kept.to(DType::q8), ShapeError);
    }
}

TEST_F(Layers, TransformerLossGradients) {
  for (const bool tied : {true, false})
    for (const char* positions : {"sinusoidal", "learned", "rotary"}) {
      TransformerConfig config = small_config();
      config.activation = "gelu";  // smooth, so that differences converge
      config.tie_embeddings = tied;
      config.positions = positions;
      config.max_positions = 6;
      config.norm_first = tied;
      Transformer model(config);
      model.to(DType::f64);
      const TokenBatch source = TokenBatch::pad({{5, 6}, {7}}, 0);
      expect_gradients(
          [&] {
            return model.loss(source, {{4, 5}, {9, 8, 7}}, {.label_smoothing = 0.1});
          },
          model.parameters());
    }
}

TEST_F(Layers, PackedAndPaddedBatchesAgree) {
  const std::vector<std::vector<int32_t>> source{{5, 6, 3}, {}, {7, 3}, {3}}, target{{4, 5}, {2}, {}, {9, 8, 7}};
  const TokenBatch padded = TokenBatch::pad(source, 0), packed = TokenBatch::pack(source);
  const auto numbers = [](const Tensor& t) {
    return std::vector<int32_t>(t.span<int32_t>().begin(), t.span<int32_t>().end());
  };
  EXPECT_EQ(packed.ids.shape(), (Dims{1, 6}));
  EXPECT_EQ(numbers(packed.offsets), (std::vector<int32_t>{0, 3, 3, 5, 6}));
  EXPECT_EQ(numbers(packed.positions), (std::vector<int32_t>{0, 1, 2, 0, 1, 0}));
  for (const double r_drop : {0.0, 2.0})
    for (const char* positions : {"sinusoidal", "learned", "rotary"}) {
      SCOPED_TRACE(positions);
      TransformerConfig config = small_config();
      config.positions = positions;
      config.max_positions = 4;
      Transformer model(config);
      model.to(DType::f64);
      const functional::CrossEntropyOptions options{.label_smoothing = 0.1, .r_drop = r_drop};
      const auto gradients = [&](const TokenBatch& batch) {
        for (Variable& p : model.parameters()) p.zero_grad();
        const Variable loss = model.loss(batch, target, options);
        loss.backward();
        std::vector<double> all{loss.value().item()};
        for (const Variable& p : model.parameters())
          for (const double d : p.grad().span<double>()) all.push_back(d);
        return all;
      };
      const std::vector<double> want = gradients(padded), got = gradients(packed);
      for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-12) << i;

      AttentionRecord record;
      EXPECT_THROW(model.encode(packed, &record), ShapeError);
      EXPECT_THROW(model.decode(TokenBatch::pad(target, 0), model.encode(packed), packed), ShapeError);
      EXPECT_THROW(model.decode(TokenBatch::pack({{2, 4}}), model.encode(packed), packed), ShapeError);
      EXPECT_EQ(model.encode(TokenBatch::pack({})).shape(), (Dims{1, 0, 8}));
      EXPECT_EQ(model.encode(TokenBatch::pack({{}, {}})).shape(), (Dims{1, 0, 8}));
    }
  // A longer sentence than there are positions, in a batch with fewer tokens than that on average.
  TransformerConfig config = small_config();
  config.max_positions = 4;
  EXPECT_THROW(Transformer(config).encode(TokenBatch::pack({{4, 5, 6, 7, 3}, {3}})), ShapeError);
}

TEST_F(Layers, RDropTakesEachPairThroughDropoutTwice) {
  TransformerConfig config = small_config();
  config.activation = "gelu";
  config.dropout = 0.3;
  Transformer model(config);
  model.to(DType::f64);
  const TokenBatch source = TokenBatch::pad({{5, 6}, {7}}, 0);
  const std::vector<std::vector<int32_t>> target{{4, 5}, {9, 8, 7}};
  functional::LossParts parts;
  const auto loss = [&](double r_drop) {
    manual_seed(7);  // the same dropout in each call
    return model.loss(source, target, {.label_smoothing = 0.1, .r_drop = r_drop}, &parts);
  };
  model.train();
  expect_gradients([&] { return loss(2); }, model.parameters());
  EXPECT_EQ(parts.count, 14);
  // The divergence is what alpha multiplies.
  const double two = loss(2).value().item(), four = loss(4).value().item(), six = loss(6).value().item();
  EXPECT_GT(four, two + 1e-3);
  EXPECT_NEAR(six - four, four - two, 1e-12);
  model.eval();
  EXPECT_NEAR(loss(2).value().item(), loss(0).value().item(), 1e-12);
}

// For learned positions and for turned ones, in which case q and k are kept as they were compared.
TEST_F(Layers, RecordedVectorsGiveTheRecordedWeights) {
  for (const char* positions : {"learned", "rotary"}) {
    TransformerConfig config = small_config();
    config.positions = positions;
    Transformer model(config);
    model.eval();
    const NoGrad no_grad;
    AttentionRecord record;
    record.want_vectors = true;
    const TokenBatch source = TokenBatch::pad({{4, 5, 6, 7, 3}}, 0);
    model.decode(TokenBatch::pad({{2, 8, 4}}, 0), model.encode(source, &record), source, &record);
    const auto expect = [&](const std::vector<Tensor>& weights, const std::vector<HeadVectors>& vectors,
                            Causal causal) {
      ASSERT_FALSE(weights.empty());
      ASSERT_EQ(vectors.size(), weights.size());
      for (size_t l = 0; l < weights.size(); ++l) {
        const HeadVectors& x = vectors[l];
        const AttentionResult again = attention(x.q, x.k, x.v, {.causal = causal, .want_weights = true});
        EXPECT_LT(largest_difference(again.weights, weights[l]), 1e-6) << positions << ", layer " << l;
      }
    };
    expect(record.encoder, record.encoder_vectors, Causal::none);
    expect(record.decoder, record.decoder_vectors, Causal::top_left);
    expect(record.cross, record.cross_vectors, Causal::none);

    AttentionRecord plain;
    model.encode(source, &plain);
    EXPECT_TRUE(plain.encoder_vectors.empty());
  }
}

TEST_F(Layers, RecordsOfAPartAreThatPartOfTheWhole) {
  Transformer model(small_config());
  model.eval();
  const NoGrad no_grad;
  const TokenBatch source = TokenBatch::pad({{4, 5, 6, 7, 3}, {8, 3}}, 0),
                   target = TokenBatch::pad({{2, 8, 4}, {2}}, 0);
  AttentionRecord all, some;
  some.part = {.layers = {1}, .heads = {1, 0}, .rows = {2, 0}};
  some.want_vectors = true;
  Variable out[2];
  for (AttentionRecord* record : {&all, &some})
    out[record == &some] = model.decode(target, model.encode(source, record), source, record);
  EXPECT_EQ(largest_difference(out[0].value(), out[1].value()), 0);
  const auto expect = [&](const std::vector<Tensor>& whole, const std::vector<Tensor>& part) {
    ASSERT_EQ(part.size(), whole.size());
    ASSERT_EQ(part.size(), 2U);
    EXPECT_FALSE(part[0].defined());
    const Tensor &w = whole[1], &p = part[1];
    ASSERT_EQ(p.shape(), (Dims{2, 2, 2, w.size(3)}));
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t n = 0; n < 2; ++n)
        for (int64_t r = 0; r < 2; ++r)
          for (int64_t j = 0; j < w.size(3); ++j)
            EXPECT_EQ(p.at<float>(b, n, r, j), w.at<float>(b, 1 - n, r == 0 ? 2 : 0, j));
  };
  expect(all.encoder, some.encoder);
  expect(all.decoder, some.decoder);
  expect(all.cross, some.cross);
  EXPECT_FALSE(some.encoder_vectors.at(0).q.defined());
  EXPECT_TRUE(some.encoder_vectors.at(1).q.defined());
  for (const RecordedPart& wrong :
       {RecordedPart{.layers = {2}}, RecordedPart{.layers = {-1}}, RecordedPart{.heads = {99}},
        RecordedPart{.heads = {-1}}, RecordedPart{.rows = {5}}}) {
    AttentionRecord record;
    record.part = wrong;
    EXPECT_THROW(model.encode(source, &record), ShapeError);
  }
}

TEST_F(Layers, PaddingChangesNothing) {
  Transformer model(small_config());
  model.eval();
  const NoGrad no_grad;
  const TokenBatch alone = TokenBatch::pad({{5, 6, 3}}, 0),
                   padded = TokenBatch::pad({{5, 6, 3}, {4, 5, 6, 7, 8, 3}}, 0);
  const TokenBatch target_alone = TokenBatch::pad({{2, 9}}, 0), target = TokenBatch::pad({{2, 9}, {2, 4, 4, 4}}, 0);
  EXPECT_LT(largest_difference(model.logits(alone, target_alone).value(),
                               model.logits(padded, target).value().slice(0, 0, 1).slice(1, 0, 2)),
            1e-5);
}

TEST_F(Layers, BeamSearchFindsWhatExhaustiveSearchFinds) {
  // Five tokens and at most three steps: every output can be listed and scored by the full decoder.
  TransformerConfig config = small_config();
  config.vocab_size = 5;  // pad 0, unk 1, bos 2, eos 3 and one word
  manual_seed(5);
  Transformer model(config);
  model.eval();
  const NoGrad no_grad;
  const std::vector<int32_t> source{4, 1, 4};
  std::vector<std::vector<int32_t>> all{{}};
  std::pair<double, std::vector<int32_t>> best{-1e9, {}};
  std::vector<int32_t> ended = source;
  ended.push_back(3);
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<int32_t> ids = all[i];
    std::vector<int32_t> input{2};
    input.insert(input.end(), ids.begin(), ids.end());
    const Tensor log_p = F::log_softmax(model.logits(TokenBatch::pad({ended}, 0), TokenBatch::pad({input}, 0))).value();
    double sum = 0;
    for (size_t t = 0; t < ids.size(); ++t) sum += log_p.at<float>(0, t, ids[t]);
    // A hypothesis ends with eos, or at the longest length without one.
    if (ids.size() < 3) {
      const double ended_score = (sum + log_p.at<float>(0, ids.size(), 3)) / static_cast<double>(ids.size() + 1);
      best = std::max(best, {ended_score, ids});
      for (const int32_t token : {1, 2, 4}) {
        all.push_back(ids);
        all.back().push_back(token);
      }
    } else {
      best = std::max(best, {sum / 3, ids});
    }
  }
  const auto found = model.translate({source}, {.beam = 30, .length_penalty = 1, .max_length = 3});
  EXPECT_EQ(found[0][0].ids, best.second);
  EXPECT_NEAR(found[0][0].score, best.first, 1e-5);
}

TEST_F(Layers, TranslationDoesNotDependOnTheBatch) {
  manual_seed(6);
  Transformer model(small_config());
  model.eval();
  const std::vector<std::vector<int32_t>> sources{{4, 5, 6}, {7}, {8, 9, 10, 11, 12}, {4, 4, 4, 4}};
  for (const int64_t beam : {1, 4}) {
    const auto together = model.translate(sources, {.beam = beam, .want_alignment = true});
    for (size_t i = 0; i < sources.size(); ++i) {
      const auto alone = model.translate({sources[i]}, {.beam = beam});
      EXPECT_EQ(together[i][0].ids, alone[0][0].ids);
      EXPECT_NEAR(together[i][0].score, alone[0][0].score, 1e-5);
      const Tensor& a = together[i][0].alignment;
      EXPECT_EQ(a.size(1), static_cast<int64_t>(sources[i].size()) + 1);
      for (int64_t row = 0; row < a.size(0); ++row) {
        double sum = 0;
        for (int64_t j = 0; j < a.size(1); ++j) sum += a.at<float>(row, j);
        EXPECT_NEAR(sum, 1, 1e-5);
      }
    }
  }
  EXPECT_TRUE(model.translate({}, {}).empty());
  EXPECT_THROW(model.translate(sources, {.beam = 0}), ShapeError);
}

TEST_F(Layers, TranslationsAreWhatTheDecoderSaysWithoutACache) {
  manual_seed(7);
  Transformer model(small_config());
  model.eval();
  const NoGrad no_grad;
  const std::vector<std::vector<int32_t>> sources{{4, 5, 6}, {7}, {8, 9, 10, 11, 12}, {4, 4, 4, 4}, {6, 12, 5}};
  const auto found = model.translate(sources, {.beam = 4, .n_best = 4, .want_alignment = true});
  for (size_t i = 0; i < sources.size(); ++i) {
    std::vector<int32_t> source = sources[i];
    source.push_back(model.config().eos_id);
    const TokenBatch batch = TokenBatch::pad({source}, 0);
    EXPECT_EQ(found[i].size(), 4u);
    for (const Hypothesis& h : found[i]) {
      std::vector<int32_t> ids{model.config().bos_id};
      ids.insert(ids.end(), h.ids.begin(), h.ids.end());
      AttentionRecord record;
      const Variable hidden = model.decode(TokenBatch::pad({ids}, 0), model.encode(batch), batch, &record);
      const Tensor log_p = F::log_softmax(F::linear(hidden, model.output_weight())).value();
      ids.push_back(model.config().eos_id);
      double sum = 0;
      for (int64_t t = 0; t < h.alignment.size(0); ++t) sum += log_p.at<float>(0, t, ids[static_cast<size_t>(t) + 1]);
      EXPECT_NEAR(h.log_probability, sum, 1e-4);
      const Tensor& weights = record.cross.back();  // (1, heads, target, source)
      for (int64_t t = 0; t < h.alignment.size(0); ++t)
        for (int64_t j = 0; j < h.alignment.size(1); ++j) {
          double mean = 0;
          for (int64_t n = 0; n < weights.size(1); ++n)
            mean += weights.at<float>(0, n, t, j) / static_cast<double>(weights.size(1));
          EXPECT_NEAR(h.alignment.at<float>(t, j), mean, 1e-5);
        }
    }
  }
}

TEST_F(Layers, ConfigurationsThatMakeNoSenseAreRefused) {
  for (const auto& spoil : std::vector<std::function<void(TransformerConfig&)>>{
           [](auto& c) { c.vocab_size = 0; }, [](auto& c) { c.d_model = -4; }, [](auto& c) { c.nhead = 3; },
           [](auto& c) { c.dropout = 1; }, [](auto& c) { c.activation = "tanh"; }, [](auto& c) { c.positions = ""; },
           [](auto& c) { c.eos_id = 13; }, [](auto& c) { c.dim_feedforward = int64_t{1} << 60; }}) {
    TransformerConfig config = small_config();
    spoil(config);
    EXPECT_THROW(Transformer{config}, ShapeError);
  }
}

TEST_F(Layers, StepsOfKnownShapesTakeNoMemoryFromTheSystem) {
  set_threads(1);  // how many blocks several threads hold at once is up to chance
  Transformer model({.vocab_size = 300,
                     .d_model = 32,
                     .nhead = 4,
                     .num_encoder_layers = 2,
                     .num_decoder_layers = 2,
                     .dim_feedforward = 64,
                     .dropout = 0.1});
  model.train();
  const auto steps = [&] {
    for (const int64_t length : {7, 12, 9}) {
      const std::vector<std::vector<int32_t>> sentences(static_cast<size_t>(400 / length),
                                                        std::vector<int32_t>(static_cast<size_t>(length), 5));
      model.loss(TokenBatch::pad(sentences, 0), sentences, {.label_smoothing = 0.1}).backward();
    }
  };
  release_cached_memory();
  const size_t none = memory_misses();
  steps();
  steps();
  const size_t before = memory_misses();
  EXPECT_GT(before, none);
  for (int i = 0; i < 3; ++i) steps();
  EXPECT_EQ(memory_misses(), before);
  set_threads(0);
}

}  // namespace
}  // namespace heed
