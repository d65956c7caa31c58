#include <algorithm>
#include <map>
#include <set>

#include "core/memory.h"
#include "heed/executor.h"
#include "heed/finite.h"
#include "heed/nn.h"

namespace heed::inline v0 {

void Module::collect(const std::string& prefix, NamedParameters& into, std::set<const void*>& seen) const {
  for (const auto& [name, parameter] : parameters_)
    if (seen.insert(parameter.id()).second) into.emplace_back(prefix + name, parameter);
  for (const auto& [name, child] : children_) child->collect(name.empty() ? prefix : prefix + name + ".", into, seen);
}

Module::NamedParameters Module::named_parameters() const {
  NamedParameters all;
  std::set<const void*> seen;
  collect("", all, seen);
  return all;
}

std::vector<Variable> Module::parameters() const {
  std::vector<Variable> all;
  for (auto& [name, parameter] : named_parameters()) all.push_back(parameter);
  return all;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const auto& [name, parameter] : named_parameters()) count += parameter.value().numel();
  return count;
}

void Module::zero_grad() {
  for (Variable& parameter : parameters()) parameter.zero_grad();
}

void Module::train(bool on) {
  training_ = on;
  for (const auto& [name, child] : children_) child->train(on);
}

void Module::to(DType dtype) {
  if (is_quantised(dtype)) throw ShapeError("to: q8 is for matrices alone; use keep_matrices_as(DType::q8)");
  for (Variable& parameter : parameters()) parameter.rebind(parameter.value().to(dtype), Tensor());
}

namespace {

// By all threads: a model of a billion parameters is waited for.
Tensor converted(const Tensor& matrix, DType dtype) {
  if (matrix.dtype() == dtype || matrix.size(1) % block_of(dtype) != 0) return matrix;
  const Tensor result = Tensor::empty(matrix.shape(), dtype);
  constexpr int64_t kElements = 1 << 16;  // of a task
  const int64_t rows = matrix.size(0), some = std::max<int64_t>(1, kElements / std::max<int64_t>(matrix.size(1), 1));
  parallel_for(default_executor(), (rows + some - 1) / some, [&](int64_t task) {
    const int64_t begin = task * some, end = std::min(rows, begin + some);
    result.slice(0, begin, end).copy_from(matrix.slice(0, begin, end));
  });
  return result;
}

}  // namespace

void Module::keep_matrices_as(DType dtype) {
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::q8)
    throw ShapeError(std::string("keep_matrices_as: ") + name_of(dtype) +
                     " is not f32, f16, bf16 or q8; to() converts to others");
  for (Variable& parameter : parameters()) {
    const Tensor& value = parameter.value();
    parameter.rebind(value.rank() == 2 ? converted(value, dtype) : value.to(DType::f32), Tensor());
    release_cached_memory();  // what was freed would serve no matrix of another size
  }
}

namespace {

// f(parameter, its value) for all of them, when all fit: everything is looked at before anything is touched.
template <class F>
void for_each_fitting(const Module::NamedParameters& mine, const std::vector<std::pair<std::string, Tensor>>& values,
                      F&& f) {
  std::map<std::string, const Tensor*> given;
  for (const auto& [name, value] : values) given[name] = &value;
  for (const auto& [name, parameter] : mine) {
    const auto found = given.find(name);
    if (found == given.end()) throw FormatError("load: tensor '" + name + "' is missing");
    if (!(found->second->shape() == parameter.shape()))
      throw FormatError("load: tensor '" + name + "' has shape " + to_string(found->second->shape()) +
                        ", the model needs " + to_string(parameter.shape()));
    if (!is_floating(found->second->dtype()) && !is_quantised(found->second->dtype()))
      throw FormatError("load: tensor '" + name + "' is " + name_of(found->second->dtype()) + ", not floating");
  }
  if (given.size() != mine.size())
    for (const auto& extra : given)
      if (std::none_of(mine.begin(), mine.end(), [&](const auto& p) { return p.first == extra.first; }))
        throw FormatError("load: tensor '" + extra.first + "' is not a parameter of this model");
  for (auto [name, parameter] : mine) f(parameter, *given[name]);
}

}  // namespace

void Module::load(const std::vector<std::pair<std::string, Tensor>>& values) {
  for_each_fitting(named_parameters(), values,
                   [](Variable& own, const Tensor& value) { own.value().copy_from(value); });
}

void Module::adopt(const std::vector<std::pair<std::string, Tensor>>& values) {
  for_each_fitting(named_parameters(), values, [](Variable& own, const Tensor& value) { own.rebind(value, Tensor()); });
}

std::optional<std::string> first_non_finite(const Module& module) {
  std::vector<std::pair<std::string, Tensor>> values;
  for (const auto& [name, parameter] : module.named_parameters()) values.emplace_back(name, parameter.value());
  auto found = first_non_finite(values);
  if (found && module.search_files())
    if (auto in_files = module.search_files()()) return in_files;
  return found;
}

Variable Module::register_parameter(std::string name, Tensor value) {
  Variable parameter(std::move(value), /*requires_grad=*/true);
  register_parameter(std::move(name), parameter);
  return parameter;
}

void Module::register_parameter(std::string name, const Variable& parameter) {
  parameters_.emplace_back(std::move(name), parameter);
}

void Module::register_module(std::string name, Module& child) { children_.emplace_back(std::move(name), &child); }

}  // namespace heed::inline v0
