heed_test(tensor_test ${CMAKE_SOURCE_DIR}/src/core/tensor_test.cc LIBS heed::attention)
heed_test(gguf_test ${CMAKE_SOURCE_DIR}/src/core/gguf_test.cc allocations.cc LIBS heed::attention)
heed_test(executor_test ${CMAKE_SOURCE_DIR}/src/core/executor_test.cc LIBS heed::attention LABELS threads)
