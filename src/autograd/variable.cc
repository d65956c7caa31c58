// The tape. A node is an operation's output; backward() walks the nodes that lead to a scalar, newest first.
#include <algorithm>
#include <atomic>
#include <queue>
#include <unordered_set>
#include <utility>

#include "heed/autograd.h"
#include "heed/profile.h"
#include "kernels/elementwise.h"

namespace heed::inline v0 {

struct Variable::Node {
  Tensor value;
  Tensor grad;
  bool requires_grad = false;
  uint64_t order = 0;  // creation order: a topological order for free; 0 for leaves
  const char* name = "leaf";
  std::vector<Variable> inputs;
  Backward backward;
  Node* next = nullptr;  // of those that wait to be destroyed

  static std::shared_ptr<Node> make() { return {new Node, drop}; }

 private:
  // One after another: nodes that destroyed their inputs one inside the other would be as deep on the stack as the
  // tape is long.
  static void drop(Node* node) {
    thread_local Node* waiting = nullptr;
    thread_local bool dropping = false;
    node->next = std::exchange(waiting, node);
    if (std::exchange(dropping, true)) return;
    while (waiting) {
      Node* const first = waiting;
      waiting = first->next;
      delete first;
    }
    dropping = false;
  }
};

namespace {

thread_local bool recording = true;
std::atomic<uint64_t> next_order{1};

void add_to(const Tensor& addend, const Tensor& sum) {
  if (addend.dtype() == DType::f32)
    accumulate(addend.data<float>(), sum.data<float>(), sum.numel(), default_executor());
  else
    accumulate(addend.data<double>(), sum.data<double>(), sum.numel(), default_executor());
}

}  // namespace

NoGrad::NoGrad() : before_(std::exchange(recording, false)) {}
NoGrad::~NoGrad() { recording = before_; }
bool grad_enabled() { return recording; }

Variable::Variable(Tensor value, bool requires_grad) : node_(Node::make()) {
  if (requires_grad && value.dtype() != DType::f32 && value.dtype() != DType::f64)
    throw ShapeError(std::string("variable: gradients need float32 or float64, not ") + name_of(value.dtype()));
  node_->value = std::move(value);
  node_->requires_grad = requires_grad;
}

const Tensor& Variable::value() const {
  if (!node_) throw ShapeError("variable: value() of an undefined variable");
  return node_->value;
}

bool Variable::requires_grad() const { return node_ && node_->requires_grad; }

bool Variable::is_leaf() const { return !node_ || node_->order == 0; }

const Tensor& Variable::grad() const {
  if (!node_) throw ShapeError("variable: grad() of an undefined variable");
  return node_->grad;
}

void Variable::zero_grad() {
  if (node_ && node_->grad.defined()) node_->grad.fill(0);
}

void Variable::rebind(Tensor value, Tensor grad) {
  if (!node_ || node_->order != 0) throw ShapeError("variable: only a leaf can be moved to other memory");
  if (!(value.shape() == node_->value.shape()))
    throw ShapeError("variable: rebind of shape " + to_string(node_->value.shape()) + " to " +
                     to_string(value.shape()));
  node_->value = std::move(value);
  node_->grad = std::move(grad);
}

bool Gradients::wanted(size_t i) const { return inputs_[i].requires_grad(); }

void Gradients::set(size_t i, Tensor gradient) {
  if (!wanted(i)) return;
  auto& node = *inputs_[i].node_;
  if (!(gradient.shape() == node.value.shape()) || gradient.dtype() != node.value.dtype())
    throw ShapeError("backward: a gradient " + to_string(gradient.shape()) + " " + name_of(gradient.dtype()) +
                     " for a value " + to_string(node.value.shape()) + " " + name_of(node.value.dtype()));
  gradient = gradient.contiguous();
  if (!node.grad.defined()) {
    // A leaf keeps its gradient; it must own it, since the operation may hand the same tensor to several inputs.
    node.grad = node.order == 0 ? gradient.clone() : std::move(gradient);
  } else {
    if (node.order != 0 && !node.grad.unique()) node.grad = node.grad.clone();
    add_to(gradient, node.grad);
  }
}

Tensor Gradients::accumulator(size_t i) {
  auto& node = *inputs_[i].node_;
  if (!node.grad.defined())
    node.grad = Tensor::zeros(node.value.shape(), node.value.dtype());
  else if (node.order != 0 && !node.grad.unique())
    node.grad = node.grad.clone();
  return node.grad;
}

Variable custom_op(const char* name, std::vector<Variable> inputs, Tensor output, Backward backward) {
  Variable result(std::move(output));
  const bool any = std::any_of(inputs.begin(), inputs.end(), [](const Variable& v) { return v.requires_grad(); });
  if (recording && any) {
    auto& node = *result.node_;
    node.requires_grad = true;
    node.order = next_order.fetch_add(1, std::memory_order_relaxed);
    node.name = name;
    node.inputs = std::move(inputs);
    node.backward = std::move(backward);
  }
  return result;
}

void Variable::backward() const {
  if (value().numel() != 1)
    throw ShapeError("backward: shape " + to_string(shape()) + " is not one element; pass the gradient of the output");
  backward(Tensor::full(shape(), 1, dtype()));
}

void Variable::backward(const Tensor& grad_output) const {
  if (!requires_grad())
    throw ShapeError("backward: nothing to differentiate; no input requires a gradient, or NoGrad was active");
  if (!(grad_output.shape() == shape()) || grad_output.dtype() != dtype())
    throw ShapeError("backward: gradient " + to_string(grad_output.shape()) + " for an output " + to_string(shape()));

  const auto older = [](const Variable& a, const Variable& b) { return a.node_->order < b.node_->order; };
  std::priority_queue<Variable, std::vector<Variable>, decltype(older)> queue(older);
  std::unordered_set<const Node*> queued;
  std::vector<Variable> self{*this};
  Gradients(self).set(0, grad_output);
  if (node_->order == 0) return;
  queue.push(*this);
  while (!queue.empty()) {
    const Variable current = queue.top();
    queue.pop();
    Node& node = *current.node_;
    if (!node.backward)
      throw ShapeError(std::string("backward: the history of '") + node.name +
                       "' is gone; backward() frees it, run the forward again");
    const Tensor grad = std::exchange(node.grad, Tensor());
    if (grad.defined()) {
      const ProfileScope profile(node.name, /*backward=*/true);
      Gradients gradients(node.inputs);
      node.backward(grad, gradients);
    }
    for (const Variable& input : node.inputs)
      if (input.requires_grad() && input.node_->order != 0 && queued.insert(input.node_.get()).second)
        queue.push(input);
    node.backward = nullptr;
    node.inputs.clear();
  }
}

}  // namespace heed::inline v0
