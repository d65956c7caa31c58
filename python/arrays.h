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

/// A torch tensor in a call that a trace, a dispatch mode, a transform of torch.func or forward AD would have to see:
/// they see torch's operators alone, and would take the result for a constant.
struct Watched : ShapeError {
  using ShapeError::ShapeError;
};

/// Throws Watched where `array` is torch's and a call is watched now; until it goes, tensors that the thread takes are
/// not asked again, which costs more than the rest of a tiny call.
class UnwatchedCall {
 public:
  UnwatchedCall(const char* what, nb::handle array);
  ~UnwatchedCall() { end(); }
  UnwatchedCall(const UnwatchedCall&) = delete;
  void end();

 private:
  bool counts_ = false;
};

/// Whether torch follows what is done to its tensors now.
bool torch_watches();

/// The memory of `array` as a tensor that keeps it alive: NumPy's arrays and all else with the buffer protocol, then
/// what has __dlpack__ on the CPU. `what` names it in errors ("attention: q"). Throws TypeError for what is no array,
/// ShapeError for one that heed cannot read or, where asked to, write; RequiresGrad and Watched.
Tensor take(const char* what, nb::handle array, Access access = Access::read);

/// The same for as long as a call takes, which is quicker: the tensor must not outlive this object.
class Lent {
 public:
  Lent(const char* what, nb::handle array);
  ~Lent();
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  operator const Tensor&() const { return tensor_; }

 private:
  Py_buffer view_;  // of no object where the memory is lent otherwise
  Tensor tensor_;
};

/// As take(), and an undefined tensor for None.
Tensor take_optional(const char* what, nb::handle array, Access access = Access::read);

/// Whose tensors are computed on torch's threads.
bool is_torch(nb::handle array);

/// `tensor` as an array of the kind of `like`: NumPy's, torch's, else what the namespace of `like` makes by DLPack.
/// None for an undefined tensor.
nb::object give(const Tensor& tensor, nb::handle like);

/// The memory of `tensor` as a NumPy array that keeps it alive, read-only but for Access::write; the bits of bfloat16
/// as uint16.
nb::object view(const Tensor& tensor, Access access);

/// The same, and bfloat16 as the type of the package ml_dtypes, which it needs then. None for an undefined tensor.
nb::object as_numpy(const Tensor& tensor, Access access);

/// "float32": the name that NumPy and others have for it.
const char* numpy_name(DType dtype);

/// A value as an error shows it, its repr or its type where that is long.
std::string shown(nb::handle value);

}  // namespace heed::python
