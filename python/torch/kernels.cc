// aten::_scaled_dot_product_flash_attention_for_cpu and its _backward: what scaled_dot_product_attention() calls on the
// CPU for query, key and value of four dimensions and one head size, and what Inductor's code calls.
#include "kernels.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "../values.h"
#include "heed/attention.h"

namespace heed::python::torch {
namespace {

/// torch's numbers for what it calls dtypes.
struct Types {
  int32_t f16, bf16, f32, f64, boolean;
};

Shim shim;
Types types;
TorchLibraryOpaque* installed = nullptr;
std::atomic<int64_t> forward_calls{0}, backward_calls{0};

void check(int32_t error, const char* what) {
  if (error != 0) throw Error(std::string("patch: torch failed to ") + what);
}

// ---- torch's threads

/// Tiles run where torch's own kernels do, so that torch.set_num_threads() holds and no second pool competes.
class TorchThreads final : public Executor {
 public:
  void run(int64_t tiles, Tile function, void* context) override {
    struct Work {
      int64_t tiles;
      Tile function;
      void* context;
      std::atomic<int64_t> next{0};
    } work{tiles, function, context};
    const auto drain = [](int64_t, int64_t, void* shared) {
      auto& w = *static_cast<Work*>(shared);
      for (int64_t tile; (tile = w.next.fetch_add(1, std::memory_order_relaxed)) < w.tiles;)
        w.function(w.context, tile);
    };
    check(shim.torch_parallel_for(0, std::min<int64_t>(threads(), tiles), 1, drain, &work), "run in parallel");
  }
  int threads() const override {
    uint32_t n = 1;
    check(shim.torch_get_num_threads(&n), "tell the number of threads");
    return static_cast<int>(n);
  }
};

TorchThreads torch_threads;
bool is_loaded = false;

void load(const char* path_of_libtorch_cpu) {
  if (is_loaded) return;
  shim = load_shim(path_of_libtorch_cpu);
  is_loaded = true;
}

// ---- torch's tensors

/// Owns a handle.
class Handle {
 public:
  explicit Handle(AtenTensorOpaque* tensor) : tensor_(tensor) {}
  explicit Handle(uint64_t word) : Handle(std::bit_cast<AtenTensorOpaque*>(word)) {}
  Handle(Handle&& other) noexcept : tensor_(std::exchange(other.tensor_, nullptr)) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (tensor_) shim.aoti_torch_delete_tensor_object(tensor_);
  }
  AtenTensorOpaque* get() const { return tensor_; }
  uint64_t release() { return std::bit_cast<uint64_t>(std::exchange(tensor_, nullptr)); }

 private:
  AtenTensorOpaque* tensor_;
};

/// What an optional argument holds: nothing, or a word of its own, which is ours to delete.
std::optional<uint64_t> held(uint64_t word) {
  if (word == 0) return {};
  auto* const inner = std::bit_cast<uint64_t*>(word);
  const uint64_t value = *inner;
  delete inner;
  return value;
}

/// An optional tensor; autograd passes an undefined one for none.
std::optional<Handle> held_tensor(uint64_t word) {
  const std::optional<uint64_t> inner = held(word);
  if (!inner) return {};
  Handle tensor(*inner);
  bool defined = false;
  check(shim.aoti_torch_is_defined(tensor.get(), &defined), "tell whether a tensor is defined");
  return defined ? std::optional<Handle>(std::move(tensor)) : std::nullopt;
}

DType dtype_of(const char* what, int32_t type) {
  if (type == types.f32) return DType::f32;
  if (type == types.bf16) return DType::bf16;
  if (type == types.f16) return DType::f16;
  if (type == types.f64) return DType::f64;
  if (type == types.boolean) return DType::boolean;
  throw ShapeError(std::string("attention: ") + what +
                   " has elements that heed does not know; pass float32, float64, float16 or bfloat16");
}

int32_t type_of(DType dtype) {
  return dtype == DType::f32    ? types.f32
         : dtype == DType::bf16 ? types.bf16
         : dtype == DType::f16  ? types.f16
                                : types.f64;
}

/// A view, which the handle outlives.
Tensor view(const char* what, const Handle& handle) {
  int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  int32_t type = 0;
  void* data = nullptr;
  check(shim.aoti_torch_get_dim(handle.get(), &rank), "tell a tensor's rank");
  check(shim.aoti_torch_get_sizes(handle.get(), &sizes), "tell a tensor's shape");
  check(shim.aoti_torch_get_strides(handle.get(), &strides), "tell a tensor's strides");
  check(shim.aoti_torch_get_dtype(handle.get(), &type), "tell a tensor's dtype");
  check(shim.aoti_torch_get_data_ptr(handle.get(), &data), "tell a tensor's memory");
  return Tensor::borrow(data, dtype_of(what, type), Dims(sizes, sizes + rank), Dims(strides, strides + rank));
}

/// The same with an innermost stride of 1, copied where it has another.
Tensor readable(const char* what, const Handle& handle) {
  const Tensor t = view(what, handle);
  return t.rank() == 0 || t.stride(-1) == 1 ? t : t.clone();
}

Handle empty(const Dims& shape, const Dims& strides, DType dtype) {
  AtenTensorOpaque* made = nullptr;
  check(shim.aoti_torch_empty_strided(shape.rank(), shape.begin(), strides.begin(), type_of(dtype),
                                      shim.aoti_torch_device_type_cpu(), 0, &made),
        "allocate a tensor");
  return Handle(made);
}

/// Without gaps, the dimensions in memory in `order`, outermost first.
Dims dense_strides(const Dims& shape, const std::array<int, 4>& order) {
  Dims strides = shape;
  int64_t stride = 1;
  for (int i = 3; i >= 0; --i) {
    strides[order[static_cast<size_t>(i)]] = stride;
    stride *= std::max<int64_t>(shape[order[static_cast<size_t>(i)]], 1);
  }
  return strides;
}

/// In the order of dimensions of `like`, as torch's empty_like().
Handle empty_like(const Tensor& like) {
  std::array<int, 4> order{};
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return like.stride(a) > like.stride(b); });
  return empty(like.shape(), dense_strides(like.shape(), order), like.dtype());
}

/// (B, L, H, D) in memory, as torch's kernel gives gradients.
Handle empty_gradient(const Tensor& like) {
  return empty(like.shape(), dense_strides(like.shape(), {0, 2, 1, 3}), like.dtype());
}

// ---- The two kernels

/// What both are given beside tensors.
AttentionOptions options(uint64_t dropout_p, uint64_t is_causal, const std::optional<Handle>& mask,
                         std::optional<uint64_t> scale, const Tensor& query, const Tensor& key) {
  AttentionOptions options;
  options.executor = &torch_threads;
  if (std::bit_cast<double>(dropout_p) != 0)
    throw ShapeError("attention: dropout_p is not 0, which torch's kernel does not take either; pass 0");
  if (static_cast<uint8_t>(is_causal)) options.causal = Causal::top_left;
  if (scale) options.scale = std::bit_cast<double>(*scale);
  if (!mask) return options;
  options.mask = readable("mask", *mask);
  const int64_t keys = options.mask.rank() == 0 ? 1 : options.mask.size(-1);
  if (keys != 1 && key.rank() == 4 && keys != key.size(2))
    throw ShapeError("attention: the mask has " + std::to_string(keys) + " keys, of " + std::to_string(key.size(2)) +
                     "; pass a mask that broadcasts to (B, H, L, S)");
  if (query.dtype() == DType::f64 && options.mask.dtype() == DType::f32) options.mask = options.mask.to(DType::f64);
  return options;
}

void check_rank(const Tensor& query) {
  if (query.rank() != 4)
    throw ShapeError("attention: query has " + std::to_string(query.rank()) + " dimensions; pass (B, H, L, E)");
}

/// (B, H, L) -> the same numbers, in memory (B, L, H). Rows that see nothing have 0 there in torch.
template <class T>
void give_lse(const Tensor& lse, const Tensor& to) {
  for (int64_t b = 0; b < lse.size(0); ++b)
    for (int64_t h = 0; h < lse.size(1); ++h)
      for (int64_t i = 0; i < lse.size(2); ++i) {
        const T value = lse.at<T>(b, h, i);
        to.at<T>(b, h, i) = value == -std::numeric_limits<T>::infinity() ? 0 : value;
      }
}

/// (query, key, value, dropout_p, is_causal, attn_mask?, scale?) -> (output, logsumexp)
void forward(uint64_t* stack, uint64_t, uint64_t) {
  const Handle query(stack[0]), key(stack[1]), value(stack[2]);
  const std::optional<Handle> mask = held_tensor(stack[5]);
  const std::optional<uint64_t> scale = held(stack[6]);
  const Tensor q = readable("query", query), k = readable("key", key), v = readable("value", value);
  check_rank(q);
  const AttentionOptions chosen = options(stack[3], stack[4], mask, scale, q, k);
  const int64_t B = q.size(0), H = q.size(1), L = q.size(2);
  Handle output = empty_like(view("query", query));
  Handle logsumexp = empty({B, H, L}, {H * L, 1, H}, q.dtype() == DType::f64 ? DType::f64 : DType::f32);
  const Tensor out = view("output", output), lse = view("logsumexp", logsumexp);
  if (q.size(3) == 0) {
    lse.fill(0);
  } else {
    AttentionResult into;
    into.out = out.stride(3) == 1 ? out : Tensor::empty(out.shape(), out.dtype());
    into.lse = Tensor::empty(lse.shape(), lse.dtype());
    attention(q, k, v, into, chosen);
    if (into.out.raw() != out.raw()) out.copy_from(into.out);
    lse.dtype() == DType::f64 ? give_lse<double>(into.lse, lse) : give_lse<float>(into.lse, lse);
  }
  forward_calls.fetch_add(1, std::memory_order_relaxed);
  stack[0] = output.release();
  stack[1] = logsumexp.release();
}

/// (grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask?, scale?) -> (grad_query, grad_key,
/// grad_value)
void backward(uint64_t* stack, uint64_t, uint64_t) {
  const Handle grad_out(stack[0]), query(stack[1]), key(stack[2]), value(stack[3]), out(stack[4]), logsumexp(stack[5]);
  const std::optional<Handle> mask = held_tensor(stack[8]);
  const std::optional<uint64_t> scale = held(stack[9]);
  const Tensor q = readable("query", query), k = readable("key", key), v = readable("value", value);
  check_rank(q);
  const AttentionOptions chosen = options(stack[6], stack[7], mask, scale, q, k);
  Handle grad_query = empty_gradient(q), grad_key = empty_gradient(k), grad_value = empty_gradient(v);
  if (q.size(3) != 0) {
    AttentionResult result;
    result.out = readable("out", out);
    result.lse = view("logsumexp", logsumexp).contiguous();
    AttentionGradients into;
    into.q = view("grad_query", grad_query);
    into.k = view("grad_key", grad_key);
    into.v = view("grad_value", grad_value);
    attention_backward(readable("grad_out", grad_out), q, k, v, result, into, chosen);
  }
  backward_calls.fetch_add(1, std::memory_order_relaxed);
  stack[0] = grad_query.release();
  stack[1] = grad_key.release();
  stack[2] = grad_value.release();
}

// torch makes a RuntimeError of what is thrown.
template <Kernel* kernel>
void in_words(uint64_t* stack, uint64_t inputs, uint64_t outputs) {
  try {
    kernel(stack, inputs, outputs);
  } catch (const Error& error) {
    throw Error(in_words_of_python(error.what()));
  }
}

}  // namespace

void use_threads(const char* path_of_libtorch_cpu) { load(path_of_libtorch_cpu); }

Executor* threads() { return is_loaded ? &torch_threads : nullptr; }

void install(const char* path_of_libtorch_cpu) {
  load(path_of_libtorch_cpu);
  types = {shim.aoti_torch_dtype_float16(), shim.aoti_torch_dtype_bfloat16(), shim.aoti_torch_dtype_float32(),
           shim.aoti_torch_dtype_float64(), shim.aoti_torch_dtype_bool()};
  TorchLibraryOpaque* library = nullptr;
  check(shim.aoti_torch_library_init_impl("aten", "CPU", "heed.torch.patch", 0, &library), "open its library");
  installed = library;
  constexpr std::pair<const char*, Kernel*> kKernels[] = {
      {"_scaled_dot_product_flash_attention_for_cpu", &in_words<forward>},
      {"_scaled_dot_product_flash_attention_for_cpu_backward", &in_words<backward>}};
  for (const auto& [name, kernel] : kKernels)
    if (shim.torch_library_impl(library, name, kernel, kStackVersion) != 0) {
      uninstall();
      throw Error(std::string("patch: torch does not take a kernel for ") + name);
    }
}

void uninstall() {
  check(shim.aoti_torch_delete_library_object(std::exchange(installed, nullptr)), "give up the kernels");
}

Calls calls() { return {forward_calls.load(), backward_calls.load()}; }

}  // namespace heed::python::torch
