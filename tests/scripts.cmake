# The scripts that people run.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME scripts.get-data COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/scripts/get_data_test.py -v)
add_test(NAME scripts.augment-pairs
         COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/scripts/augment_pairs_test.py)
add_test(NAME scripts.search-defaults
         COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/scripts/search_defaults_test.py)
add_test(NAME scripts.usage COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/scripts/usage_test.py)
set_tests_properties(scripts.augment-pairs scripts.search-defaults scripts.usage PROPERTIES LABELS scripts TIMEOUT 120)
set_tests_properties(scripts.get-data PROPERTIES LABELS scripts TIMEOUT 300 ENVIRONMENT "HEED_SHARED=${HEED_SHARED}")

# scripts/check-faults tries them; here they must fit the sources that they are to break.
add_test(NAME scripts.faults WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
         COMMAND sh -c "for fault in tests/faults/*.patch; do git apply --check \"$fault\" || exit 1; done")
set_tests_properties(scripts.faults PROPERTIES LABELS scripts TIMEOUT 60)

# scripts/build-wasm --check says more, where emscripten is.
add_test(NAME scripts.wasm-checksum COMMAND sha256sum --check --quiet heed.wasm.sha256
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/wasm)
set_tests_properties(scripts.wasm-checksum PROPERTIES LABELS scripts TIMEOUT 60)

# scripts/reference would install it; a test does not.
find_program(HEED_DOXYGEN doxygen)
if(HEED_DOXYGEN)
  add_test(NAME scripts.reference COMMAND ${CMAKE_SOURCE_DIR}/scripts/reference ${CMAKE_BINARY_DIR}/reference)
else()
  add_test(NAME scripts.reference COMMAND ${CMAKE_COMMAND} -E echo "skipped: doxygen is not installed")
endif()
set_tests_properties(scripts.reference PROPERTIES LABELS scripts TIMEOUT 60
                     SKIP_REGULAR_EXPRESSION "skipped: doxygen is not installed")
