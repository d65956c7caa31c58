#include "options.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "arrays.h"
#include "heed/autograd.h"
#include "torch/kernels.h"

namespace heed::python {
namespace {

[[noreturn]] void refuse_type(const std::string& text) { throw nb::type_error(text.c_str()); }

/// `value` as an object of Python's int. Throws TypeError.
nb::object whole(const char* what, nb::handle value) {
  PyObject* const index = PyNumber_Index(value.ptr());
  if (!index) {
    PyErr_Clear();
    refuse_type(what + (" is " + shown(value)) + "; pass an integer");
  }
  return nb::steal(index);
}

/// `x` as it came out of a conversion to C, which leaves an error where 64 bits do not hold it.
template <class Integer>
Integer fitting(const char* what, nb::handle value, Integer x, const char* limits) {
  if (x != static_cast<Integer>(-1) || !PyErr_Occurred()) return x;
  PyErr_Clear();
  throw ShapeError(what + (" is " + shown(value)) + "; pass " + limits);
}

uint64_t seed_of(nb::handle value) {
  constexpr auto kWhat = "attention: seed";
  const nb::object seed = whole(kWhat, value);
  return fitting(kWhat, seed, PyLong_AsUnsignedLongLong(seed.ptr()), "0 to 2^64 - 1");
}

constexpr auto kPositions = "at most 2^58, in either direction";

bool is(nb::handle value, const char* name) {
  return nb::isinstance<nb::str>(value) && PyUnicode_CompareWithASCIIString(value.ptr(), name) == 0;
}

/// numpy.bool_, which comparisons give.
bool is_numpy_bool(nb::handle value) {
  const nb::str kind = nb::inst_name(value);
  const std::string_view name = kind.c_str();
  return name == "bool" || name == "numpy.bool" || name == "bool_" || name == "numpy.bool_";  // of NumPy 2 and 1
}

/// 0 or 1 of an integer of any kind, which torch takes for a Boolean.
std::optional<bool> as_bit(nb::handle value) {
  if (!PyIndex_Check(value.ptr())) return {};
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  const long long number = index.is_valid() ? PyLong_AsLongLong(index.ptr()) : -1;
  PyErr_Clear();
  if (number != 0 && number != 1) return {};
  return number == 1;
}

Window window_of(nb::handle value) {
  if (value.is_none()) return {};
  if (!(nb::isinstance<nb::tuple>(value) || nb::isinstance<nb::list>(value)) || nb::len(value) != 2)
    refuse_type("attention: window is " + shown(value) +
                "; pass (left, right), the keys on either side, -1 or None for all");
  const auto side = [](const char* what, const nb::object& keys) {
    return keys.is_none() ? int64_t{-1} : integer(what, keys, kPositions);
  };
  return {side("attention: window[0]", nb::object(value[0])), side("attention: window[1]", nb::object(value[1]))};
}

/// Whole numbers that say where things lie. A copy: nobody may change them between their check and their use.
Tensor indices(const char* what, nb::handle array) { return Tensor(Lent(what, array)).clone(); }

}  // namespace

Causal causal_of(nb::handle value) {
  if (value.ptr() == Py_False || value.is_none()) return Causal::none;
  if (value.ptr() == Py_True) return Causal::top_left;
  if (is(value, "top_left") || is(value, "top-left")) return Causal::top_left;
  if (is(value, "bottom_right") || is(value, "bottom-right")) return Causal::bottom_right;
  if (is_numpy_bool(value)) return PyObject_IsTrue(value.ptr()) == 1 ? Causal::top_left : Causal::none;
  if (const std::optional<bool> bit = as_bit(value)) return *bit ? Causal::top_left : Causal::none;
  throw ShapeError("attention: causal is " + shown(value) +
                   "; pass False, True or 'top_left' (query i sees keys up to i + offset), or 'bottom_right' (the last "
                   "query sees the last key)");
}

// Python's and NumPy's: float() drops the imaginary part of the latter's.
static bool is_complex(nb::handle value) {
  if (PyComplex_Check(value.ptr())) return true;
  const nb::object dtype = nb::getattr(value, "dtype", nb::none());
  return nb::str(nb::getattr(dtype, "kind", nb::none())).equal(nb::str("c"));
}

double number(const char* what, nb::handle value) {
  if (nb::isinstance<Variable>(value) && nb::inst_ready(value) && nb::cast<const Variable&>(value).requires_grad())
    refuse_type(what + std::string(" is a Variable that requires grad, and no gradient flows through a number; ") +
                "pass its item()");
  const bool real = !is_complex(value);
  const double x = real ? PyFloat_AsDouble(value.ptr()) : 0;
  if (!real || (x == -1 && PyErr_Occurred())) {
    PyErr_Clear();
    refuse_type(what + (" is " + shown(value)) + (real ? "; pass a number" : "; pass a real number"));
  }
  return x;
}

int64_t integer(const char* what, nb::handle value, const char* limits) {
  const nb::object index = whole(what, value);
  return fitting(what, index, PyLong_AsLongLong(index.ptr()), limits);
}

bool flag(const char* what, nb::handle value) {
  if (value.ptr() != Py_True && value.ptr() != Py_False)
    refuse_type(what + (" is " + shown(value)) + "; pass True or False");
  return value.ptr() == Py_True;
}

Options::Options(nb::handle mask, nb::handle causal, nb::handle scale, nb::handle window, nb::handle softcap,
                 nb::handle alibi, nb::handle sinks, nb::handle score_mod, nb::handle block_mask,
                 nb::handle key_lengths, nb::handle offset, nb::handle q_offsets, nb::handle k_offsets,
                 nb::handle dropout_p, nb::handle seed) {
  if (!mask.is_none()) options_.mask = take("attention: mask", mask);
  options_.causal = causal_of(causal);
  if (!scale.is_none()) options_.scale = number("attention: scale", scale);
  options_.window = window_of(window);
  if (!softcap.is_none()) options_.softcap = number("attention: softcap", softcap);
  if (!alibi.is_none()) options_.alibi = take("attention: alibi", alibi);
  if (!sinks.is_none()) options_.sinks = take("attention: sinks", sinks);
  if ((mods_ = mods_of(score_mod))) options_.score_mod = mods_->mod();
  if (!block_mask.is_none()) {
    const Blocks* blocks = nullptr;
    if (!nb::try_cast(block_mask, blocks))
      refuse_type("attention: block_mask is " + shown(block_mask) + "; pass the result of heed.block_mask()");
    options_.block_mask = blocks->mask;
  }
  if (!key_lengths.is_none()) options_.key_lengths = indices("attention: key_lengths", key_lengths);
  options_.offset = integer("attention: offset", offset, kPositions);
  if (!q_offsets.is_none()) options_.q_offsets = indices("attention: q_offsets", q_offsets);
  if (!k_offsets.is_none()) options_.k_offsets = indices("attention: k_offsets", k_offsets);
  options_.dropout = number("attention: dropout_p", dropout_p);
  options_.seed = seed_of(seed);
}

void check_mask(const char* operation, const Tensor& mask, const CallSizes& sizes) {
  if (!mask.defined() || mask.rank() == 0) return;
  const int64_t has = mask.size(-1), queries = sizes.queries, keys = sizes.keys;
  if (has == 1 || has >= keys) return;
  const auto shown = [](int64_t size, const char* letters) { return size < 0 ? letters : std::to_string(size); };
  throw ShapeError(std::string(operation) + ": a mask of shape " + to_string(mask.shape()) +
                   " does not broadcast to (B, Hq, Lq, Lk) = (" + shown(sizes.batch, "B") + ", " +
                   shown(sizes.heads, "Hq") + ", " + shown(queries, "Lq") + ", " + std::to_string(keys) +
                   "); pass (Lq, Lk) = (" + shown(queries, "Lq") + ", " + std::to_string(keys) +
                   "), or a shape whose dimensions, from the right, are 1 or those sizes");
}

void Options::check(const char* operation, const CallSizes& sizes) const {
  if (mods_) mods_->check(operation, sizes);
  if (!options_.q_offsets.defined()) check_mask(operation, options_.mask, sizes);
}

void Options::check(const char* operation, const Tensor& q, const Tensor& k) const {
  if (mods_ || options_.mask.defined()) check(operation, sizes_of(q, k, options_));
}

void Options::rethrow() const {
  if (mods_) mods_->rethrow();
}

bool are_defaults(std::initializer_list<nb::handle> nones, nb::handle causal, std::initializer_list<nb::handle> numbers,
                  std::initializer_list<nb::handle> integers) {
  const auto is_none = [](nb::handle value) { return value.is_none(); };
  const auto is_0 = [](nb::handle value) { return PyLong_CheckExact(value.ptr()) && PyObject_Not(value.ptr()) == 1; };
  const auto is_0_or_0_0 = [&](nb::handle value) {
    return PyFloat_CheckExact(value.ptr()) ? PyFloat_AsDouble(value.ptr()) == 0 : is_0(value);
  };
  return causal.ptr() == Py_False && std::all_of(nones.begin(), nones.end(), is_none) &&
         std::all_of(numbers.begin(), numbers.end(), is_0_or_0_0) &&
         std::all_of(integers.begin(), integers.end(), is_0);
}

Executor* threads_of(nb::handle array) {
  Executor* const of_torch = torch::threads();
  return of_torch && is_torch(array) ? of_torch : nullptr;
}

void want_weights(nb::handle value, const Tensor& q, AttentionOptions& options) {
  options.want_weights = value.ptr() != Py_False;
  if (value.ptr() == Py_True || value.ptr() == Py_False) return;
  if (!nb::isinstance<nb::tuple>(value) || nb::len(value) != 3)
    refuse_type("attention: return_weights is " + shown(value) + "; pass True, False or a heed.Select");
  const auto chosen = [&](const char* what, nb::handle list, int dimension) {
    if (list.is_none()) return Tensor();
    const nb::object array = nb::module_::import_("numpy").attr("asarray")(list);
    const Tensor t = take(what, array);
    if (t.numel() == 0) return Tensor::zeros(t.shape(), DType::i64);  // NumPy's empty list is float64
    if (t.dtype() != DType::i32 && t.dtype() != DType::i64)
      throw ShapeError(std::string(what) + " is " + shown(list) + "; pass a list of integers");
    const Tensor indices = t.to(DType::i64).clone();  // the caller keeps its own
    for (int64_t i = 0; i < indices.numel() && dimension < q.rank(); ++i) {
      int64_t& n = indices.data<int64_t>()[i];
      const int64_t end = q.size(dimension);
      if (n >= end || n < -end)
        throw ShapeError(
            std::string(what) + " has " + std::to_string(n) + "; q has " + std::to_string(end) +
            (dimension == 1 ? " heads" : " rows") +
            (end == 0 ? "; leave it out" : "; pass " + std::to_string(-end) + " to " + std::to_string(end - 1)));
      if (n < 0) n += end;
    }
    return indices;
  };
  options.selection.heads = chosen("attention: Select.heads", nb::object(value[0]), 1);
  options.selection.rows = chosen("attention: Select.rows", nb::object(value[1]), 2);
  options.selection.top_p = number("attention: Select.top_p", nb::object(value[2]));
}

std::optional<ScoreStage> stage(nb::handle name) {
  if (name.is_none()) return {};
  constexpr std::pair<const char*, ScoreStage> kStages[] = {{"scaled", ScoreStage::scaled},
                                                            {"softcap", ScoreStage::softcap},
                                                            {"masked", ScoreStage::masked},
                                                            {"weights", ScoreStage::weights}};
  for (const auto& [text, value] : kStages)
    if (is(name, text)) return value;
  throw ShapeError("attention: return_scores is " + shown(name) +
                   "; pass None, 'scaled', 'softcap', 'masked' or 'weights'");
}

}  // namespace heed::python
