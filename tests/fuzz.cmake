# Bytes that libFuzzer makes of good files, given to everything that reads untrusted input: here a fixed number of runs
# that takes seconds. By hand, as long as you like:
#   build/asan/tests/fuzz tokenizer_json -malloc_limit_mb=128 FOUND build/asan/tests/fuzz.begin/tokenizer_json
if(NOT HEED_SANITIZE MATCHES "address" OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR NOT HEED_CLI)
  return()
endif()

add_executable(fuzz fuzz/main.cc fuzz/json_mutator.cc fuzz/arrays.cc fuzz/directories.cc fuzz/models.cc fuzz/program.cc
               fuzz/tokenizers.cc)
target_include_directories(fuzz PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(fuzz PRIVATE heed_flags heed_commands nlohmann_json::nlohmann_json)
target_link_options(fuzz PRIVATE -fsanitize=fuzzer)

# libFuzzer follows what is new in these.
target_compile_options(heed_text PRIVATE -fsanitize=fuzzer-no-link)
function(heed_follow target)  # ... and files of src
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/src/)
  set_property(SOURCE ${ARGN} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_OPTIONS -fsanitize=fuzzer-no-link)
  set_property(SOURCE ${ARGN} TARGET_DIRECTORY ${target} PROPERTY SKIP_PRECOMPILE_HEADERS ON)  # compiled without it
endfunction()
file(GLOB readers RELATIVE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/src/pretrained/*.cc ${CMAKE_SOURCE_DIR}/src/io/*.cc)
list(FILTER readers EXCLUDE REGEX "_test\\.cc$")
file(GLOB templates RELATIVE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/src/jinja/*.cc)
heed_follow(heed_nn ${readers} train/state.cc)
heed_follow(heed_load ${templates} load/adapters.cc load/chat.cc load/configuration.cc load/corpus.cc load/data_files.cc load/token_file.cc)
heed_follow(heed_view view/read_png.cc)
heed_follow(heed_pages pages/head_changes.cc)
heed_follow(heed_recipe recipe/config_file.cc recipe/training_report.cc)
heed_follow(heed_serve serve/request_fields.cc serve/request_head.cc serve/http_server.cc serve/worker.cc)
heed_follow(heed_commands cli/flags.cc)

# heed_fuzz(FORMAT RUNS MEGABYTES file...): MEGABYTES is the most that one allocation may take; the files are further
# examples, where they are not large.
function(heed_fuzz format runs megabytes)
  set(begin ${CMAKE_CURRENT_BINARY_DIR}/fuzz.begin/${format})
  set(found ${CMAKE_CURRENT_BINARY_DIR}/fuzz.found/${format})
  file(REMOVE_RECURSE ${begin})
  file(MAKE_DIRECTORY ${begin} ${found})
  set(number 0)
  foreach(example IN LISTS ARGN)
    file(SIZE ${example} size)
    if(size LESS 40000)
      file(COPY_FILE ${example} ${begin}/${number})
      math(EXPR number "${number} + 1")
    endif()
  endforeach()
  set(options "")
  # The leak checker of clang 14 can crash if a thread ends while it runs. It runs once, after the server has ended.
  if(format STREQUAL request)
    set(options -detect_leaks=0)
  endif()
  add_test(NAME fuzz.${format} COMMAND fuzz ${format} -runs=${runs} -seed=1 -timeout=60 -rss_limit_mb=2048 -max_len=65536
           -malloc_limit_mb=${megabytes} -print_final_stats=1 ${options} ${found} ${begin})
  set_tests_properties(fuzz.${format} PROPERTIES LABELS fuzz TIMEOUT 900 COST 50)
endfunction()

set(models ${HEED_SHARED}/conformance/models)
file(GLOB tokenizers ${models}/*/tokenizer.json ${models}/tokenizers/*/tokenizer.json)
file(GLOB configs ${models}/*/config.json)
heed_fuzz(tokenizer_json 1200 128 ${tokenizers})
heed_fuzz(tokenizer_files 10000 128)
heed_fuzz(config_json 2000 128 ${configs})
heed_fuzz(model_directory 1400 128)
heed_fuzz(gguf 4000 128)
heed_fuzz(safetensors 50000 128)
heed_fuzz(npy 40000 128)
heed_fuzz(npz 40000 256)
heed_fuzz(gzip 20000 256)
heed_fuzz(png 50000 256)
heed_fuzz(journal 2000 128)
heed_fuzz(training_state 2500 128)
heed_fuzz(training_log 2000 128)
heed_fuzz(training_maps 15000 128)
heed_fuzz(token_file 20000 128)
heed_fuzz(texts 10000 128)
heed_fuzz(toml 100000 128)
heed_fuzz(options 5000 128)
heed_fuzz(request_head 60000 128)
heed_fuzz(request 2000 128)
