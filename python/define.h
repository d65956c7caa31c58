// What each file of the extension module brings to it.
#pragma once

#include <nanobind/nanobind.h>

namespace heed::python {
namespace nb = nanobind;

void define_mods(nb::module_& m);  // before define_attention, whose options take them
void define_attention(nb::module_& m);
void define_cache(nb::module_& m);
void define_torch(nb::module_& m);
void define_view(nb::module_& m);
void define_nn(nb::module_& m);
void define_models(nb::module_& m);
void define_readers(nb::module_& m);  // behind define_models
void define_tokenizer(nb::module_& m);
void define_text(nb::module_& m);
void define_training(nb::module_& m);

}  // namespace heed::python
