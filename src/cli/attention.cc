// heed attention: the operator on npy files.
#include "heed/attention.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heed/io.h"

namespace heed::cli {
namespace {

struct Options {
  std::string q, k, v, mask, key_lengths, grad_out;                  // read
  std::string out, weights, lse, grad_q, grad_k, grad_v, grad_mask;  // written
  std::string causal;
  std::optional<double> scale;
  double dropout = 0;
  uint64_t seed = 0;
  bool reference = false;
};

template <class T>
int64_t count_nan(std::span<const T> values) {
  int64_t count = 0;
  for (const T value : values) {
    if constexpr (std::is_same_v<T, float16>)
      count += std::isnan(to_float(value));
    else
      count += std::isnan(value);
  }
  return count;
}

int64_t count_nan(const Tensor& t) {
  switch (t.dtype()) {
    case DType::f16:
      return count_nan<float16>(t.span<float16>());
    case DType::f32:
      return count_nan<float>(t.span<float>());
    case DType::f64:
      return count_nan<double>(t.span<double>());
    default:
      return 0;
  }
}

/// Loads an array; a line on standard error where its order was lost or it has NaN.
Tensor load(const std::string& path) {
  const NpyArray array = load_npy(path);
  if (array.was_fortran)
    std::cerr << "heed attention: " << path << " is in Fortran order; it was read into row-major order\n";
  if (const int64_t count = count_nan(array.tensor))
    std::cerr << "heed attention: " << path << " has " << count
              << " NaN; a row of the result is NaN where it attends to one\n";
  return array.tensor;
}

/// (L, D), (H, L, D) or (B, H, L, D) -> (B, H, L, D); `like` is q, whose rank and dtype all share.
Tensor to_four(const Tensor& t, const char* name, const Tensor& like) {
  const auto refuse = [&](const std::string& reason) {
    throw ShapeError(std::string("attention: ") + name + " has " + reason);
  };
  if (t.rank() < 2 || t.rank() > 4)
    refuse("shape " + to_string(t.shape()) + "; pass (L, D), (H, L, D) or (B, H, L, D)");
  if (t.dtype() != DType::f32 && t.dtype() != DType::f64 && t.dtype() != DType::f16)
    refuse(std::string("dtype ") + name_of(t.dtype()) + "; convert to float16, float32 or float64");
  if (t.dtype() != like.dtype())
    refuse(std::string("dtype ") + name_of(t.dtype()) + " and q has " + name_of(like.dtype()) +
           "; convert one of them");
  if (t.rank() != like.rank())
    refuse("shape " + to_string(t.shape()) + " and q has " + to_string(like.shape()) +
           "; pass the same number of dimensions");
  Dims shape;
  for (int d = t.rank(); d < 4; ++d) shape.push_back(1);
  for (const int64_t size : t.shape()) shape.push_back(size);
  return t.reshape(shape).to(t.dtype() == DType::f16 ? DType::f32 : t.dtype());
}

Tensor load_mask(const std::string& path, const Tensor& q) {
  const Tensor mask = load(path);
  if (mask.dtype() == DType::boolean) return mask;
  if (mask.dtype() != q.dtype())
    throw ShapeError(std::string("attention: the mask is ") + name_of(mask.dtype()) +
                     "; save it as bool (true = may be attended) or as " + name_of(q.dtype()) +
                     " like q (added to the score)");
  return mask.to(mask.dtype() == DType::f16 ? DType::f32 : mask.dtype());
}

/// Drops the leading dimensions that `rank` of q has not.
Tensor with_rank(const Tensor& t, int rank) { return t.reshape(Dims(t.shape().begin() + (4 - rank), t.shape().end())); }

void append_number(std::string& text, double value, DType dtype) {  // the shortest that reads back
  char digits[32];
  const auto result = dtype == DType::f64
                          ? std::to_chars(std::begin(digits), std::end(digits), value)
                          : std::to_chars(std::begin(digits), std::end(digits), static_cast<float>(value));
  text.append(digits, result.ptr);
}

/// One line a row, an empty line between matrices.
void print(const Tensor& out) {
  const Tensor values = out.to(out.dtype() == DType::f64 ? DType::f64 : DType::f32);
  const int64_t columns = out.size(-1), rows = out.size(-2);
  const int64_t lines = columns == 0 ? 0 : out.numel() / columns;
  std::string text;
  for (int64_t line = 0; line < lines; ++line) {
    if (line > 0 && line % rows == 0) text += '\n';
    for (int64_t c = 0; c < columns; ++c) {
      if (c > 0) text += ' ';
      const int64_t at = line * columns + c;
      append_number(text, out.dtype() == DType::f64 ? values.data<double>()[at] : values.data<float>()[at],
                    out.dtype());
    }
    text += '\n';
  }
  constexpr int64_t kLarge = 1000;
  if (out.numel() > kLarge)
    std::cerr << "heed attention: prints " << out.numel() << " numbers; --out FILE.npy writes them to a file\n";
  std::cout << text << std::flush;
  if (!std::cout) throw IoError("write to standard output failed");
}

void run(const Options& o) {
  const Tensor q_file = load(o.q);
  const Tensor q = to_four(q_file, "q", q_file);
  const Tensor k = to_four(load(o.k), "k", q_file);
  const Tensor v = to_four(load(o.v), "v", q_file);
  const int rank = q_file.rank();
  const DType dtype = q_file.dtype();

  AttentionOptions options;
  if (!o.causal.empty()) options.causal = o.causal == "top-left" ? Causal::top_left : Causal::bottom_right;
  options.scale = o.scale;
  if (!o.mask.empty()) options.mask = load_mask(o.mask, q_file);
  if (!o.key_lengths.empty()) {
    const Tensor lengths = load(o.key_lengths);
    options.key_lengths = lengths.rank() == 0 ? lengths.reshape({1}) : lengths;
  }
  options.dropout = o.dropout;
  options.seed = o.seed;
  options.want_weights = !o.weights.empty();
  options.want_lse = !o.lse.empty() || !o.grad_out.empty();
  if (o.reference) options.implementation = Implementation::reference;
  if (!o.grad_mask.empty() && options.mask.dtype() == DType::boolean)
    throw ShapeError("attention: --grad-mask with a boolean mask, which has no gradient; pass an additive mask");
  Tensor grad_out;  // (B, Hq, Lq, Dv)
  if (!o.grad_out.empty()) grad_out = to_four(load(o.grad_out), "grad-out", q_file);

  // Everything is computed before the first file is written.
  const AttentionResult result = attention(q, k, v, options);
  std::vector<std::pair<std::string, Tensor>> files;
  const auto add = [&](const std::string& path, const Tensor& t) {
    if (!path.empty()) files.emplace_back(path, t);
  };
  const Tensor out = with_rank(result.out, rank).to(dtype);
  add(o.out, out);
  if (options.want_weights) add(o.weights, with_rank(result.weights, rank).to(dtype));
  if (options.want_lse)
    add(o.lse, result.lse.reshape(Dims(result.lse.shape().begin() + (4 - rank), result.lse.shape().end())));
  if (grad_out.defined()) {
    const AttentionGradients gradients = attention_backward(grad_out, q, k, v, result, options, !o.grad_mask.empty());
    add(o.grad_q, with_rank(gradients.q, rank).to(dtype));
    add(o.grad_k, with_rank(gradients.k, rank).to(dtype));
    add(o.grad_v, with_rank(gradients.v, rank).to(dtype));
    if (!o.grad_mask.empty()) add(o.grad_mask, gradients.mask.to(dtype));
  }
  for (const auto& [path, t] : files) save_npy(path, t);
  if (files.empty()) print(out);
}

}  // namespace

void add_attention(CLI::App& program) {
  const auto o = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("attention", "softmax(scale * Q K^T + mask) V on npy files");
  command->description(
      "Computes softmax(scale * Q K^T + mask) V, and its gradients, on npy files of shape (L, D), (H, L, D) or\n"
      "(B, H, L, D) in float16, float32 or float64. float16 is computed in float32; outputs have q's dtype and number\n"
      "of dimensions. Without an output option the result is printed, one line a row.");
  const auto file = [&](const char* name, std::string& path, const char* help) {
    return command->add_option(name, path, help)->type_name("FILE");
  };
  file("--q", o->q, "Queries")->required();
  file("--k", o->k, "Keys; their heads divide those of q")->required();
  file("--v", o->v, "Values")->required();
  CLI::Option* mask = file("--mask", o->mask,
                           "1 to 4 dimensions that broadcast to (B, H, Lq, Lk) from the right. Boolean: true may be "
                           "attended. Floating: added to the score");
  command
      ->add_option("--causal", o->causal,
                   "top-left: query i sees keys j <= i. bottom-right: keys j <= i + Lk - Lq (each entry's own key "
                   "length instead of Lk with --key-lengths)")
      ->check(CLI::IsMember({"top-left", "bottom-right"}));
  command->add_option("--scale", o->scale, "Factor on the products; 1/sqrt(D) when absent");
  file("--key-lengths", o->key_lengths, "(B) int32 or int64: keys at or past it are hidden");
  command->add_option("--dropout", o->dropout, "Probability of dropping a weight, in [0, 1)")->capture_default_str();
  command->add_option("--seed", o->seed, "Seed of the dropout")->capture_default_str();
  file("--out", o->out, "Write the result, (..., Lq, Dv)");
  file("--weights", o->weights, "Write the softmax, (..., Lq, Lk)");
  file("--lse", o->lse, "Write the log of the sum of exp of each row's scores, (..., Lq); float32 for float16");
  CLI::Option* grad_out = file("--grad-out", o->grad_out, "Gradient of the result, shaped like it");
  file("--grad-q", o->grad_q, "Write the gradient of q")->needs(grad_out);
  file("--grad-k", o->grad_k, "Write the gradient of k")->needs(grad_out);
  file("--grad-v", o->grad_v, "Write the gradient of v")->needs(grad_out);
  file("--grad-mask", o->grad_mask, "Write the gradient of an additive mask")->needs(grad_out)->needs(mask);
  command->add_flag("--reference", o->reference, "Use the reference implementation: plain formula, double sums");
  command->footer(
      "Example:\n  heed attention --q q.npy --k k.npy --v v.npy --causal bottom-right --out o.npy --lse l.npy");
  command->callback([o] { run(*o); });
}

}  // namespace heed::cli
