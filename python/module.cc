// heed._heed: the compiled part of the package; what is in heed/*.py has the signatures and the documentation.
#include <nanobind/nanobind.h>

#include <algorithm>

#include "define.h"
#include "options.h"
#include "threads.h"

namespace heed::python {
namespace {

void set_num_threads(nb::handle threads) {
  const int64_t n = integer("num_threads", threads, "0 to 4096");
  Threads::instance().set(static_cast<int>(std::clamp<int64_t>(n, -1, 1 << 20)));  // what is outside stays outside
}

}  // namespace
}  // namespace heed::python

NB_MODULE(_heed, m) {
  namespace py = heed::python;
  namespace nb = nanobind;
  m.doc() = "The compiled part of heed.";
  m.attr("version") = HEED_VERSION;
  nb::set_leak_warnings(false);  // results may outlive the interpreter

  nb::exception<heed::ShapeError>(m, "ShapeError", PyExc_ValueError).doc() =
      "Shapes, dtypes or option values that do not fit the operation.";
  nb::exception<heed::FormatError>(m, "FormatError", PyExc_ValueError).doc() =
      "A file whose content breaks its format.";
  nb::exception<heed::IoError>(m, "IoError", PyExc_OSError).doc() = "The operating system refused to read or write.";
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const heed::MemoryError& error) {
      PyErr_SetString(PyExc_MemoryError, error.what());
    }
  });

  py::define_attention(m);
  m.def("set_num_threads", &py::set_num_threads, nb::arg("num_threads").none());
  m.def("get_num_threads", [] { return py::Threads::instance().executor()->threads(); });
}
