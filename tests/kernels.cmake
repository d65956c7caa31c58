set(kernel_tests activation adamw dropout elementwise embedding linear loss norm positions softmax)
list(TRANSFORM kernel_tests REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/src/kernels/\\1_test.cc")
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwy_test REQUIRED IMPORTED_TARGET libhwy)
heed_test(kernels_test ${kernel_tests} "${CMAKE_SOURCE_DIR}/src/simd/quantised_test.cc" LIBS heed::nn PkgConfig::hwy_test LABELS threads)
# The tests run each target that kernels are compiled for.
target_compile_options(kernels_test PRIVATE ${heed_simd_options})
target_compile_definitions(kernels_test PRIVATE ${heed_simd_definitions})
if(HEED_SANITIZE)
  target_compile_definitions(kernels_test PRIVATE HEED_SANITIZED)
endif()
add_test(NAME kernels_test.matrix_unit
         COMMAND kernels_test --gtest_filter=Linear.TheMatrixUnitIsAskedForByTheEnvironment)
set_tests_properties(kernels_test.matrix_unit PROPERTIES LABELS unit ENVIRONMENT HEED_MATRIX_UNIT=1)
