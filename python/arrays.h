// Arrays of Python as tensors without copies, and tensors as arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "heed/tensor.h"

namespace heed::python {
namespace nb = nanobind;

enum class Access { read, write };

/// The memory of `array` as a tensor that keeps it alive: NumPy's arrays and all else with the buffer protocol, then
/// what has __dlpack__ on the CPU. `what` names it in errors ("attention: q"). Throws TypeError for what is no array,
/// ShapeError for one that heed cannot read or, where asked to, write.
Tensor take(const char* what, nb::handle array, Access access = Access::read);

/// The same, and an undefined tensor for None.
Tensor take_optional(const char* what, nb::handle array, Access access = Access::read);

/// `tensor` as an array of the kind of `like`: NumPy's, torch's, else what the namespace of `like` makes by DLPack.
/// None for an undefined tensor.
nb::object give(const Tensor& tensor, nb::handle like);

/// A value as an error shows it, its repr or its type where that is long.
std::string shown(nb::handle value);

}  // namespace heed::python
