// Checks of memory that a call writes to: its elements do not overlap each other or anything that the call reads.
#pragma once

#include <initializer_list>

#include "heed/tensor.h"

namespace heed::inline v0 {

struct Named {
  const char* name;
  const Tensor* tensor;
};
using Names = std::initializer_list<Named>;

/// True only when no two elements of `t` share memory.
bool has_own_places(const Tensor& t);

/// Whether both have the same elements in the same places.
bool is_one_view(const Tensor& a, const Tensor& b);

/// Throws ShapeError where two elements of `t` may share memory.
void check_own_places(const char* operation, const char* name, const Tensor& t);

/// Throws ShapeError where a written tensor may share memory with one that is read or with another written one.
/// Undefined tensors are skipped.
void check_apart(const char* operation, Names written, Names read);

}  // namespace heed::inline v0
