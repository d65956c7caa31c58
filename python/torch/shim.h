// The functions of torch's stable C interface that the patch needs, looked up in the torch that runs. Nothing of torch
// is needed to build heed, and one binary serves every torch from 2.10 on: python/tests/under_torch holds the types
// below to torch's headers.
#pragma once

#include <cstdint>
#include <type_traits>

struct AtenTensorOpaque;  // torch's names for what its handles point to
class TorchLibraryOpaque;

namespace heed::python::torch {

/// A kernel: takes its arguments off `stack`, a word each, and leaves its results there.
using Kernel = void(uint64_t* stack, uint64_t arguments, uint64_t results);

#define HEED_TORCH_FUNCTIONS(X)                                                                                   \
  X(aoti_torch_library_init_impl, int32_t(const char*, const char*, const char*, uint32_t, TorchLibraryOpaque**)) \
  X(torch_library_impl, int32_t(TorchLibraryOpaque*, const char*, Kernel*, uint64_t))                             \
  X(aoti_torch_delete_library_object, int32_t(TorchLibraryOpaque*))                                               \
  X(aoti_torch_delete_tensor_object, int32_t(AtenTensorOpaque*))                                                  \
  X(aoti_torch_is_defined, int32_t(AtenTensorOpaque*, bool*))                                                     \
  X(aoti_torch_get_data_ptr, int32_t(AtenTensorOpaque*, void**))                                                  \
  X(aoti_torch_get_dim, int32_t(AtenTensorOpaque*, int64_t*))                                                     \
  X(aoti_torch_get_sizes, int32_t(AtenTensorOpaque*, int64_t**))                                                  \
  X(aoti_torch_get_strides, int32_t(AtenTensorOpaque*, int64_t**))                                                \
  X(aoti_torch_get_dtype, int32_t(AtenTensorOpaque*, int32_t*))                                                   \
  X(aoti_torch_empty_strided,                                                                                     \
    int32_t(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, AtenTensorOpaque**))              \
  X(aoti_torch_device_type_cpu, int32_t())                                                                        \
  X(aoti_torch_dtype_float16, int32_t())                                                                          \
  X(aoti_torch_dtype_bfloat16, int32_t())                                                                         \
  X(aoti_torch_dtype_float32, int32_t())                                                                          \
  X(aoti_torch_dtype_float64, int32_t())                                                                          \
  X(aoti_torch_dtype_bool, int32_t())                                                                             \
  X(torch_parallel_for, int32_t(int64_t, int64_t, int64_t, void (*)(int64_t, int64_t, void*), void*))             \
  X(torch_get_num_threads, int32_t(uint32_t*))

/// torch.library's version of what stands on a kernel's stack: that of torch 2.10.
constexpr uint64_t kStackVersion = uint64_t{2} << 56 | uint64_t{10} << 48;

struct Shim {
#define HEED_TORCH_MEMBER(name, ...) std::type_identity_t<__VA_ARGS__>* name = nullptr;
  HEED_TORCH_FUNCTIONS(HEED_TORCH_MEMBER)
#undef HEED_TORCH_MEMBER
};

/// The functions of the library at `path`, libtorch_cpu, which the process has loaded. Throws UsageError where it has
/// not, or where one of them is missing.
Shim load_shim(const char* path);

}  // namespace heed::python::torch
