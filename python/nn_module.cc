// Module: a tree of parameters, in C++ or out of the attributes of Python's objects.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <set>
#include <utility>

#include "arrays.h"
#include "nn.h"

namespace heed::python {
namespace {

using namespace nb::literals;

/// Python's own limit of how deep calls go, for those of C++.
class Deeper {
 public:
  Deeper() {
    if (Py_EnterRecursiveCall(" in a tree of modules") != 0) throw nb::python_error();
  }
  ~Deeper() { Py_LeaveRecursiveCall(); }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
};

/// Each module and each parameter once.
class Tree {
 public:
  explicit Tree(nb::handle root) { add_module(root, ""); }

  std::vector<nb::object> modules;
  Module::NamedParameters parameters;

 private:
  void add_module(nb::handle object, const std::string& prefix) {
    const Module& module = module_of(object);
    if (!seen_.insert(object.ptr()).second) return;
    modules.push_back(nb::borrow(object));
    for (const auto& [name, parameter] : module.named_parameters()) add_parameter(parameter, prefix + name);
    const nb::object attributes = nb::getattr(object, "__dict__", nb::none());
    if (nb::isinstance<nb::dict>(attributes)) add_items(nb::borrow<nb::dict>(attributes), prefix);
  }

  void add_parameter(const Variable& parameter, const std::string& name) {
    if (!parameters_.insert(parameter.id()).second) return;
    if (!names_.insert(name).second)
      throw ShapeError("Module: two parameters are named '" + name + "'; give an attribute another name");
    parameters.emplace_back(name, parameter);
  }

  void add_items(const nb::dict& items, const std::string& prefix) {
    for (nb::handle pair : items.items()) add(pair[1], prefix + nb::str(nb::object(pair[0])).c_str());  // a copy
  }

  void add(const nb::object& value, const std::string& name) {
    if (nb::isinstance<Variable>(value)) {
      const auto parameter = nb::cast<Variable>(value);
      if (parameter.requires_grad() && parameter.is_leaf()) add_parameter(parameter, name);
      return;
    }
    const bool listed = nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value);
    const bool named = nb::isinstance<nb::dict>(value), module = nb::isinstance<Module>(value);
    if (!listed && !named && !module) return;
    const Deeper deeper;
    if (module) add_module(value, name + ".");
    if (named) add_items(nb::borrow<nb::dict>(value), name + ".");
    if (!listed) return;
    int64_t i = 0;
    for (nb::handle item : nb::list(value)) add(nb::borrow(item), name + "." + std::to_string(i++));
  }

  std::set<PyObject*> seen_;
  std::set<const void*> parameters_;
  std::set<std::string> names_;
};

nb::object set_training(nb::object self, bool on) {
  for (const nb::object& module : Tree(self).modules) module_of(module).train(on);
  return self;
}

std::vector<Variable> parameters(nb::handle self) {
  std::vector<Variable> all;
  for (auto& [name, parameter] : named_parameters(self)) all.push_back(parameter);
  return all;
}

nb::dict state_dict(nb::handle self) {
  nb::dict values;
  for (const auto& [name, parameter] : named_parameters(self))
    values[name.c_str()] = as_numpy(parameter.value(), Access::write);
  return values;
}

void load_state_dict(nb::handle self, nb::dict state) {
  FlatModule flat(named_parameters(self));
  const auto values = tensors_of("load_state_dict", std::move(state));
  const ChangingGradients alone;
  flat.load(values);
}

void convert(nb::handle self, nb::handle dtype) {
  FlatModule flat(named_parameters(self));
  const DType type = compute_type("to: dtype", dtype);
  const MovingParameters alone;
  flat.to(type);
}

void zero_grad(nb::handle self) {
  FlatModule flat(named_parameters(self));
  const ChangingGradients alone;
  flat.zero_grad();
}

int64_t parameter_count(nb::handle self) { return FlatModule(named_parameters(self)).parameter_count(); }

std::string text_of(nb::handle self) {
  return std::string(nb::cast<std::string>(self.type().attr("__name__"))) + " of " +
         std::to_string(parameter_count(self)) + " parameters";
}

}  // namespace

Module& module_of(nb::handle object) {
  if (!nb::isinstance<Module>(object))
    throw nb::type_error(("Module: " + shown(object) + " is no module; pass one of heed.nn").c_str());
  if (!nb::inst_ready(object))
    throw nb::type_error(("Module: a " + std::string(nb::inst_name(object).c_str()) +
                          " is not begun yet; call super().__init__() first in its __init__")
                             .c_str());
  return *nb::inst_ptr<Module>(object);
}

Module::NamedParameters named_parameters(nb::handle module) { return Tree(module).parameters; }

std::vector<std::pair<std::string, Tensor>> tensors_of(const char* what, nb::dict arrays) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (nb::handle pair : arrays.items()) {
    const nb::object name = pair[0];
    if (!nb::isinstance<nb::str>(name))
      throw nb::type_error(
          (std::string(what) + ": a name is " + shown(name) + "; pass a dict of arrays by name").c_str());
    const auto text = nb::cast<std::string>(name);
    tensors.emplace_back(text,
                         variable((std::string(what) + ": '" + text + "'").c_str(), {nb::object(pair[1])}).value());
  }
  return tensors;
}

void define_module(nb::module_& m) {
  nb::class_<Module>(m, "Module", R"(A tree of parameters.

    class Net(heed.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = heed.nn.Linear(2, 16), heed.nn.Linear(16, 1)

        def forward(self, x):                    # x (B, 2) -> (B, 1)
            return self.second(F.relu(self.first(x)))

Parameters are found among the attributes when they are asked for: variables that require grad, modules, and lists,
tuples and dicts of them, named "first.weight", "layers.0.bias" and so on. A shared parameter counts once, under its
first name. Calling a module calls its forward().)")
      .def(nb::init<>())
      .def(
          "__call__",
          [](nb::handle self, const nb::args& args, const nb::kwargs& kwargs) {
            return self.attr("forward")(*args, **kwargs);
          },
          nb::sig("def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any"))
      .def("named_parameters", &named_parameters, nb::sig("def named_parameters(self) -> list[tuple[str, Variable]]"),
           "Names and parameters, in the order of their attributes.")
      .def("parameters", &parameters, nb::sig("def parameters(self) -> list[Variable]"))
      .def("parameter_count", &parameter_count, nb::sig("def parameter_count(self) -> int"),
           "How many numbers they have together.")
      .def("state_dict", &state_dict, nb::sig("def state_dict(self) -> dict[str, NDArray[typing.Any]]"),
           "The parameters' values by name, in place: no copy, and what is written to them is written to the module.")
      .def("load_state_dict", &load_state_dict, "state"_a,
           nb::sig("def load_state_dict(self, state: dict[str, Array]) -> None"),
           "Copies values by name, converting their dtype. Raises FormatError, before anything is copied, naming what "
           "is "
           "missing, left over or misshapen.")
      .def("zero_grad", &zero_grad, nb::sig("def zero_grad(self) -> None"), "Sets all gradients to 0.")
      .def(
          "train", [](nb::object self, bool on) { return set_training(std::move(self), on); }, "on"_a = true,
          nb::sig("def train(self, on: bool = True) -> typing.Self"),
          "Switches dropout on or off, here and below. Returns the module.")
      .def(
          "eval", [](nb::object self) { return set_training(std::move(self), false); },
          nb::sig("def eval(self) -> typing.Self"), "train(False)")
      .def_prop_ro(
          "training", [](nb::handle self) { return module_of(self).training(); }, nb::sig("def training(self) -> bool"),
          "Whether dropout is on; True at first.")
      .def("to", &convert, "dtype"_a.none(), nb::sig("def to(self, dtype: DTypeLike) -> None"),
           "Converts every parameter to 'float32' or 'float64'; gradients are dropped. Make optimisers afterwards.")
      .def("__reduce__", &reduce_module, nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"))
      .def("__repr__", &text_of, nb::sig("def __repr__(self) -> str"));
  m.def(
      "restore_module", &restore_module, "self"_a, "type"_a, "arguments"_a, "values"_a, "training"_a,
      nb::sig("def restore_module(self: object, type: object, arguments: dict[str, object], values: dict[str, object], "
              "training: bool) -> None"));
}

}  // namespace heed::python
