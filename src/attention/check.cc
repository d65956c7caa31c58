#include "attention/check.h"

#include <algorithm>
#include <sstream>

namespace heed::inline v0 {
namespace {

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw ShapeError(text.str());
}

std::string shape(const Tensor& t) { return to_string(t.shape()); }

void check_operand(const char* operation, const char* name, const char* letters, const Tensor& t) {
  if (!t.defined()) refuse(operation, ": ", name, " is undefined; pass a tensor ", letters);
  if (t.dtype() != DType::f32 && t.dtype() != DType::f64)
    refuse(operation, ": ", name, " is ", name_of(t.dtype()), "; attention computes in f32 and f64, convert with to()");
  if (t.rank() != 4)
    refuse(operation, ": ", name, " has shape ", shape(t), ", not the four dimensions ", letters,
           "; add the missing ones with reshape");
  if (t.size(3) > 1 && t.stride(3) != 1)
    refuse(operation, ": the innermost stride of ", name, " is ", t.stride(3),
           ", which must be 1; call contiguous() first");
}

void check_same_dtype(const char* operation, const char* name, const Tensor& t, const Tensor& q) {
  if (t.dtype() != q.dtype())
    refuse(operation, ": ", name, " is ", name_of(t.dtype()), " and q is ", name_of(q.dtype()),
           "; convert one with to()");
}

std::string divisors(int64_t n) {
  std::string text;
  for (int64_t d = 1; d <= n; ++d) {
    if (n % d) continue;
    if (!text.empty()) text += d == n ? " or " : ", ";
    text += std::to_string(d);
  }
  return text;
}

void check_mask(const char* operation, const Tensor& mask, const Tensor& q, const Sizes& s) {
  if (!mask.defined()) return;
  if (mask.dtype() != DType::boolean && mask.dtype() != q.dtype())
    refuse(operation, ": the mask is ", name_of(mask.dtype()), "; pass bool (true = may be attended) or ",
           name_of(q.dtype()), " like q (added to the score)");
  const int64_t full[4] = {s.B, s.Hq, s.Lq, s.Lk};
  bool fits = mask.rank() <= 4;
  for (int d = 1; fits && d <= mask.rank(); ++d) {
    const int64_t n = mask.size(-d);
    fits = n == 1 || n == full[4 - d];
  }
  if (!fits)
    refuse(operation, ": a mask of shape ", shape(mask),
           " does not broadcast to (B, Hq, Lq, Lk) = ", to_string(Dims{s.B, s.Hq, s.Lq, s.Lk}),
           "; each dimension, from the right, must be 1 or that size");
}

void check_key_lengths(const char* operation, const Tensor& lengths, const Sizes& s) {
  if (!lengths.defined()) return;
  if (lengths.dtype() != DType::i32 && lengths.dtype() != DType::i64)
    refuse(operation, ": key_lengths are ", name_of(lengths.dtype()), "; pass i32 or i64");
  if (lengths.rank() != 1 || lengths.size(0) != s.B)
    refuse(operation, ": key_lengths have shape ", shape(lengths), "; pass one length an entry, (", s.B, ")");
  for (int64_t b = 0; b < s.B; ++b) {
    const int64_t n = lengths.dtype() == DType::i64 ? lengths.at<int64_t>(b) : lengths.at<int32_t>(b);
    if (n < 0 || n > s.Lk) refuse(operation, ": key_lengths[", b, "] is ", n, "; pass 0 to Lk = ", s.Lk);
  }
}

/// The bytes from the first element to the end of the last; empty for no elements.
struct Extent {
  uintptr_t begin, end;
};

Extent extent(const Tensor& t) {
  const auto size = static_cast<int64_t>(size_of(t.dtype()));
  int64_t low = 0, high = size;
  for (int d = 0; d < t.rank(); ++d) {
    if (t.size(d) == 0) return {0, 0};
    const int64_t span = (t.size(d) - 1) * t.stride(d) * size;
    (span < 0 ? low : high) += span;
  }
  const auto base = reinterpret_cast<uintptr_t>(t.raw());
  return {base + static_cast<uintptr_t>(low), base + static_cast<uintptr_t>(high)};
}

/// Whether all elements lie in [begin, end) modulo `period` bytes (begin may be moved by whole periods).
Extent residues(const Tensor& t, int64_t period) {
  const auto size = static_cast<int64_t>(size_of(t.dtype()));
  Extent e{reinterpret_cast<uintptr_t>(t.raw()), reinterpret_cast<uintptr_t>(t.raw()) + static_cast<uintptr_t>(size)};
  for (int d = 0; d < t.rank(); ++d) {
    const int64_t step = t.stride(d) * size;
    if (step % period) (step < 0 ? e.begin : e.end) += static_cast<uintptr_t>((t.size(d) - 1) * step);
  }
  return e;
}

/// False only when no byte is shared. Slices of one packed tensor interleave without sharing: tell them apart by
/// their place modulo each stride.
bool may_overlap(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return false;
  const Extent ea = extent(a), eb = extent(b);
  if (ea.end <= eb.begin || eb.end <= ea.begin) return false;
  for (const Tensor* t : {&a, &b}) {
    for (int d = 0; d < t->rank(); ++d) {
      const int64_t period = std::abs(t->stride(d)) * static_cast<int64_t>(size_of(t->dtype()));
      if (period == 0) continue;
      const Extent ra = residues(a, period), rb = residues(b, period);
      const auto p = static_cast<uintptr_t>(period);
      if (ra.end - ra.begin > p || rb.end - rb.begin > p) continue;
      const uintptr_t shift = (rb.begin % p + p - ra.begin % p) % p;  // how far b begins after a
      if (shift >= ra.end - ra.begin && shift + (rb.end - rb.begin) <= p) return false;
    }
  }
  return true;
}

void check_written(const char* operation, const char* name, const char* letters, const Tensor& t, const Dims& expected,
                   const Tensor& q) {
  check_operand(operation, name, letters, t);
  check_same_dtype(operation, name, t, q);
  if (!(t.shape() == expected))
    refuse(operation, ": ", name, " has shape ", shape(t), "; pass ", letters, " = ", to_string(expected));
  for (int d = 0; d < t.rank(); ++d)
    if (t.size(d) > 1 && t.stride(d) == 0)
      refuse(operation, ": ", name, " is broadcast along dimension ", d,
             " and cannot be written to; pass memory of its own");
}

void check_contiguous(const char* operation, const char* name, const char* letters, const Tensor& t,
                      const Dims& expected, const Tensor& q) {
  check_same_dtype(operation, name, t, q);
  if (!(t.shape() == expected))
    refuse(operation, ": ", name, " has shape ", shape(t), "; pass ", letters, " = ", to_string(expected));
  if (!t.is_contiguous()) refuse(operation, ": ", name, " is strided; call contiguous() first");
}

struct Named {
  const char* name;
  const Tensor* tensor;
};

void check_apart(const char* operation, std::initializer_list<Named> written, std::initializer_list<Named> read) {
  for (const Named& w : written) {
    for (const Named& r : read)
      if (may_overlap(*w.tensor, *r.tensor))
        refuse(operation, ": ", w.name, " shares memory with ", r.name, ", which is read; pass memory of its own");
    for (const Named& other : written) {
      if (&other == &w) break;
      if (may_overlap(*w.tensor, *other.tensor))
        refuse(operation, ": ", w.name, " shares memory with ", other.name, "; pass memory of its own");
    }
  }
}

}  // namespace

Sizes check_inputs(const char* operation, const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionOptions& options) {
  check_operand(operation, "q", "(B, Hq, Lq, D)", q);
  check_operand(operation, "k", "(B, Hkv, Lk, D)", k);
  check_operand(operation, "v", "(B, Hkv, Lk, Dv)", v);
  check_same_dtype(operation, "k", k, q);
  check_same_dtype(operation, "v", v, q);
  const Sizes s{q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3), v.size(3)};
  if (k.size(0) != s.B || v.size(0) != s.B)
    refuse(operation, ": batches of q, k and v are ", s.B, ", ", k.size(0), " and ", v.size(0),
           "; make them equal, with expand() where one is shared");
  if (k.size(3) != s.D)
    refuse(operation, ": the head size of q is ", s.D, " and of k ", k.size(3),
           "; they are multiplied, make them equal");
  if (s.D == 0) refuse(operation, ": the head size of q and k is 0; pass at least 1");
  if (v.size(1) != s.Hkv) refuse(operation, ": k has ", s.Hkv, " heads and v ", v.size(1), "; make them equal");
  if (v.size(2) != s.Lk)
    refuse(operation, ": k has ", s.Lk, " positions and v ", v.size(2), "; each key needs its value");
  if (s.Hkv == 0 ? s.Hq != 0 : s.Hq % s.Hkv != 0)
    refuse(operation, ": ", s.Hq, " query heads are not a multiple of ", s.Hkv, " key heads; pass k and v with ",
           divisors(s.Hq), s.Hq == 1 ? " head" : " heads");
  check_mask(operation, options.mask, q, s);
  check_key_lengths(operation, options.key_lengths, s);
  if (!(options.dropout >= 0 && options.dropout < 1))
    refuse(operation, ": dropout is ", options.dropout, "; pass a probability in [0, 1)");
  if (options.scale && !std::isfinite(*options.scale))
    refuse(operation, ": scale is ", *options.scale, "; pass a finite factor, or none for 1/sqrt(D)");
  return s;
}

void check_outputs(const Sizes& s, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& into,
                   const AttentionOptions& options) {
  constexpr auto operation = "attention";
  check_written(operation, "into.out", "(B, Hq, Lq, Dv)", into.out, {s.B, s.Hq, s.Lq, s.Dv}, q);
  if (into.lse.defined()) check_contiguous(operation, "into.lse", "(B, Hq, Lq)", into.lse, {s.B, s.Hq, s.Lq}, q);
  if (into.weights.defined())
    check_contiguous(operation, "into.weights", "(B, Hq, Lq, Lk)", into.weights, {s.B, s.Hq, s.Lq, s.Lk}, q);
  check_apart(operation, {{"into.out", &into.out}, {"into.lse", &into.lse}, {"into.weights", &into.weights}},
              {{"q", &q}, {"k", &k}, {"v", &v}, {"the mask", &options.mask}, {"key_lengths", &options.key_lengths}});
}

void check_saved(const Sizes& s, const Tensor& q, const Tensor& grad_out, const AttentionResult& forward) {
  constexpr auto operation = "attention_backward";
  check_operand(operation, "grad_out", "(B, Hq, Lq, Dv)", grad_out);
  check_same_dtype(operation, "grad_out", grad_out, q);
  const Dims expected{s.B, s.Hq, s.Lq, s.Dv};
  if (!(grad_out.shape() == expected))
    refuse(operation, ": grad_out has shape ", shape(grad_out), "; pass (B, Hq, Lq, Dv) = ", to_string(expected));
  if (!forward.out.defined() || !forward.lse.defined())
    refuse(operation, ": forward.", forward.out.defined() ? "lse" : "out",
           " is undefined; pass the result of attention() called with want_lse");
  check_operand(operation, "forward.out", "(B, Hq, Lq, Dv)", forward.out);
  check_same_dtype(operation, "forward.out", forward.out, q);
  if (!(forward.out.shape() == expected))
    refuse(operation, ": forward.out has shape ", shape(forward.out), "; pass (B, Hq, Lq, Dv) = ", to_string(expected));
  check_contiguous(operation, "forward.lse", "(B, Hq, Lq)", forward.lse, {s.B, s.Hq, s.Lq}, q);
}

void check_mask_gradient(const AttentionOptions& options) {
  if (!options.mask.defined() || options.mask.dtype() == DType::boolean)
    refuse("attention_backward: the gradient of the mask is wanted, but the mask is ",
           options.mask.defined() ? "boolean" : "absent", "; only an additive mask has one");
}

void check_gradients(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                     const AttentionResult& forward, const AttentionGradients& into, const AttentionOptions& options) {
  constexpr auto operation = "attention_backward";
  check_written(operation, "into.q", "(B, Hq, Lq, D)", into.q, q.shape(), q);
  check_written(operation, "into.k", "(B, Hkv, Lk, D)", into.k, k.shape(), q);
  check_written(operation, "into.v", "(B, Hkv, Lk, Dv)", into.v, v.shape(), q);
  if (into.mask.defined()) {
    check_mask_gradient(options);
    check_contiguous(operation, "into.mask", "a tensor like the mask", into.mask, options.mask.shape(), q);
  }
  check_apart(operation, {{"into.q", &into.q}, {"into.k", &into.k}, {"into.v", &into.v}, {"into.mask", &into.mask}},
              {{"grad_out", &grad_out},
               {"q", &q},
               {"k", &k},
               {"v", &v},
               {"forward.out", &forward.out},
               {"forward.lse", &forward.lse},
               {"the mask", &options.mask},
               {"key_lengths", &options.key_lengths}});
}

}  // namespace heed::inline v0
