// Each operation: check the shapes, run the forward kernel, record the backward kernel with what it needs.
#include "heed/functional.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/profile.h"
#include "heed/random.h"
#include "kernels/activation.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/norm.h"
#include "kernels/softmax.h"

namespace heed::inline v0::functional {
namespace {

Executor& ex() { return default_executor(); }

// Calls f with a float or a double, by dtype.
template <class F>
auto dispatch(const char* op, DType dtype, F&& f) {
  if (dtype == DType::f32) return f(float{});
  if (dtype == DType::f64) return f(double{});
  throw ShapeError(std::string(op) + ": float32 or float64 is needed, not " + name_of(dtype) + "; convert with to()");
}

void check_same_dtype(const char* op, const Variable& a, const Variable& b) {
  if (b.defined() && a.dtype() != b.dtype())
    throw ShapeError(std::string(op) + ": dtypes differ, " + name_of(a.dtype()) + " and " + name_of(b.dtype()) +
                     "; convert one with to()");
}

// Whether a matrix is kept in fewer bits than float's, for which nothing can be recorded.
bool is_narrow(const char* op, const Variable& matrix) {
  if (matrix.dtype() != DType::f16 && matrix.dtype() != DType::bf16 && !is_quantised(matrix.dtype())) return false;
  if (grad_enabled())
    throw ShapeError(std::string(op) + ": a weight in " + name_of(matrix.dtype()) +
                     " is for inference; put NoGrad around it, or convert it with to(DType::f32)");
  return true;
}

void check_same_shape(const char* op, const Variable& a, const Variable& b) {
  check_same_dtype(op, a, b);
  if (!(a.shape() == b.shape()))
    throw ShapeError(std::string(op) + ": shapes " + to_string(a.shape()) + " and " + to_string(b.shape()) + " differ");
}

void check_vector(const char* op, const char* what, const Variable& v, const Variable& x, int64_t width) {
  if (!v.defined()) return;
  check_same_dtype(op, x, v);
  if (!(v.shape() == Dims{width}))
    throw ShapeError(std::string(op) + ": " + what + " has shape " + to_string(v.shape()) + ", the input is " +
                     std::to_string(width) + " wide");
}

int64_t last_dim(const char* op, const Variable& x) {
  if (x.shape().empty()) throw ShapeError(std::string(op) + ": needs at least one dimension");
  return x.shape().back();
}

int64_t rows_of(const Tensor& x) { return x.shape().back() ? x.numel() / x.shape().back() : 0; }

Dims with_last(Dims shape, int64_t last) {
  shape.back() = last;
  return shape;
}

template <class T>
T* data_or_null(const Variable& v) {
  return v.defined() ? v.value().data<T>() : nullptr;
}

// The activations that a kernel reads must be packed; views reach the tape through reshape and heads alone.
Tensor packed(const Variable& x) { return x.value().contiguous(); }

// A gradient buffer for input i where it is wanted: parameters are added to, activations assigned.
template <class T>
T* accumulator(Gradients& g, const Variable& v, size_t i) {
  return v.defined() && g.wanted(i) ? g.accumulator(i).data<T>() : nullptr;
}

}  // namespace

namespace {

Variable linear_with(const char* op, bool relu, const Variable& x, const Variable& weight, Span rows_of_weight,
                     const Variable& bias, Span of_bias) {
  const int64_t begin = rows_of_weight.begin, end = rows_of_weight.end;
  const int64_t bias_begin = of_bias.begin;
  const ProfileScope profile(op);
  if (x.dtype() != DType::f32 || !is_narrow(op, weight)) check_same_dtype(op, x, weight);
  check_same_dtype(op, x, bias);
  const int64_t in = last_dim(op, x);
  if (weight.shape().rank() != 2 || weight.size(1) != in)
    throw ShapeError("linear: input " + to_string(x.shape()) + " does not fit weight " + to_string(weight.shape()) +
                     "; the last dimension of both must agree");
  if (in == 0) throw ShapeError(std::string(op) + ": input " + to_string(x.shape()) + " is 0 wide; pass 1 or more");
  if (begin < 0 || begin >= end || end > weight.size(0))
    throw ShapeError("linear: rows " + std::to_string(begin) + ".." + std::to_string(end) + " of weight " +
                     to_string(weight.shape()) + "; pass some that are there");
  if (bias.defined() && (bias.shape().rank() != 1 || bias_begin < 0 || of_bias.end > bias.size(0) ||
                         of_bias.end - bias_begin != end - begin))
    throw ShapeError("linear: elements " + std::to_string(bias_begin) + ".." + std::to_string(of_bias.end) +
                     " of bias " + to_string(bias.shape()) + " for " + std::to_string(end - begin) +
                     " rows of weight; pass as many that are there");
  const int64_t out = end - begin;
  return dispatch(op, x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Tensor input = packed(x);
    const Tensor y = Tensor::empty(with_last(x.shape(), out), x.dtype());
    const int64_t rows = rows_of(input);
    const T* b = data_or_null<T>(bias);
    with_weights<T>(weight.value().slice(0, begin, end), [&](const auto& w) {
      linear_forward(input.data<T>(), w, b ? b + bias_begin : nullptr, y.data<T>(), rows, in, out, ex(), relu);
    });
    std::vector<Variable> inputs{x, weight};
    if (bias.defined()) inputs.push_back(bias);
    return custom_op(op, std::move(inputs), y, [=](const Tensor& grad, Gradients& g) {
      Tensor dx = g.wanted(0) ? Tensor::empty(input.shape(), input.dtype()) : Tensor();
      T* dw = accumulator<T>(g, weight, 1);
      T* db = bias.defined() ? accumulator<T>(g, bias, 2) : nullptr;
      linear_backward<T>(grad.data<T>(), input.data<T>(), weight.value().data<T>() + begin * in,
                         dx.defined() ? dx.data<T>() : nullptr, dw ? dw + begin * in : nullptr,
                         db ? db + bias_begin : nullptr, rows, in, out, ex(), relu ? y.data<T>() : nullptr);
      if (dx.defined()) g.set(0, dx);
    });
  });
}

}  // namespace

// All of the rows; of a weight or bias that does not fit, linear_with says so.
static Span all_rows(const Variable& v) { return {0, v.defined() && !v.shape().empty() ? v.size(0) : 0}; }

Variable linear(const Variable& x, const Variable& weight, const Variable& bias) {
  return linear_with("linear", false, x, weight, all_rows(weight), bias, all_rows(bias));
}

Variable linear_slice(const Variable& x, const Variable& weight, Span rows, const Variable& bias, Span of_bias) {
  return linear_with("linear", false, x, weight, rows, bias, of_bias);
}

Variable linear_relu(const Variable& x, const Variable& weight, const Variable& bias) {
  return linear_with("linear_relu", true, x, weight, all_rows(weight), bias, all_rows(bias));
}

Variable add(const Variable& a, const Variable& b) {
  const char* op = "add";
  const ProfileScope profile(op);
  check_same_shape(op, a, b);
  return dispatch(op, a.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Tensor y = Tensor::empty(a.shape(), a.dtype());
    heed::add<T>(packed(a).template data<T>(), packed(b).template data<T>(), y.data<T>(), y.numel(), ex());
    return custom_op(op, {a, b}, y, [](const Tensor& grad, Gradients& g) {
      g.set(0, grad);
      g.set(1, grad);
    });
  });
}

Variable multiply(const Variable& a, const Variable& b) {
  const char* op = "multiply";
  const ProfileScope profile(op);
  check_same_shape(op, a, b);
  return dispatch(op, a.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Tensor left = packed(a), right = packed(b), y = Tensor::empty(a.shape(), a.dtype());
    heed::multiply<T>(left.data<T>(), right.data<T>(), y.data<T>(), y.numel(), ex());
    return custom_op(op, {a, b}, y, [=](const Tensor& grad, Gradients& g) {
      for (const size_t i : {size_t{0}, size_t{1}}) {
        if (!g.wanted(i)) continue;
        const Tensor d = Tensor::empty(grad.shape(), grad.dtype());
        heed::multiply<T>(grad.data<T>(), (i ? left : right).data<T>(), d.data<T>(), d.numel(), ex());
        g.set(i, d);
      }
    });
  });
}

Variable scale(const Variable& x, double factor) {
  const char* op = "scale";
  const ProfileScope profile(op);
  return dispatch(op, x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const auto times = [factor](const Tensor& in) {
      const Tensor out = Tensor::empty(in.shape(), in.dtype());
      heed::scale<T>(in.data<T>(), static_cast<T>(factor), out.data<T>(), in.numel(), ex());
      return out;
    };
    return custom_op(op, {x}, times(packed(x)), [=](const Tensor& grad, Gradients& g) { g.set(0, times(grad)); });
  });
}

Variable scale_heads(const Variable& x, const Variable& factors) {
  const char* op = "scale_heads";
  const ProfileScope profile(op);
  check_same_dtype(op, x, factors);
  const int64_t width = last_dim(op, x), heads = factors.shape().rank() == 1 ? factors.size(0) : 0;
  if (heads == 0 || width % heads)
    throw ShapeError("scale_heads: factors " + to_string(factors.shape()) + " are not one a head of input " +
                     to_string(x.shape()));
  const int64_t size = width / heads;
  return dispatch(op, x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Tensor input = packed(x), of_heads = factors.value().contiguous();
    const int64_t rows = rows_of(input);
    const auto times = [=](const Tensor& in) {
      const Tensor out = Tensor::empty(in.shape(), in.dtype());
      const T *const from = in.data<T>(), *const factor = of_heads.data<T>();
      T* const to = out.data<T>();
      parallel_for(ex(), rows, [&](int64_t row) {
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t i = row * width + h * size; i < row * width + (h + 1) * size; ++i) to[i] = factor[h] * from[i];
      });
      return out;
    };
    return custom_op(op, {x, factors}, times(input), [=](const Tensor& grad, Gradients& g) {
      if (g.wanted(0)) g.set(0, times(grad));
      if (!g.wanted(1)) return;
      const Tensor d = Tensor::empty({heads}, grad.dtype());
      const T *const dy = grad.data<T>(), *const from = input.data<T>();
      parallel_for(ex(), heads, [&](int64_t h) {
        double sum = 0;
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t i = row * width + h * size; i < row * width + (h + 1) * size; ++i)
            sum += static_cast<double>(dy[i]) * static_cast<double>(from[i]);
        d.data<T>()[h] = static_cast<T>(sum);
      });
      g.set(1, d);
    });
  });
}

Variable sum(const Variable& x) {
  const char* op = "sum";
  const ProfileScope profile(op);
  return dispatch(op, x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Tensor input = packed(x);
    double total = 0;
    for (const T value : input.span<T>()) total += static_cast<double>(value);
    return custom_op(op, {x}, Tensor::full({}, total, x.dtype()),
                     [shape = x.shape()](const Tensor& grad, Gradients& g) {
                       g.set(0, Tensor::full(shape, grad.item(), grad.dtype()));
                     });
  });
}

Variable reshape(const Variable& x, const Dims& shape) {
  return custom_op("reshape", {x}, x.value().reshape(shape),
                   [from = x.shape()](const Tensor& grad, Gradients& g) { g.set(0, grad.reshape(from)); });
}

Variable concatenate(const std::vector<Variable>& parts, int dim) {
  const char* op = "concatenate";
  const ProfileScope profile(op);
  if (parts.empty()) throw ShapeError("concatenate: no parts; give one at least");
  Dims shape = parts[0].shape();
  if (dim < 0 || dim >= shape.rank())
    throw ShapeError("concatenate: dimension " + std::to_string(dim) + " of " + to_string(shape) +
                     "; pass one that is there");
  shape[dim] = 0;
  for (const Variable& part : parts) {
    check_same_dtype(op, parts[0], part);
    Dims fitting = part.shape();
    if (fitting.rank() == shape.rank()) fitting[dim] = parts[0].size(dim);
    if (!(fitting == parts[0].shape()))
      throw ShapeError("concatenate: shapes " + to_string(parts[0].shape()) + " and " + to_string(part.shape()) +
                       " differ elsewhere than in dimension " + std::to_string(dim));
    shape[dim] += part.size(dim);
  }
  const Tensor y = Tensor::empty(shape, parts[0].dtype());
  std::vector<int64_t> ends;
  for (const Variable& part : parts) {
    const int64_t begin = ends.empty() ? 0 : ends.back();
    ends.push_back(begin + part.size(dim));
    y.slice(dim, begin, ends.back()).copy_from(part.value());
  }
  return custom_op(op, parts, y, [=](const Tensor& grad, Gradients& g) {
    for (size_t i = 0; i < ends.size(); ++i)
      if (g.wanted(i)) g.set(i, grad.slice(dim, i == 0 ? 0 : ends[i - 1], ends[i]).contiguous());
  });
}

Variable activation(Activation kind, const Variable& x) {
  const char* op = "activation";
  const ProfileScope profile(op);
  return dispatch(op, x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Tensor input = packed(x), y = Tensor::empty(x.shape(), x.dtype());
    activation_forward<T>(kind, input.data<T>(), y.data<T>(), y.numel(), ex());
    return custom_op(op, {x}, y, [=](const Tensor& grad, Gradients& g) {
      const Tensor dx = Tensor::empty(grad.shape(), grad.dtype());
      activation_backward<T>(kind, grad.data<T>(), input.data<T>(), dx.data<T>(), dx.numel(), ex());
      g.set(0, dx);
    });
  });
}

Variable gated(Activation kind, const Variable& gate_up, double alpha) {
  const char* op = "gated";
  const ProfileScope profile(op);
  const int64_t twice = last_dim(op, gate_up);
  if (twice % 2)
    throw ShapeError("gated: the last dimension of " + to_string(gate_up.shape()) + " is odd; it holds gate, then up");
  return dispatch(op, gate_up.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T slope = static_cast<T>(alpha);  // what float makes of it counts
    if (!(std::isfinite(slope) && std::isfinite(1 / slope)))
      throw ShapeError("gated: alpha is " + std::to_string(alpha) + "; it and 1 / alpha must be finite");
    const Tensor input = packed(gate_up);
    const Tensor y = Tensor::empty(with_last(input.shape(), twice / 2), input.dtype());
    const int64_t rows = rows_of(input);
    gated_forward<T>(kind, input.data<T>(), y.data<T>(), rows, twice / 2, ex(), slope);
    return custom_op(op, {gate_up}, y, [=](const Tensor& grad, Gradients& g) {
      const Tensor dx = Tensor::empty(input.shape(), input.dtype());
      gated_backward<T>(kind, grad.data<T>(), input.data<T>(), dx.data<T>(), rows, twice / 2, ex(), slope);
      g.set(0, dx);
    });
  });
}

Variable bounded_gate(const Variable& gate_up, double limit) {
  const char* op = "bounded_gate";
  const ProfileScope profile(op);
  const int64_t twice = last_dim(op, gate_up);
  if (twice % 2)
    throw ShapeError("bounded_gate: the last dimension of " + to_string(gate_up.shape()) +
                     " is odd; it holds gate, then up");
  if (!(limit > 0)) throw ShapeError("bounded_gate: the limit is " + std::to_string(limit) + "; it must be above 0");
  return dispatch(op, gate_up.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Tensor input = packed(gate_up), y = Tensor::empty(input.shape(), input.dtype());
    const int64_t rows = rows_of(input);
    const T most = static_cast<T>(limit);
    bounded_gate_forward<T>(input.data<T>(), y.data<T>(), rows, twice / 2, most, ex());
    return custom_op(op, {gate_up}, y, [=](const Tensor& grad, Gradients& g) {
      const Tensor dx = Tensor::empty(input.shape(), input.dtype());
      bounded_gate_backward<T>(grad.data<T>(), input.data<T>(), dx.data<T>(), rows, twice / 2, most, ex());
      g.set(0, dx);
    });
  });
}

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double epsilon) {
  const char* op = "layer_norm";
  const ProfileScope profile(op);
  const int64_t width = last_dim(op, x);
  check_vector(op, "weight", weight, x, width);
  check_vector(op, "bias", bias, x, width);
  return dispatch(op, x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Tensor input = packed(x), y = Tensor::empty(x.shape(), x.dtype());
    const int64_t rows = rows_of(input);
    const Tensor mean = Tensor::empty({rows}, x.dtype()), rstd = Tensor::empty({rows}, x.dtype());
    layer_norm_forward<T>(input.data<T>(), data_or_null<T>(weight), data_or_null<T>(bias), static_cast<T>(epsilon),
                          y.data<T>(), mean.data<T>(), rstd.data<T>(), rows, width, ex());
    return custom_op(op, {x, weight, bias}, y, [=](const Tensor& grad, Gradients& g) {
      const Tensor dx = g.wanted(0) ? Tensor::empty(input.shape(), input.dtype()) : Tensor();
      layer_norm_backward<T>(grad.data<T>(), input.data<T>(), data_or_null<T>(weight), mean.data<T>(), rstd.data<T>(),
                             dx.defined() ? dx.data<T>() : nullptr, accumulator<T>(g, weight, 1),
                             accumulator<T>(g, bias, 2), rows, width, ex());
      if (dx.defined()) g.set(0, dx);
    });
  });
}

Variable rms_norm(const Variable& x, const Variable& weight, double epsilon) {
  const char* op = "rms_norm";
  const ProfileScope profile(op);
  const int64_t width = last_dim(op, x);
  check_vector(op, "weight", weight, x, width);
  return dispatch(op, x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Tensor input = packed(x), y = Tensor::empty(x.shape(), x.dtype());
    const int64_t rows = rows_of(input);
    const Tensor rstd = Tensor::empty({rows}, x.dtype());
    rms_norm_forward<T>(input.data<T>(), data_or_null<T>(weight), static_cast<T>(epsilon), y.data<T>(), rstd.data<T>(),
                        rows, width, ex());
    return custom_op(op, {x, weight}, y, [=](const Tensor& grad, Gradients& g) {
      const Tensor dx = g.wanted(0) ? Tensor::empty(input.shape(), input.dtype()) : Tensor();
      rms_norm_backward<T>(grad.data<T>(), input.data<T>(), data_or_null<T>(weight), rstd.data<T>(),
                           dx.defined() ? dx.data<T>() : nullptr, accumulator<T>(g, weight, 1), rows, width, ex());
      if (dx.defined()) g.set(0, dx);
    });
  });
}

Variable softmax(const Variable& x) {
  const char* op = "softmax";
  const ProfileScope profile(op);
  const int64_t width = last_dim(op, x);
  return dispatch(op, x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Tensor y = Tensor::empty(x.shape(), x.dtype());
    softmax_forward<T>(packed(x).template data<T>(), y.data<T>(), rows_of(y), width, ex());
    return custom_op(op, {x}, y, [=](const Tensor& grad, Gradients& g) {
      const Tensor dx = Tensor::empty(grad.shape(), grad.dtype());
      softmax_backward<T>(grad.data<T>(), y.data<T>(), dx.data<T>(), rows_of(y), width, ex());
      g.set(0, dx);
    });
  });
}

Variable log_softmax(const Variable& x) {
  const char* op = "log_softmax";
  const ProfileScope profile(op);
  const int64_t width = last_dim(op, x);
  return dispatch(op, x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Tensor y = Tensor::empty(x.shape(), x.dtype());
    log_softmax_forward<T>(packed(x).template data<T>(), y.data<T>(), rows_of(y), width, ex());
    return custom_op(op, {x}, y, [=](const Tensor& grad, Gradients& g) {
      const Tensor dx = Tensor::empty(grad.shape(), grad.dtype());
      log_softmax_backward<T>(grad.data<T>(), y.data<T>(), dx.data<T>(), rows_of(y), width, ex());
      g.set(0, dx);
    });
  });
}

namespace {

// Ids as packed int32, each in [0, limit) or equal to `ignored`.
Tensor checked_ids(const char* op, const Tensor& ids, int64_t limit, std::optional<int32_t> ignored = {}) {
  if (ids.dtype() != DType::i32)
    throw ShapeError(std::string(op) + ": ids are " + name_of(ids.dtype()) + "; convert with to(DType::i32)");
  const Tensor packed_ids = ids.contiguous();
  for (const int32_t id : packed_ids.span<int32_t>())
    if ((id < 0 || id >= limit) && id != ignored)
      throw ShapeError(std::string(op) + ": id " + std::to_string(id) + " is not in 0.." + std::to_string(limit - 1));
  return packed_ids;
}

}  // namespace

Variable embedding(const Tensor& ids, const Variable& weight, double factor, int32_t padding_id) {
  const char* op = "embedding";
  const ProfileScope profile(op);
  if (weight.shape().rank() != 2)
    throw ShapeError("embedding: weight " + to_string(weight.shape()) + " is not (vocabulary, width)");
  const int64_t vocabulary = weight.size(0), width = weight.size(1);
  const Tensor index = checked_ids(op, ids, vocabulary);
  Dims shape = ids.shape();
  shape.push_back(width);
  const DType dtype = is_narrow(op, weight) ? DType::f32 : weight.dtype();
  return dispatch(op, dtype, [&](auto tag) {
    using T = decltype(tag);
    const Tensor y = Tensor::empty(shape, dtype);
    with_weights<T>(weight.value(), [&](const auto& table) {
      embedding_forward(index.data<int32_t>(), table, static_cast<T>(factor), y.data<T>(), index.numel(), width, ex());
    });
    return custom_op(op, {weight}, y, [=](const Tensor& grad, Gradients& g) {
      embedding_backward<T>(index.data<int32_t>(), grad.data<T>(), static_cast<T>(factor), g.accumulator(0).data<T>(),
                            index.numel(), width, ex(), padding_id);
    });
  });
}

namespace {

void check_probability(const char* op, double p) {
  if (!(p >= 0 && p < 1))
    throw ShapeError(std::string(op) + ": probability " + std::to_string(p) + " is not in [0, 1)");
}

}  // namespace

namespace {

// Elements that lie side by side, in memory and in the whole that draws are counted through.
struct Run {
  int64_t at, count, first;
};

std::vector<Run> runs_of(const char* op, const Variable& x, const SplitRows* rows) {
  if (!rows) return {{0, x.value().numel(), 0}};
  const int64_t own = rows->split.rows(rows->rank);
  if (x.shape().rank() != 3 || x.size(1) != own)
    throw ShapeError(std::string(op) + ": input " + to_string(x.shape()) + " is not (B, rows, width) of the " +
                     std::to_string(own) + " rows of rank " + std::to_string(rows->rank));
  std::vector<Run> runs;
  int64_t at = 0;
  for (int64_t b = 0; b < x.size(0); ++b)
    for (const IndexRange& piece : rows->split.of(rows->rank)) {
      runs.push_back({at, piece.size() * x.size(2), (b * rows->split.length() + piece.begin) * x.size(2)});
      at += runs.back().count;
    }
  return runs;
}

}  // namespace

Variable dropout(const Variable& x, double p, const SplitRows* rows) {
  const char* op = "dropout";
  check_probability(op, p);
  if (p == 0) return x;
  const ProfileScope profile(op);
  Generator& generator = default_generator();
  return dispatch(op, x.dtype(), [&, seed = generator.seed, stream = generator.next()](auto tag) {
    using T = decltype(tag);
    const auto drop = [=, runs = runs_of(op, x, rows)](const Tensor& in) {
      const Tensor out = Tensor::empty(in.shape(), in.dtype());
      for (const auto& [at, count, first] : runs)
        dropout_forward<T>(in.data<T>() + at, out.data<T>() + at, count, p, seed, stream, ex(), first);
      return out;
    };
    return custom_op(op, {x}, drop(packed(x)), [=](const Tensor& grad, Gradients& g) { g.set(0, drop(grad)); });
  });
}

Variable dropout_add(const Variable& x, const Variable& residual, double p, const SplitRows* rows) {
  const char* op = "dropout_add";
  check_probability(op, p);
  if (p == 0) return add(x, residual);
  check_same_shape(op, x, residual);
  const ProfileScope profile(op);
  Generator& generator = default_generator();
  return dispatch(op, x.dtype(), [&, seed = generator.seed, stream = generator.next()](auto tag) {
    using T = decltype(tag);
    const std::vector<Run> runs = runs_of(op, x, rows);
    const Tensor input = packed(x), beside = packed(residual), y = Tensor::empty(x.shape(), x.dtype());
    for (const auto& [at, count, first] : runs)
      dropout_add_forward<T>(input.data<T>() + at, beside.data<T>() + at, y.data<T>() + at, count, p, seed, stream,
                             ex(), first);
    return custom_op(op, {x, residual}, y, [=](const Tensor& grad, Gradients& g) {
      if (g.wanted(0)) {
        const Tensor dx = Tensor::empty(grad.shape(), grad.dtype());
        for (const auto& [at, count, first] : runs)
          dropout_forward<T>(grad.data<T>() + at, dx.data<T>() + at, count, p, seed, stream, ex(), first);
        g.set(0, dx);
      }
      g.set(1, grad);
    });
  });
}

Variable rotary(const Variable& x, int64_t heads, int64_t head_size, const Rotary& options) {
  const char* op = "rotary";
  const ProfileScope profile(op);
  if (x.shape().rank() != 3)
    throw ShapeError("rotary: input " + to_string(x.shape()) + " is not (B, L, heads * head_size)");
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  if (heads < 0 || head_size <= 0 || heads > width / head_size)
    throw ShapeError("rotary: " + std::to_string(heads) + " heads of " + std::to_string(head_size) +
                     " do not fit width " + std::to_string(width));
  Rotary own = options;  // what the caller does to its positions later is no concern of backward
  if (own.positions.defined()) own.positions = own.positions.clone();
  const auto turn = [=](const Tensor& in, bool inverse) {
    const Tensor out = in.clone();
    const Tensor view = out.as_strided({batch, heads, length, head_size}, {out.stride(0), head_size, out.stride(1), 1});
    heed::rotary(view, view, own, inverse);
    return out;
  };
  return custom_op(op, {x}, turn(x.value(), false),
                   [=](const Tensor& grad, Gradients& g) { g.set(0, turn(grad, true)); });
}

namespace {

// A call on the tape always saves lse, and draws its dropout from the generator.
AttentionOptions for_tape(AttentionOptions options) {
  options.want_lse = grad_enabled();
  options.workspace = nullptr;  // backward may come after the caller has let it go
  if (options.dropout > 0) {
    Generator& generator = default_generator();
    options.seed = generator.seed;
    options.stream = generator.next();
  }
  return options;
}

}  // namespace

namespace {

AttentionOptions with_mask(AttentionOptions options, const Variable& learned_mask) {
  if (!learned_mask.defined()) return options;
  if (options.mask.defined()) throw ShapeError("attention: pass either options.mask or learned_mask, not both");
  options.mask = learned_mask.value();
  return options;
}

AttentionOptions with_sinks(AttentionOptions options, const Variable& learned_sinks) {
  if (!learned_sinks.defined()) return options;
  if (options.sinks.defined()) throw ShapeError("attention: pass either options.sinks or learned_sinks, not both");
  options.sinks = learned_sinks.value();
  return options;
}

}  // namespace

Variable scaled_dot_product_attention(const Variable& q, const Variable& k, const Variable& v, AttentionOptions options,
                                      const Variable& learned_mask) {
  const char* op = "attention";
  const ProfileScope profile(op);
  options = with_mask(for_tape(std::move(options)), learned_mask);
  const AttentionResult result = heed::attention(q.value(), k.value(), v.value(), options);
  std::vector<Variable> inputs{q, k, v};
  if (learned_mask.defined()) inputs.push_back(learned_mask);
  return custom_op(op, std::move(inputs), result.out, [=](const Tensor& grad, Gradients& g) {
    const bool want_mask = learned_mask.defined() && g.wanted(3);
    const AttentionGradients d =
        attention_backward(grad, q.value(), k.value(), v.value(), result, options, {.want_mask = want_mask});
    g.set(0, d.q);
    g.set(1, d.k);
    g.set(2, d.v);
    if (want_mask) g.set(3, d.mask);
  });
}

namespace {

// (B, H, L, D) view of the heads packed in x (B, L, width); of a ragged batch (T, H, D) of x (1, T, width).
Tensor heads_view(const Tensor& x, const PackedHeads& h, const char* what, bool ragged) {
  if (x.rank() != 3 || h.offset < 0 || h.heads < 1 || h.size < 1 || h.offset > x.size(2) ||
      h.heads > (x.size(2) - h.offset) / h.size)
    throw ShapeError(std::string("attention: ") + std::to_string(h.heads) + " " + what + " heads of size " +
                     std::to_string(h.size) + " at offset " + std::to_string(h.offset) + " do not fit " +
                     to_string(x.shape()));
  if (ragged) {
    if (x.size(0) != 1)
      throw ShapeError(std::string("attention: with offsets the ") + what + " must be (1, T, width), not " +
                       to_string(x.shape()));
    return x.as_strided({x.size(1), h.heads, h.size}, {x.stride(1), h.size, 1}, h.offset);
  }
  return x.as_strided({x.size(0), h.heads, x.size(1), h.size}, {x.stride(0), h.size, x.stride(1), 1}, h.offset);
}

bool overlap(const PackedHeads& a, const PackedHeads& b) {
  return a.x.same(b.x) && a.offset < b.offset + b.heads * b.size && b.offset < a.offset + a.heads * a.size;
}

}  // namespace

Variable packed_attention(const PackedHeads& q, const PackedHeads& k, const PackedHeads& v, AttentionOptions options,
                          Tensor* weights, const SplitRows* rows, const Variable& learned_mask,
                          const Variable& learned_sinks) {
  const char* op = "attention";
  const ProfileScope profile(op);
  options = with_sinks(with_mask(for_tape(std::move(options)), learned_mask), learned_sinks);
  const Tensor qx = packed(q.x), kx = packed(k.x), vx = packed(v.x);
  const bool ragged = options.q_offsets.defined() || options.k_offsets.defined();
  if (ragged && weights)
    throw ShapeError("attention: packed heads of a ragged batch give no weights; give a padded batch");
  if (rows && weights) throw ShapeError("attention: rows that are split over ranks give no weights; give all of them");
  if (rows && (learned_mask.defined() || learned_sinks.defined()))
    throw ShapeError("attention: rows that are split over ranks take no learned mask or sinks; give all of them");
  const auto view_of = [ragged](const Tensor& x, const PackedHeads& h, const char* what) {
    return heads_view(x, h, what, ragged);
  };
  const Tensor qv = view_of(qx, q, "query"), kv = view_of(kx, k, "key"), vv = view_of(vx, v, "value");
  const int64_t batch = qx.size(0), length = qx.size(1), width = q.heads * v.size;
  const Tensor y = Tensor::empty({batch, length, width}, qx.dtype());
  const PackedHeads out_heads{.x = {}, .offset = 0, .heads = q.heads, .size = v.size};
  AttentionResult result;
  result.out = view_of(y, out_heads, "output");
  for (Tensor* t : {&result.lse, &result.lse_low})
    if (options.want_lse && !rows)
      *t = Tensor::empty(ragged ? Dims{q.heads, length} : Dims{batch, q.heads, length}, qx.dtype());
  if (weights)
    result.weights = *weights = Tensor::empty(options.selection.shape(batch, q.heads, length, kx.size(1)), qx.dtype());
  if (rows) {
    const AttentionResult own = rows->attention.forward(qv, kv, vv, options);
    result.out.copy_from(own.out);
    result.lse = own.lse, result.lse_low = own.lse_low;
  } else {
    heed::attention(qv, kv, vv, result, options);
  }
  result.weights = {};
  const auto other_backward = rows ? rows->attention.backward : nullptr;

  std::vector<Variable> inputs{q.x, k.x, v.x};
  if (learned_mask.defined()) inputs.push_back(learned_mask);
  const size_t sinks_at = inputs.size();
  if (learned_sinks.defined()) inputs.push_back(learned_sinks);
  return custom_op(op, std::move(inputs), y, [=](const Tensor& grad, Gradients& g) {
    // One gradient buffer per distinct input: the parts of one packed projection share it, but for those that overlap.
    const PackedHeads* parts[] = {&q, &k, &v};
    const Tensor* values[] = {&qx, &kx, &vx};
    const bool apart = !overlap(q, k) && !overlap(q, v) && !overlap(k, v);
    const auto share = [&](int a, int b) { return a == b || (apart && parts[a]->x.same(parts[b]->x)); };
    Tensor buffer[3], view[3];
    for (int i = 0; i < 3; ++i) {
      int owner = 0;
      while (!share(owner, i)) ++owner;
      if (owner == i) {
        int64_t used = 0;
        for (int part = 0; part < 3; ++part)
          if (share(part, i)) used += parts[part]->heads * parts[part]->size;
        const Tensor& like = *values[i];
        buffer[i] = used == like.size(2) ? Tensor::empty(like.shape(), like.dtype())
                                         : Tensor::zeros(like.shape(), like.dtype());
      }
      view[i] = view_of(buffer[owner], *parts[i], "gradient");
    }
    const Tensor of_out = view_of(grad, out_heads, "output");
    if (other_backward) {
      const AttentionGradients own = other_backward(of_out, qv, kv, vv, result, options);
      view[0].copy_from(own.q), view[1].copy_from(own.k), view[2].copy_from(own.v);
    } else {
      const bool want_mask = learned_mask.defined() && g.wanted(3);
      const Tensor dmask = want_mask ? Tensor::empty(learned_mask.shape(), learned_mask.dtype()) : Tensor();
      const bool want_sinks = learned_sinks.defined() && g.wanted(sinks_at);
      const Tensor dsinks = want_sinks ? Tensor::empty(learned_sinks.shape(), learned_sinks.dtype()) : Tensor();
      attention_backward(of_out, qv, kv, vv, result,
                         AttentionGradients{.q = view[0], .k = view[1], .v = view[2], .mask = dmask, .sinks = dsinks},
                         options);
      if (want_mask) g.set(3, dmask);
      if (want_sinks) g.set(sinks_at, dsinks);
    }
    for (size_t i = 0; i < 3; ++i)
      if (buffer[i].defined()) g.set(i, buffer[i]);
  });
}

namespace {

// The bucket of each distance key - query, from that of the last query to the first key on.
std::vector<int64_t> distance_buckets(int64_t buckets, int64_t first_query, int64_t queries, int64_t keys,
                                      bool both_ways, int64_t max_distance) {
  const int64_t of_one_way = both_ways ? buckets / 2 : buckets, exact = of_one_way / 2;
  if (buckets < 2 || exact < 1 || (both_ways && buckets % 2) || max_distance <= exact)
    throw ShapeError("relative_position_bias: " + std::to_string(buckets) + " buckets up to distance " +
                     std::to_string(max_distance) +
                     "; pass an even number, 4 or more for both ways, and a distance beyond the single ones");
  std::vector<int64_t> all;
  // In float32 and in this order, as models were trained: 64 of 128 is where a bucket begins, and rounding decides.
  const auto whole = static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  const auto logarithmic = static_cast<float>(of_one_way - exact);
  for (int64_t distance = -(first_query + queries - 1); distance < keys - first_query; ++distance) {
    const int64_t behind = both_ways && distance > 0 ? of_one_way : 0;
    const int64_t far = both_ways ? std::abs(distance) : std::max<int64_t>(-distance, 0);
    int64_t bucket = far;
    if (far >= exact)
      bucket = std::min(of_one_way - 1,
                        exact + static_cast<int64_t>(std::log(static_cast<float>(far) / static_cast<float>(exact)) /
                                                     whole * logarithmic));
    all.push_back(behind + bucket);
  }
  return all;
}

}  // namespace

Variable relative_position_bias(const Variable& weight, int64_t queries, int64_t keys, bool both_ways,
                                int64_t max_distance, int64_t first_query) {
  const char* op = "relative_position_bias";
  const ProfileScope profile(op);
  if (weight.shape().rank() != 2)
    throw ShapeError("relative_position_bias: weight is " + to_string(weight.shape()) + "; pass (buckets, heads)");
  if (is_narrow(op, weight))
    return relative_position_bias(Variable(weight.value().to(DType::f32)), queries, keys, both_ways, max_distance,
                                  first_query);
  const int64_t heads = weight.size(1);
  const std::vector<int64_t> of_distance =
      distance_buckets(weight.size(0), first_query, queries, keys, both_ways, max_distance);
  return dispatch(op, weight.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Tensor table = packed(weight), y = Tensor::empty({1, heads, queries, keys}, weight.dtype());
    // Of query i and key j: of_distance[(queries - 1 - i) + j].
    parallel_for(ex(), heads, [&](int64_t h) {
      T* to = y.data<T>() + h * queries * keys;
      for (int64_t i = 0; i < queries; ++i)
        for (int64_t j = 0; j < keys; ++j)
          *to++ = table.data<T>()[of_distance[static_cast<size_t>(queries - 1 - i + j)] * heads + h];
    });
    return custom_op(op, {weight}, y, [=](const Tensor& grad, Gradients& g) {
      T* const sums = accumulator<T>(g, weight, 0);
      if (!sums) return;
      parallel_for(ex(), heads, [&](int64_t h) {
        const T* from = grad.data<T>() + h * queries * keys;
        for (int64_t i = 0; i < queries; ++i)
          for (int64_t j = 0; j < keys; ++j)
            sums[of_distance[static_cast<size_t>(queries - 1 - i + j)] * heads + h] += *from++;
      });
    });
  });
}

namespace {

void check_targets(const char* op, const Variable& x, const Tensor& targets) {
  if (x.shape().rank() < 1 || targets.numel() != rows_of(x.value()))
    throw ShapeError(std::string(op) + ": targets " + to_string(targets.shape()) + " do not match the rows of " +
                     to_string(x.shape()));
}

void check_smoothing(const char* op, double smoothing) {
  if (!(smoothing >= 0 && smoothing <= 1))
    throw ShapeError(std::string(op) + ": label_smoothing " + std::to_string(smoothing) + " is not in [0, 1]");
}

void check_no_r_drop(const char* op, const CrossEntropyOptions& options) {
  if (options.r_drop != 0)
    throw ShapeError(std::string(op) + ": r_drop is " + std::to_string(options.r_drop) +
                     "; only linear_cross_entropy has it");
}

void check_twins(const char* op, const Tensor& targets, double r_drop) {
  if (!(r_drop >= 0) || !std::isfinite(r_drop))
    throw ShapeError(std::string(op) + ": r_drop " + std::to_string(r_drop) + " is not a number from 0");
  if (r_drop == 0) return;
  const std::span<const int32_t> ids = targets.span<int32_t>();
  const size_t half = ids.size() / 2;
  if (ids.size() % 2 != 0 ||
      !std::equal(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(half), ids.begin() + static_cast<ptrdiff_t>(half)))
    throw ShapeError(std::string(op) + ": with r_drop the second half of the targets " + to_string(targets.shape()) +
                     " must equal the first; give each row twice");
}

// What the fused kernels of the loss compute.
bool is_plain_mean(const CrossEntropyOptions& options) {
  return !options.weight.defined() && options.reduction == Reduction::mean;
}

double mean_of(const LossSum& sum, LossParts* parts) {
  if (parts) *parts = {sum.loss, sum.nll, sum.count};
  return sum.count ? sum.loss / static_cast<double>(sum.count) : 0;
}

int64_t counted(const Tensor& targets, int32_t ignore_index) {
  int64_t count = 0;
  for (const int32_t id : targets.span<int32_t>()) count += id != ignore_index;
  return count;
}

}  // namespace

Variable cross_entropy(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options,
                       LossParts* parts) {
  const char* op = "cross_entropy";
  check_no_r_drop(op, options);
  if (!is_plain_mean(options)) {
    if (parts) throw ShapeError("cross_entropy: parts are those of a mean without weights");
    return nll_loss(log_softmax(logits), targets, options);
  }
  const ProfileScope profile(op);
  check_targets(op, logits, targets);
  check_smoothing(op, options.label_smoothing);
  const int64_t vocabulary = last_dim(op, logits);
  const Tensor index = checked_ids(op, targets, vocabulary, options.ignore_index);
  return dispatch(op, logits.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Tensor input = packed(logits);
    const int64_t rows = rows_of(input);
    const auto log_sums = std::make_shared<std::vector<RowLogSum<T>>>(static_cast<size_t>(rows));
    const LossSum sum = cross_entropy_forward<T>(input.data<T>(), index.data<int32_t>(), options.ignore_index,
                                                 options.label_smoothing, log_sums->data(), rows, vocabulary, ex());
    const double mean = mean_of(sum, parts);
    return custom_op(op, {logits}, Tensor::full({}, mean, input.dtype()), [=](const Tensor& grad, Gradients& g) {
      const Tensor d = Tensor::empty(input.shape(), input.dtype());
      const double factor = sum.count ? grad.item() / static_cast<double>(sum.count) : 0;
      cross_entropy_backward<T>(input.data<T>(), index.data<int32_t>(), options.ignore_index, options.label_smoothing,
                                log_sums->data(), static_cast<T>(factor), d.data<T>(), rows, vocabulary, ex());
      g.set(0, d);
    });
  });
}

Variable nll_loss(const Variable& log_probabilities, const Tensor& targets, const CrossEntropyOptions& options) {
  const char* op = "nll_loss";
  const ProfileScope profile(op);
  check_targets(op, log_probabilities, targets);
  check_smoothing(op, options.label_smoothing);
  check_no_r_drop(op, options);
  const int64_t vocabulary = last_dim(op, log_probabilities);
  const Variable weight = options.weight.defined() ? Variable(options.weight) : Variable();
  check_vector(op, "weight", weight, log_probabilities, vocabulary);
  const Tensor index = checked_ids(op, targets, vocabulary, options.ignore_index);
  return dispatch(op, log_probabilities.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Tensor input = packed(log_probabilities);
    const Tensor factors = options.weight.defined() ? options.weight.contiguous() : Tensor();
    const T* const each = factors.defined() ? factors.data<T>() : nullptr;
    const int64_t rows = rows_of(input);
    const Tensor losses = Tensor::empty(targets.shape(), input.dtype());
    const double counted = nll_forward<T>(input.data<T>(), index.data<int32_t>(), each, options.ignore_index,
                                          options.label_smoothing, losses.data<T>(), rows, vocabulary, ex());
    const bool none = options.reduction == Reduction::none;
    const double factor = options.reduction != Reduction::mean ? 1 : counted == 0 ? 0 : 1 / counted;
    Tensor y = losses;
    if (!none) {
      double total = 0;
      for (const T loss : losses.span<T>()) total += static_cast<double>(loss);
      y = Tensor::full({}, total * factor, input.dtype());
    }
    return custom_op(op, {log_probabilities}, y,
                     [=, ignore_index = options.ignore_index, smoothing = options.label_smoothing](const Tensor& grad,
                                                                                                   Gradients& g) {
                       const Tensor d = Tensor::empty(input.shape(), input.dtype());
                       const Tensor dlosses = none ? grad : Tensor::full({}, grad.item() * factor, input.dtype());
                       nll_backward<T>(dlosses.data<T>(), none ? 1 : 0, index.data<int32_t>(),
                                       factors.defined() ? factors.data<T>() : nullptr, ignore_index, smoothing,
                                       d.data<T>(), rows, vocabulary, ex());
                       g.set(0, d);
                     });
  });
}

Variable linear_cross_entropy(const Variable& x, const Variable& weight, const Variable& bias, const Tensor& targets,
                              const CrossEntropyOptions& options, LossParts* parts) {
  const char* op = "linear_cross_entropy";
  const ProfileScope profile(op);
  if (!is_plain_mean(options))
    throw ShapeError(
        "linear_cross_entropy: gives a mean without weights of classes; use cross_entropy(linear(...)) for the rest");
  check_same_dtype(op, x, weight);
  check_targets(op, x, targets);
  check_smoothing(op, options.label_smoothing);
  const int64_t in = last_dim(op, x);
  if (weight.shape().rank() != 2 || weight.size(1) != in)
    throw ShapeError("linear_cross_entropy: input " + to_string(x.shape()) + " does not fit weight " +
                     to_string(weight.shape()));
  const int64_t vocabulary = weight.size(0);
  check_vector(op, "bias", bias, x, vocabulary);
  const Tensor index = checked_ids(op, targets, vocabulary, options.ignore_index);
  check_twins(op, index, options.r_drop);
  return dispatch(op, x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Tensor input = packed(x);
    const int64_t rows = rows_of(input), count = counted(index, options.ignore_index);
    // The gradients of the mean are made in the pass that has the logits at hand; backward only scales them.
    const auto buffer = [&](const Variable& v, bool zero) {
      if (!grad_enabled() || !v.requires_grad()) return Tensor();
      return zero ? Tensor::zeros(v.shape(), v.dtype()) : Tensor::empty(v.shape(), v.dtype());
    };
    const Tensor dx = buffer(x, false), dw = buffer(weight, true), db = buffer(bias, true);
    const auto pointer = [](const Tensor& t) { return t.defined() ? t.data<T>() : nullptr; };
    const LossSum sum = linear_cross_entropy<T>(
        input.data<T>(), weight.value().data<T>(), data_or_null<T>(bias), index.data<int32_t>(), options.ignore_index,
        options.label_smoothing, options.r_drop, pointer(dx), pointer(dw), pointer(db),
        static_cast<T>(count ? 1.0 / static_cast<double>(count) : 0), rows, in, vocabulary, ex());
    const double mean = mean_of(sum, parts);
    std::vector<Variable> inputs{x, weight};
    if (bias.defined()) inputs.push_back(bias);
    return custom_op(op, std::move(inputs), Tensor::full({}, mean, input.dtype()),
                     [=](const Tensor& grad, Gradients& g) {
                       const Tensor* made[] = {&dx, &dw, &db};
                       const T factor = static_cast<T>(grad.item());
                       for (size_t i = 0; i < 3; ++i) {
                         if (!made[i]->defined()) continue;
                         T* d = made[i]->data<T>();
                         if (factor != T{1}) heed::scale<T>(d, factor, d, made[i]->numel(), ex());
                         g.set(i, *made[i]);
                       }
                     });
  });
}

}  // namespace heed::inline v0::functional
