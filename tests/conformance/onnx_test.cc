// ONNX's own cases through heed's functions. What stands here turns shapes and names of attributes into heed's, and
// nothing else.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "heed/functional.h"
#include "heed/io.h"
#include "heed/rotary.h"
#include "kernels/norm.h"
#include "tests/shared.h"

namespace heed {
namespace {

namespace F = functional;
using Tensors = std::map<int, Tensor>;  // by position; optional ones that are missing are not in it

struct Case {
  std::string op;
  nlohmann::json attributes;
  Tensors inputs, outputs;

  template <class T>
  T attribute(const char* name, T fallback) const {
    return attributes.value(name, fallback);
  }
  Tensor input(int i) const { return inputs.contains(i) ? inputs.at(i) : Tensor(); }
  bool wants(int i) const { return outputs.contains(i); }
};

Case load_case(const std::string& path) {
  const SafetensorsFile file(path);
  Case c{file.metadata().at("op"), nlohmann::json::parse(file.metadata().at("attrs")), {}, {}};
  for (const TensorInfo& info : file.tensors()) {
    const bool in = info.name.starts_with("in.");
    (in ? c.inputs : c.outputs)[std::stoi(info.name.substr(in ? 3 : 4))] = file.tensor(info.name);
  }
  return c;
}

// ---- Shapes ----

int64_t axis_of(const Case& c, const Tensor& x, int64_t fallback) {
  const int64_t axis = c.attribute("axis", fallback);
  return axis < 0 ? axis + x.rank() : axis;
}

// x with dimension `axis` moved to the end, the others in their order; and back.
Tensor to_last(Tensor x, int axis) {
  for (; axis + 1 < x.rank(); ++axis) x = x.transpose(axis, axis + 1);
  return x;
}
Tensor from_last(Tensor x, int axis) {
  for (int d = x.rank() - 1; d > axis; --d) x = x.transpose(d - 1, d);
  return x;
}

// (rows, width): everything in front of `axis` counts rows.
Tensor flattened(const Tensor& x, int64_t axis) {
  int64_t rows = 1;
  for (int d = 0; d < axis; ++d) rows *= x.size(d);
  return x.reshape({rows, x.numel() / rows});
}

// (B, L, H * size) -> (B, H, L, size); rank 4 is so already. And back.
Tensor split_heads(const Tensor& x, int64_t heads) {
  if (x.rank() == 4) return x;
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}
Tensor join_heads(const Tensor& x) {
  return x.transpose(1, 2).contiguous().reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

Tensor joined(const Tensor& past, const Tensor& now) {  // along the positions of (B, H, L, size)
  const int64_t before = past.size(2), after = before + now.size(2);
  const Tensor all = Tensor::empty({now.size(0), now.size(1), after, now.size(3)}, now.dtype());
  all.slice(2, 0, before).copy_from(past);
  all.slice(2, before, after).copy_from(now);
  return all;
}

// ---- Operators ----

Tensors attention_case(const Case& c) {
  const bool packed = c.input(0).rank() == 3;
  const auto kv_heads = c.attribute<int64_t>("kv_num_heads", 0);
  const Tensor q = split_heads(c.input(0), c.attribute<int64_t>("q_num_heads", 0));
  Tensor k = split_heads(c.input(1), kv_heads), v = split_heads(c.input(2), kv_heads);
  AttentionOptions o;
  if (c.input(4).defined()) {
    o.offset = c.input(4).size(2);
    k = joined(c.input(4), k);
    v = joined(c.input(5), v);
  }
  o.key_lengths = c.input(6);
  if (c.attribute("is_causal", 0)) o.causal = o.key_lengths.defined() ? Causal::bottom_right : Causal::top_left;
  if (c.attributes.contains("scale")) o.scale = c.attributes["scale"];
  o.softcap = c.attribute("softcap", 0.0);
  if (c.input(3).defined()) o.mask = c.input(3).dtype() == DType::f16 ? c.input(3).to(DType::f32) : c.input(3);
  const ScoreStage stages[] = {ScoreStage::scaled, ScoreStage::softcap, ScoreStage::masked, ScoreStage::weights};
  if (c.wants(3)) o.want_scores = stages[c.attribute("qk_matmul_output_mode", 0)];
  const AttentionResult r = attention(q, k, v, o);
  Tensors out{{0, packed ? join_heads(r.out) : r.out}};
  if (c.wants(1)) out[1] = k;
  if (c.wants(2)) out[2] = v;
  if (c.wants(3)) out[3] = r.scores.to(q.dtype());
  return out;
}

Tensors rotary_case(const Case& c) {
  const bool packed = c.input(0).rank() == 3;
  const Tensor x = split_heads(c.input(0), c.attribute<int64_t>("num_heads", 0));
  const int64_t batch = x.size(0), length = x.size(2);
  Rotary o;
  o.layout = c.attribute("interleaved", 0) ? RotaryLayout::interleaved : RotaryLayout::half_split;
  o.size = c.attribute<int64_t>("rotary_embedding_dim", 0);
  o.cos = c.input(1);
  o.sin = c.input(2);
  o.positions = c.input(3);
  if (!o.positions.defined()) {  // the tables then hold a row for each (entry, position)
    o.cos = o.cos.reshape({batch * length, -1});
    o.sin = o.sin.reshape({batch * length, -1});
    o.positions = Tensor::empty({batch, length}, DType::i64);
    for (int64_t i = 0; i < batch * length; ++i) o.positions.data<int64_t>()[i] = i;
  }
  const Tensor y = rotary(x, o);
  return {{0, packed ? join_heads(y) : y}};
}

Tensors layer_norm_case(const Case& c) {
  const Tensor x = c.input(0);
  const int64_t axis = axis_of(c, x, -1);
  const double epsilon = c.attribute("epsilon", 1e-5);
  const Tensor rows = flattened(x, axis), weight = c.input(1).reshape({-1});
  const Tensor bias = c.input(2).defined() ? c.input(2).reshape({-1}) : Tensor();
  const Variable b = bias.defined() ? Variable(bias) : Variable();
  Tensors out{{0, F::layer_norm(Variable(rows), Variable(weight), b, epsilon).value().reshape(x.shape())}};
  if (c.wants(1)) {
    Dims shape = x.shape();
    for (int d = static_cast<int>(axis); d < x.rank(); ++d) shape[d] = 1;
    const Tensor y = Tensor::empty(rows.shape()), mean = Tensor::empty(shape), rstd = Tensor::empty(shape);
    layer_norm_forward<float>(rows.data<float>(), nullptr, nullptr, static_cast<float>(epsilon), y.data<float>(),
                              mean.data<float>(), rstd.data<float>(), rows.size(0), rows.size(1), default_executor());
    out[1] = mean;
    out[2] = rstd;
  }
  return out;
}

Tensors rms_norm_case(const Case& c) {
  const Tensor x = c.input(0);
  const Variable rows(flattened(x, axis_of(c, x, -1))), weight(c.input(1).reshape({-1}));
  return {{0, F::rms_norm(rows, weight, c.attribute("epsilon", 1e-5)).value().reshape(x.shape())}};
}

Tensors gelu_case(const Case& c) {
  const bool tanh = c.attribute<std::string>("approximate", "none") == "tanh";
  return {{0, F::activation(tanh ? Activation::gelu_tanh : Activation::gelu, Variable(c.input(0))).value()}};
}

Tensors swiglu_case(const Case& c) {
  const Tensor gate = c.input(0), up = c.input(1);
  const DType compute = gate.dtype() == DType::f16 ? DType::f32 : gate.dtype();
  const int64_t width = gate.size(-1);
  Dims shape = gate.shape();
  shape.back() = 2 * width;
  const Tensor both = Tensor::empty(shape, compute);
  both.slice(gate.rank() - 1, 0, width).copy_from(gate);
  both.slice(gate.rank() - 1, width, 2 * width).copy_from(up);
  return {{0, F::swiglu(Variable(both), c.attribute("alpha", 1.0)).value().to(gate.dtype())}};
}

Tensors softmax_case(const Case& c) {
  const Tensor x = c.input(0);
  const auto axis = static_cast<int>(axis_of(c, x, -1));
  const Variable rows(to_last(x, axis).contiguous());
  return {{0, from_last((c.op == "Softmax" ? F::softmax(rows) : F::log_softmax(rows)).value(), axis)}};
}

// Both losses. Classes are dimension 1: they go last, and the rest counts rows.
Tensors loss_case(const Case& c) {
  const bool logits = c.op == "SoftmaxCrossEntropyLoss";
  const Tensor classes_last = to_last(c.input(0), 1), targets = c.input(1);
  const Variable rows(classes_last.contiguous().reshape({targets.numel(), c.input(0).size(1)}));
  F::CrossEntropyOptions o;
  o.ignore_index = c.attribute<int32_t>("ignore_index", o.ignore_index);
  o.weight = c.input(2);
  const auto reduction = c.attribute<std::string>("reduction", "mean");
  o.reduction = reduction == "none" ? F::Reduction::none : reduction == "sum" ? F::Reduction::sum : F::Reduction::mean;
  const Tensor ids = targets.to(DType::i32).reshape({-1});
  const Tensor loss = (logits ? F::cross_entropy(rows, ids, o) : F::nll_loss(rows, ids, o)).value();
  Tensors out{{0, o.reduction == F::Reduction::none ? loss.reshape(targets.shape()) : loss}};
  if (c.wants(1)) out[1] = from_last(F::log_softmax(rows).value().reshape(classes_last.shape()), 1);
  return out;
}

const std::map<std::string, Tensors (*)(const Case&)>& operators() {
  static const std::map<std::string, Tensors (*)(const Case&)> table = {
      {"Attention", attention_case},
      {"Gelu", gelu_case},
      {"LayerNormalization", layer_norm_case},
      {"LogSoftmax", softmax_case},
      {"NegativeLogLikelihoodLoss", loss_case},
      {"RMSNormalization", rms_norm_case},
      {"RotaryEmbedding", rotary_case},
      {"Softmax", softmax_case},
      {"SoftmaxCrossEntropyLoss", loss_case},
      {"SwiGLU", swiglu_case},
  };
  return table;
}

// ---- Cases ----

const char* const kIndex = "conformance/onnx/index.json";

std::string case_path(const std::string& name) {
  return test::shared_path("conformance/onnx/" + name + ".safetensors");
}

// Those of the index that heed has an operator for.
std::vector<std::string> case_names() {
  std::vector<std::string> names;
  std::ifstream file(test::shared_path(kIndex));
  if (!file) return names;
  for (const auto& entry : nlohmann::json::parse(file))
    if (operators().contains(entry.at("op").get<std::string>())) names.push_back(entry.at("name"));
  return names;
}

void expect_close(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(name_of(got.dtype()), std::string(name_of(want.dtype())));
  ASSERT_EQ(to_string(got.shape()), to_string(want.shape()));
  const double tolerance = want.dtype() == DType::f16 ? 2e-3 : 2e-5;
  const Tensor a = got.to(DType::f64).contiguous(), b = want.to(DType::f64).contiguous();
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.data<double>()[i], y = b.data<double>()[i];
    if (x == y) continue;  // infinities, too
    // Relative past 1: float's own steps are as wide as the tolerance from 256 on.
    ASSERT_LE(std::abs(x - y), tolerance * std::max(1.0, std::abs(y))) << "element " << i << ": " << x << ", not " << y;
  }
}

class Onnx : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Onnx);

TEST_P(Onnx, Agrees) {
  const Case c = load_case(case_path(GetParam()));
  const Tensors results = operators().at(c.op)(c);
  for (const auto& [i, want] : c.outputs) {
    SCOPED_TRACE("output " + std::to_string(i));
    ASSERT_TRUE(results.contains(i));
    expect_close(results.at(i), want);
  }
}
INSTANTIATE_TEST_SUITE_P(Cases, Onnx, testing::ValuesIn(case_names()), [](const auto& test) { return test.param; });

TEST(OnnxCases, NoneIsLeftOut) {
  HEED_NEEDS_SHARED("conformance/onnx/index.json");
  const std::vector<std::string> names = case_names();
  const std::set<std::string> run(names.begin(), names.end());
  EXPECT_EQ(run.size(), names.size());
  std::map<std::string, int> cases;
  for (const auto& entry : std::filesystem::directory_iterator(test::shared_path("conformance/onnx"))) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string op = SafetensorsFile(entry.path().string()).metadata().at("op");
    ++cases[op];
    EXPECT_EQ(run.contains(entry.path().stem().string()), operators().contains(op))
        << entry.path().stem() << ", " << op;
  }
  for (const auto& [op, run_case] : operators()) EXPECT_GT(cases[op], 0) << op;
}

}  // namespace
}  // namespace heed
