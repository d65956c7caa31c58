// heed._heed: the compiled part of the package; what is in heed/*.py has the signatures and the documentation.
#include <nanobind/nanobind.h>

#include <algorithm>

#include "arrays.h"
#include "define.h"
#include "heed/chat.h"
#include "heed/executor.h"
#include "heed/text.h"
#include "options.h"
#include "values.h"

namespace heed::python {
namespace {

void set_num_threads(nb::handle threads) {
  const int64_t n = integer("num_threads", threads, "0 to 4096");
  set_threads(static_cast<int>(std::clamp<int64_t>(n, -1, 1 << 20)));  // what is outside stays outside
}

}  // namespace
}  // namespace heed::python

/// Translates Error to the Python exception `type`, with the message in Python's words.
template <class Error>
static void say_in_words_of_python(nanobind::handle type) {
  nanobind::register_exception_translator(
      [](const std::exception_ptr& thrown, void* of) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Error& error) {
          PyErr_SetString(static_cast<PyObject*>(of), heed::python::in_words_of_python(error.what()).c_str());
        }
      },
      type.ptr());
}

NB_MODULE(_heed, m) {
  namespace py = heed::python;
  namespace nb = nanobind;
  m.doc() = "The compiled part of heed.";
  m.attr("version") = HEED_VERSION;
  nb::set_leak_warnings(false);  // results may outlive the interpreter

  const nb::exception<heed::ShapeError> shape_error(m, "ShapeError", PyExc_ValueError);
  shape_error.doc() = "Shapes, dtypes or option values that do not fit the operation.";
  // Of RequiresGrad below and of others that derive from it their own translators are asked before.
  say_in_words_of_python<heed::ShapeError>(shape_error);
  nb::exception<py::RequiresGrad>(m, "RequiresGrad", shape_error.ptr()).doc() =
      "A torch tensor that requires grad, where nothing is recorded for it.";
  nb::exception<py::Watched>(m, "Watched", shape_error.ptr()).doc() =
      "A torch tensor in a call that a trace, a dispatch mode, a transform of torch.func or forward AD cannot follow.";
  const nb::exception<heed::UsageError> usage_error(m, "UsageError", PyExc_ValueError);
  usage_error.doc() =
      "What was asked for cannot be: options that exclude each other, a directory that is not heed's, a model of "
      "another kind.";
  say_in_words_of_python<heed::UsageError>(usage_error);
  nb::exception<heed::UnsupportedTemplateError>(m, "UnsupportedTemplateError", usage_error.ptr()).doc() =
      "The model's own chat template has features that heed does not have.";
  const nb::exception<heed::FormatError> format_error(m, "FormatError", PyExc_ValueError);
  format_error.doc() = "A file whose content breaks its format.";
  say_in_words_of_python<heed::FormatError>(format_error);
  nb::exception<heed::UntrustedError>(m, "UntrustedError", format_error.ptr()).doc() =
      "A vocabulary that heed did not make, where that was not said to be trusted.";
  nb::exception<heed::TrainingError>(m, "TrainingError", PyExc_RuntimeError).doc() =
      "Training that cannot go on: a loss that is not finite.";
  nb::exception<heed::IoError>(m, "IoError", PyExc_OSError).doc() = "The operating system refused to read or write.";
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const heed::MemoryError& error) {
      PyErr_SetString(PyExc_MemoryError, error.what());
    }
  });

  py::define_mods(m);
  py::define_attention(m);
  py::define_cache(m);
  py::define_torch(m);
  py::define_view(m);
  py::define_nn(m);
  py::define_tokenizer(m);
  py::define_models(m);
  py::define_readers(m);
  py::define_text(m);
  py::define_training(m);
  m.def("set_num_threads", &py::set_num_threads, nb::arg("num_threads").none());
  m.def("get_num_threads", &heed::threads);
}
