#include "values.h"

#include <initializer_list>
#include <limits>
#include <string_view>
#include <utility>

#include "arrays.h"
#include "heed/error.h"
#include "options.h"

namespace heed::python {
namespace {

[[noreturn]] void refuse_type(const char* what, nb::handle value, const char* remedy) {
  throw nb::type_error((what + (" is " + shown(value)) + "; pass " + remedy).c_str());
}

/// Calls take(item) for each.
template <class Take>
void each(const char* what, nb::handle value, const char* remedy, Take&& take) {
  if (nb::isinstance<nb::str>(value) || nb::isinstance<nb::bytes>(value)) refuse_type(what, value, remedy);
  nb::object items = nb::steal(PyObject_GetIter(value.ptr()));
  if (!items.is_valid()) {
    PyErr_Clear();
    refuse_type(what, value, remedy);
  }
  while (PyObject* const item = PyIter_Next(items.ptr())) take(nb::steal(item));
  if (PyErr_Occurred()) throw nb::python_error();
}

}  // namespace

/// A path in place of a text.
static void refuse_path(const char* what, nb::handle value) {
  if (!nb::hasattr(value, "__fspath__")) return;
  const std::string path = shown(value);
  throw nb::type_error((what + (" is " + path) + "; pass the text of the file, open(" + path + ").read()").c_str());
}

std::string text(const char* what, nb::handle value) {
  refuse_path(what, value);
  if (!nb::isinstance<nb::str>(value)) refuse_type(what, value, "a str");
  Py_ssize_t bytes = 0;
  const char* const utf8 = PyUnicode_AsUTF8AndSize(value.ptr(), &bytes);
  if (!utf8) throw nb::python_error();
  return {utf8, static_cast<size_t>(bytes)};
}

std::vector<std::string> texts(const char* what, nb::handle value) {
  std::vector<std::string> all;
  refuse_path(what, value);
  each(what, value, "a list of str", [&](const nb::object& item) {
    const std::string name = what + ("[" + std::to_string(all.size()) + "]");
    all.push_back(text(name.c_str(), item));
  });
  return all;
}

std::vector<int32_t> ids(const char* what, nb::handle value) {
  std::vector<int32_t> all;
  each(what, value, "a list of ids", [&](const nb::object& item) {
    const std::string name = what + ("[" + std::to_string(all.size()) + "]");
    const int64_t id = integer(name.c_str(), item, "an id of the vocabulary");
    if (id < std::numeric_limits<int32_t>::min() || id > std::numeric_limits<int32_t>::max())
      throw ShapeError(name + " is " + shown(item) + "; pass an id of the vocabulary");
    all.push_back(static_cast<int32_t>(id));
  });
  return all;
}

uint64_t seed(const char* what, nb::handle value) {
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  if (!index.is_valid()) {
    PyErr_Clear();
    refuse_type(what, value, "an integer");
  }
  const uint64_t x = PyLong_AsUnsignedLongLong(index.ptr());
  if (x == static_cast<uint64_t>(-1) && PyErr_Occurred()) {
    PyErr_Clear();
    throw ShapeError(what + (" is " + shown(value)) + "; pass 0 to 2^64 - 1");
  }
  return x;
}

std::string path(const char* what, nb::handle value) {
  PyObject* bytes = nullptr;
  if (!PyUnicode_FSConverter(value.ptr(), &bytes)) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
    PyErr_Clear();
    refuse_type(what, value, "a path, as str or os.PathLike");
  }
  const nb::object held = nb::steal(bytes);
  return {PyBytes_AsString(bytes), static_cast<size_t>(PyBytes_Size(bytes))};
}

std::string in_words_of_python(const std::string& message) {
  // The longer ones first: a part of them is one, too.
  constexpr std::pair<std::string_view, std::string_view> kPhrases[] = {
      {"call contiguous() first", "call np.ascontiguousarray() first"},
      {"convert with to(DType::", "convert with astype(DType::"},
      {"convert it with to(DType::", "convert it with astype(DType::"},
      {"with to()", "with astype()"},
      {"called with want_", "called with return_"},
      {"set options.want_", "set return_"},
      {"Causal::top_left", "causal=True"},
      {" (a last one from 2 to Lk - 1 hides the keys past it)", ""},
      {"with expand() where", "with broadcast_to() where"},
      {"attention: dropout is ", "attention: dropout_p is "},
      {"call attention() without `into`", "call attention() without out"},
      {"into.out ", "out "},
      {"forward.out ", "r.out "},
      {"forward.lse ", "r.lse "},
      {"forward.lse_low ", "r.lse_low "},
      {"grad_out ", "grad "},
      {"selection.", "Select."},
      {"rotary: y ", "rotary: out "},
      {"save_pretrained: ", "save: "},
      {"set sample, too", "pass sample=True"},
      {"pass Existing::replace", "pass overwrite=True"},
      {"keep_matrices_as(DType::q8)", "heed.load(path, dtype=\"int8\")"}};
  std::string text = message;
  for (const auto& [ours, theirs] : kPhrases)
    for (size_t at = 0; (at = text.find(ours, at)) != text.npos; at += theirs.size())
      text.replace(at, ours.size(), theirs);
  // Names of types where they are words, and no parts of a path.
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {"f16", "float16"}, {"f32", "float32"}, {"f64", "float64"}, {"bf16", "bfloat16"},
      {"i8", "int8"},     {"i16", "int16"},   {"i32", "int32"},   {"i64", "int64"},
      {"u8", "uint8"},    {"u16", "uint16"},  {"u32", "uint32"},  {"u64", "uint64"}};
  constexpr std::string_view kBefore = " (", kAfter = " ,;:.)";
  for (const auto& [ours, theirs] : kTypes)
    for (size_t at = 0; (at = text.find(ours, at)) != text.npos;) {
      const size_t end = at + ours.size();
      const bool of_library = text.substr(0, at).ends_with("DType::");
      const size_t begin = of_library ? at - std::string_view("DType::").size() : at;
      const bool word = of_library || ((at == 0 || kBefore.find(text[at - 1]) != kBefore.npos) &&
                                       (end == text.size() || kAfter.find(text[end]) != kAfter.npos));
      if (word) text.replace(begin, end - begin, of_library ? '"' + std::string(theirs) + '"' : std::string(theirs));
      at = word ? begin + theirs.size() : end;
    }
  return text;
}

size_t choice(const char* what, nb::handle value, std::initializer_list<const char*> names) {
  std::string all;
  size_t place = 0;
  for (const char* name : names) {
    if (nb::isinstance<nb::str>(value) && PyUnicode_CompareWithASCIIString(value.ptr(), name) == 0) return place;
    all += (place == 0 ? "'" : place + 1 == names.size() ? " or '" : ", '") + std::string(name) + "'";
    ++place;
  }
  throw ShapeError(what + (" is " + shown(value)) + "; pass " + all);
}

}  // namespace heed::python
