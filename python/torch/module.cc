// The patch for Python: heed/torch/_patch.py has the documentation.
#include <nanobind/nanobind.h>

#include "../arrays.h"
#include "../define.h"
#include "kernels.h"

namespace heed::python {
namespace {

using Counts = nb::typed<nb::tuple, int, int>;

Counts counts() {
  const torch::Calls counted = torch::calls();
  return nb::make_tuple(counted.forward, counted.backward);
}

}  // namespace

void define_torch(nb::module_& m) {
  m.def("torch_use_threads", &torch::use_threads, nb::arg("path_of_libtorch_cpu"));
  m.def("torch_install", &torch::install, nb::arg("path_of_libtorch_cpu"));
  m.def("torch_uninstall", &torch::uninstall);
  m.def("torch_calls", &counts);
  m.def("torch_watches", &torch_watches);
}

}  // namespace heed::python
