// Variable and the tape: a few coarse operations are recorded as they run; backward() replays them in reverse.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heed/tensor.h"

namespace heed::inline v0 {

class Gradients;

/// Turns the gradient of an operation's output into those of its inputs.
using Backward = std::function<void(const Tensor& grad_output, Gradients& gradients)>;

/// A value, with the history that made it if gradients are required. A handle: copies are the same variable.
class Variable {
 public:
  Variable() = default;  // undefined
  /// A leaf. With `requires_grad` its gradient is added up (+=) by every backward() until zero_grad().
  explicit Variable(Tensor value, bool requires_grad = false);

  bool defined() const { return node_ != nullptr; }
  explicit operator bool() const { return defined(); }
  const Tensor& value() const;
  const Dims& shape() const { return value().shape(); }
  int64_t size(int dim) const { return value().size(dim); }
  DType dtype() const { return value().dtype(); }
  bool requires_grad() const;
  bool is_leaf() const;  // made by its constructor, not by an operation that was recorded
  bool same(const Variable& other) const { return node_ == other.node_; }  // one variable, not equal values
  const void* id() const { return node_.get(); }                           // which variable it is, for sets of them

  /// The gradient of a leaf; undefined before the first backward().
  const Tensor& grad() const;
  void zero_grad();
  /// Moves a leaf onto other memory (a flat arena, another dtype). `grad` may be undefined.
  void rebind(Tensor value, Tensor grad);

  /// Gradients of this scalar (one element) with respect to every leaf that requires one. Frees the history.
  /// Throws ShapeError when there is more than one element or nothing to differentiate.
  void backward() const;
  /// backward() from a given gradient of this variable's shape.
  void backward(const Tensor& grad_output) const;

 private:
  struct Node;
  friend class Gradients;
  friend Variable custom_op(const char* name, std::vector<Variable> inputs, Tensor output, Backward backward);
  std::shared_ptr<Node> node_;
};

/// The output of a Backward function. Input i of the operation is slot i.
class Gradients {
 public:
  bool wanted(size_t i) const;
  /// Hands in the whole gradient of input i. The tape sums where a value is used more than once.
  void set(size_t i, Tensor gradient);
  /// Memory to add (+=) the gradient of input i to: how parameters get theirs without a copy.
  Tensor accumulator(size_t i);

 private:
  friend class Variable;
  explicit Gradients(std::vector<Variable>& inputs) : inputs_(inputs) {}
  std::vector<Variable>& inputs_;
};

/// Records an operation of your own. `output` is its result, `backward` is called once, later, when some input wants a
/// gradient; capture in it what it needs. `name` must outlive the program's tapes (a string literal).
Variable custom_op(const char* name, std::vector<Variable> inputs, Tensor output, Backward backward);

/// While in scope, this thread records nothing.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};
bool grad_enabled();

}  // namespace heed::inline v0
