// Layers: heed/nn.h for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>

#include "arrays.h"
#include "keywords.h"
#include "nn.h"
#include "options.h"

namespace heed::python {
namespace {

using namespace nb::literals;
using Call = MultiheadAttention::Call;

constexpr auto kRelease = nb::call_guard<nb::gil_scoped_release>();

/// Sizes whose products are numbers of 64 bits.
int64_t size(const char* what, int64_t value) {
  constexpr int64_t kMost = 1 << 30;
  if (value > kMost) throw ShapeError(std::string(what) + " is " + std::to_string(value) + "; pass at most 2^30");
  return value;
}

/// `query` (B, Lq, .) or (Lq, .) attends to `key` (B, Lk, .) or (Lk, .).
Call call_with(const Variable& query, const Variable& key, nb::handle mask, nb::handle causal, nb::handle key_lengths,
               nb::handle positions) {
  Call call{.causal = causal_of(causal),
            .mask = take_optional("attention: mask", mask),
            .positions = whole_numbers("attention: positions", positions)};
  if (query.shape().rank() >= 2 && key.shape().rank() >= 2)
    check_mask("attention", call.mask,
               {.batch = key.shape().rank() > 2 ? key.size(0) : 1, .queries = query.size(-2), .keys = key.size(-2)});
  if (!key_lengths.is_none()) call.tokens = PaddedKeys{whole_numbers("attention: key_lengths", key_lengths)};
  return call;
}

NormKind norm_named(const std::string& name) {
  if (name == "layer_norm") return NormKind::layer_norm;
  if (name == "rms_norm") return NormKind::rms_norm;
  throw ShapeError("Norm: norm is '" + name + "'; pass 'layer_norm' or 'rms_norm'");
}

template <class Layer>
Variable apply(const Layer& layer, Operand x_) {
  const Variable x = variable("layer: x", x_);
  const Computing running;
  return layer(x);
}

// ---- Records

std::optional<Tensor> numbers(const std::optional<std::vector<int64_t>>& list) {
  if (!list) return {};
  return Tensor::from(*list, {std::ssize(*list)});
}

nb::object vectors_of(const HeadVectors& v) {
  if (!v.q.defined()) return nb::none();
  return nb::make_tuple(as_numpy(v.q, Access::read), as_numpy(v.k, Access::read), as_numpy(v.v, Access::read));
}

nb::list arrays_of(const std::vector<Tensor>& tensors) {
  nb::list arrays;
  for (const Tensor& tensor : tensors) arrays.append(as_numpy(tensor, Access::write));
  return arrays;
}

nb::list all_vectors_of(const std::vector<HeadVectors>& all) {
  nb::list vectors;
  for (const HeadVectors& one : all) vectors.append(vectors_of(one));
  return vectors;
}

void define_records(nb::module_& m) {
  using Numbers = std::optional<std::vector<int64_t>>;
  nb::class_<HeadRecord>(m, "HeadRecord", R"(What a MultiheadAttention keeps of a call that is given one.

want_weights  keep .weights (B, heads, Lq, Lk), the softmax before dropout
want_vectors  keep .vectors, what the heads compared: q (B, H, Lq, D), k and v (B, Hkv, Lk, D)
heads, rows   numbers from 0 of the heads and queries whose weights are kept; None: all)")
      .def(
          "__init__",
          [](HeadRecord* self, bool want_weights, bool want_vectors, const Numbers& heads, const Numbers& rows) {
            new (self) HeadRecord{.want_weights = want_weights, .want_vectors = want_vectors};
            self->selection = {.heads = numbers(heads).value_or(Tensor()), .rows = numbers(rows).value_or(Tensor())};
          },
          nb::kw_only(), "want_weights"_a = true, "want_vectors"_a = false, "heads"_a = nb::none(),
          "rows"_a = nb::none())
      .def_prop_ro(
          "weights", [](const HeadRecord& r) { return as_numpy(r.weights, Access::write); },
          nb::sig("def weights(self) -> NDArray[typing.Any] | None"))
      .def_prop_ro(
          "vectors", [](const HeadRecord& r) { return vectors_of(r.vectors); },
          nb::sig("def vectors(self) -> tuple[NDArray[typing.Any], NDArray[typing.Any], "
                  "NDArray[typing.Any]] | None"));

  auto record = nb::class_<AttentionRecord>(m, "AttentionRecord",
                                            R"(What a stack of layers, or a model, keeps of a call that is given one.

.encoder, .decoder and .cross are lists of weights (B, heads, rows, Lk), one of each layer that ran; None for layers
that are not recorded. With want_vectors .encoder_vectors and so on are lists of (q, k, v): (B, H, L, D).

layers, heads, rows  numbers from 0 of what is kept; None: all. Rows are queries)");
  record.def(
      "__init__",
      [](AttentionRecord* self, const Numbers& layers, const Numbers& heads, const Numbers& rows, bool want_vectors) {
        const std::vector<int64_t> all;
        new (self) AttentionRecord;
        self->part = {.layers = layers.value_or(all), .heads = heads.value_or(all), .rows = rows.value_or(all)};
        self->want_vectors = want_vectors;
      },
      nb::kw_only(), "layers"_a = nb::none(), "heads"_a = nb::none(), "rows"_a = nb::none(), "want_vectors"_a = false);
  const auto weights = [&](const char* name, std::vector<Tensor> AttentionRecord::*list, const char* signature) {
    record.def_prop_ro(
        name, [list](const AttentionRecord& r) { return arrays_of(r.*list); }, nb::sig(signature));
  };
  const auto vectors = [&](const char* name, std::vector<HeadVectors> AttentionRecord::*list, const char* signature) {
    record.def_prop_ro(
        name, [list](const AttentionRecord& r) { return all_vectors_of(r.*list); }, nb::sig(signature));
  };
  weights("encoder", &AttentionRecord::encoder, "def encoder(self) -> list[NDArray[typing.Any] | None]");
  weights("decoder", &AttentionRecord::decoder, "def decoder(self) -> list[NDArray[typing.Any] | None]");
  weights("cross", &AttentionRecord::cross, "def cross(self) -> list[NDArray[typing.Any] | None]");
  vectors("encoder_vectors", &AttentionRecord::encoder_vectors,
          "def encoder_vectors(self) -> list[tuple[NDArray[typing.Any], ...] | None]");
  vectors("decoder_vectors", &AttentionRecord::decoder_vectors,
          "def decoder_vectors(self) -> list[tuple[NDArray[typing.Any], ...] | None]");
  vectors("cross_vectors", &AttentionRecord::cross_vectors,
          "def cross_vectors(self) -> list[tuple[NDArray[typing.Any], ...] | None]");
}

// ---- Simple layers

void define_simple_layers(nb::module_& m) {
  nb::class_<Linear, Module>(m, "Linear",
                             R"(x (..., in_features) -> (..., out_features): x times weight transposed, plus bias.

weight (out_features, in_features) and bias (out_features) begin uniform in +-1 / sqrt(in_features). Raises
ShapeError.)")
      .def(nb::init<int64_t, int64_t, bool>(), "in_features"_a, "out_features"_a, "bias"_a = true, kRelease)
      .def("__call__", &apply<Linear>, "x"_a.none())
      .def_ro("weight", &Linear::weight)
      .def_prop_ro(
          "bias", [](const Linear& layer) { return defined_or_none(layer.bias); },
          nb::sig("def bias(self) -> Variable | None"));

  nb::class_<Embedding, Module>(
      m, "Embedding", R"(ids (...), whole numbers in 0..num_embeddings - 1 -> (..., embedding_dim), times factor.

weight (num_embeddings, embedding_dim) begins normal with the given deviation. Raises ShapeError.)")
      .def(nb::init<int64_t, int64_t, double>(), "num_embeddings"_a, "embedding_dim"_a, "deviation"_a = 1.0, kRelease)
      .def(
          "__call__",
          [](const Embedding& layer, Operand ids_, double factor) {
            const Tensor ids = whole_numbers("Embedding: ids", ids_.object);
            if (!ids.defined()) throw nb::type_error("Embedding: ids is None; pass a NumPy array of whole numbers");
            const Computing running;
            return layer(ids, factor);
          },
          "ids"_a.none(), "factor"_a = 1.0)
      .def_ro("weight", &Embedding::weight);

  nb::class_<LayerNorm, Module>(
      m, "LayerNorm", R"(x (..., width) -> the same shape: mean 0 and variance 1 over the last dimension, times
weight (width), plus bias (width). Ba et al. 2016, eq. 4. Raises ShapeError.)")
      .def(nb::init<int64_t, double, bool>(), "width"_a, "epsilon"_a = 1e-5, "bias"_a = true)
      .def("__call__", &apply<LayerNorm>, "x"_a.none())
      .def_ro("weight", &LayerNorm::weight)
      .def_prop_ro(
          "bias", [](const LayerNorm& layer) { return defined_or_none(layer.bias); },
          nb::sig("def bias(self) -> Variable | None"));

  nb::class_<RMSNorm, Module>(m, "RMSNorm", R"(x (..., width) -> x / sqrt(mean(x^2) + epsilon) * weight, weight (width).

Zhang and Sennrich 2019, eq. 4. Raises ShapeError.)")
      .def(nb::init<int64_t, double>(), "width"_a, "epsilon"_a = 1e-5)
      .def("__call__", &apply<RMSNorm>, "x"_a.none())
      .def_ro("weight", &RMSNorm::weight);

  nb::class_<Norm, Module>(m, "Norm",
                           "LayerNorm or RMSNorm by name, 'layer_norm' or 'rms_norm': x (..., width) -> the same.")
      .def(
          "__init__",
          [](Norm* self, const std::string& norm, int64_t width, double epsilon, bool bias) {
            new (self) Norm(norm_named(norm), width, epsilon, bias);
          },
          "norm"_a, "width"_a, "epsilon"_a = 1e-5, "bias"_a = true)
      .def("__call__", &apply<Norm>, "x"_a.none());

  nb::class_<FeedForward, Module>(
      m, "FeedForward", R"(x (..., width) -> linear2(activation(linear1(x))), (..., width); Vaswani et al. 2017, 3.3.

activation: relu, gelu, gelu_tanh, silu, or gated (Shazeer 2020, eq. 6) reglu, geglu, geglu_tanh, swiglu, whose linear1
has gate and up, 2 * hidden. dropout: of the hidden values, in training. Raises ShapeError.)")
      .def(
          "__init__",
          [](FeedForward* self, int64_t width, int64_t hidden, const std::string& activation, double dropout,
             bool bias) {
            const FeedForwardKind kind = feed_forward_named(activation);
            const nb::gil_scoped_release others_may_run;
            new (self) FeedForward(width, size("FeedForward: hidden", hidden), kind, dropout, bias);
          },
          "width"_a, "hidden"_a, "activation"_a = "relu", "dropout"_a = 0.0, "bias"_a = true)
      .def("__call__", &apply<FeedForward>, "x"_a.none())
      .def_ro("linear1", &FeedForward::linear1)
      .def_ro("linear2", &FeedForward::linear2);

  nb::class_<SinusoidalPositions>(m, "SinusoidalPositions",
                                  R"(Fixed positions, sin on even and cos on odd columns. Vaswani et al. 2017, 3.5.)")
      .def(
          "__init__",
          [](SinusoidalPositions* self, int64_t width) {
            new (self) SinusoidalPositions(size("SinusoidalPositions: width", width));
          },
          "width"_a)
      .def(
          "rows",
          [](const SinusoidalPositions& positions, int64_t begin, int64_t length, nb::handle dtype) {
            if (begin < 0 || length < 0 || begin > int64_t{1} << 40 || length > int64_t{1} << 40)
              throw ShapeError("SinusoidalPositions: rows from " + std::to_string(begin) + ", " +
                               std::to_string(length) + " of them; pass numbers from 0 to 2^40");
            const DType type = compute_type("SinusoidalPositions: dtype", dtype);
            return as_numpy(positions.rows(begin, length, type).clone(), Access::write);
          },
          "begin"_a, "length"_a, "dtype"_a.none() = "float32",
          nb::sig("def rows(self, begin: int, length: int, dtype: DTypeLike = 'float32') -> "
                  "NDArray[typing.Any]"),
          "Rows begin, begin + 1, ... as (length, width).");
}

// ---- Attention

constexpr auto kCall = R"(
mask         broadcasts to (B, heads, Lq, Lk) from the right. Boolean: true may be attended. Floating: added to scores
causal       False; True: query i sees keys up to i; "bottom_right": the last query sees the last key
key_lengths  (B): the keys of entry b are those before key_lengths[b]; what follows fills up
positions    (L) or (B, L), whole numbers: of layers with rotary=True, else refused; default 0, 1, ...)";

Variable run_attention(const MultiheadAttention& layer, Operand query_, Operand key_, Operand value_, nb::handle mask,
                       nb::handle causal, nb::handle key_lengths, nb::handle positions, nb::handle record) {
  const Variable query = variable("MultiheadAttention: query", query_);
  // One array given twice is one variable, so that one product serves both.
  const Variable key = key_.object.is(query_.object) ? query : variable("MultiheadAttention: key", key_);
  const Variable value = value_.object.is(query_.object) ? query
                         : value_.object.is(key_.object) ? key
                                                         : variable("MultiheadAttention: value", value_);
  const Call call = call_with(query, key, mask, causal, key_lengths, positions);
  Filled<HeadRecord> filled(record);
  const Variable y = computed([&] { return layer(query, key, value, call, filled.get()); });
  filled.keep();
  return y;
}

void define_attention_layer(nb::module_& m) {
  static const std::string doc = std::string(
                                     R"(Attention of several heads with its projections. Vaswani et al. 2017, 3.2.2.

embed_dim    E, the width of queries and of the result
num_heads    H; kv_heads: fewer of them for keys and values, 0 for H (grouped-query attention)
head_dim     D; 0: embed_dim / num_heads
dropout      of the weights, in training
bias         of the projections of q, k and v; out_bias: of the last one
kdim, vdim   the widths of keys and values; 0: embed_dim
scale        of the scores; None: 1 / sqrt(D)
rotary       turn q and k by their positions (self-attention)

Called with query (B, Lq, E), key (B, Lk, kdim) and value (B, Lk, vdim) -> (B, Lq, E); inputs of rank 2 are one entry.
The same object for all three is one product.
)") + kCall + R"(
record       a HeadRecord, which is filled

Parameters are torch.nn.MultiheadAttention's: in_proj_weight ((H + 2 kv_heads) D, E), or q_proj_weight, k_proj_weight
and v_proj_weight where kdim or vdim differ; in_proj_bias; out_proj. Raises ShapeError.)";
  nb::class_<MultiheadAttention, Module>(m, "MultiheadAttention", doc.c_str())
      .def(
          "__init__",
          [](MultiheadAttention* self, int64_t embed_dim, int64_t num_heads, double dropout, int64_t kv_heads,
             int64_t head_dim, bool bias, bool out_bias, int64_t kdim, int64_t vdim, std::optional<double> scale,
             bool rotary) {
            new (self) MultiheadAttention(
                MultiheadAttentionOptions{.embed_dim = size("MultiheadAttention: embed_dim", embed_dim),
                                          .num_heads = size("MultiheadAttention: num_heads", num_heads),
                                          .kv_heads = size("MultiheadAttention: kv_heads", kv_heads),
                                          .head_dim = size("MultiheadAttention: head_dim", head_dim),
                                          .bias = bias,
                                          .out_bias = out_bias,
                                          .kdim = kdim,
                                          .vdim = vdim,
                                          .dropout = dropout,
                                          .scale = scale,
                                          .rotary = rotary});
          },
          "embed_dim"_a, "num_heads"_a, "dropout"_a = 0.0, nb::kw_only(), "kv_heads"_a = 0, "head_dim"_a = 0,
          "bias"_a = true, "out_bias"_a = true, "kdim"_a = 0, "vdim"_a = 0, "scale"_a = nb::none(), "rotary"_a = false,
          kRelease)
      .def("__call__", &run_attention, "query"_a.none(), "key"_a.none(), "value"_a.none(), "mask"_a.none() = nb::none(),
           "causal"_a.none() = false, nb::kw_only(), "key_lengths"_a.none() = nb::none(),
           "positions"_a.none() = nb::none(), "record"_a.none() = nb::none(),
           nb::sig("def __call__(self, query: Array, key: Array, "
                   "value: Array, mask: Array | None = None, "
                   "causal: Causal = False, *, key_lengths: Array | None = None, "
                   "positions: Array | None = None, record: HeadRecord | None = None) -> Variable"))
      .def_prop_ro(
          "in_proj_weight", [](const MultiheadAttention& a) { return defined_or_none(a.in_proj_weight); },
          nb::sig("def in_proj_weight(self) -> Variable | None"))
      .def_prop_ro(
          "q_proj_weight", [](const MultiheadAttention& a) { return defined_or_none(a.q_proj_weight); },
          nb::sig("def q_proj_weight(self) -> Variable | None"))
      .def_prop_ro(
          "k_proj_weight", [](const MultiheadAttention& a) { return defined_or_none(a.k_proj_weight); },
          nb::sig("def k_proj_weight(self) -> Variable | None"))
      .def_prop_ro(
          "v_proj_weight", [](const MultiheadAttention& a) { return defined_or_none(a.v_proj_weight); },
          nb::sig("def v_proj_weight(self) -> Variable | None"))
      .def_prop_ro(
          "in_proj_bias", [](const MultiheadAttention& a) { return defined_or_none(a.in_proj_bias); },
          nb::sig("def in_proj_bias(self) -> Variable | None"))
      .def_ro("out_proj", &MultiheadAttention::out_proj);
}

// ---- Blocks and stacks

constexpr auto kOptions = R"(
d_model, nhead        E, the width; heads of attention
kv_heads              of keys and values; 0: nhead
dim_feedforward       hidden width of the feed-forward
dropout               of each sub-layer's output, in training
attention_dropout     of the weights; activation_dropout: inside the feed-forward
activation            as FeedForward's
norm, norm_epsilon    'layer_norm' or 'rms_norm'; norm_first: before each sub-layer, not after
bias, norm_bias       of linear layers; of layer_norm
rotary                turn q and k of self-attention by their positions
)";

#define HEED_BLOCK_OPTIONS                                                                                      \
  "kv_heads: int = 0, dim_feedforward: int = 2048, dropout: float = 0.1, attention_dropout: float = 0.0, "      \
  "activation_dropout: float = 0.0, activation: str = 'relu', norm: str = 'layer_norm', norm_epsilon: float = " \
  "1e-05, norm_first: bool = False, bias: bool = True, norm_bias: bool = True, rotary: bool = False"

TransformerLayerOptions block_options(int64_t d_model, int64_t nhead, Keywords& given) {
  TransformerLayerOptions o{.d_model = d_model, .nhead = nhead};
  std::string activation = "relu", norm = "layer_norm";
  given.take("kv_heads", o.kv_heads);
  given.take("dim_feedforward", o.dim_feedforward);
  given.take("dropout", o.dropout);
  given.take("attention_dropout", o.attention_dropout);
  given.take("activation_dropout", o.activation_dropout);
  given.take("activation", activation);
  given.take("norm", norm);
  given.take("norm_epsilon", o.norm_epsilon);
  given.take("norm_first", o.norm_first);
  given.take("bias", o.bias);
  given.take("norm_bias", o.norm_bias);
  given.take("rotary", o.rotary);
  given.finish();
  o.activation = feed_forward_named(activation);
  o.norm = norm_named(norm);
  for (const int64_t each : {o.d_model, o.nhead, o.kv_heads, o.dim_feedforward}) size("Transformer: a size", each);
  return o;
}

template <class T>
std::string name_of_type() {
  return nb::cast<std::string>(nb::type<T>().attr("__name__"));
}

template <class Layer>
void make_layer(Layer* self, int64_t d_model, int64_t nhead, const nb::kwargs& given) {
  Keywords keywords(name_of_type<Layer>(), given);
  const TransformerLayerOptions options = block_options(d_model, nhead, keywords);
  const nb::gil_scoped_release others_may_run;
  new (self) Layer(options);
}

template <class Stack>
void make_stack(Stack* self, int64_t d_model, int64_t nhead, int64_t num_layers, const nb::kwargs& given) {
  const std::string name = name_of_type<Stack>();
  bool final_norm = false;
  Keywords keywords(name, given);
  keywords.take("final_norm", final_norm);
  const TransformerLayerOptions options = block_options(d_model, nhead, keywords);
  if (num_layers < 1 || num_layers > 1000)
    throw ShapeError(name + ": num_layers is " + std::to_string(num_layers) + "; it must be in 1..1000");
  const nb::gil_scoped_release others_may_run;
  new (self) Stack(options, num_layers, final_norm);
}

/// The layers of a stack, which live in it.
template <class Stack>
nb::list layers_of(nb::handle self) {
  nb::list layers;
  for (const auto& layer : nb::cast<const Stack&>(self).layers)
    layers.append(nb::cast(layer.get(), nb::rv_policy::reference_internal, self));
  return layers;
}

template <class Record, class Encoder>
Variable run_encoder(const Encoder& encoder, Operand x_, nb::handle mask, nb::handle causal, nb::handle key_lengths,
                     nb::handle positions, nb::handle record) {
  const Variable x = variable("encoder: x", x_);
  const Call call = call_with(x, x, mask, causal, key_lengths, positions);
  Filled<Record> filled(record);
  const Variable y = computed([&] { return encoder(x, call, filled.get()); });
  filled.keep();
  return y;
}

struct DecoderInput {
  Variable x, memory;
  Call self, cross;
};

DecoderInput decoder_input(Operand x_, Operand memory_, nb::handle mask, nb::handle causal, nb::handle key_lengths,
                           nb::handle memory_mask, nb::handle memory_key_lengths) {
  const Variable x = variable("decoder: x", x_), memory = variable("decoder: memory", memory_);
  return {.x = x,
          .memory = memory,
          .self = call_with(x, x, mask, causal, key_lengths, nb::none()),
          .cross = call_with(x, memory, memory_mask, Py_False, memory_key_lengths, nb::none())};
}

Variable run_decoder_layer(const TransformerDecoderLayer& layer, Operand x, Operand memory, nb::handle mask,
                           nb::handle causal, nb::handle key_lengths, nb::handle memory_mask,
                           nb::handle memory_key_lengths, nb::handle record, nb::handle cross_record) {
  const DecoderInput in = decoder_input(x, memory, mask, causal, key_lengths, memory_mask, memory_key_lengths);
  Filled<HeadRecord> self(record), cross(cross_record);
  const Variable y = computed([&] { return layer(in.x, in.memory, in.self, in.cross, self.get(), cross.get()); });
  self.keep();
  cross.keep();
  return y;
}

Variable run_decoder(const TransformerDecoder& decoder, Operand x, Operand memory, nb::handle mask, nb::handle causal,
                     nb::handle key_lengths, nb::handle memory_mask, nb::handle memory_key_lengths, nb::handle record) {
  const DecoderInput in = decoder_input(x, memory, mask, causal, key_lengths, memory_mask, memory_key_lengths);
  Filled<AttentionRecord> filled(record);
  const Variable y = computed([&] { return decoder(in.x, in.memory, in.self, in.cross, filled.get()); });
  filled.keep();
  return y;
}

#define HEED_ENCODER_CALL(record)                                        \
  nb::sig(                                                               \
      "def __call__(self, x: Array, mask: Array | None = None, causal: " \
      "Causal = False, *, key_lengths: Array | None = None, positions: " \
      "Array | None = None, record: " record " | None = None) -> Variable")
#define HEED_DECODER_CALL(records)                                    \
  nb::sig(                                                            \
      "def __call__(self, x: Array, memory: Array, mask: "            \
      "Array | None = None, causal: Causal = False, *, key_lengths: " \
      "Array | None = None, memory_mask: Array | None = None, "       \
      "memory_key_lengths: Array | None = None, " records ") -> Variable")

void define_encoder(nb::module_& m) {
  static const std::string layer_doc =
      std::string(R"(Self-attention and a feed-forward, each with its residual sum and norm. Vaswani et al. 2017, 3.1.

Called with x (B, L, E) -> (B, L, E); causal makes it a block of a language model.
)") + kCall +
      "\nrecord       a HeadRecord, which is filled\n" + kOptions + "\nRaises ShapeError and TypeError.";
  nb::class_<TransformerEncoderLayer, Module>(m, "TransformerEncoderLayer", layer_doc.c_str())
      .def("__init__", &make_layer<TransformerEncoderLayer>, "d_model"_a, "nhead"_a, "options"_a,
           nb::sig("def __init__(self, d_model: int, nhead: int, *, " HEED_BLOCK_OPTIONS ") -> None"))
      .def("__call__", &run_encoder<HeadRecord, TransformerEncoderLayer>, "x"_a.none(), "mask"_a.none() = nb::none(),
           "causal"_a.none() = false, nb::kw_only(), "key_lengths"_a.none() = nb::none(),
           "positions"_a.none() = nb::none(), "record"_a.none() = nb::none(), HEED_ENCODER_CALL("HeadRecord"))
      .def_ro("self_attn", &TransformerEncoderLayer::self_attn)
      .def_ro("feed_forward", &TransformerEncoderLayer::feed_forward, "Its parameters are linear1.* and linear2.*.")
      .def_ro("norm1", &TransformerEncoderLayer::norm1)
      .def_ro("norm2", &TransformerEncoderLayer::norm2);

  static const std::string stack_doc =
      std::string(R"(A stack of num_layers encoder layers, with a last norm where final_norm is True.

Called with x (B, L, E) -> (B, L, E).
)") + kCall +
      "\nrecord       an AttentionRecord, whose encoder lists get one entry a layer\n" + kOptions +
      "\nRaises ShapeError and TypeError.";
  nb::class_<TransformerEncoder, Module>(m, "TransformerEncoder", stack_doc.c_str())
      .def("__init__", &make_stack<TransformerEncoder>, "d_model"_a, "nhead"_a, "num_layers"_a, "options"_a,
           nb::sig("def __init__(self, d_model: int, nhead: int, num_layers: int, *, final_norm: bool = "
                   "False, " HEED_BLOCK_OPTIONS ") -> None"))
      .def("__call__", &run_encoder<AttentionRecord, TransformerEncoder>, "x"_a.none(), "mask"_a.none() = nb::none(),
           "causal"_a.none() = false, nb::kw_only(), "key_lengths"_a.none() = nb::none(),
           "positions"_a.none() = nb::none(), "record"_a.none() = nb::none(), HEED_ENCODER_CALL("AttentionRecord"))
      .def_prop_ro("layers", &layers_of<TransformerEncoder>,
                   nb::sig("def layers(self) -> list[TransformerEncoderLayer]"))
      .def_prop_ro(
          "norm", [](const TransformerEncoder& e) { return e.norm.get(); }, nb::rv_policy::reference_internal,
          nb::sig("def norm(self) -> Norm | None"));
}

void define_decoder(nb::module_& m) {
  constexpr auto kDecoderCall = R"(
mask, causal, key_lengths        of self-attention, as MultiheadAttention's; nothing is causal by itself
memory_mask, memory_key_lengths  of attention over the memory
)";
  static const std::string layer_doc =
      std::string(R"(Self-attention, attention over a memory and a feed-forward, each with its residual sum and norm.

Called with x (B, Lq, E) and memory (B, Lk, E) -> (B, Lq, E). Vaswani et al. 2017, 3.1.
)") + kDecoderCall +
      "record, cross_record             a HeadRecord each, which are filled\n" + kOptions +
      "\nRaises ShapeError and TypeError.";
  nb::class_<TransformerDecoderLayer, Module>(m, "TransformerDecoderLayer", layer_doc.c_str())
      .def("__init__", &make_layer<TransformerDecoderLayer>, "d_model"_a, "nhead"_a, "options"_a,
           nb::sig("def __init__(self, d_model: int, nhead: int, *, " HEED_BLOCK_OPTIONS ") -> None"))
      .def("__call__", &run_decoder_layer, "x"_a.none(), "memory"_a.none(), "mask"_a.none() = nb::none(),
           "causal"_a.none() = false, nb::kw_only(), "key_lengths"_a.none() = nb::none(),
           "memory_mask"_a.none() = nb::none(), "memory_key_lengths"_a.none() = nb::none(),
           "record"_a.none() = nb::none(), "cross_record"_a.none() = nb::none(),
           HEED_DECODER_CALL("record: HeadRecord | None = None, cross_record: HeadRecord | None = None"))
      .def_ro("self_attn", &TransformerDecoderLayer::self_attn)
      .def_ro("multihead_attn", &TransformerDecoderLayer::multihead_attn)
      .def_ro("feed_forward", &TransformerDecoderLayer::feed_forward, "Its parameters are linear1.* and linear2.*.")
      .def_ro("norm1", &TransformerDecoderLayer::norm1)
      .def_ro("norm2", &TransformerDecoderLayer::norm2)
      .def_ro("norm3", &TransformerDecoderLayer::norm3);

  static const std::string stack_doc =
      std::string(R"(A stack of num_layers decoder layers, with a last norm where final_norm is True.

Called with x (B, Lq, E) and memory (B, Lk, E) -> (B, Lq, E).
)") + kDecoderCall +
      "record                           an AttentionRecord: decoder and cross lists get an entry a layer\n" + kOptions +
      "\nRaises ShapeError and TypeError.";
  nb::class_<TransformerDecoder, Module>(m, "TransformerDecoder", stack_doc.c_str())
      .def("__init__", &make_stack<TransformerDecoder>, "d_model"_a, "nhead"_a, "num_layers"_a, "options"_a,
           nb::sig("def __init__(self, d_model: int, nhead: int, num_layers: int, *, final_norm: bool = "
                   "False, " HEED_BLOCK_OPTIONS ") -> None"))
      .def("__call__", &run_decoder, "x"_a.none(), "memory"_a.none(), "mask"_a.none() = nb::none(),
           "causal"_a.none() = false, nb::kw_only(), "key_lengths"_a.none() = nb::none(),
           "memory_mask"_a.none() = nb::none(), "memory_key_lengths"_a.none() = nb::none(),
           "record"_a.none() = nb::none(), HEED_DECODER_CALL("record: AttentionRecord | None = None"))
      .def_prop_ro("layers", &layers_of<TransformerDecoder>,
                   nb::sig("def layers(self) -> list[TransformerDecoderLayer]"))
      .def_prop_ro(
          "norm", [](const TransformerDecoder& d) { return d.norm.get(); }, nb::rv_policy::reference_internal,
          nb::sig("def norm(self) -> Norm | None"));
}

#undef HEED_ENCODER_CALL
#undef HEED_DECODER_CALL
#undef HEED_BLOCK_OPTIONS

}  // namespace

void define_layers(nb::module_& m) {
  define_records(m);
  define_simple_layers(m);
  define_attention_layer(m);
  define_encoder(m);
  define_decoder(m);
}

}  // namespace heed::python
