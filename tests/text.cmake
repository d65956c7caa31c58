find_package(nlohmann_json 3.11 REQUIRED)
set(text_tests lines_test.cc metric_test.cc sentences_test.cc unicode_test.cc vocabulary_test.cc)
list(TRANSFORM text_tests PREPEND ${CMAKE_SOURCE_DIR}/src/text/)
heed_test(text_test ${text_tests} LIBS heed::text LABELS text UNSANITIZED Sentences.TakeTimeByTheLength)

# Answers scripts/test-tokenizers, which compares it with other implementations.
add_executable(tokenizer_probe tokenizer/probe.cc)
target_link_libraries(tokenizer_probe PRIVATE heed_flags heed::text nlohmann_json::nlohmann_json)
heed_test(tokenizer_conformance_test tokenizer/conformance_test.cc LIBS heed::text nlohmann_json::nlohmann_json
          LABELS text)
heed_test(tokenizer_test ${CMAKE_SOURCE_DIR}/src/tokenizer/tokenizer_test.cc LIBS heed::text LABELS text)
heed_test(tokenizer_bounds_test ${CMAKE_SOURCE_DIR}/src/tokenizer/bounds_test.cc allocations.cc LIBS heed::text LABELS text)
heed_test(tokenizer_gguf_test ${CMAKE_SOURCE_DIR}/src/tokenizer/gguf_test.cc LIBS heed::text LABELS text)
heed_test(tokenizer_threads_test ${CMAKE_SOURCE_DIR}/src/tokenizer/threads_test.cc LIBS heed::text LABELS threads)

# scripts/test-tokenizers takes more texts; these show that nothing is plainly different.
add_test(NAME scripts.test-tokenizers COMMAND ${CMAKE_SOURCE_DIR}/scripts/test-tokenizers --texts 300)
set_tests_properties(scripts.test-tokenizers PROPERTIES LABELS scripts TIMEOUT 600 SKIP_RETURN_CODE 77
  ENVIRONMENT "HEED_SHARED=${HEED_SHARED};HEED_TOKENIZER_PROBE=$<TARGET_FILE:tokenizer_probe>")
