heed_test(attention_test ${CMAKE_SOURCE_DIR}/src/attention/attention_test.cc LIBS heed::attention)
