set(kernel_tests activation adamw dropout elementwise embedding linear loss norm positions softmax)
list(TRANSFORM kernel_tests REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/src/kernels/\\1_test.cc")
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwy_test REQUIRED IMPORTED_TARGET libhwy)
heed_test(kernels_test ${kernel_tests} "${CMAKE_SOURCE_DIR}/src/simd/quantised_test.cc" LIBS heed::nn PkgConfig::hwy_test LABELS threads)
# The targets that heed_kernels() leaves out would be Highway's emulated vectors once more.
if(HEED_SANITIZE)
  target_compile_definitions(kernels_test PRIVATE HEED_SANITIZED "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)")
else()
  target_compile_definitions(kernels_test PRIVATE "HWY_DISABLED_TARGETS=(HWY_SSSE3)")
endif()
add_test(NAME kernels_test.matrix_unit
         COMMAND kernels_test --gtest_filter=Linear.TheMatrixUnitIsAskedForByTheEnvironment)
set_tests_properties(kernels_test.matrix_unit PROPERTIES LABELS unit ENVIRONMENT HEED_MATRIX_UNIT=1)
