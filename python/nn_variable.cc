// Variable, what stops recording, and operations of one's own.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "heed/random.h"
#include "nn.h"
#include "options.h"

namespace heed::python {
namespace {

using namespace nb::literals;

nb::object numpy() { return nb::module_::import_("numpy"); }

bool is_variable(nb::handle object) { return nb::isinstance<Variable>(object) && nb::inst_ready(object); }

/// A leaf that requires grad has memory of its own: optimisers and load_state_dict() write to it.
Variable made(Operand operand, bool requires_grad) {
  const Variable constant = variable("Variable: value", operand);
  return Variable(requires_grad ? constant.value().clone() : constant.value(), requires_grad);
}

Tensor gradient_of(const Variable& variable) {
  const ChangingGradients alone;
  return variable.grad();
}

void run_backward(const Variable& of, nb::handle grad) {
  if (in_backward)
    throw ShapeError("backward: called inside an operation's backward; compute gradients there by other means");
  // A copy, which the tape may add to.
  const Tensor given = grad.is_none() ? Tensor() : variable("backward: grad", {grad}).value().clone();
  const ChangingGradients alone;
  if (given.defined())
    of.backward(given);
  else
    of.backward();
}

nb::tuple shape_of(const Variable& variable) {
  nb::list sizes;
  for (const int64_t size : variable.shape()) sizes.append(size);
  return nb::tuple(sizes);
}

constexpr auto kRecordsNothing = "Variable: it requires grad, and others record nothing; pass numpy() of it";

nb::object as_array(const Variable& variable, nb::handle dtype, nb::handle copy) {
  if (variable.requires_grad()) throw ShapeError(kRecordsNothing);
  const nb::object values = values_of(variable);
  if (dtype.is_none() && copy.ptr() != Py_True) return values;
  return numpy().attr("array")(values, "dtype"_a = dtype,
                               "copy"_a = copy.ptr() == Py_False ? copy : nb::handle(Py_True));
}

std::string text_of(const Variable& variable) {
  const std::string values = nb::repr(values_of(variable)).c_str();
  return "Variable(" + values + (variable.requires_grad() ? ", requires_grad=True)" : ")");
}

Variable added(const Variable& a, const Variable& b) {
  const Computing running;
  return functional::add(a, b);
}

Variable scaled(const Variable& x, double factor) {
  const Computing running;
  return functional::scale(x, factor);
}

Variable summed(const Variable& x) {
  const Computing running;
  return functional::sum(x);
}

/// The quotients, rounded once: the reciprocal of a small divisor is infinite.
Variable divided(const Variable& x, double divisor) {
  const Computing running;
  const auto quotients = [divisor](const Tensor& in) {
    const Tensor dividends = in.contiguous(), out = Tensor::empty(in.shape(), in.dtype());
    const auto each = [&]<class T>(const T* from, T* to) {
      std::transform(from, from + in.numel(), to, [by = static_cast<T>(divisor)](T value) { return value / by; });
    };
    if (in.dtype() == DType::f32)
      each(dividends.data<float>(), out.data<float>());
    else
      each(dividends.data<double>(), out.data<double>());
    return out;
  };
  if (x.dtype() != DType::f32 && x.dtype() != DType::f64)
    throw ShapeError(std::string("divide: input is ") + name_of(x.dtype()) + "; pass float32 or float64");
  return custom_op("divide", {x}, quotients(x.value()),
                   [quotients](const Tensor& grad, Gradients& to) { to.set(0, quotients(grad)); });
}

/// NumPy's functions pass None for what is not given.
void take_no_options(const char* operation, const nb::args& places, const nb::kwargs& named) {
  const auto refuse = [&](nb::handle given) {
    throw nb::type_error((std::string(operation) + ": " + shown(given) +
                          " is given, and it is over all elements; sums " +
                          "over the last dimension are nn.functional.linear(x, ones), with ones of shape (1, n)")
                             .c_str());
  };
  for (nb::handle value : places)
    if (!value.is_none()) refuse(value);
  for (const auto& [name, value] : named)
    if (!value.is_none()) refuse(name);
}

Variable mean_of(const Variable& x) {
  const int64_t count = x.value().numel();
  if (count == 0) throw ShapeError("mean: the variable has no elements; pass one element at least");
  return divided(summed(x), static_cast<double>(count));
}

Variable converted(const Variable& x, nb::handle dtype) {
  const DType to = compute_type("astype: dtype", dtype), from = x.dtype();
  const Computing running;
  return custom_op("astype", {x}, to == from ? x.value().clone() : x.value().to(to),
                   [from](const Tensor& grad, Gradients& g) { g.set(0, grad.to(from)); });
}

bool holds(const Variable& x, nb::handle value) {
  number("in: value", value);  // NumPy answers False for anything else
  const nb::object wanted = is_variable(value) ? values_of(nb::cast<Variable>(value)) : nb::borrow(value);
  return nb::cast<bool>(values_of(x).attr("__contains__")(wanted));
}

/// Python's own, and NumPy's scalars.
bool is_number(nb::handle value) {
  static PyObject* const scalar = nb::object(numpy().attr("generic")).release().ptr();  // for good
  return PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr()) || PyComplex_Check(value.ptr()) ||
         PyObject_IsInstance(value.ptr(), scalar) == 1;
}

Variable multiplied(const Variable& a, nb::handle b) {
  if (is_number(b)) return scaled(a, number("multiply: b", b));
  const Variable other = variable("multiply: b", {b});
  const Computing running;
  return functional::multiply(a, other);
}

/// A number, which is added to each element of `like`, or an array of its shape.
Variable term(const char* what, const Variable& like, nb::handle value) {
  if (!is_number(value)) return variable(what, {value});
  return Variable(Tensor::full(like.shape(), number(what, value), like.dtype()));
}

// ---- Indexing

/// The part of a tensor in C order that an index chooses.
struct Part {
  int64_t first = 0;  // element
  std::vector<int64_t> sizes{}, strides{};

  Tensor of(const Tensor& whole) const {
    std::byte* const data = static_cast<std::byte*>(whole.raw()) + first * static_cast<int64_t>(size_of(whole.dtype()));
    return Tensor::borrow(data, whole.dtype(), Dims(sizes.begin(), sizes.end()), Dims(strides.begin(), strides.end()),
                          std::make_shared<Tensor>(whole));
  }
};

constexpr auto kIndices = "; pass integers, slices, None and ..., or take rows by nn.functional.embedding";

/// Throws TypeError for what is no integer, also for a Boolean and an array, which NumPy takes for other indices.
int64_t place_of(nb::handle index, int dimension, int64_t size) {
  const nb::object number = nb::steal(PyBool_Check(index.ptr()) ? nullptr : PyNumber_Index(index.ptr()));
  PyErr_Clear();
  if (!number.is_valid()) throw nb::type_error(("index: " + shown(index) + kIndices).c_str());
  const int64_t given = integer("index", number, "a place in the variable");
  if (given >= size || given < -size)
    throw nb::index_error(("index: place " + std::to_string(given) + " is outside dimension " +
                           std::to_string(dimension) + ", which has " + std::to_string(size))
                              .c_str());
  return given < 0 ? given + size : given;
}

Part part_of(const Dims& shape, nb::handle index) {
  const nb::tuple all = nb::isinstance<nb::tuple>(index) ? nb::borrow<nb::tuple>(index) : nb::make_tuple(index);
  const auto is_ellipsis = [](nb::handle one) { return one.ptr() == Py_Ellipsis; };
  const auto taken = static_cast<int>(
      std::count_if(all.begin(), all.end(), [&](nb::handle i) { return !i.is_none() && !is_ellipsis(i); }));
  if (taken > shape.rank())
    throw nb::index_error(("index: it has " + std::to_string(taken) + " places, and the variable " +
                           std::to_string(shape.rank()) + " dimensions")
                              .c_str());
  if (std::count_if(all.begin(), all.end(), is_ellipsis) > 1)
    throw nb::index_error("index: it has ... twice; give it once");
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank()));
  int64_t stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[static_cast<size_t>(d)] = stride;
    stride *= shape[d];
  }
  Part part;
  int dimension = 0;
  const auto keep = [&](int64_t size, int64_t step) {
    part.sizes.push_back(size);
    part.strides.push_back(step);
  };
  const auto keep_until = [&](int end) {
    for (; dimension < end; ++dimension) keep(shape[dimension], strides[static_cast<size_t>(dimension)]);
  };
  int left = taken;  // places that are still to come
  for (nb::handle one : all) {
    if (one.is_none()) {
      keep(1, 1);
      continue;
    }
    if (is_ellipsis(one)) {
      keep_until(shape.rank() - left);
      continue;
    }
    const int64_t size = shape[dimension], step = strides[static_cast<size_t>(dimension)];
    if (nb::isinstance<nb::slice>(one)) {
      const auto [begin, end, by, count] = nb::cast<nb::slice>(one).compute(static_cast<size_t>(size));
      part.first += count > 0 ? static_cast<int64_t>(begin) * step : 0;
      keep(static_cast<int64_t>(count), static_cast<int64_t>(by) * step);
    } else {
      part.first += place_of(one, dimension, size) * step;
    }
    ++dimension, --left;
  }
  keep_until(shape.rank());
  return part;
}

Variable indexed(const Variable& x, nb::handle index) {
  const Part part = part_of(x.shape(), index);
  const Computing running;
  return custom_op("index", {x}, part.of(x.value()).clone(), [part, x](const Tensor& grad, Gradients& to) {
    const Tensor whole = Tensor::zeros(x.shape(), x.dtype());
    part.of(whole).copy_from(grad);
    to.set(0, whole);
  });
}

// ---- Operations of one's own

/// Its last owner may be a thread without the GIL.
std::shared_ptr<nb::object> kept(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* held) {
            const nb::gil_scoped_acquire gil;
            delete held;
          }};
}

/// While one lives, what this thread calls takes no locks.
class InBackward {
 public:
  InBackward() { in_backward = true; }
  ~InBackward() { in_backward = false; }
  InBackward(const InBackward&) = delete;
  InBackward& operator=(const InBackward&) = delete;
};

std::vector<Tensor> gradients_from(nb::handle result, size_t inputs, DType dtype) {
  const bool sequence = nb::isinstance<nb::tuple>(result) || nb::isinstance<nb::list>(result);
  if (!sequence || nb::len(result) != inputs)
    throw nb::type_error(("custom_op: backward returned " + shown(result) + "; return a tuple of " +
                          std::to_string(inputs) + ", a gradient or None for each input")
                             .c_str());
  std::vector<Tensor> gradients;
  for (nb::handle gradient : result) {
    // A copy, which the tape may add to.
    const Tensor given = take_optional("custom_op: a gradient", gradient);
    gradients.push_back(!given.defined() ? given : given.dtype() == dtype ? given.clone() : given.to(dtype));
  }
  return gradients;
}

Variable run_custom_op(nb::handle inputs, Operand output, nb::callable backward) {
  std::vector<Variable> variables;
  for (nb::handle input : inputs) variables.push_back(variable("custom_op: an input", {input}));
  const Tensor result = variable("custom_op: output", output).value();
  const DType dtype = result.dtype();
  if (dtype != DType::f32 && dtype != DType::f64)
    throw ShapeError(std::string("custom_op: output is ") + name_of(dtype) + "; pass float32 or float64");
  return custom_op(
      "custom_op", variables, result,
      [held = kept(std::move(backward)), count = variables.size(), dtype](const Tensor& grad, Gradients& to) {
        const nb::gil_scoped_acquire gil;
        const InBackward without_locks;
        const nb::object gradients = (*held)(as_numpy(grad, Access::read));
        const std::vector<Tensor> all = gradients_from(gradients, count, dtype);
        for (size_t i = 0; i < count; ++i)
          if (all[i].defined()) to.set(i, all[i]);
      });
}

}  // namespace

Variable variable(const char* what, Operand operand) {
  if (is_variable(operand.object)) return nb::cast<Variable>(operand.object);
  return Variable(take(what, operand.object).contiguous());
}

Variable optional_variable(const char* what, Operand operand) {
  return operand.object.is_none() ? Variable() : variable(what, operand);
}

Tensor whole_numbers(const char* what, nb::handle array) {
  const Tensor given = take_optional(what, array);
  if (!given.defined()) return given;
  if (is_floating(given.dtype()) || given.dtype() == DType::boolean)
    throw ShapeError(std::string(what) + " is " + name_of(given.dtype()) + "; pass whole numbers, as int32");
  if (given.dtype() == DType::i32) return given.clone();
  const Tensor wide = given.to(DType::i64).contiguous();
  for (const int64_t number : wide.span<int64_t>())
    if (number < std::numeric_limits<int32_t>::min() || number > std::numeric_limits<int32_t>::max())
      throw ShapeError(std::string(what) + " has " + std::to_string(number) + "; pass numbers that 32 bits hold");
  return wide.to(DType::i32);
}

nb::object values_of(const Variable& variable) {
  return as_numpy(variable.value(), variable.requires_grad() && variable.is_leaf() ? Access::write : Access::read);
}

nb::object defined_or_none(const Variable& variable) { return variable.defined() ? nb::cast(variable) : nb::none(); }

DType compute_type(const char* what, nb::handle dtype) {
  if (!dtype.is_none()) {
    const std::string name = nb::cast<std::string>(numpy().attr("dtype")(dtype).attr("name"));
    if (name == "float32") return DType::f32;
    if (name == "float64") return DType::f64;
  }
  throw ShapeError(what + (" is " + shown(dtype)) + "; pass 'float32' or 'float64'");
}

void define_variable(nb::module_& m) {
  nb::class_<Variable>(m, "Variable", R"(A value of the tape: an array and, where gradients are wanted, how it was made.

    x = Variable(array)                          a constant, on the array's own memory
    w = Variable(array, requires_grad=True)      a leaf, a copy: backward() adds to w.grad

value: NumPy's array or another with DLPack, any shape; float32 or float64 where it is computed with. Memory in C order
is shared, other memory is copied; change neither before backward() has run. Raises ShapeError and TypeError.)")
      .def(
          "__init__",
          [](Variable* self, Operand value, bool requires_grad) { new (self) Variable(made(value, requires_grad)); },
          "value"_a.none(), "requires_grad"_a = false)
      .def_prop_ro("shape", &shape_of, nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "dtype", [](const Variable& v) { return nb::object(values_of(v).attr("dtype")); },
          nb::sig("def dtype(self) -> DType[typing.Any]"))
      .def_prop_ro("requires_grad", &Variable::requires_grad)
      .def_prop_ro("is_leaf", &Variable::is_leaf, "Whether it was made by its constructor, not by an operation.")
      .def_prop_ro(
          "grad", [](const Variable& v) { return as_numpy(gradient_of(v), Access::write); },
          nb::sig("def grad(self) -> NDArray[typing.Any] | None"),
          "The gradient of a leaf, shaped like it, in place; None before the first backward().")
      .def(
          "zero_grad",
          [](Variable& v) {
            const ChangingGradients alone;
            v.zero_grad();
          },
          "Sets the gradient to 0.")
      .def("backward", &run_backward, "grad"_a.none() = nb::none(),
           nb::sig("def backward(self, grad: Array | None = None) -> None"),
           R"(Adds the gradients of sum(grad * self) to those of every leaf that requires one, and frees the history.

grad: shaped like this, of its dtype; may be left out where this has one element. Raises ShapeError where there is
nothing to differentiate, and where backward() has run through a part of the history already.)")
      .def("numpy", &values_of, nb::sig("def numpy(self) -> NDArray[typing.Any]"),
           "The values, without a copy. A parameter's may be written to; others are read-only, since the tape needs "
           "them.")
      .def(
          "item", [](const Variable& v) { return v.value().item(); }, "The only element, as a float.")
      .def("__float__", [](const Variable& v) { return v.value().item(); })
      .def("__array__", &as_array, "dtype"_a.none() = nb::none(), "copy"_a.none() = nb::none(),
           nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> "
                   "NDArray[typing.Any]"))
      .def(
          "__dlpack__",
          [](const Variable& v, const nb::kwargs& options) {
            if (v.requires_grad()) throw nb::buffer_error(kRecordsNothing);
            return values_of(v).attr("__dlpack__")(**options);
          },
          nb::sig("def __dlpack__(self, **options: typing.Any) -> typing.Any"))
      .def(
          "__dlpack_device__", [](const Variable& v) { return values_of(v).attr("__dlpack_device__")(); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def(
          "same", [](const Variable& a, const Variable& b) { return a.same(b); }, "other"_a,
          "Whether both are one variable, not whether their values are equal.")
      .def("__reduce__", &reduce_variable, nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"))
      .def("__repr__", &text_of)
      .def(
          "__add__", [](const Variable& a, nb::handle b) { return added(a, term("add: b", a, b)); }, "b"_a.none(),
          nb::sig("def __add__(self, b: Array | float) -> Variable"))
      .def(
          "__radd__", [](const Variable& a, nb::handle b) { return added(term("add: a", a, b), a); }, "a"_a.none(),
          nb::sig("def __radd__(self, a: Array | float) -> Variable"))
      .def(
          "__sub__", [](const Variable& a, nb::handle b) { return added(a, scaled(term("subtract: b", a, b), -1)); },
          "b"_a.none(), nb::sig("def __sub__(self, b: Array | float) -> Variable"))
      .def(
          "__rsub__", [](const Variable& a, nb::handle b) { return added(term("subtract: a", a, b), scaled(a, -1)); },
          "a"_a.none(), nb::sig("def __rsub__(self, a: Array | float) -> Variable"))
      .def("__mul__", &multiplied, "b"_a.none(), nb::sig("def __mul__(self, b: Array | float) -> Variable"))
      .def("__rmul__", &multiplied, "b"_a.none(), nb::sig("def __rmul__(self, b: Array | float) -> Variable"))
      .def(
          "__truediv__", [](const Variable& a, nb::handle b) { return divided(a, number("divide: divisor", b)); },
          "divisor"_a.none(), nb::sig("def __truediv__(self, divisor: float) -> Variable"))
      .def("__neg__", [](const Variable& a) { return scaled(a, -1); })
      .def("__getitem__", &indexed, "index"_a.none(), nb::sig("def __getitem__(self, index: Index, /) -> Variable"),
           "The part that integers, slices, None and ... choose, as NumPy takes them. A copy.")
      .def(
          "__iter__",
          [](const Variable& v) {
            if (v.shape().rank() == 0) throw nb::type_error("a Variable without dimensions has no parts; use item()");
            nb::list parts;
            for (int64_t i = 0; i < v.shape()[0]; ++i) parts.append(indexed(v, nb::int_(i)));
            return nb::iter(parts);
          },
          nb::sig("def __iter__(self) -> typing.Iterator[Variable]"))
      .def("__contains__", &holds, "value"_a.none(), nb::sig("def __contains__(self, value: float) -> bool"))
      .def("astype", &converted, "dtype"_a.none(), nb::sig("def astype(self, dtype: typing.Any) -> Variable"),
           "Converted to float32 or float64, as a copy; gradients flow back through it. Raises ShapeError for others.")
      .def(
          "sum",
          [](const Variable& v, const nb::args& places, const nb::kwargs& named) {
            take_no_options("sum", places, named);
            return summed(v);
          },
          nb::sig("def sum(self) -> Variable"), "The sum of all elements, with the shape ().")
      .def(
          "mean",
          [](const Variable& v, const nb::args& places, const nb::kwargs& named) {
            take_no_options("mean", places, named);
            return mean_of(v);
          },
          nb::sig("def mean(self) -> Variable"),
          "The mean of all elements, with the shape (). Raises ShapeError where there are none.")
      .def(
          "detach", [](const Variable& v) { return Variable(v.value()); },
          "A constant on the same memory: nothing is recorded through it.")
      .attr("__array_ufunc__") = nb::none();  // so that array + variable is a variable

  nb::class_<NoGrad>(m, "NoGrad", "While one lives, this thread records nothing.").def(nb::init<>());
  m.def("manual_seed", [](nb::handle seed) {
    const int64_t number = integer("manual_seed: seed", seed, "0 to 2^63 - 1");
    if (number < 0) throw ShapeError("manual_seed: seed is " + std::to_string(number) + "; pass 0 to 2^63 - 1");
    manual_seed(static_cast<uint64_t>(number));
  });
  m.def(
      "nn_custom_op", &run_custom_op, "inputs"_a, "output"_a.none(), "backward"_a,
      nb::sig("def nn_custom_op(inputs: collections.abc.Sequence[Array], output: Array, backward: "
              "collections.abc.Callable[[NDArray[typing.Any]], collections.abc.Sequence[Array | None]]) -> Variable"));
}

}  // namespace heed::python
