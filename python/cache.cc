// Rotary positions and caches of keys and values for Python; heed/_cache.py has the documentation.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "arrays.h"
#include "define.h"
#include "heed/kv_cache.h"
#include "options.h"
#include "values.h"

namespace heed::python {
namespace {

/// Rotary positions of KVCache.attend(rotary=) and rotary(). Keeps the memory of its arrays alive.
struct RotaryOptions {
  Rotary value;
  RotaryOptions(nb::handle positions, nb::handle layout, nb::handle size, nb::handle base, nb::handle cos,
                nb::handle sin) {
    value.layout = choice("rotary: layout", layout, {"half_split", "interleaved"}) == 0 ? RotaryLayout::half_split
                                                                                        : RotaryLayout::interleaved;
    if (!size.is_none()) {
      value.size = integer("rotary: size", size, "an even number up to D");
      if (value.size == 0) throw ShapeError("rotary: size is 0; pass an even number up to D, or None for all");
    }
    value.base = number("rotary: base", base);
    if (const Tensor ids = take_optional("rotary: positions", positions); ids.defined()) value.positions = ids.clone();
    value.cos = take_optional("rotary: cos", cos);
    value.sin = take_optional("rotary: sin", sin);
  }
};

nb::object run_rotary(nb::handle x_array, const RotaryOptions& options, nb::handle inverse, nb::handle out_array) {
  const Tensor x = take("rotary: x", x_array), out = take_optional("rotary: out", out_array, Access::write);
  const bool back = flag("rotary: inverse", inverse);
  Tensor y = out;
  {
    const nb::gil_scoped_release others_may_run;
    if (out.defined()) {
      rotary(x, out, options.value, back);
    } else {
      y = rotary(x, options.value, back);
    }
  }
  return out.defined() ? nb::borrow(out_array) : give(y, x_array);
}

/// A cache that calls use one after another.
class Cache {
 public:
  Cache(nb::handle batch, nb::handle kv_heads, nb::handle capacity, nb::handle head_size, nb::handle value_size,
        nb::handle dtype)
      : cache_(size("batch", batch), size("kv_heads", kv_heads), size("capacity", capacity),
               size("head_size", head_size), size("value_size", value_size.is_none() ? head_size : value_size),
               dtype_of(dtype)) {}

  int64_t length() const {
    return with([](const KVCache& cache) { return cache.length(); });
  }
  int64_t capacity() const {
    return with([](const KVCache& cache) { return cache.capacity(); });
  }
  std::string dtype() const { return numpy_name(cache_.dtype()); }
  nb::object keys(nb::handle like) const {
    return give(with([](const KVCache& cache) { return cache.keys(); }), like);
  }
  nb::object values(nb::handle like) const {
    return give(with([](const KVCache& cache) { return cache.values(); }), like);
  }
  void clear() {
    with([](KVCache& cache) { cache.clear(); });
  }
  void truncate(nb::handle length) {
    const int64_t n = size("length", length);
    with([n](KVCache& cache) { cache.truncate(n); });
  }
  void reserve(nb::handle positions) {
    const int64_t n = size("positions", positions);
    with([n](KVCache& cache) { cache.reserve(n); });
  }
  void reorder(nb::handle source) {
    const nb::object given = nb::steal(PySequence_List(source.ptr()));
    if (!given.is_valid()) {
      PyErr_Clear();
      throw nb::type_error(("KVCache: source is " + shown(source) + "; pass a list of entries").c_str());
    }
    std::vector<int64_t> entries;
    for (const nb::handle entry : nb::borrow<nb::list>(given))
      entries.push_back(integer("KVCache: source", entry, "entries"));
    with([&](KVCache& cache) { cache.reorder(entries); });
  }
  void append(nb::handle k_array, nb::handle v_array, const std::optional<RotaryOptions>& rotary) {
    const Tensor k = take("KVCache: k", k_array), v = take("KVCache: v", v_array);
    with([&](KVCache& cache) { cache.append(k, v, of(rotary), threads_of(k_array)); });
  }
  /// As attention's recorded calls.
  nb::typed<nb::tuple, nb::any, nb::ellipsis> attend(nb::handle q_array, nb::handle k_array, nb::handle v_array,
                                                     const Options& given, const std::optional<RotaryOptions>& rotary,
                                                     nb::handle return_lse, nb::handle return_weights) {
    const Tensor q = take("KVCache: q", q_array), k = take("KVCache: k", k_array), v = take("KVCache: v", v_array);
    AttentionOptions options = given.on(threads_of(q_array));
    options.want_lse = flag("KVCache: return_lse", return_lse);
    want_weights(return_weights, q, options);
    AttentionResult r;
    with([&](KVCache& cache) {
      const int64_t before = cache.length();
      if (q.rank() == 4) given.check("KVCache", {q.size(0), q.size(1), q.size(2), before + q.size(2)});
      r = cache.attend(q, k, v, options, of(rotary));
      if (given.failed()) cache.truncate(before);  // as where the library throws
    });
    given.rethrow();
    return nb::make_tuple(give(r.out, q_array), give(r.lse, q_array), give(r.lse_low, q_array),
                          give(r.weights, q_array), give(r.top.offsets, q_array), give(r.top.keys, q_array),
                          give(r.top.weights, q_array));
  }

 private:
  static int64_t size(const char* name, nb::handle value) {
    return integer((std::string("KVCache: ") + name).c_str(), value, "a number of 64 bits");
  }
  static DType dtype_of(nb::handle name) {
    constexpr std::array kTypes{DType::f32, DType::f64, DType::f16, DType::bf16};
    return kTypes[choice("KVCache: dtype", name, {"float32", "float64", "float16", "bfloat16"})];
  }
  static std::optional<Rotary> of(const std::optional<RotaryOptions>& rotary) {
    return rotary ? std::optional(rotary->value) : std::nullopt;
  }
  /// f(the cache), without the GIL: one that another thread's call holds the cache for would wait for ever.
  template <class F>
  std::invoke_result_t<F, KVCache&> with(F&& f) const {
    const nb::gil_scoped_release others_may_run;
    const std::lock_guard lock(mutex_);
    return f(cache_);
  }

  mutable std::mutex mutex_;
  mutable KVCache cache_;
};

}  // namespace

void define_cache(nb::module_& m) {
  const auto any = [](const char* name) { return nb::arg(name).none(); };
  using H = nb::handle;
  nb::class_<RotaryOptions>(m, "Rotary")
      .def(nb::init<H, H, H, H, H, H>(), any("positions"), any("layout"), any("size"), any("base"), any("cos"),
           any("sin"));
  m.def("rotary", &run_rotary, any("x"), nb::arg("options"), any("inverse"), any("out"));
  nb::class_<Cache>(m, "KVCache")
      .def(nb::init<H, H, H, H, H, H>(), any("batch"), any("kv_heads"), any("capacity"), any("head_size"),
           any("value_size"), any("dtype"))
      .def_prop_ro("length", &Cache::length)
      .def_prop_ro("capacity", &Cache::capacity)
      .def_prop_ro("dtype", &Cache::dtype)
      .def("keys", &Cache::keys, any("like"))
      .def("values", &Cache::values, any("like"))
      .def("clear", &Cache::clear)
      .def("truncate", &Cache::truncate, any("length"))
      .def("reserve", &Cache::reserve, any("positions"))
      .def("reorder", &Cache::reorder, any("source"))
      .def("append", &Cache::append, any("k"), any("v"), nb::arg("rotary").none())
      .def("attend", &Cache::attend, any("q"), any("k"), any("v"), nb::arg("options"), nb::arg("rotary").none(),
           any("return_lse"), any("return_weights"));
}

}  // namespace heed::python
