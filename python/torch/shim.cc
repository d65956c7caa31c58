#include "shim.h"

#include <dlfcn.h>

#include <string>

#include "heed/error.h"

namespace heed::python::torch {
namespace {

template <class F>
void look_up(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  if (!function)
    throw UsageError(std::string("patch: this torch has no ") + name + " in its C interface; use torch 2.10 or newer");
}

}  // namespace

Shim load_shim(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (!library) throw UsageError(std::string("patch: torch has not loaded ") + path + "; import torch first");
  Shim shim;
#define HEED_TORCH_LOOK_UP(name, ...) look_up(library, #name, shim.name);
  HEED_TORCH_FUNCTIONS(HEED_TORCH_LOOK_UP)
#undef HEED_TORCH_LOOK_UP
  return shim;
}

}  // namespace heed::python::torch
