# What reads files of other people, fed with what libFuzzer makes of good ones: here a fixed number of tries. By hand, as
# many as one likes: build/asan/tests/fuzz_tokenizer_json -malloc_limit_mb=512 FOUND build/asan/tests/fuzz_tokenizer_json.begin
if(NOT HEED_SANITIZE MATCHES "address" OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  return()
endif()

# heed_fuzz(NAME RUNS file...): NAME's own source, and what to begin with, of files that are not large.
function(heed_fuzz name runs)
  add_executable(fuzz_${name} ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/${name}.cc)
  target_include_directories(fuzz_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(fuzz_${name} PRIVATE heed_flags heed::load)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  set(begin ${CMAKE_CURRENT_BINARY_DIR}/fuzz_${name}.begin)
  file(REMOVE_RECURSE ${begin})
  set(found ${CMAKE_CURRENT_BINARY_DIR}/fuzz_${name}.found)
  file(MAKE_DIRECTORY ${begin} ${found})
  set(number 0)
  foreach(example IN LISTS ARGN)
    file(SIZE ${example} size)
    if(size LESS 40000)
      file(COPY_FILE ${example} ${begin}/${number})
      math(EXPR number "${number} + 1")
    endif()
  endforeach()
  add_test(NAME fuzz.${name} COMMAND fuzz_${name} -runs=${runs} -seed=1 -timeout=60 -rss_limit_mb=2048
           -malloc_limit_mb=512 -print_final_stats=1 ${found} ${begin})
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 900 COST 90)
endfunction()

# libFuzzer follows what is new in these.
target_compile_options(heed_text PRIVATE -fsanitize=fuzzer-no-link)
file(GLOB readers ${CMAKE_SOURCE_DIR}/src/pretrained/*.cc)
set_property(SOURCE ${readers} TARGET_DIRECTORY heed_nn APPEND PROPERTY COMPILE_OPTIONS -fsanitize=fuzzer-no-link)

file(GLOB tokenizers ${HEED_SHARED}/conformance/models/*/tokenizer.json
     ${HEED_SHARED}/conformance/models/tokenizers/*/tokenizer.json)
heed_fuzz(tokenizer_json 20000 ${tokenizers})
file(GLOB configs ${HEED_SHARED}/conformance/models/*/config.json)
heed_fuzz(config_json 5000 ${configs})
heed_fuzz(gguf 5000)
