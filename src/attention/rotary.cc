#include "heed/rotary.h"

#include <cmath>
#include <sstream>

#include "attention/problem.h"
#include "attention/written.h"

namespace heed::inline v0 {
namespace {

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream text;
  text << "rotary: ";
  (text << ... << parts);
  throw ShapeError(text.str());
}

std::string shape(const Tensor& t) { return to_string(t.shape()); }

Indices indices(const Tensor& t, int dim) { return {t.raw(), t.stride(dim), t.dtype() == DType::i64}; }

void check_operand(const char* name, const Tensor& t) {
  if (!t.defined()) refuse(name, " is undefined; pass a tensor (B, H, L, D)");
  if (!is_floating(t.dtype())) refuse(name, " is ", name_of(t.dtype()), "; pass f32, f64, f16 or bf16");
  if (t.rank() != 4) refuse(name, " has shape ", shape(t), ", not the four dimensions (B, H, L, D)");
  if (t.size(3) > 1 && t.numel() > 0 && t.stride(3) != 1)
    refuse("the innermost stride of ", name, " is ", t.stride(3), ", which must be 1; call contiguous() first");
}

/// The dimensions that turn.
int64_t check_size(const Tensor& x, const Rotary& o) {
  const int64_t D = x.size(3), size = o.size == 0 ? D : o.size;
  if (size < 0 || size > D || size % 2)
    refuse("size ", size, " is not even and within the head size ", D, "; pass 2 to ", D / 2 * 2);
  return size;
}

void check_tables(const Tensor& x, const Rotary& o, int64_t size) {
  if (o.cos.defined() != o.sin.defined())
    refuse(o.cos.defined() ? "cos" : "sin", " is given without ", o.cos.defined() ? "sin" : "cos",
           "; pass both or neither");
  if (!o.cos.defined()) {
    if (!(o.base > 0 && std::isfinite(o.base))) refuse("base is ", o.base, "; pass a positive number");
    if (!(o.amplitude > 0 && std::isfinite(o.amplitude)))
      refuse("amplitude is ", o.amplitude, "; pass a positive number");
    if (o.frequencies.defined() && (o.frequencies.dtype() != DType::f64 || !(o.frequencies.shape() == Dims{size / 2})))
      refuse("frequencies are ", name_of(o.frequencies.dtype()), " ", shape(o.frequencies), "; pass f64 (", size / 2,
             ")");
    return;
  }
  if (o.frequencies.defined() || o.amplitude != 1)
    refuse("cos and sin are given beside frequencies or an amplitude; pass one of them");
  if (!(o.cos.shape() == o.sin.shape()) || !is_floating(o.cos.dtype()) || o.cos.dtype() != o.sin.dtype())
    refuse("cos is ", name_of(o.cos.dtype()), " ", shape(o.cos), " and sin ", name_of(o.sin.dtype()), " ", shape(o.sin),
           "; pass both floating and of one shape");
  const Dims looked_up{x.size(0), x.size(2), size / 2};
  const bool fits = o.cos.rank() == 2 ? o.cos.size(1) == size / 2 : o.cos.shape() == looked_up;
  if (!fits)
    refuse("cos and sin have shape ", shape(o.cos), "; pass (positions, size / 2) with size ", size, ", or ",
           to_string(looked_up));
  if (o.cos.rank() == 3 && o.positions.defined())
    refuse("cos and sin ", shape(o.cos), " are looked up already; leave positions out");
  if (o.cos.rank() == 2 && !o.positions.defined() && o.cos.size(0) < x.size(2))
    refuse("cos and sin have ", o.cos.size(0), " positions for L = ", x.size(2), "; pass longer tables");
}

void check_positions(const Tensor& x, const Rotary& o) {
  const Tensor& p = o.positions;
  if (!p.defined()) return;
  const int64_t B = x.size(0), L = x.size(2);
  if ((p.dtype() != DType::i32 && p.dtype() != DType::i64) || !(p.shape() == Dims{L} || p.shape() == Dims{B, L}))
    refuse("positions are ", name_of(p.dtype()), " ", shape(p), "; pass i32 or i64 (L) or (B, L) for x ", shape(x));
  if (!o.cos.defined()) return;
  for (int64_t b = 0; b < (p.rank() == 2 ? B : 1); ++b) {
    const Indices row = indices(p.rank() == 2 ? p.select(0, b) : p, 0);
    for (int64_t l = 0; l < L; ++l)
      if (row[l] < 0 || row[l] >= o.cos.size(0))
        refuse("position ", row[l], " is not one of the ", o.cos.size(0), " of cos and sin");
  }
}

/// y may be x. Any other overlap would turn elements twice.
void check_written(const Tensor& x, const Tensor& y, const Rotary& o) {
  check_own_places("rotary", "y", y);
  const Tensor none;
  check_apart("rotary", {{"y", &y}},
              {{"x", is_one_view(x, y) ? &none : &x},
               {"positions", &o.positions},
               {"cos", &o.cos},
               {"sin", &o.sin},
               {"frequencies", &o.frequencies}});
}

template <class T, class S>
T load(const S* from) {
  if constexpr (std::is_same_v<S, float16> || std::is_same_v<S, bfloat16>)
    return static_cast<T>(to_float(*from));
  else
    return static_cast<T>(*from);
}

template <class T, class S>
void store(S* to, T x) {
  if constexpr (std::is_same_v<S, float16>)
    *to = to_float16(static_cast<float>(x));
  else if constexpr (std::is_same_v<S, bfloat16>)
    *to = to_bfloat16(static_cast<float>(x));
  else
    *to = static_cast<S>(x);
}

template <class F>
void with_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(double());
    case DType::f16:
      return f(float16());
    case DType::bf16:
      return f(bfloat16());
    default:
      return f(float());
  }
}

/// The cosines and sines of positions, a row of `pairs` each.
template <class T>
class Angles {
 public:
  Angles(const Rotary& o, int64_t size) : options_(o), pairs_(size / 2) {
    if (o.cos.defined()) return;
    if (o.frequencies.defined()) {
      frequencies_ = o.frequencies.contiguous();
      return;
    }
    frequencies_ = Tensor::empty({pairs_}, DType::f64);
    for (int64_t p = 0; p < pairs_; ++p)
      frequencies_.data<double>()[p] = std::pow(o.base, -2.0 * static_cast<double>(p) / static_cast<double>(size));
  }
  int64_t pairs() const { return pairs_; }
  /// Whether entries of the batch turn by angles of their own.
  bool per_entry() const { return options_.positions.rank() == 2 || options_.cos.rank() == 3; }

  void row(int64_t b, int64_t l, bool inverse, T* cosine, T* sine) const {
    const Tensor& p = options_.positions;
    const int64_t position = !p.defined() ? l : indices(p.rank() == 2 ? p.select(0, b) : p, 0)[l];
    if (options_.cos.defined()) {
      read(options_.cos, b, position, T{1}, cosine);
      read(options_.sin, b, position, inverse ? T{-1} : T{1}, sine);
      return;
    }
    for (int64_t i = 0; i < pairs_; ++i) {
      // In double: position 10,000 has angles of 10,000 radians.
      const double angle = static_cast<double>(position) * frequencies_.data<double>()[i];
      cosine[i] = static_cast<T>(options_.amplitude * std::cos(angle));
      sine[i] = static_cast<T>(options_.amplitude * (inverse ? -std::sin(angle) : std::sin(angle)));
    }
  }

 private:
  void read(const Tensor& table, int64_t b, int64_t row, T sign, T* to) const {
    const bool looked_up = table.rank() == 3;
    const int64_t at = (looked_up ? b * table.stride(0) : 0) + row * table.stride(-2), step = table.stride(-1);
    with_floating(table.dtype(), [&](auto element) {
      const auto* const from = static_cast<const decltype(element)*>(table.raw()) + at;
      for (int64_t i = 0; i < pairs_; ++i) to[i] = sign * load<T>(from + i * step);
    });
  }

  const Rotary& options_;
  int64_t pairs_;
  Tensor frequencies_;
};

template <class T, class X, class Y>
void turn(const T* cosine, const T* sine, int64_t pairs, bool adjacent, int64_t D, const X* x, Y* y) {
  const int64_t step = adjacent ? 2 : 1, apart = adjacent ? 1 : pairs;
  for (int64_t p = 0; p < pairs; ++p) {
    const int64_t i = p * step, j = i + apart;
    const T a = load<T>(x + i), b = load<T>(x + j);
    store(y + i, a * cosine[p] - b * sine[p]);
    store(y + j, a * sine[p] + b * cosine[p]);
  }
  if (static_cast<const void*>(x) == static_cast<const void*>(y)) return;
  for (int64_t d = 2 * pairs; d < D; ++d) store(y + d, load<T>(x + d));
}

// A position's angles are computed once for all heads, and for all entries where they share them.
template <class T>
void run(const Tensor& x, const Tensor& y, const Rotary& o, int64_t size, bool inverse) {
  const Angles<T> angles(o, size);
  const int64_t B = x.size(0), H = x.size(1), L = x.size(2), D = x.size(3);
  const bool per_entry = angles.per_entry(), adjacent = o.layout == RotaryLayout::interleaved;
  const int64_t rows = per_entry ? B * L : L, entries = per_entry ? 1 : B;
  constexpr int64_t kElements = 16384;  // of a tile
  const int64_t together = std::max<int64_t>(1, kElements / std::max<int64_t>(1, entries * H * D));
  Executor& executor = o.executor ? *o.executor : default_executor();
  with_floating(x.dtype(), [&](auto x_element) {
    with_floating(y.dtype(), [&](auto y_element) {
      using X = decltype(x_element);
      using Y = decltype(y_element);
      parallel_for(executor, (rows + together - 1) / together, [&](int64_t tile) {
        const Tensor memory = Tensor::empty({2, angles.pairs()}, dtype_of<T>());
        T *const cosine = memory.data<T>(), *const sine = cosine + angles.pairs();
        for (int64_t row = tile * together; row < std::min(rows, (tile + 1) * together); ++row) {
          const int64_t l = row % L, first = row / L;
          angles.row(first, l, inverse, cosine, sine);
          for (int64_t b = first; b < first + entries; ++b)
            for (int64_t h = 0; h < H; ++h)
              turn(cosine, sine, angles.pairs(), adjacent, D,
                   x.data<X>() + b * x.stride(0) + h * x.stride(1) + l * x.stride(2),
                   y.data<Y>() + b * y.stride(0) + h * y.stride(1) + l * y.stride(2));
        }
      });
    });
  });
}

}  // namespace

void rotary(const Tensor& x, const Tensor& y, const Rotary& options, bool inverse) {
  check_operand("x", x);
  check_operand("y", y);
  if (!(x.shape() == y.shape())) refuse("x has shape ", shape(x), " and y ", shape(y), "; make them equal");
  const int64_t size = check_size(x, options);
  check_tables(x, options, size);
  check_positions(x, options);
  check_written(x, y, options);
  const bool wide = x.dtype() == DType::f64 || y.dtype() == DType::f64;
  wide ? run<double>(x, y, options, size, inverse) : run<float>(x, y, options, size, inverse);
}

Tensor rotary(const Tensor& x, const Rotary& options, bool inverse) {
  check_operand("x", x);
  const Tensor y = Tensor::empty(x.shape(), x.dtype());
  rotary(x, y, options, inverse);
  return y;
}

}  // namespace heed::inline v0
