#include "kernels/linear.h"

#include "kernels/activation.h"
#include "kernels/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <type_traits>

#include "kernels/dot-inl.h"
#include "kernels/packed-inl.h"
#include "kernels/tiled-inl.h"

#ifndef HEED_KERNELS_LINEAR_ONCE
#define HEED_KERNELS_LINEAR_ONCE
namespace heed::inline v0 {
namespace {

constexpr int64_t kForwardRows = 96;  // of a tile
// Elements of an unpacked weight in a tile. Where it comes from memory, each new tile stops what fetches ahead: one row
// and the larger tiles are 1.3 to 1.6 times as fast as with the smaller (Zen 4).
constexpr int64_t kLeastWeights = 1 << 15, kMostWeights = 1 << 18;
constexpr int64_t kAlone = 500'000;     // products below which waking a thread costs more
constexpr int64_t kPackedFrom = 96;     // rows on, packing the weight repays
constexpr int64_t kBackwardRows = 192;  // whose dy and packed x stay in the second-level cache beside a piece of dw
constexpr int64_t kPieces = 16;         // of the sum over rows in dw, each with a matrix of its own ...
constexpr int64_t kPieceRows = 128;     // ... over at least so many rows; powers of two, that threads share evenly

}  // namespace
}  // namespace heed::inline v0
#endif

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

// f(first column, columns) for whole panels of a weight to pack, about kChunk elements at a time.
template <class T, class F>
void ForPanels(int64_t depth, int64_t columns, Executor& ex, F&& f) {
  for_chunks(columns, PackedColumns<T>(std::max(kChunk / std::max(depth, int64_t{1}), int64_t{1})), ex,
             [&](int64_t begin, int64_t end) { f(begin, end - begin); });
}

// Any cut into tiles gives the same bits: each element is summed alike.
template <class T, class Weights>
void UnpackedForward(const T* x, Weights w, const T* bias, T* y, int64_t rows, int64_t in, int64_t out, Executor& ex,
                     bool relu) {
  const int64_t weights = std::clamp(in * out / (2 * std::max(ex.threads(), 1)), kLeastWeights, kMostWeights);
  const int64_t width = std::max<int64_t>(weights / std::max<int64_t>(in, 1) / kDotColumns, 1) * kDotColumns;
  const int64_t across = (out + width - 1) / width, down = (rows + kForwardRows - 1) / kForwardRows;
  bool far = false;
  if constexpr (std::is_pointer_v<Weights>) far = in * out * static_cast<int64_t>(sizeof(*w)) > kFarBytes;
  const auto tile = [&](int64_t i) {
    const int64_t row = i / across * kForwardRows, column = i % across * width;
    DotProduct(std::min(kForwardRows, rows - row), std::min(width, out - column), in, x + row * in,
               element(w, column * in), bias ? bias + column : nullptr, relu, y + row * out + column, out, far);
  };
  if (rows * in * out < kAlone) {
    for (int64_t i = 0; i < across * down; ++i) tile(i);
  } else {
    parallel_for(ex, across * down, tile);
  }
}

template <class T>
int64_t PackedSize(int64_t in, int64_t out) {
  return PackedColumns<T>(out) * in;
}

template <class T, class Weights>
void PackWeight(Weights w, int64_t in, int64_t out, T* packed, Executor& ex) {
  ForPanels<T>(in, out, ex, [&](int64_t column, int64_t columns) {
    Pack(PanelsByColumn<T, Weights>{element(w, column * in), in}, in, columns, packed + column * in);
  });
}

// Few rows: threads share the columns.
template <class T>
void PackedForward(const T* x, const T* packed, T* y, int64_t rows, int64_t in, int64_t out, Executor& ex) {
  if (rows == 0) return;  // x and y may be null
  ForPanels<T>(in, out, ex, [&](int64_t column, int64_t columns) {
    Product(rows, columns, in, Left<T, true>{x, in}, PackedPanels<T>{packed + column * in, in}, y + column, out, {});
  });
}

template <class T, class Weights>
void Forward(const T* x, Weights w, const T* bias, T* y, int64_t rows, int64_t in, int64_t out, Executor& ex,
             bool relu) {
  if (rows < kPackedFrom) return UnpackedForward(x, w, bias, y, rows, in, out, ex, relu);
  if constexpr (kTiled<T>)
    if (uses_matrix_tiles() &&
        ForTiledBlocks(rows, out, ex, [&](int64_t row, int64_t count, int64_t column, int64_t columns) {
          return TiledProduct(count, columns, in, Left<T, true>{x + row * in, in},
                              PanelsByColumn<T, Weights, kTilePanel>{element(w, column * in), in}, kPiecesOf<Weights>,
                              y + row * out + column, out, {.bias = bias ? bias + column : nullptr, .relu = relu});
        }))
      return;
  ForBlocks<T>(rows, out, ex, [&](int64_t row, int64_t count, int64_t column, int64_t columns) {
    Product(count, columns, in, Left<T, true>{x + row * in, in},
            PanelsByColumn<T, Weights>{element(w, column * in), in}, y + row * out + column, out,
            {.bias = bias ? bias + column : nullptr, .relu = relu});
  });
}

bool TilesHold(const float* x, int64_t n, Executor& ex) {
  std::atomic<bool> all{true};
  for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
    if (!tiles_hold(x + begin, end - begin)) all = false;
  });
  return all;
}

// dx (rows, in) = dy (rows, out) W.
template <class T>
void BackwardInput(const T* dy, const T* w, T* dx, int64_t rows, int64_t in, int64_t out, Executor& ex) {
  if constexpr (kTiled<T>)
    if (rows >= kPackedFrom && uses_matrix_tiles() &&
        ForTiledBlocks(rows, in, ex, [&](int64_t row, int64_t count, int64_t column, int64_t columns) {
          return TiledProduct(count, columns, out, Left<T, true>{dy + row * out, out},
                              PanelsByRow<T, kTilePanel>{w + column, in}, kTilePieces, dx + row * in + column, in, {});
        }))
      return;
  ForBlocks<T>(rows, in, ex, [&](int64_t row, int64_t count, int64_t column, int64_t columns) {
    Product(count, columns, out, Left<T, true>{dy + row * out, out}, PanelsByRow<T>{w + column, in},
            dx + row * in + column, in, {});
  });
}

// dw (out, in) += dy^T (out, rows) x (rows, in): no partial sums, each element is summed in the order of the rows.
template <class T>
void BackwardWeight(const T* dy, const T* x, T* dw, int64_t rows, int64_t in, int64_t out, Executor& ex) {
  if (rows == 0) return;    // dy and x may be null
  if constexpr (kTiled<T>)  // what is added to cannot be done again, so it is known before whether all fits
    if (rows >= kPackedFrom && uses_matrix_tiles() && TilesHold(dy, rows * out, ex) && TilesHold(x, rows * in, ex)) {
      ForTiledBlocks(out, in, ex, [&](int64_t row, int64_t count, int64_t column, int64_t columns) {
        return TiledProduct(count, columns, rows, Left<T, false>{dy + row, out},
                            PanelsByRow<T, kTilePanel>{x + column, in}, kTilePieces, dw + row * in + column, in,
                            {.add = true});
      });
      return;
    }
  ForBlocks<T>(out, in, ex, [&](int64_t row, int64_t count, int64_t column, int64_t columns) {
    Product(count, columns, rows, Left<T, false>{dy + row, out}, PanelsByRow<T>{x + column, in}, dw + row * in + column,
            in, {.add = true});
  });
}

template <class T>
void BackwardTiles(const T* dy, const T* x, const T* w, T* dx, T* dw, int64_t rows, int64_t in, int64_t out,
                   Executor& ex) {
  if (dx) BackwardInput(dy, w, dx, rows, in, out, ex);
  if (dw) BackwardWeight(dy, x, dw, rows, in, out, ex);
}

template <class T>
void Backward(const T* dy, const T* x, const T* w, T* dx, T* dw, T* dbias, int64_t rows, int64_t in, int64_t out,
              Executor& ex, const T* relu) {
  const ScratchArray<T> packed_w(dx ? PackedColumns<T>(in) * out : 0);
  if (dx)
    ForPanels<T>(out, in, ex, [&](int64_t column, int64_t columns) {
      Pack(PanelsByRow<T>{w + column, in}, out, columns, packed_w.get() + column * out);
    });
  // Pieces of rows, each with its own sum for dw, dbias and room for rows of x.
  const auto whole = static_cast<uint64_t>(std::clamp(rows / kPieceRows, int64_t{1}, kPieces));
  const auto pieces = static_cast<int64_t>(std::bit_floor(whole)), step = (rows + pieces - 1) / pieces;
  const int64_t room = PackedColumns<T>(in) * kBackwardRows;
  const ScratchArray<T> partial(dw || dbias ? pieces * out * (in + 1) : 0), packed_x(dw ? pieces * room : 0);
  const ScratchArray<T> kept(relu ? pieces * kBackwardRows * out : 0);
  parallel_for(ex, pieces, [&](int64_t piece) {
    T* const weights = partial.get() + piece * out * (in + 1);
    T* const columns = weights + out * in;
    if (dbias) std::fill(columns, columns + out, T{0});
    const int64_t begin = piece * step, end = std::min(rows, begin + step);
    for (int64_t row = begin; row < end; row += kBackwardRows) {
      const int64_t count = std::min(kBackwardRows, end - row);
      const T* dy_row = dy + row * out;
      if (relu) {
        T* const to = kept.get() + piece * kBackwardRows * out;
        for (int64_t i = 0; i < count * out; ++i) to[i] = relu[row * out + i] > 0 ? dy_row[i] : T{0};
        dy_row = to;
      }
      if (dx)
        Product(count, in, out, Left<T, true>{dy_row, out}, PackedPanels<T>{packed_w.get(), out}, dx + row * in, in,
                {});
      if (dw) {
        T* const x_row = packed_x.get() + piece * room;
        Pack(PanelsByRow<T>{x + row * in, in}, count, in, x_row);
        Product(out, in, count, Left<T, false>{dy_row, out}, PackedPanels<T>{x_row, count}, weights, in,
                {.add = row > begin});
      }
      if (dbias)
        for (int64_t r = 0; r < count; ++r)
          for (int64_t j = 0; j < out; ++j) columns[j] += dy_row[r * out + j];
    }
  });
  const auto add = [&](T* to, int64_t offset, int64_t n) {
    for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
      for (int64_t piece = 0; piece < pieces; ++piece) {
        const T* const from = partial.get() + piece * out * (in + 1) + offset;
        for (int64_t i = begin; i < end; ++i) to[i] += from[i];
      }
    });
  };
  if (dw) add(dw, 0, out * in);
  if (dbias) add(dbias, out * in, out);
}

#define HEED_LINEAR_OF(T, Weights, Suffix)                                                                \
  void Forward##Suffix(const T* x, Weights w, const T* bias, T* y, int64_t rows, int64_t in, int64_t out, \
                       Executor& ex, bool relu) {                                                         \
    Forward(x, w, bias, y, rows, in, out, ex, relu);                                                      \
  }                                                                                                       \
  void Pack##Suffix(Weights w, int64_t in, int64_t out, T* packed, Executor& ex) { PackWeight(w, in, out, packed, ex); }
HEED_LINEAR_OF(float, const float*, F32)
HEED_LINEAR_OF(double, const double*, F64)
HEED_LINEAR_OF(float, const hwy::float16_t*, F16)
HEED_LINEAR_OF(float, const hwy::bfloat16_t*, BF16)
HEED_LINEAR_OF(float, Quantised, Blocks)
#undef HEED_LINEAR_OF

#define HEED_LINEAR(T, Suffix)                                                                                         \
  void Backward##Suffix(const T* dy, const T* x, const T* w, T* dx, T* dw, T* dbias, int64_t rows, int64_t in,         \
                        int64_t out, Executor& ex, const T* relu) {                                                    \
    Backward(dy, x, w, dx, dw, dbias, rows, in, out, ex, relu);                                                        \
  }                                                                                                                    \
  void BackwardTiles##Suffix(const T* dy, const T* x, const T* w, T* dx, T* dw, int64_t rows, int64_t in, int64_t out, \
                             Executor& ex) {                                                                           \
    BackwardTiles(dy, x, w, dx, dw, rows, in, out, ex);                                                                \
  }                                                                                                                    \
  int64_t PackedSize##Suffix(int64_t in, int64_t out) { return PackedSize<T>(in, out); }                               \
  void PackedForward##Suffix(const T* x, const T* packed, T* y, int64_t rows, int64_t in, int64_t out, Executor& ex) { \
    PackedForward(x, packed, y, rows, in, out, ex);                                                                    \
  }
HEED_LINEAR(float, F32)
HEED_LINEAR(double, F64)
#undef HEED_LINEAR

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::inline v0 {
namespace {

HEED_EXPORT(ForwardF32);
HEED_EXPORT(ForwardF64);
HEED_EXPORT(ForwardF16);
HEED_EXPORT(ForwardBF16);
HEED_EXPORT(ForwardBlocks);
HEED_EXPORT(BackwardF32);
HEED_EXPORT(BackwardF64);
HEED_EXPORT(BackwardTilesF32);
HEED_EXPORT(BackwardTilesF64);
HEED_EXPORT(PackedSizeF32);
HEED_EXPORT(PackedSizeF64);
HEED_EXPORT(PackF32);
HEED_EXPORT(PackF64);
HEED_EXPORT(PackF16);
HEED_EXPORT(PackBF16);
HEED_EXPORT(PackBlocks);
HEED_EXPORT(PackedForwardF32);
HEED_EXPORT(PackedForwardF64);

constexpr int64_t kColumns = 64;             // of a column sum: rows go through in order, so its bits are fixed
constexpr int64_t kPackedRows = 192;         // repay a matrix of partial sums a piece
constexpr int64_t kPackedWeights = 1 << 19;  // at most, for dw in pieces: 2 MB of float

Executor& calling_thread() {
  static Executor* const executor = make_executor(1).release();  // never destroyed, as the default one
  return *executor;
}

// Highway's names for the same 16 bits.
template <class H, class W>
const H* bits_of(const W* w) {
  static_assert(sizeof(H) == sizeof(W));
  return reinterpret_cast<const H*>(w);
}

}  // namespace

template <class T, class W>
void linear_forward(const T* x, const W* w, const T* bias, T* y, int64_t rows, int64_t in, int64_t out, Executor& ex,
                    bool relu) {
  if constexpr (std::is_same_v<W, float>)
    HEED_DISPATCH(ForwardF32)(x, w, bias, y, rows, in, out, ex, relu);
  else if constexpr (std::is_same_v<W, double>)
    HEED_DISPATCH(ForwardF64)(x, w, bias, y, rows, in, out, ex, relu);
  else if constexpr (std::is_same_v<W, float16>)
    HEED_DISPATCH(ForwardF16)(x, bits_of<hwy::float16_t>(w), bias, y, rows, in, out, ex, relu);
  else
    HEED_DISPATCH(ForwardBF16)(x, bits_of<hwy::bfloat16_t>(w), bias, y, rows, in, out, ex, relu);
}

template <>
void linear_forward(const float* x, const Quantised& w, const float* bias, float* y, int64_t rows, int64_t in,
                    int64_t out, Executor& ex, bool relu) {
  HEED_DISPATCH(ForwardBlocks)(x, w, bias, y, rows, in, out, ex, relu);
}

template <class T>
void linear_backward(const T* dy, const T* x, const T* w, T* dx, T* dw, T* dbias, int64_t rows, int64_t in, int64_t out,
                     Executor& ex, const T* relu) {
  if (rows >= kPackedRows && in * out <= kPackedWeights) {
    if constexpr (std::is_same_v<T, float>)
      HEED_DISPATCH(BackwardF32)(dy, x, w, dx, dw, dbias, rows, in, out, ex, relu);
    else
      HEED_DISPATCH(BackwardF64)(dy, x, w, dx, dw, dbias, rows, in, out, ex, relu);
    return;
  }
  if (relu) {
    const ScratchArray<T> kept(rows * out);
    activation_backward<T>(Activation::relu, dy, relu, kept.get(), rows * out, ex);
    return linear_backward<T>(kept.get(), x, w, dx, dw, dbias, rows, in, out, ex, nullptr);
  }
  Executor& own = rows * in * out < kAlone ? calling_thread() : ex;
  if constexpr (std::is_same_v<T, float>)
    HEED_DISPATCH(BackwardTilesF32)(dy, x, w, dx, dw, rows, in, out, own);
  else
    HEED_DISPATCH(BackwardTilesF64)(dy, x, w, dx, dw, rows, in, out, own);
  if (dbias)
    for_chunks(out, kColumns, ex, [&](int64_t begin, int64_t end) {
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t j = begin; j < end; ++j) dbias[j] += dy[row * out + j];
    });
}

template <>
template <class W>
PackedWeight<float>::PackedWeight(const W* w, int64_t in_size, int64_t out_size, Executor& ex)
    : in(in_size), out(out_size), packed_(HEED_DISPATCH(PackedSizeF32)(in, out)) {
  if constexpr (std::is_same_v<W, float>)
    HEED_DISPATCH(PackF32)(w, in, out, packed_.get(), ex);
  else if constexpr (std::is_same_v<W, float16>)
    HEED_DISPATCH(PackF16)(bits_of<hwy::float16_t>(w), in, out, packed_.get(), ex);
  else
    HEED_DISPATCH(PackBF16)(bits_of<hwy::bfloat16_t>(w), in, out, packed_.get(), ex);
}
template <>
PackedWeight<float>::PackedWeight(const Quantised& w, int64_t in_size, int64_t out_size, Executor& ex)
    : in(in_size), out(out_size), packed_(HEED_DISPATCH(PackedSizeF32)(in, out)) {
  HEED_DISPATCH(PackBlocks)(w, in, out, packed_.get(), ex);
}
template <>
template <>
PackedWeight<double>::PackedWeight(const double* w, int64_t in_size, int64_t out_size, Executor& ex)
    : in(in_size), out(out_size), packed_(HEED_DISPATCH(PackedSizeF64)(in, out)) {
  HEED_DISPATCH(PackF64)(w, in, out, packed_.get(), ex);
}
template PackedWeight<float>::PackedWeight(const float*, int64_t, int64_t, Executor&);
template PackedWeight<float>::PackedWeight(const float16*, int64_t, int64_t, Executor&);
template PackedWeight<float>::PackedWeight(const bfloat16*, int64_t, int64_t, Executor&);

template <>
void linear_forward(const float* x, const PackedWeight<float>& w, float* y, int64_t rows, Executor& ex) {
  HEED_DISPATCH(PackedForwardF32)(x, w.get(), y, rows, w.in, w.out, ex);
}
template <>
void linear_forward(const double* x, const PackedWeight<double>& w, double* y, int64_t rows, Executor& ex) {
  HEED_DISPATCH(PackedForwardF64)(x, w.get(), y, rows, w.in, w.out, ex);
}

#define HEED_LINEAR(T, W) \
  template void linear_forward(const T*, const W*, const T*, T*, int64_t, int64_t, int64_t, Executor&, bool);
HEED_LINEAR(float, float)
HEED_LINEAR(double, double)
HEED_LINEAR(float, float16)
HEED_LINEAR(float, bfloat16)
#undef HEED_LINEAR
template void linear_backward(const float*, const float*, const float*, float*, float*, float*, int64_t, int64_t,
                              int64_t, Executor&, const float*);
template void linear_backward(const double*, const double*, const double*, double*, double*, double*, int64_t, int64_t,
                              int64_t, Executor&, const double*);

}  // namespace heed::inline v0
#endif
