// Arrays of Python as tensors without copies, and tensors as arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "heed/tensor.h"

namespace heed::python {
namespace nb = nanobind;

enum class Access { read, write };

/// A torch tensor whose gradient torch waits for, in a call that records nothing for it.
struct RequiresGrad : ShapeError {
  using ShapeError::ShapeError;
};

/// The memory of `array` as a tensor that keeps it alive: NumPy's arrays and all else with the buffer protocol, then
/// what has __dlpack__ on the CPU. `what` names it in errors ("attention: q"). Throws TypeError for what is no array,
/// ShapeError for one that heed cannot read or, where asked to, write; RequiresGrad.
Tensor take(const char* what, nb::handle array, Access access = Access::read);

/// The same, and an undefined tensor for None.
Tensor take_optional(const char* what, nb::handle array, Access access = Access::read);

/// `tensor` as an array of the kind of `like`: NumPy's, torch's, else what the namespace of `like` makes by DLPack.
/// None for an undefined tensor.
nb::object give(const Tensor& tensor, nb::handle like);

/// The memory of `tensor` as a NumPy array that keeps it alive, read-only but for Access::write. None for an undefined
/// tensor. bfloat16 needs the package ml_dtypes.
nb::object as_numpy(const Tensor& tensor, Access access);

/// "float32": the name that NumPy and others have for it.
const char* numpy_name(DType dtype);

/// A read-only NumPy array on the memory of `tensor`, which it keeps alive; the bits of bfloat16 as uint16.
nb::object view(const Tensor& tensor);

/// A value as an error shows it, its repr or its type where that is long.
std::string shown(nb::handle value);

}  // namespace heed::python
