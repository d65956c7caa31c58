// What each file of the extension module brings to it.
#pragma once

#include <nanobind/nanobind.h>

namespace heed::python {
namespace nb = nanobind;

void define_attention(nb::module_& m);

}  // namespace heed::python
