#include "arrays.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

namespace heed::python {
namespace {

using namespace nb::literals;

constexpr auto kKinds = "pass a NumPy array, a torch tensor on the CPU or another array with __dlpack__";

[[noreturn]] void refuse(const char* what, const std::string& text) { throw ShapeError(what + (" " + text)); }

/// What repr() or str() made of `value`; its type where they failed, or made nothing that UTF-8 has.
std::string text_of(nb::handle value, PyObject* made) {
  const nb::object owned = nb::steal(made);
  const char* const text = made ? PyUnicode_AsUTF8AndSize(made, nullptr) : nullptr;
  if (text) return text;
  PyErr_Clear();
  return std::string("a ") + nb::inst_name(value).c_str();
}

struct Layout {
  void* data;
  DType dtype;
  Dims shape, strides;  // in elements
};

void check_rank(const char* what, int64_t rank) {
  if (rank > kMaxRank) refuse(what, "has " + std::to_string(rank) + " dimensions; pass at most 8");
}

Dims contiguous(const Dims& shape) {
  Dims strides = shape;
  uint64_t stride = 1;  // sizes may be anything yet
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[d] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>(shape[d]);
  }
  return strides;
}

Tensor borrowed(const char* what, const Layout& layout, std::shared_ptr<void> owner) {
  if (reinterpret_cast<uintptr_t>(layout.data) % size_of(layout.dtype) != 0)
    refuse(what, "begins in the middle of an element's place in memory; pass a copy");
  try {
    return Tensor::borrow(layout.data, layout.dtype, layout.shape, layout.strides, std::move(owner));
  } catch (const ShapeError&) {
    refuse(what, "has the shape " + to_string(layout.shape) + ", which no memory has; pass an array");
  }
}

/// What a tensor keeps alive, let go of with the GIL.
struct Held {
  void* what;
  void (*release)(void* what);
  Held* next = nullptr;  // of those that wait

  // One after another: an array that holds a tensor that holds an array, and so on, would be as deep on the stack as
  // there are of them.
  static void let_go(Held* held) {
    thread_local Held* waiting = nullptr;
    thread_local bool releasing = false;
    held->next = std::exchange(waiting, held);
    if (std::exchange(releasing, true)) return;
    const nb::gil_scoped_acquire gil;
    const nb::error_scope error;  // what is on its way stays: whoever is let go may run Python
    while (waiting) {
      Held* const first = waiting;
      waiting = first->next;
      first->release(first->what);
      delete first;
    }
    releasing = false;
  }
};

template <class T>
std::shared_ptr<T> kept_by_tensors(T* what, void (*release)(void* what)) {
  return {what, [held = new Held{what, release}](T*) { Held::let_go(held); }};
}

// ---- The buffer protocol

std::optional<DType> integer_of(bool is_signed, int64_t bytes) {
  switch (bytes) {
    case 1:
      return is_signed ? DType::i8 : DType::u8;
    case 2:
      return is_signed ? DType::i16 : DType::u16;
    case 4:
      return is_signed ? DType::i32 : DType::u32;
    case 8:
      return is_signed ? DType::i64 : DType::u64;
    default:
      return {};
  }
}

/// Of a format of Python's struct module, in the machine's byte order.
std::optional<DType> dtype_of_format(const char* format, int64_t bytes) {
  if (!format) return DType::u8;
  constexpr char kNative = std::endian::native == std::endian::little ? '<' : '>';
  if (*format == '@' || *format == '=' || *format == kNative) ++format;
  if (std::strlen(format) != 1) return {};
  if (*format == '?') return DType::boolean;
  if (*format == 'e') return DType::f16;
  if (*format == 'f') return DType::f32;
  if (*format == 'd') return DType::f64;
  if (std::strchr("bhilqn", *format)) return integer_of(true, bytes);
  if (std::strchr("BHILQN", *format)) return integer_of(false, bytes);
  return {};
}

Tensor take_buffer(const char* what, const Py_buffer& view, Access access, std::shared_ptr<void> owner) {
  if (access == Access::write && view.readonly) refuse(what, "is read-only; pass memory that may be written to");
  const auto dtype = dtype_of_format(view.format, view.itemsize);
  if (!dtype)
    refuse(what, std::string("has elements of the format '") + view.format +
                     "'; pass float32, float64, float16 or bfloat16, in the machine's byte order");
  check_rank(what, view.ndim);
  const Dims shape(view.shape, view.shape + view.ndim);
  Dims strides = contiguous(shape);  // arrays of ctypes say none, whatever they are asked for
  for (int d = 0; view.strides && d < view.ndim; ++d) {
    if (shape[d] > 1 && view.strides[d] % view.itemsize != 0)
      refuse(what, "has strides that are no multiples of its elements; pass a copy");
    strides[d] = view.strides[d] / view.itemsize;
  }
  return borrowed(what, {view.buf, *dtype, shape, strides}, std::move(owner));
}

/// False, without an error, where `array` has no buffer.
bool get_buffer(nb::handle array, Py_buffer& view) {
  if (!PyObject_CheckBuffer(array.ptr())) return false;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_STRIDES | PyBUF_FORMAT) == 0) return true;
  PyErr_Clear();
  return false;
}

std::shared_ptr<Py_buffer> kept_buffer(const Py_buffer& view) {
  return kept_by_tensors(new Py_buffer(view), [](void* held) {
    PyBuffer_Release(static_cast<Py_buffer*>(held));
    delete static_cast<Py_buffer*>(held);
  });
}

// ---- DLPack (dmlc.github.io/dlpack): the two structures that capsules hold

struct Managed {
  nb::dlpack::dltensor tensor;
  void* context;
  void (*deleter)(Managed*);
  static constexpr auto kName = "dltensor", kUsed = "used_dltensor";
};

struct ManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  nb::dlpack::dltensor tensor;
  static constexpr auto kName = "dltensor_versioned", kUsed = "used_dltensor_versioned";
};

constexpr uint64_t kReadOnly = 1;  // of flags

/// What a type offers in C as __dlpack_c_exchange_api__, without objects of Python's in between.
struct Exchange {
  uint32_t major, minor;
  const Exchange* older;  // of another version, or null; only what stands above it is the same in all
  int (*allocate)(nb::dlpack::dltensor*, ManagedVersioned**, void*, void (*)(void*, const char*, const char*));
  int (*from_object)(void* object, ManagedVersioned** to);
  int (*to_object)(ManagedVersioned* from, void** object);
  int (*lend)(void* object, nb::dlpack::dltensor* to);  // for as long as the object is there; may be null
};

/// An attribute by its interned name: to make the string anew would cost more than to look it up.
nb::object attribute(nb::handle object, PyObject* name) {
  PyObject* const value = PyObject_GetAttr(object.ptr(), name);
  if (value) return nb::steal(value);
  PyErr_Clear();
  return nb::none();
}

/// torch.Tensor, where somebody has imported torch; else null. Kept for good.
PyObject* torch_tensor() {
  static PyObject* type = nullptr;
  if (type) return type;
  const nb::object torch = nb::module_::import_("sys").attr("modules").attr("get")("torch");
  const nb::object found = nb::getattr(torch, "Tensor", nb::none());
  return type = found.is_none() ? nullptr : found.inc_ref().ptr();
}

const Exchange* exchange_of_type(nb::handle type) {
  static PyObject* const name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  const nb::object capsule = attribute(type, name);
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  auto* exchange = static_cast<const Exchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (exchange && exchange->major != 1) exchange = exchange->older;
  return exchange;
}

/// Null where the type has none that heed knows. Torch's, which a process has one of, is looked up once.
const Exchange* exchange_of(nb::handle array) {
  const nb::handle type = array.type();
  if (!type.is(torch_tensor())) return exchange_of_type(type);
  static const Exchange* const torch = exchange_of_type(type);
  return torch;
}

std::optional<DType> dtype_of_dlpack(nb::dlpack::dtype type) {
  if (type.lanes != 1) return {};
  switch (static_cast<nb::dlpack::dtype_code>(type.code)) {
    case nb::dlpack::dtype_code::Float:
      if (type.bits == 16) return DType::f16;
      if (type.bits == 32) return DType::f32;
      if (type.bits == 64) return DType::f64;
      return {};
    case nb::dlpack::dtype_code::Bfloat:
      return type.bits == 16 ? std::optional(DType::bf16) : std::nullopt;
    case nb::dlpack::dtype_code::Bool:
      return type.bits == 8 ? std::optional(DType::boolean) : std::nullopt;
    case nb::dlpack::dtype_code::Int:
      return integer_of(true, type.bits / 8);
    case nb::dlpack::dtype_code::UInt:
      return integer_of(false, type.bits / 8);
    default:
      return {};
  }
}

Tensor take_dlpack(const char* what, const nb::dlpack::dltensor& t, std::shared_ptr<void> owner) {
  // Host memory, plain or of a kind that a GPU reads, too.
  if (t.device.device_type != nb::device::cpu::value && t.device.device_type != nb::device::cuda_host::value)
    refuse(what,
           "is on another device (DLPack's type " + std::to_string(t.device.device_type) + "); pass it on the CPU");
  const auto dtype = dtype_of_dlpack(t.dtype);
  if (!dtype) refuse(what, "has elements that heed does not know; pass float32, float64, float16 or bfloat16");
  check_rank(what, t.ndim);
  if (t.ndim < 0 || (t.ndim > 0 && !t.shape)) refuse(what, "has a DLPack structure without a shape; pass a copy");
  const Dims shape(t.shape, t.shape + t.ndim);
  if (!t.data && !std::count(shape.begin(), shape.end(), 0))
    refuse(what, "has a DLPack structure without memory; pass a copy");
  return borrowed(what,
                  {static_cast<char*>(t.data) + t.byte_offset, *dtype, shape,
                   t.strides ? Dims(t.strides, t.strides + t.ndim) : contiguous(shape)},
                  std::move(owner));
}

/// Owns a structure that was given up to it.
template <class M>
std::shared_ptr<M> owned(M* managed) {
  return kept_by_tensors(managed, [](void* held) {
    auto* const m = static_cast<M*>(held);
    if (m->deleter) m->deleter(m);
  });
}

/// The structure out of its capsule, which gives it up.
template <class M>
std::shared_ptr<M> held(nb::handle capsule) {
  auto* const managed = static_cast<M*>(PyCapsule_GetPointer(capsule.ptr(), M::kName));
  if (!managed || PyCapsule_SetName(capsule.ptr(), M::kUsed) != 0) throw nb::python_error();
  return owned(managed);
}

[[noreturn]] void refuse_export(const char* what, nb::handle array, const nb::python_error& error) {
  if (!error.matches(PyExc_Exception)) throw error;  // KeyboardInterrupt and what else is not about the array
  if (nb::getattr(array, "is_nested", nb::none()).ptr() == Py_True)
    refuse(what, "is a nested tensor; pass its values with q_offsets and k_offsets, or dense tensors");
  const std::string text = text_of(error.value(), PyObject_Str(error.value().ptr()));
  // Of torch's own the first line: a trace of its calls follows.
  refuse(what, "gives no memory: " + text.substr(0, text.find('\n')) + "; pass a dense array on the CPU");
}

nb::object capsule_of(const char* what, nb::handle array, nb::handle method) {
  try {
    return method("max_version"_a = nb::make_tuple(1, 0));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) refuse_export(what, array, error);
  }
  try {
    return method();  // older than versions
  } catch (const nb::python_error& error) {
    refuse_export(what, array, error);
  }
}

Tensor take_versioned(const char* what, const std::shared_ptr<ManagedVersioned>& managed, Access access) {
  if (managed->major != 1)
    refuse(what, "speaks version " + std::to_string(managed->major) + " of DLPack; heed knows 1");
  if (access == Access::write && (managed->flags & kReadOnly))
    refuse(what, "is read-only; pass memory that may be written to");
  return take_dlpack(what, managed->tensor, managed);
}

Tensor take_capsule(const char* what, nb::handle capsule, Access access) {
  if (PyCapsule_IsValid(capsule.ptr(), Managed::kName)) {
    if (access == Access::write)
      refuse(what, "does not say whether it may be written to; pass a NumPy array or a torch tensor");
    const auto managed = held<Managed>(capsule);
    return take_dlpack(what, managed->tensor, managed);
  }
  if (!PyCapsule_IsValid(capsule.ptr(), ManagedVersioned::kName))
    refuse(what, "has a __dlpack__ that gives " + shown(capsule) + "; it must give a capsule of DLPack's");
  return take_versioned(what, held<ManagedVersioned>(capsule), access);
}

Tensor take_exchanged(const char* what, const Exchange& exchange, nb::handle array, Access access) {
  ManagedVersioned* managed = nullptr;
  try {
    if (exchange.from_object(array.ptr(), &managed) != 0) throw nb::python_error();
  } catch (const nb::python_error& error) {
    refuse_export(what, array, error);
  }
  return take_versioned(what, owned(managed), access);
}

// ---- Both

bool is_a(nb::handle array, PyObject* type) {
  return PyObject_TypeCheck(array.ptr(), reinterpret_cast<PyTypeObject*>(type));
}

}  // namespace

bool is_torch(nb::handle array) {
  PyObject* const type = torch_tensor();
  return type && is_a(array, type);
}

namespace {

/// Whether torch would record what is done to tensors now.
bool torch_records() {
  static PyObject* const function =
      nb::object(nb::module_::import_("torch").attr("is_grad_enabled")).release().ptr();  // for good
  const nb::object enabled = nb::steal(PyObject_CallNoArgs(function));
  if (!enabled.is_valid()) throw nb::python_error();
  return enabled.ptr() == Py_True;
}

/// Numbers of torch's sets of dispatch keys.
uint64_t bits_of(const nb::object& keys) { return nb::cast<uint64_t>(keys.attr("raw_repr")()); }

/// The keys that torch's operators would be called with by this thread, of tracers, modes and transforms.
struct WatchingKeys {
  PyObject *included = nullptr, *excluded = nullptr;  // functions; null in a torch without them
  uint64_t mask = 0;

  WatchingKeys() {
    const nb::object c = nb::module_::import_("torch").attr("_C");
    const auto function = [&](const char* name) { return nb::getattr(c, name, nb::none()); };
    const nb::object includes = function("_dispatch_tls_local_include_set"),
                     excludes = function("_dispatch_tls_local_exclude_set"), parse = function("_dispatch_key_parse");
    if (includes.is_none() || excludes.is_none() || parse.is_none()) return;
    // By their names: torch's enumeration DispatchKey has no member for the key Tracer.
    for (const char* const name : {"Python", "Tracer", "FuncTorchDynamicLayerFrontMode"})
      mask |= bits_of(c.attr("DispatchKeySet")(parse(name)));
    included = nb::object(includes).release().ptr(), excluded = nb::object(excludes).release().ptr();  // for good
  }
  bool any() const {
    if (!included) return false;
    const uint64_t found = bits_of(nb::handle(included)()) & mask;
    return found != 0 && (found & ~bits_of(nb::handle(excluded)())) != 0;
  }
};

/// Whether a level of forward AD is open.
bool has_dual_level() {
  static PyObject* const module =
      nb::object(nb::module_::import_("torch.autograd.forward_ad")).release().ptr();  // for good
  static PyObject* const name = PyUnicode_InternFromString("_current_level");
  const nb::object level = attribute(module, name);
  return PyLong_Check(level.ptr()) && PyLong_AsLong(level.ptr()) >= 0;
}

bool is_dual(nb::handle tensor) {
  return !nb::module_::import_("torch.autograd.forward_ad").attr("unpack_dual")(tensor).attr("tangent").is_none();
}

[[noreturn]] void refuse_watched(const char* what) {
  throw Watched(std::string(what) +
                " is a torch tensor in a trace, under a dispatch mode or in a transform of torch.func, which cannot "
                "follow this call; call it outside of them, or use heed.attention or heed.torch");
}

[[noreturn]] void refuse_dual(const char* what) {
  throw Watched(std::string(what) +
                " has a tangent, and heed has no forward-mode derivatives; use reverse mode (torch.autograd.grad, "
                "torch.func.vjp), or pass the primal alone");
}

thread_local int unwatched_calls = 0;

[[noreturn]] void refuse_kind(const char* what, const std::string& name) {
  refuse(what,
         "is a " + name +
             (name == "torch.nn.attention.bias.CausalBias" ? "; pass causal='top_left' or 'bottom_right' in its place"
                                                           : "; pass a plain torch.Tensor"));
}

/// What torch would export all the same: other classes' own ideas of their memory, a sign that is yet to be turned,
/// elements whose gradients somebody waits for, and what is followed.
void check_torch(const char* what, nb::handle tensor) {
  if (!tensor.type().is(torch_tensor()) &&
      !tensor.type().is(nb::module_::import_("torch").attr("nn").attr("Parameter")))
    refuse_kind(what, nb::inst_name(tensor).c_str());
  static PyObject* const requires_grad = PyUnicode_InternFromString("requires_grad");
  static PyObject* const is_neg = nb::object(nb::handle(torch_tensor()).attr("is_neg")).release().ptr();  // for good
  if (unwatched_calls == 0 && torch_watches()) refuse_watched(what);
  if (has_dual_level() && is_dual(tensor)) refuse_dual(what);
  if (attribute(tensor, requires_grad).ptr() != Py_False && torch_records())
    throw RequiresGrad(std::string(what) + " requires grad, and nothing is recorded for it here; pass detach() of it");
  PyObject* const only = tensor.ptr();
  const nb::object turned = nb::steal(PyObject_Vectorcall(is_neg, &only, 1, nullptr));
  if (!turned.is_valid()) throw nb::python_error();
  if (turned.ptr() != Py_False) refuse(what, "is a view with the sign turned; pass resolve_neg() of it");
}

/// bfloat16 in NumPy is a type of the package ml_dtypes, which no buffer tells of.
bool is_bfloat16(nb::handle array) {
  const nb::object dtype = nb::getattr(array, "dtype", nb::none());
  const nb::object name = nb::getattr(dtype, "name", nb::none());
  return nb::isinstance<nb::str>(name) && PyUnicode_CompareWithASCIIString(name.ptr(), "bfloat16") == 0;
}

bool is_numpy(nb::handle array) {
  static PyObject* const type = nb::object(nb::module_::import_("numpy").attr("ndarray")).release().ptr();  // for good
  return is_a(array, type);
}

nb::dlpack::dtype dlpack_of(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const Code code = dtype == DType::bf16      ? Code::Bfloat
                    : is_floating(dtype)      ? Code::Float
                    : dtype == DType::boolean ? Code::Bool
                    : *name_of(dtype) == 'i'  ? Code::Int
                                              : Code::UInt;
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(8 * size_of(dtype)), 1};
}

/// A tensor on its way to the library of `exchange`, which deletes it.
struct Exported {
  ManagedVersioned managed;
  Tensor tensor;
};

nb::object exchanged(const Tensor& tensor, const Exchange& exchange) {
  auto exported = std::make_unique<Exported>(Exported{{}, tensor});
  ManagedVersioned& managed = exported->managed;
  managed.major = 1;
  managed.context = exported.get();
  managed.deleter = [](ManagedVersioned* m) { delete static_cast<Exported*>(m->context); };
  nb::dlpack::dltensor& t = managed.tensor;
  t.data = tensor.raw();
  t.device = {nb::device::cpu::value, 0};
  t.ndim = tensor.rank();
  t.dtype = dlpack_of(tensor.dtype());
  // The structure lets its reader write the sizes, and no reader does.
  t.shape = const_cast<int64_t*>(exported->tensor.shape().begin());
  t.strides = const_cast<int64_t*>(exported->tensor.strides().begin());
  exported.release();  // the library's, also where it fails: to lose it beats to delete it twice
  void* object = nullptr;
  if (exchange.to_object(&managed, &object) != 0) throw nb::python_error();
  return nb::steal(static_cast<PyObject*>(object));
}

template <class... Kind>
nb::object as(const Tensor& tensor, DType dtype) {
  std::array<size_t, kMaxRank> shape{};
  std::copy(tensor.shape().begin(), tensor.shape().end(), shape.begin());
  const nb::capsule owner(new Tensor(tensor), [](void* held) noexcept { delete static_cast<Tensor*>(held); });
  return nb::cast(nb::ndarray<Kind...>(tensor.raw(), static_cast<size_t>(tensor.rank()), shape.data(), owner,
                                       tensor.strides().begin(), dlpack_of(dtype)));
}

/// `view` is to be released where it has an object.
Tensor lend(const char* what, nb::handle array, Py_buffer& view) {
  view.obj = nullptr;
  if (get_buffer(array, view)) {
    try {
      return take_buffer(what, view, Access::read, nullptr);
    } catch (...) {
      PyBuffer_Release(&view);
      throw;
    }
  }
  const Exchange* const exchange = exchange_of(array);
  if (!exchange || !exchange->lend) return take(what, array);
  if (is_torch(array)) check_torch(what, array);
  nb::dlpack::dltensor lent;
  try {
    if (exchange->lend(array.ptr(), &lent) != 0) throw nb::python_error();
  } catch (const nb::python_error& error) {
    refuse_export(what, array, error);
  }
  return take_dlpack(what, lent, nullptr);
}

}  // namespace

Tensor take(const char* what, nb::handle array, Access access) {
  if (Py_buffer view; get_buffer(array, view)) {
    const auto kept = kept_buffer(view);
    return take_buffer(what, *kept, access, kept);
  }
  if (is_numpy(array) && is_bfloat16(array)) {
    const Tensor bits = take(what, array.attr("view")("uint16"), access);
    return Tensor::borrow(bits.raw(), DType::bf16, bits.shape(), bits.strides(), std::make_shared<Tensor>(bits));
  }
  if (is_torch(array)) check_torch(what, array);
  if (const Exchange* const exchange = exchange_of(array)) return take_exchanged(what, *exchange, array, access);
  const nb::object method = nb::getattr(array, "__dlpack__", nb::none());
  if (method.is_none() || PyType_Check(array.ptr()))
    throw nb::type_error((what + (" is " + shown(array) + "; ") + kKinds).c_str());
  return take_capsule(what, capsule_of(what, array, method), access);
}

bool torch_watches() {
  static const WatchingKeys keys;
  return keys.any();
}

UnwatchedCall::UnwatchedCall(const char* what, nb::handle array) {
  if (!is_torch(array)) return;
  if (torch_watches()) refuse_watched(what);
  ++unwatched_calls;
  counts_ = true;
}

void UnwatchedCall::end() {
  if (std::exchange(counts_, false)) --unwatched_calls;
}

Lent::Lent(const char* what, nb::handle array) : tensor_(lend(what, array, view_)) {}

Lent::~Lent() {
  if (view_.obj) PyBuffer_Release(&view_);
}

Tensor take_optional(const char* what, nb::handle array, Access access) {
  return array.is_none() ? Tensor() : take(what, array, access);
}

nb::object give(const Tensor& tensor, nb::handle like) {
  if (!tensor.defined()) return nb::none();
  if (is_numpy(like)) return as_numpy(tensor, Access::write);
  if (const Exchange* const exchange = exchange_of(like)) return exchanged(tensor, *exchange);
  if (is_torch(like)) return as<nb::pytorch>(tensor, tensor.dtype());
  const nb::object space = nb::getattr(like, "__array_namespace__", nb::none());
  const nb::object from = space.is_none() ? space : nb::getattr(space(), "from_dlpack", nb::none());
  if (from.is_none()) return as<nb::numpy>(tensor, tensor.dtype());
  return from(as<nb::array_api>(tensor, tensor.dtype()));
}

nb::object view(const Tensor& tensor, Access access) {
  const DType dtype = tensor.dtype() == DType::bf16 ? DType::u16 : tensor.dtype();  // which NumPy has by itself
  return access == Access::write ? as<nb::numpy>(tensor, dtype) : as<nb::numpy, nb::ro>(tensor, dtype);
}

nb::object as_numpy(const Tensor& tensor, Access access) {
  if (!tensor.defined()) return nb::none();
  const nb::object array = view(tensor, access);
  if (tensor.dtype() != DType::bf16) return array;
  return array.attr("view")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
}

const char* numpy_name(DType dtype) {
  constexpr std::pair<DType, const char*> kNames[] = {
      {DType::f32, "float32"}, {DType::f64, "float64"}, {DType::f16, "float16"}, {DType::bf16, "bfloat16"},
      {DType::i64, "int64"},   {DType::i32, "int32"},   {DType::boolean, "bool"}};
  for (const auto& [type, name] : kNames)
    if (type == dtype) return name;
  return name_of(dtype);
}

std::string shown(nb::handle value) {
  const std::string text = text_of(value, PyObject_Repr(value.ptr()));
  return text.size() <= 60 ? text : std::string("a ") + nb::inst_name(value).c_str();
}

}  // namespace heed::python
