// heed attention: the operator on npy files.
#include "heed/attention.h"

#include <charconv>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/attention_layout.h"
#include "cli/commands.h"
#include "cli/paths.h"
#include "heed/io.h"

namespace heed::cli {
namespace {

struct Options {
  std::string q, k, v, past_key, past_value, mask, alibi, sinks, key_lengths, q_offsets, k_offsets;
  std::string out, present_key, present_value, weights, lse, scores;
  std::string grad_out, grad_lse;
  std::string grad_q, grad_k, grad_v, grad_past_key, grad_past_value, grad_mask, grad_sinks;
  int64_t q_heads = 0, kv_heads = 0;
  std::string causal, window, storage;
  std::optional<int64_t> causal_offset;
  std::optional<double> scale;
  double softcap = 0, dropout = 0;
  uint64_t seed = 0;
  int qk_output = 0;
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
  if (array.was_fortran) warn("attention", path + " is in Fortran order; it was read into row-major order");
  if (const int64_t count = count_nan(array.tensor))
    warn("attention",
         path + " has " + std::to_string(count) + " NaN; a row of the result is NaN where it attends to one");
  return array.tensor;
}

Tensor load_if(const std::string& path) { return path.empty() ? Tensor() : load(path); }

/// What joins the scores, not the products: q's dtype, or the one that q's is computed in.
Tensor load_beside(const std::string& path, const std::string& name, DType q, DType compute) {
  if (path.empty()) return {};
  const Tensor t = load(path);
  if (t.dtype() != q && t.dtype() != compute)
    throw ShapeError("attention: " + name + " is " + name_of(t.dtype()) + "; save it as " + name_of(q) + " like q");
  return t.to(compute);
}

Tensor load_mask(const std::string& path, DType q, DType compute) {
  if (path.empty()) return {};
  const Tensor mask = load(path);
  if (mask.rank() < 1 || mask.rank() > 4)
    throw ShapeError("attention: the mask has shape " + to_string(mask.shape()) +
                     "; pass 1 to 4 dimensions that broadcast to (B, Hq, Lq, Lk) from the right");
  if (mask.dtype() == DType::boolean) return mask;
  if (mask.dtype() != q && mask.dtype() != compute)
    throw ShapeError(std::string("attention: the mask is ") + name_of(mask.dtype()) +
                     "; save it as bool (true = may be attended) or as " + name_of(q) + " like q (added to the score)");
  return mask.to(compute);
}

/// One value a dimension that the library wants; a file of rank 0 stands for one entry.
Tensor load_indices(const std::string& path) {
  const Tensor t = load_if(path);
  return t.defined() && t.rank() == 0 ? t.reshape({1}) : t;
}

/// past (B, Hkv, P, .) and `fresh` (B, Hkv, L, .) -> (B, Hkv, P + L, .).
Tensor concatenate(const Tensor& past, const Tensor& fresh, const std::string& name, const std::string& fresh_name) {
  const auto refuse = [&](const std::string& reason) { throw ShapeError("attention: " + name + " " + reason); };
  if (past.dtype() != fresh.dtype())
    refuse(std::string("is ") + name_of(past.dtype()) + " and " + fresh_name + " is " + name_of(fresh.dtype()) +
           "; convert one of them");
  Dims wanted = fresh.shape();
  if (past.rank() == 4) wanted[2] = past.size(2);
  if (!(past.shape() == wanted))
    refuse("has shape " + to_string(past.shape()) + " and " + fresh_name +
           " is (B, Hkv, L, .) = " + to_string(fresh.shape()) + "; pass (B, Hkv, P, .) that differs in P alone");
  Dims shape = fresh.shape();
  shape[2] += past.size(2);
  const Tensor all = Tensor::empty(shape, fresh.dtype());
  all.slice(2, 0, past.size(2)).copy_from(past);
  all.slice(2, past.size(2), shape[2]).copy_from(fresh);
  return all;
}

/// "L,R", each -1 (unlimited) or more.
Window parse_window(const std::string& text) {
  Window window;
  const char* const end = text.data() + text.size();
  const auto left = std::from_chars(text.data(), end, window.left);
  const bool comma = left.ec == std::errc() && left.ptr != end && *left.ptr == ',';
  const auto right = comma ? std::from_chars(left.ptr + 1, end, window.right) : left;
  if (!comma || right.ec != std::errc() || right.ptr != end || window.left < -1 || window.right < -1)
    throw ShapeError("attention: --window " + text + "; pass L,R, the keys seen before and after, -1 for all");
  return window;
}

void check_combination(const Options& o) {
  const auto refuse = [](const std::string& reason) { throw ShapeError("attention: " + reason); };
  if (!o.causal.empty() && o.causal_offset)
    refuse("--causal " + o.causal + " with --causal-offset " + std::to_string(*o.causal_offset) +
           "; each says which key query 0 stands at, pass one of them");
  if (!o.past_key.empty() && !o.key_lengths.empty())
    refuse("--key-lengths with --past-key, which has one length for all; put past and new keys into one file");
  if (o.q_offsets.empty()) return;
  for (const auto& [flag, given] : {std::pair("--past-key", !o.past_key.empty()),
                                    {"--present-key", !o.present_key.empty()},
                                    {"--present-value", !o.present_value.empty()},
                                    {"--key-lengths", !o.key_lengths.empty()},
                                    {"--mask", !o.mask.empty()},
                                    {"--q-heads", o.q_heads > 0}})
    if (given)
      refuse(std::string(flag) + " with --q-offsets, whose entries have their own lengths; pad them to (B, H, L, D)");
}

/// No file that is written is another one, or one that is read: results would be lost, or what made them.
void check_files(const Options& o) {
  using Named = std::pair<const char*, const std::string*>;
  const Named written[] = {{"--out", &o.out},
                           {"--present-key", &o.present_key},
                           {"--present-value", &o.present_value},
                           {"--weights", &o.weights},
                           {"--lse", &o.lse},
                           {"--scores", &o.scores},
                           {"--grad-q", &o.grad_q},
                           {"--grad-k", &o.grad_k},
                           {"--grad-v", &o.grad_v},
                           {"--grad-past-key", &o.grad_past_key},
                           {"--grad-past-value", &o.grad_past_value},
                           {"--grad-mask", &o.grad_mask},
                           {"--grad-sinks", &o.grad_sinks}};
  const Named read[] = {{"--q", &o.q},
                        {"--k", &o.k},
                        {"--v", &o.v},
                        {"--past-key", &o.past_key},
                        {"--past-value", &o.past_value},
                        {"--mask", &o.mask},
                        {"--alibi", &o.alibi},
                        {"--sinks", &o.sinks},
                        {"--key-lengths", &o.key_lengths},
                        {"--q-offsets", &o.q_offsets},
                        {"--k-offsets", &o.k_offsets},
                        {"--grad-out", &o.grad_out},
                        {"--grad-lse", &o.grad_lse}};
  const auto check = [](const Named& output, const Named& other, const char* reason) {
    if (output.second->empty() || other.second->empty() || !same_file(*output.second, *other.second)) return;
    throw ShapeError(std::string("attention: ") + output.first + " " + *output.second + " and " + other.first + " " +
                     *other.second + " are one file" + reason);
  };
  for (const Named& output : written) {
    expect_ending(output.first, *output.second, ".npy");
    for (const Named& input : read) check(output, input, ", which is read; write to another");
    for (const Named& other : written) {
      if (other.first == output.first) break;
      check(output, other, "; give each result a file of its own");
    }
  }
}

DType storage_of(const std::string& name, DType file) {
  if (file == DType::f64) {
    if (!name.empty())
      throw ShapeError("attention: --storage " + name + " of float64 files, which are computed in float64; convert " +
                       "them to float32");
    return file;
  }
  return name == "f16" ? DType::f16 : name == "bf16" ? DType::bf16 : DType::f32;
}

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
    warn("attention", "prints " + std::to_string(out.numel()) + " numbers; --out FILE.npy writes them to a file");
  std::cout << text;
}

AttentionResult forward(const AttentionLayout& layout, const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionOptions& options) {
  if (!layout.packed()) return attention(q, k, v, options);
  const Dims scores{q.size(0), q.size(1), q.size(2), k.size(2)};
  AttentionResult into;
  into.out = layout.empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.dtype());
  const DType compute = q.dtype() == DType::f64 ? DType::f64 : DType::f32;
  for (Tensor* t : {&into.lse, &into.lse_low})
    if (options.want_lse) *t = Tensor::empty({q.size(0), q.size(1), q.size(2)}, compute);
  if (options.want_weights) into.weights = Tensor::empty(scores, compute);
  if (options.want_scores) into.scores = Tensor::empty(scores, compute);
  attention(q, k, v, into, options);
  return into;
}

/// Files that are written once everything has been computed.
class Outputs {
 public:
  explicit Outputs(DType dtype) : dtype_(dtype) {}
  void add(const std::string& path, const Tensor& t) { add_as(path, t, dtype_); }
  void add_as(const std::string& path, const Tensor& t, DType dtype) {
    if (!path.empty()) files_.emplace_back(path, t.to(dtype));
  }
  bool empty() const { return files_.empty(); }
  void write() const {
    for (const auto& [path, t] : files_) save_npy(path, t);
  }

 private:
  DType dtype_;  // q's
  std::vector<std::pair<std::string, Tensor>> files_;
};

void run(const CLI::App& command, const Options& o) {
  check_combination(o);
  if (o.dropout == 0 && !command.get_option("--seed")->empty())
    warn("attention", "--seed has no effect without --dropout");
  check_files(o);
  const Tensor q_file = load(o.q);
  const AttentionLayout layout(q_file, o.q_heads, o.kv_heads, !o.q_offsets.empty());
  const DType dtype = q_file.dtype(), compute = dtype == DType::f64 ? DType::f64 : DType::f32;
  const DType storage = storage_of(o.storage, dtype);

  AttentionOptions options;
  if (!o.causal.empty()) options.causal = o.causal == "bottom-right" ? Causal::bottom_right : Causal::top_left;
  if (o.causal_offset) options.causal = Causal::top_left;
  if (!o.window.empty()) options.window = parse_window(o.window);
  options.scale = o.scale;
  options.softcap = o.softcap;
  options.mask = load_mask(o.mask, dtype, compute);
  options.alibi = load_beside(o.alibi, "--alibi", dtype, compute);
  options.sinks = load_beside(o.sinks, "--sinks", dtype, compute);
  options.key_lengths = load_indices(o.key_lengths);
  options.q_offsets = load_indices(o.q_offsets);
  options.k_offsets = load_indices(o.k_offsets);
  options.dropout = o.dropout;
  options.seed = o.seed;
  options.want_weights = !o.weights.empty();
  options.want_lse = !o.lse.empty() || !o.grad_out.empty();
  if (!o.scores.empty()) options.want_scores = static_cast<ScoreStage>(o.qk_output);
  if (o.reference) options.implementation = Implementation::reference;
  if (!o.grad_mask.empty() && options.mask.dtype() == DType::boolean)
    throw ShapeError("attention: --grad-mask with a boolean mask, which has no gradient; pass an additive mask");

  Tensor keys = layout.keys(load(o.k), "k"), values = layout.keys(load(o.v), "v");
  if (keys.dtype() != values.dtype())
    throw ShapeError(std::string("attention: v is ") + name_of(values.dtype()) + " and k is " + name_of(keys.dtype()) +
                     "; convert one of them");
  const DType keys_dtype = keys.dtype(), keys_storage = o.storage.empty() && keys_dtype != dtype ? keys_dtype : storage;
  int64_t past = 0;
  if (!o.past_key.empty()) {
    const Tensor past_key = load(o.past_key), past_value = load(o.past_value);
    keys = concatenate(past_key, keys, "--past-key", "k");
    values = concatenate(past_value, values, "--past-value", "v");
    past = past_key.size(2);
  }
  if (options.causal != Causal::bottom_right) options.offset = o.causal_offset.value_or(past);
  const Tensor q = layout.queries(q_file, "q").to(storage), k = keys.to(keys_storage), v = values.to(keys_storage);
  Tensor grad_out;
  if (!o.grad_out.empty()) grad_out = layout.queries(load(o.grad_out), "--grad-out").to(storage);
  BackwardOptions backward;
  if (!o.grad_lse.empty())
    backward.grad_lse = layout.rows_from_file(load_beside(o.grad_lse, "--grad-lse", dtype, compute));

  // Everything is computed before the first file is written.
  const AttentionResult result = forward(layout, q, k, v, options);
  Outputs outputs(dtype);
  const Tensor out = layout.to_file(result.out).to(dtype);
  outputs.add(o.out, out);
  outputs.add_as(o.present_key, keys.contiguous(), keys_dtype);
  outputs.add_as(o.present_value, values.contiguous(), keys_dtype);
  if (options.want_weights) outputs.add(o.weights, layout.rows_to_file(result.weights));
  if (options.want_scores) outputs.add(o.scores, layout.rows_to_file(result.scores));
  if (options.want_lse) outputs.add_as(o.lse, layout.rows_to_file(result.lse), compute);
  if (grad_out.defined()) {
    AttentionGradients gradients;
    gradients.q = layout.empty(q.shape(), storage);
    gradients.k = layout.empty(k.shape(), keys_storage);
    gradients.v = layout.empty(v.shape(), keys_storage);
    if (!o.grad_mask.empty()) gradients.mask = Tensor::empty(options.mask.shape(), compute);
    if (!o.grad_sinks.empty()) gradients.sinks = Tensor::empty(options.sinks.shape(), compute);
    attention_backward(grad_out, q, k, v, result, gradients, options, backward);
    const auto fresh = [&](const Tensor& t) { return past > 0 ? t.slice(2, past, t.size(2)) : t; };
    outputs.add(o.grad_q, layout.to_file(gradients.q));
    const auto add_of_keys = [&](const std::string& path, const Tensor& t) { outputs.add_as(path, t, keys_dtype); };
    add_of_keys(o.grad_k, layout.to_file(fresh(gradients.k)));
    add_of_keys(o.grad_v, layout.to_file(fresh(gradients.v)));
    if (!o.grad_past_key.empty()) add_of_keys(o.grad_past_key, gradients.k.slice(2, 0, past).contiguous());
    if (!o.grad_past_value.empty()) add_of_keys(o.grad_past_value, gradients.v.slice(2, 0, past).contiguous());
    if (!o.grad_mask.empty()) outputs.add(o.grad_mask, gradients.mask);
    if (!o.grad_sinks.empty()) outputs.add(o.grad_sinks, gradients.sinks);
  }
  outputs.write();
  if (outputs.empty()) print(out);
}

CLI::Option* file(CLI::App* command, const char* name, std::string& path, const char* help) {
  return command->add_option(name, path, help)->type_name("FILE");
}

void add_inputs(CLI::App* command, const std::shared_ptr<Options>& o) {
  file(command, "--q", o->q, "Queries")->required();
  file(command, "--k", o->k, "Keys; their heads divide those of q")->required();
  file(command, "--v", o->v, "Values")->required();
  CLI::Option* q_heads = command->add_option("--q-heads", o->q_heads, "Files are packed, (B, L, H*D): heads of q")
                             ->check(CLI::Range(1, 1 << 30));
  CLI::Option* kv_heads =
      command->add_option("--kv-heads", o->kv_heads, "Heads of packed k and v")->check(CLI::Range(1, 1 << 30));
  q_heads->needs(kv_heads);
  kv_heads->needs(q_heads);
  CLI::Option* past_key =
      file(command, "--past-key", o->past_key, "Earlier keys (B, Hkv, P, D), in front of those of --k");
  CLI::Option* past_value = file(command, "--past-value", o->past_value, "Earlier values (B, Hkv, P, Dv)");
  past_key->needs(past_value);
  past_value->needs(past_key);
  file(command, "--key-lengths", o->key_lengths, "(B) int32 or int64: keys at or past it are hidden. Not with a past");
  CLI::Option* q_offsets =
      file(command, "--q-offsets", o->q_offsets,
           "(B + 1) int64: ragged files (T, H, D), entry b is rows offsets[b] to offsets[b + 1]. Not with a past, "
           "lengths or a mask");
  CLI::Option* k_offsets = file(command, "--k-offsets", o->k_offsets, "(B + 1) int64, likewise, of k and v");
  q_offsets->needs(k_offsets);
  k_offsets->needs(q_offsets);
}

void add_scores(CLI::App* command, const std::shared_ptr<Options>& o) {
  file(command, "--mask", o->mask,
       "1 to 4 dimensions that broadcast to (B, Hq, Lq, Lk) from the right, Lk with the past; a "
       "shorter last one hides the rest. Boolean: true may be attended. Floating: added to the "
       "score");
  command
      ->add_option("--causal", o->causal,
                   "Query i sees keys j <= i + o. top-left: o = P. bottom-right: o = Lk - Lq (each entry's own key "
                   "length instead of Lk with --key-lengths)")
      ->transform(one_of({"top-left", "bottom-right"}, {{"true", "top-left"},  // as Python spells it
                                                        {"True", "top-left"},
                                                        {"false", ""},
                                                        {"False", ""},
                                                        {"none", ""},
                                                        {"None", ""}}));
  command->add_option("--causal-offset", o->causal_offset, "Causal with o = N")->type_name("N");
  command->add_option("--window", o->window, "Query i sees keys i + o - L to i + o + R; -1 is unlimited")
      ->type_name("L,R");
  command->add_option("--scale", o->scale, "Factor on the products [1/sqrt(D)]")->check(finite_number());
  command->add_option("--softcap", o->softcap, "c: s becomes c * tanh(s / c) before the mask; 0 is off")
      ->check(finite_number())
      ->capture_default_str();
  file(command, "--alibi", o->alibi, "Slopes (Hq): adds -slope * |i + o - j|");
  file(command, "--sinks", o->sinks, "Logits (Hq) that join the denominator and lse of every row");
  command->add_option("--dropout", o->dropout, "Probability of dropping a weight, in [0, 1)")
      ->check(finite_number())
      ->capture_default_str();
  command->add_option("-s,--seed", o->seed, "Seed of the dropout")->check(whole_number())->capture_default_str();
}

void add_outputs(CLI::App* command, const std::shared_ptr<Options>& o) {
  command
      ->add_option("--storage", o->storage,
                   "q, k and v are held as f32, f16 or bf16; sums are in float32 [f32; of float64 files f64]")
      ->transform(one_of({"f32", "f16", "bf16"}));
  file(command, "-o,--out,--output", o->out, "Write the result, (..., Lq, Dv)");
  file(command, "--present-key", o->present_key, "Write past and new keys, (B, Hkv, P + L, D)");
  file(command, "--present-value", o->present_value, "Write past and new values, (B, Hkv, P + L, Dv)");
  file(command, "--weights", o->weights, "Write the softmax before dropout, (..., Lq, Lk)");
  file(command, "--lse", o->lse,
       "Write the natural log of the sum of exp of each row's scores, (..., Lq); float32 for float16");
  CLI::Option* scores = file(command, "--scores", o->scores, "Write the scores, (..., Lq, Lk)");
  command
      ->add_option("--qk-output", o->qk_output,
                   "Which --scores: 0 scaled, 1 after softcap, 2 after all that adds or hides, 3 after softmax")
      ->check(CLI::Range(0, 3))
      ->needs(scores)
      ->capture_default_str();
  CLI::Option* grad_out = file(command, "--grad-out", o->grad_out, "Gradient of the result, shaped like it");
  file(command, "--grad-lse", o->grad_lse, "Gradient of lse, shaped like it")->needs(grad_out);
  file(command, "--grad-q", o->grad_q, "Write the gradient of q")->needs(grad_out);
  file(command, "--grad-k", o->grad_k, "Write the gradient of k")->needs(grad_out);
  file(command, "--grad-v", o->grad_v, "Write the gradient of v")->needs(grad_out);
  file(command, "--grad-past-key", o->grad_past_key, "Write the gradient of the past keys")
      ->needs(grad_out)
      ->needs(command->get_option("--past-key"));
  file(command, "--grad-past-value", o->grad_past_value, "Write the gradient of the past values")
      ->needs(grad_out)
      ->needs(command->get_option("--past-value"));
  file(command, "--grad-mask", o->grad_mask, "Write the gradient of an additive mask")
      ->needs(grad_out)
      ->needs(command->get_option("--mask"));
  file(command, "--grad-sinks", o->grad_sinks, "Write the gradient of the sinks")
      ->needs(grad_out)
      ->needs(command->get_option("--sinks"));
  command->add_flag("--reference", o->reference, "Use the reference implementation: plain formula, double sums");
}

}  // namespace

void add_attention(CLI::App& program) {
  const auto o = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("attention", "softmax(scale * Q K^T + mask) V on npy files");
  command->description(
      "softmax(scale * Q K^T + mask) V on npy files\n\n"
      "Computes softmax(scale * Q K^T + mask) V, and its gradients, on npy files of shape (L, D), (H, L, D) or\n"
      "(B, H, L, D), or packed (B, L, H*D), in float16, float32 or float64. float16 is computed in float32; outputs\n"
      "have q's dtype and dimensions, those of k and v theirs: float16 is taken beside a float32 q. Without an output\n"
      "option the result is printed, one line a row.\n"
      "Below, query i stands at key i + o: o is P, the length of the past, unless --causal says otherwise.");
  add_inputs(command, o);
  add_scores(command, o);
  add_outputs(command, o);
  command->footer(
      "Examples:\n"
      "  heed attention --q q.npy --k k.npy --v v.npy --causal bottom-right --out o.npy --lse l.npy\n"
      "  heed attention --q q.npy --k k.npy --v v.npy --q-heads 8 --kv-heads 2 --window 255,0 --out o.npy");
  command->callback([command, o] { run(*command, *o); });
}

}  // namespace heed::cli
