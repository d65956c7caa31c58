set(text_tests lines_test.cc metric_test.cc sentences_test.cc unicode_test.cc vocabulary_test.cc)
list(TRANSFORM text_tests PREPEND ${CMAKE_SOURCE_DIR}/src/text/)
heed_test(text_test ${text_tests} LIBS heed::text LABELS text)
