// What the bindings of the tape, of layers and of models share.
#pragma once

#include <nanobind/nanobind.h>
#include <pthread.h>

#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "heed/models.h"

namespace heed::python {
namespace nb = nanobind;

// ---- Values

/// What operations take: a Variable, or an array.
struct Operand {
  nb::handle object;
};

/// A constant on the array's memory, which is shared where it is dense, in C order; other memory is copied, since
/// kernels read dense memory. `what` names it in errors ("linear: x"). Throws TypeError and ShapeError.
Variable variable(const char* what, Operand operand);

/// The same, and an undefined variable for None.
Variable optional_variable(const char* what, Operand operand);

/// Whole numbers as int32, a copy: nobody may change them between their check and their use. An undefined tensor for
/// None. Throws TypeError, ShapeError for other elements and for numbers that 32 bits do not hold.
Tensor whole_numbers(const char* what, nb::handle array);

/// The values as a NumPy array: a parameter's may be written to, others are what the tape remembers.
nb::object values_of(const Variable& variable);

/// "float32" and its like, as NumPy knows them. Throws TypeError, ShapeError for what no layer computes in.
DType compute_type(const char* what, nb::handle dtype);

/// The name of an Activation, or of a kind of feed-forward. Throws ShapeError.
Activation activation_named(const std::string& name);
FeedForwardKind feed_forward_named(const std::string& name);

/// Sampling of a call whose arguments have defaults: temperature 1, top_k 0, top_p 1, min_p 0, seed 0. Throws
/// UsageError for others beside temperature 0.
Sampling sampling_with(const char* operation, double temperature, int64_t top_k, double top_p, double min_p,
                       uint64_t seed);

/// None, or a variable.
nb::object defined_or_none(const Variable& variable);

// ---- Threads of Python

/// Forward passes of several threads run side by side, while no parameter moves to other memory; histories and
/// gradients are changed by one thread at a time.
struct TapeLocks {
  static TapeLocks& instance() {
    static TapeLocks* value = nullptr;  // never destroyed: threads may compute while the process ends
    static const bool made = [] {
      value = new TapeLocks;
      // Threads that held them are not there after a fork().
      ::pthread_atfork(nullptr, nullptr, [] { value = new TapeLocks; });
      return true;
    }();
    static_cast<void>(made);
    return *value;
  }
  std::shared_mutex places;
  std::mutex gradients;
};

/// Whether this thread is inside the backward of a custom operation, with the locks of the call around it.
inline thread_local bool in_backward = false;

/// The GIL is released while one lives. Locks are taken without the GIL and let go before it is taken again.
class Computing {
 public:
  Computing() {
    if (!in_backward) lock_ = std::shared_lock(TapeLocks::instance().places);
  }

 private:
  nb::gil_scoped_release others_may_run_;
  std::shared_lock<std::shared_mutex> lock_;
};

/// The same, alone among those that change histories and gradients.
class ChangingGradients {
 public:
  ChangingGradients() {
    if (!in_backward) lock_ = std::unique_lock(TapeLocks::instance().gradients);
  }

 private:
  Computing computing_;
  std::unique_lock<std::mutex> lock_;
};

/// With the GIL, while nothing computes: parameters may move.
class MovingParameters {
 public:
  MovingParameters() {
    if (in_backward)
      throw ShapeError("backward: parameters cannot move to other memory inside an operation's backward");
    const nb::gil_scoped_release others_may_run;
    lock_ = std::unique_lock(TapeLocks::instance().places);
  }

 private:
  std::unique_lock<std::shared_mutex> lock_;
};

template <class Operation>
Variable computed(Operation&& operation) {
  const Computing running;
  return operation();
}

// ---- Records

/// A record that a call fills without the GIL, or none for None: a copy, so that others who look into it meanwhile see
/// what was there before. Throws TypeError.
template <class Record>
class Filled {
 public:
  explicit Filled(nb::handle record) {
    if (record.is_none()) return;
    if (!nb::isinstance<Record>(record) || !nb::inst_ready(record))
      throw nb::type_error((std::string("attention: record is a ") + nb::inst_name(record).c_str() + "; pass a " +
                            nb::cast<std::string>(nb::type<Record>().attr("__name__")))
                               .c_str());
    given_ = nb::inst_ptr<Record>(record);
    copy_ = *given_;
  }
  Record* get() { return given_ ? &copy_ : nullptr; }
  void keep() {
    if (given_) *given_ = std::move(copy_);
  }

 private:
  Record* given_ = nullptr;
  Record copy_;
};

// ---- Batches of tokens

/// A batch, or lists of ids, which become a packed one. Throws TypeError, ShapeError for ids that 32 bits do not hold.
TokenBatch token_batch(const char* what, nb::handle given);

#define HEED_BATCH "TokenBatch | collections.abc.Iterable[collections.abc.Iterable[int]]"

/// What is read out of a model is read without dropout. Throws ShapeError for one in training.
void check_eval(const char* operation, const Module& model);

// ---- Trees of modules

/// Parameters of a module and of what its attributes hold: variables that require grad, modules, lists, tuples and
/// dicts of them. Throws TypeError for what is no module, ShapeError where two have one name.
Module::NamedParameters named_parameters(nb::handle module);

/// `object` as the module that it is. Throws TypeError.
Module& module_of(nb::handle object);

/// A module with given parameters and nothing else: what the library does with trees, for trees of Python.
class FlatModule : public Module {
 public:
  explicit FlatModule(const NamedParameters& parameters) {
    for (const auto& [name, parameter] : parameters) register_parameter(name, parameter);
  }
};

/// The arrays of a dict by name. Throws TypeError and ShapeError.
std::vector<std::pair<std::string, Tensor>> tensors_of(const char* what, nb::dict arrays);

// ---- pickle and copy

/// What __reduce__ returns. Throws ShapeError for a variable with a history.
nb::tuple reduce_module(nb::handle self);
nb::tuple reduce_variable(nb::handle self);

/// Begins `self`, which its __new__ has just made, as a module of the class `type` with these values.
void restore_module(nb::handle self, nb::handle type, nb::dict arguments, nb::dict values, bool training);

/// A configuration as a dict.
nb::dict config_of(const TransformerConfig& config);
nb::dict config_of(const LanguageModelConfig& config);

// ---- What each file brings to the module

void define_variable(nb::module_& m);
void define_functional(nb::module_& m);
void define_module(nb::module_& m);
void define_layers(nb::module_& m);
void define_optimisers(nb::module_& m);
void define_pretrained(nb::module_& m);

}  // namespace heed::python

namespace nanobind::detail {

/// Passed on as it is: operations say by name what does not fit.
template <>
struct type_caster<heed::python::Operand> {
  NB_TYPE_CASTER(heed::python::Operand, const_name("Array"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    value.object = source;
    return true;
  }
  static handle from_cpp(const heed::python::Operand& operand, rv_policy, cleanup_list*) noexcept {
    return operand.object.inc_ref();
  }
};

}  // namespace nanobind::detail
