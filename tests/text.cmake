# tests of text
heed_test(text_test ${CMAKE_SOURCE_DIR}/src/text/vocabulary_test.cc LIBS heed::text LABELS text)
