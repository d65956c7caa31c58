#include "attention/written.h"

#include <cstdlib>
#include <string>

#include "heed/error.h"

namespace heed::inline v0 {
namespace {

// These run for every pair of a written and a read tensor of every call: no size() and stride(), which check.

/// The bytes from the first element to the end of the last; empty for no elements.
struct Extent {
  uintptr_t begin, end;
};

Extent extent(const Tensor& t) {
  const auto size = static_cast<int64_t>(size_of(t.dtype()));
  int64_t low = 0, high = size;
  for (int d = 0; d < t.rank(); ++d) {
    if (t.shape()[d] == 0) return {0, 0};
    const int64_t span = (t.shape()[d] - 1) * t.strides()[d] * size;
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
    const int64_t step = t.strides()[d] * size;
    if (step % period) (step < 0 ? e.begin : e.end) += static_cast<uintptr_t>((t.shape()[d] - 1) * step);
  }
  return e;
}

/// False only when no byte is shared. Slices of one packed tensor interleave without sharing: tell them apart by
/// their place modulo each stride.
bool may_overlap(const Tensor& a, const Extent& of_a, const Tensor& b) {
  if (!b.defined()) return false;
  const Extent of_b = extent(b);
  if (of_a.end <= of_b.begin || of_b.end <= of_a.begin) return false;
  for (const Tensor* t : {&a, &b}) {
    for (int d = 0; d < t->rank(); ++d) {
      const int64_t period = std::abs(t->strides()[d]) * static_cast<int64_t>(size_of(t->dtype()));
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

/// Whether each stride is past all that the smaller ones reach, so that no two elements have one place.
bool is_nested(const Tensor& t) {
  uint32_t left = 0;  // dimensions with more than one element, a bit each
  for (int d = 0; d < t.rank(); ++d)
    if (t.shape()[d] > 1) left |= uint32_t{1} << d;
  int64_t reach = 0;  // of the dimensions so far
  while (left) {
    int least = -1;
    for (int d = 0; d < t.rank(); ++d)
      if (left >> d & 1 && (least < 0 || std::abs(t.strides()[d]) < std::abs(t.strides()[least]))) least = d;
    const int64_t stride = std::abs(t.strides()[least]);
    if (stride <= reach) return false;
    reach += (t.shape()[least] - 1) * stride;
    left &= ~(uint32_t{1} << least);
  }
  return true;
}

}  // namespace

bool has_own_places(const Tensor& t) { return t.is_contiguous() || is_nested(t); }

bool is_one_view(const Tensor& a, const Tensor& b) {
  return a.raw() == b.raw() && a.dtype() == b.dtype() && a.shape() == b.shape() && a.strides() == b.strides();
}

void check_own_places(const char* operation, const char* name, const Tensor& t) {
  if (t.is_contiguous()) return;  // as is a tensor without elements
  const std::string written = std::string(operation) + ": " + name;
  for (int d = 0; d < t.rank(); ++d)
    if (t.size(d) > 1 && t.stride(d) == 0)
      throw ShapeError(written + " is broadcast along dimension " + std::to_string(d) +
                       " and cannot be written to; pass separate memory");
  if (!is_nested(t))
    throw ShapeError(written + " of shape " + to_string(t.shape()) + " has strides " + to_string(t.strides()) +
                     ", so its elements may share memory; pass separate memory");
}

void check_apart(const char* operation, Names written, Names read) {
  const auto refuse = [&](const Named& w, const Named& other, const char* kind) {
    throw ShapeError(std::string(operation) + ": " + w.name + " shares memory with " + other.name + kind +
                     "; pass separate memory");
  };
  for (const Named& w : written) {
    if (!w.tensor->defined()) continue;
    const Extent bytes = extent(*w.tensor);
    for (const Named& r : read)
      if (may_overlap(*w.tensor, bytes, *r.tensor)) refuse(w, r, ", which is read");
    for (const Named& other : written) {
      if (&other == &w) break;
      if (may_overlap(*w.tensor, bytes, *other.tensor)) refuse(w, other, "");
    }
  }
}

}  // namespace heed::inline v0
