// The output layer and its cross-entropy in one. The gradient of a row of x is a mean of rows of W weighted by its
// softmax, so forward and that gradient are one pass like attention's, with W as keys and values (Milakov and
// Gimelshein 2018; Dao et al. 2022). Logits are made once, in a block that stays in cache; what is kept of them for
// the gradient of W are their exponentials, for a chunk of rows at a time.
//
// Twins (R-Drop, Liang et al. 2021) are neighbours in every tile. With d = z - z' (the logits of a row less its twin's)
// and E the mean under the row's softmax p, the divergence J = (KL(p||p') + KL(p'||p)) / 2 is (E[d] + E'[-d]) / 2 and
//   dJ/dz = (p - p' + p (d - E[d])) / 2,
// so p and p d are all that is needed of a row, and both are made online as p alone is.
#include "kernels/chunks.h"
#include "kernels/loss.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_loss.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/packed-inl.h"
#include "simd/exp-inl.h"
#include "simd/vector-inl.h"

#ifndef HEED_KERNELS_LINEAR_LOSS_ONCE
#define HEED_KERNELS_LINEAR_LOSS_ONCE
namespace heed::inline v0 {
namespace {

constexpr int64_t kClasses = 288;          // of a block, a multiple of every panel's width
constexpr int64_t kRowOfBlock = 304;       // apart in memory: a power of two would share few sets of the caches
constexpr int64_t kTile = 96;              // rows that go through all blocks together
constexpr int64_t kMostRows = 1536;        // of a chunk
constexpr int64_t kChunkBytes = 16 << 20;  // of exponentials

template <class T>
struct LinearLoss {
  const T *x, *w, *bias;
  const int32_t* targets;
  int32_t ignore_index;
  double label_smoothing, r_drop;
  T *dx, *dw, *dbias, scale;
  int64_t rows, in, vocab;
};

}  // namespace
}  // namespace heed::inline v0
#endif

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

// Of a row, over the blocks so far: the maximum, and relative to it the sum of exponentials and that of exponentials
// times differences to the twin.
template <class T>
struct Running {
  T top = std::numeric_limits<T>::lowest();
  double sum = 0, differences = 0;
};

// x = exp(x - top) with `top` raised to the row's maximum; returns what earlier sums are to be multiplied by.
template <class T>
HWY_NOINLINE T Exponentials(T* HWY_RESTRICT x, int64_t width, Running<T>& running) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr auto N = static_cast<int64_t>(hn::MaxLanes(d));
  V most = hn::Set(d, running.top);
  int64_t i = 0;
  for (; i + N <= width; i += N) most = hn::Max(most, hn::LoadU(d, x + i));
  T top = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; i < width; ++i) top = std::max(top, x[i]);
  const T factor = top == running.top ? T{1} : std::exp(running.top - top);
  const V shift = hn::Set(d, top);
  V sum = hn::Zero(d);
  for_vectors(d, width, [&](auto load, auto store, auto live) HWY_ATTR {
    const V e = exp(d, hn::Sub(load(x), shift));
    sum = hn::Add(sum, live(e));
    store(e, x);
  });
  running.top = top;
  running.sum = running.sum * static_cast<double>(factor) + static_cast<double>(sum_of_lanes(d, sum));
  return factor;
}

// The differences of twins: to = x - twin, and its negative behind it, at to_twin.
template <class T>
void Differences(const T* HWY_RESTRICT x, const T* HWY_RESTRICT twin, T* HWY_RESTRICT to, T* HWY_RESTRICT to_twin,
                 int64_t width) {
  const hn::ScalableTag<T> d;
  for_vectors(d, width, [&](auto load, auto store, auto) HWY_ATTR {
    const auto difference = hn::Sub(load(x), load(twin));
    store(difference, to);
    store(hn::Neg(difference), to_twin);
  });
}

// x *= factor, element by element; returns the sum.
template <class T>
T Weigh(const T* HWY_RESTRICT factor, T* HWY_RESTRICT x, int64_t width) {
  const hn::ScalableTag<T> d;
  auto sum = hn::Zero(d);
  for_vectors(d, width, [&](auto load, auto store, auto) HWY_ATTR {
    const auto weight = load(factor);  // 0 * infinity is 0 here: a class that both rows bar
    const auto product = hn::IfThenElseZero(hn::Ne(weight, hn::Zero(d)), hn::Mul(weight, load(x)));
    sum = hn::Add(sum, product);
    store(product, x);
  });
  return sum_of_lanes(d, sum);
}

// to = scale * exp(x - shift), element by element.
template <class T>
void Factors(const T* x, const T* shift, const T* scale, T* to, int64_t n) {
  const hn::ScalableTag<T> d;
  for_vectors(d, n, [&](auto load, auto store, auto) HWY_ATTR {
    store(hn::Mul(load(scale), exp(d, hn::Sub(load(x), load(shift)))), to);
  });
}

template <class T>
class LossPass {
 public:
  LossPass(const LinearLoss<T>& p, Executor& ex)
      : p_(p),
        ex_(ex),
        twins_(p.r_drop > 0),
        blocks_((p.vocab + kClasses - 1) / kClasses),
        row_(p.rows),
        gathered_(p.rows * p.in),
        loss_(p.rows),
        nll_(p.rows),
        packed_columns_(blocks_ * kClasses * p.in),
        packed_rows_(p.dx ? p.vocab * PackedColumns<T>(p.in) : 0),
        weight_sum_(p.in),
        x_sum_(p.in) {}

  LossSum run() {
    gather();
    LossSum total;
    total.count = count_;
    if (count_ == 0) return total;
    pack();
    const bool keep = p_.dw || p_.dbias;
    const int64_t fit = kChunkBytes / (blocks_ * kRowOfBlock * static_cast<int64_t>(sizeof(T))) / kTile * kTile;
    chunk_ = std::min(count_, std::clamp(fit, kTile, kMostRows));
    const int64_t elements = keep ? blocks_ * chunk_ * kRowOfBlock : 0;
    const ScratchArray<T> kept(elements), kept_differences(twins_ ? elements : 0), tops(keep ? blocks_ * chunk_ : 0);
    const ScratchArray<T> top(chunk_), inverse(chunk_), expected(twins_ ? chunk_ : 0);
    const ScratchArray<T> mixed(twins_ && p_.dw ? chunk_ * p_.in : 0);
    kept_ = keep ? kept.get() : nullptr, kept_differences_ = keep ? kept_differences.get() : nullptr;
    tops_ = tops.get(), top_ = top.get(), inverse_ = inverse.get(), expected_ = expected.get(), mixed_ = mixed.get();
    for (first_ = 0; first_ < count_; first_ += chunk_) {
      length_ = std::min(chunk_, count_ - first_);
      for_chunks(length_, kTile, ex_, [&](int64_t begin, int64_t end) { tile(begin, end); });
      if (keep) parallel_for(ex_, blocks_, [&](int64_t block) { weights(block); });
    }
    for (int64_t i = 0; i < count_; ++i) {
      total.loss += loss_[i];
      total.nll += nll_[i];
    }
    return total;
  }

 private:
  int64_t classes(int64_t block) const { return std::min(kClasses, p_.vocab - block * kClasses); }
  const T* x(int64_t i) const { return x_ + i * p_.in; }
  int32_t target(int64_t i) const { return p_.targets[row_[i]]; }

  // The rows that count, one after the other, or twin behind twin.
  void gather() {
    const auto take = [&](int64_t row) {
      if (p_.targets[row] != p_.ignore_index)
        row_[count_++] = row;
      else if (p_.dx)
        std::fill(p_.dx + row * p_.in, p_.dx + (row + 1) * p_.in, T{0});
    };
    for (int64_t row = 0; row < (twins_ ? p_.rows / 2 : p_.rows); ++row) {
      take(row);
      if (twins_) take(row + p_.rows / 2);
    }
    x_ = p_.x;
    if (count_ == p_.rows && !twins_) return;
    for_rows(count_, p_.in, ex_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        std::copy(p_.x + row_[i] * p_.in, p_.x + (row_[i] + 1) * p_.in, gathered_.get() + i * p_.in);
    });
    x_ = gathered_.get();
  }

  void pack() {
    static_assert(kClasses % PanelWidth<T>() == 0);
    const ScratchArray<double> sums(blocks_ * p_.in);
    parallel_for(ex_, blocks_, [&](int64_t block) {
      const T* const w = p_.w + block * kClasses * p_.in;
      Pack(PanelsByColumn<T, const T*>{w, p_.in}, p_.in, classes(block),
           packed_columns_.get() + block * kClasses * p_.in);
      if (p_.dx)
        Pack(PanelsByRow<T>{w, p_.in}, classes(block), p_.in,
             packed_rows_.get() + block * kClasses * PackedColumns<T>(p_.in));
      double* const sum = sums.get() + block * p_.in;
      std::fill(sum, sum + p_.in, 0.0);
      for (int64_t c = 0; c < classes(block); ++c)
        for (int64_t j = 0; j < p_.in; ++j) sum[j] += static_cast<double>(w[c * p_.in + j]);
    });
    std::fill(weight_sum_.get(), weight_sum_.get() + p_.in, 0.0);
    for (int64_t block = 0; block < blocks_; ++block)
      for (int64_t j = 0; j < p_.in; ++j) weight_sum_[j] += sums[block * p_.in + j];
    for (int64_t c = 0; p_.bias && c < p_.vocab; ++c) bias_sum_ += static_cast<double>(p_.bias[c]);
    if (!p_.dw) return;
    std::fill(x_sum_.get(), x_sum_.get() + p_.in, 0.0);
    for (int64_t i = 0; i < count_; ++i)
      for (int64_t j = 0; j < p_.in; ++j) x_sum_[j] += static_cast<double>(x(i)[j]);
  }

  // Rows [begin, end) of the chunk: losses, the gradient of x, and exponentials for that of W.
  void tile(int64_t begin, int64_t end) {
    const int64_t rows = end - begin, in = p_.in, packed_in = PackedColumns<T>(in);
    const int64_t own_size = kept_ ? 0 : kTile * kRowOfBlock, mean_size = p_.dx ? kTile * in : 0;
    const ScratchArray<T> own(own_size), own_differences(twins_ ? own_size : 0);
    const ScratchArray<T> mean(mean_size), mean_of_differences(twins_ ? mean_size : 0);
    Running<T> running[kTile];
    T on_target[kTile];
    for (int64_t block = 0; block < blocks_; ++block) {
      const int64_t width = classes(block), offset = block * kClasses;
      const int64_t at = (block * chunk_ + begin) * kRowOfBlock;
      T* const e = kept_ ? kept_ + at : own.get();
      T* const differences = kept_ ? kept_differences_ + at : own_differences.get();
      Product(rows, width, in, Left<T, true>{x(first_ + begin), in},
              PackedPanels<T>{packed_columns_.get() + offset * in, in}, e, kRowOfBlock,
              {.bias = p_.bias ? p_.bias + offset : nullptr});
      for (int64_t r = 0; twins_ && r < rows; r += 2)
        Differences(e + r * kRowOfBlock, e + (r + 1) * kRowOfBlock, differences + r * kRowOfBlock,
                    differences + (r + 1) * kRowOfBlock, width);
      for (int64_t r = 0; r < rows; ++r) {
        T* const row = e + r * kRowOfBlock;
        const int64_t own_class = target(first_ + begin + r) - offset;
        if (own_class >= 0 && own_class < width) on_target[r] = row[own_class];
        const T factor = Exponentials(row, width, running[r]);
        if (twins_)
          running[r].differences = running[r].differences * static_cast<double>(factor) +
                                   static_cast<double>(Weigh(row, differences + r * kRowOfBlock, width));
        if (kept_) tops_[block * chunk_ + begin + r] = running[r].top;
        if (!p_.dx || block == 0 || factor == T{1}) continue;
        for (int64_t j = 0; j < in; ++j) mean[r * in + j] *= factor;
        for (int64_t j = 0; twins_ && j < in; ++j) mean_of_differences[r * in + j] *= factor;
      }
      if (!p_.dx) continue;
      const PackedPanels<T> w{packed_rows_.get() + offset * packed_in, width};
      const Finish<T> add{.add = block > 0};
      Product(rows, in, width, Left<T, true>{e, kRowOfBlock}, w, mean.get(), in, add);
      if (twins_)
        Product(rows, in, width, Left<T, true>{differences, kRowOfBlock}, w, mean_of_differences.get(), in, add);
    }
    for (int64_t r = 0; r < rows; ++r)
      finish(begin + r, running[r], on_target[r], p_.dx ? mean.get() + r * in : nullptr);
    for (int64_t r = 0; twins_ && r < rows; r += 2)
      finish_twins(begin + r, running + r, mean.get() + r * in, mean_of_differences.get() + r * in);
  }

  void finish(int64_t at, const Running<T>& running, T on_target, const T* mean) {
    const int64_t i = first_ + at, in = p_.in;
    const auto vocab = static_cast<double>(p_.vocab);
    // The maximum goes before the logarithm is added, which it may be too large to keep.
    const double top = static_cast<double>(running.top), log = std::log(running.sum), s = p_.label_smoothing;
    nll_[i] = loss_[i] = log + (top - static_cast<double>(on_target));
    if (s > 0) {
      double logits = bias_sum_;
      for (int64_t j = 0; j < in; ++j) logits += static_cast<double>(x(i)[j]) * weight_sum_[j];
      loss_[i] = (1 - s) * nll_[i] + s * (log + (top - logits / vocab));
    }
    top_[at] = running.top;
    inverse_[at] = p_.scale * static_cast<T>(1 / running.sum);
    if (!p_.dx) return;
    T* const dx = p_.dx + row_[i] * in;
    const T* const w = p_.w + int64_t{target(i)} * in;
    const T uniform = p_.scale * static_cast<T>(s / vocab), own = p_.scale * static_cast<T>(1 - s);
    for (int64_t j = 0; j < in; ++j)
      dx[j] = inverse_[at] * mean[j] - uniform * static_cast<T>(weight_sum_[j]) - own * w[j];
  }

  // What the divergence of rows `at` and `at` + 1 of the chunk adds: to each one's loss half, to its gradient by the
  // logits r_drop / 2 * (p (1 - E[d]) - p' + p d). `means` and `of_differences` are two rows each, not yet divided
  // by the sums.
  void finish_twins(int64_t at, const Running<T>* running, const T* means, const T* of_differences) {
    const int64_t in = p_.in;
    const T half = static_cast<T>(p_.r_drop / 2);
    double divergence = 0;
    for (int64_t r = 0; r < 2; ++r) {
      const double expected = running[r].differences / running[r].sum;
      expected_[at + r] = static_cast<T>(expected);
      divergence += expected / 2;
    }
    for (int64_t r = 0; r < 2; ++r) {
      const int64_t i = first_ + at + r, twin = 1 - r;
      loss_[i] += p_.r_drop / 2 * divergence;
      const T rest = T{1} - expected_[at + r];
      if (p_.dx) {
        T* const dx = p_.dx + row_[i] * in;
        const T factor = half * inverse_[at + r], of_twin = half * inverse_[at + twin];
        for (int64_t j = 0; j < in; ++j)
          dx[j] += factor * (rest * means[r * in + j] + of_differences[r * in + j]) - of_twin * means[twin * in + j];
      }
      // p stands in the gradients of both twins' logits.
      if (p_.dw)
        for (int64_t j = 0; j < in; ++j)
          mixed_[(at + r) * in + j] = x(i)[j] + half * (rest * x(i)[j] - x(first_ + at + twin)[j]);
    }
  }

  // The chunk's part in the gradients of a block of W and of the bias.
  void weights(int64_t block) {
    const int64_t in = p_.in, width = classes(block), offset = block * kClasses;
    const T* const e = kept_ + block * chunk_ * kRowOfBlock;
    const T* const differences = kept_differences_ + (twins_ ? block * chunk_ * kRowOfBlock : 0);
    const T uniform = p_.scale * static_cast<T>(p_.label_smoothing / static_cast<double>(p_.vocab));
    const T own = p_.scale * static_cast<T>(1 - p_.label_smoothing), half = static_cast<T>(p_.r_drop / 2);
    const ScratchArray<T> factors(length_), packed_x(p_.dw ? length_ * PackedColumns<T>(in) : 0);
    Factors(tops_ + block * chunk_, top_, inverse_, factors.get(), length_);
    T* const dw = p_.dw ? p_.dw + offset * in : nullptr;
    T* const dbias = p_.dbias ? p_.dbias + offset : nullptr;
    for (int64_t r = 0; dbias && r < length_; ++r) {
      const T* const row = e + r * kRowOfBlock;
      if (twins_) {
        const T* const row_differences = differences + r * kRowOfBlock;
        const T factor = factors[r] * (T{1} - half * expected_[r]), of_differences = factors[r] * half;
        for (int64_t c = 0; c < width; ++c) dbias[c] += factor * row[c] + of_differences * row_differences[c] - uniform;
      } else {
        for (int64_t c = 0; c < width; ++c) dbias[c] += factors[r] * row[c] - uniform;
      }
      const int64_t own_class = target(first_ + r) - offset;
      if (own_class >= 0 && own_class < width) dbias[own_class] -= own;
    }
    if (!dw) return;
    if (first_ == 0)
      for (int64_t c = 0; c < width; ++c)
        for (int64_t j = 0; j < in; ++j) dw[c * in + j] -= uniform * static_cast<T>(x_sum_[j]);
    const auto add = [&](const T* rows, const T* of_rows) {
      Pack(PanelsByRow<T>{of_rows, in, factors.get()}, length_, in, packed_x.get());
      Product(width, in, length_, Left<T, false>{rows, kRowOfBlock}, PackedPanels<T>{packed_x.get(), length_}, dw, in,
              {.add = true});
    };
    add(e, twins_ ? mixed_ : x(first_));
    if (twins_) {
      for (int64_t r = 0; r < length_; ++r) factors[r] *= half;
      add(differences, x(first_));
    }
    for (int64_t r = 0; r < length_; ++r) {
      const int64_t own_class = target(first_ + r) - offset;
      if (own_class < 0 || own_class >= width) continue;
      for (int64_t j = 0; j < in; ++j) dw[own_class * in + j] -= own * x(first_ + r)[j];
    }
  }

  const LinearLoss<T>& p_;
  Executor& ex_;
  const bool twins_;  // with p.r_drop
  const int64_t blocks_;
  const ScratchArray<int64_t> row_;  // of each row that counts
  const ScratchArray<T> gathered_;
  const ScratchArray<double> loss_, nll_;
  const ScratchArray<T> packed_columns_, packed_rows_;  // W, for the logits and for the gradient of x
  const ScratchArray<double> weight_sum_, x_sum_;
  const T* x_ = nullptr;
  double bias_sum_ = 0;
  int64_t count_ = 0, chunk_ = 0, first_ = 0, length_ = 0;
  // Of the chunk: exponentials (block, row, class), the maximum each is relative to (block, row), the final maximum,
  // and scale over the final sum (row).
  T *kept_ = nullptr, *tops_ = nullptr, *top_ = nullptr, *inverse_ = nullptr;
  // With twins: exponentials times differences (block, row, class), E[d] (row), and the rows of x that p is multiplied
  // by in the gradient of W (row, in).
  T *kept_differences_ = nullptr, *expected_ = nullptr, *mixed_ = nullptr;
};

LossSum LinearLossF32(const LinearLoss<float>& p, Executor& ex) { return LossPass<float>(p, ex).run(); }
LossSum LinearLossF64(const LinearLoss<double>& p, Executor& ex) { return LossPass<double>(p, ex).run(); }

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::inline v0 {

HEED_EXPORT(LinearLossF32);
HEED_EXPORT(LinearLossF64);

template <>
LossSum linear_cross_entropy(const float* x, const float* w, const float* bias, const int32_t* targets,
                             int32_t ignore_index, double label_smoothing, double r_drop, float* dx, float* dw,
                             float* dbias, float gradient_scale, int64_t rows, int64_t in, int64_t vocab,
                             Executor& ex) {
  return HEED_DISPATCH(LinearLossF32)(
      {x, w, bias, targets, ignore_index, label_smoothing, r_drop, dx, dw, dbias, gradient_scale, rows, in, vocab}, ex);
}
template <>
LossSum linear_cross_entropy(const double* x, const double* w, const double* bias, const int32_t* targets,
                             int32_t ignore_index, double label_smoothing, double r_drop, double* dx, double* dw,
                             double* dbias, double gradient_scale, int64_t rows, int64_t in, int64_t vocab,
                             Executor& ex) {
  return HEED_DISPATCH(LinearLossF64)(
      {x, w, bias, targets, ignore_index, label_smoothing, r_drop, dx, dw, dbias, gradient_scale, rows, in, vocab}, ex);
}

}  // namespace heed::inline v0
#endif
