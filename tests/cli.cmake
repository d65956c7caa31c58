# tests of cli
foreach(name config_file choose training_report)
  heed_test(${name}_test ${CMAKE_SOURCE_DIR}/src/recipe/${name}_test.cc LIBS heed::recipe LABELS cli)
endforeach()
foreach(name progress flags)
  heed_test(${name}_test ${CMAKE_SOURCE_DIR}/src/cli/${name}_test.cc LIBS heed_commands LABELS cli)
endforeach()

# The program as it is built, from outside. COST: what takes longest begins first, so that nothing waits for it at the end.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(program_environment "HEED_PROGRAM=$<TARGET_FILE:heed>;HEED_SHARED=${HEED_SHARED}")
if(HEED_SANITIZE)
  list(APPEND program_environment "HEED_SANITIZED=1")
endif()
# Programs that read untrusted input run under the address sanitizer for each change; the rest, labelled trusted, runs
# there in scripts/check-all. Fuzz targets read the formats of attention (.npy, .npz) and prepare (texts).
set(trusted attention defaults earlier generate live_model mistakes prepare report train train_data tuning usage)
foreach(name usage mistakes encodings files attention look train train_data prepare defaults report translate tokenize reading heads generate pictures pretrained
             live_model models tuning earlier serve bounds)
  add_test(NAME program.${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/program/${name}_test.py -v)
  set(labels program)
  if(name IN_LIST trusted)
    list(APPEND labels trusted)
  endif()
  set_tests_properties(program.${name} PROPERTIES LABELS "${labels}" TIMEOUT 1500 COST 100
    ENVIRONMENT "${program_environment}")
endforeach()

# Kills and failures at each system call come from a library that is loaded before the C library; a sanitizer's runtime
# must be the first one itself.
function(program_tests_with_shim shim)  # ... and the names of the tests
  set(library)
  if(NOT HEED_SANITIZE)
    add_library(${shim}_shim MODULE program/${shim}_shim.cc)
    target_link_libraries(${shim}_shim PRIVATE heed_flags ${CMAKE_DL_LIBS})
    target_compile_features(${shim}_shim PRIVATE cxx_std_20)
    set(library "HEED_SHIM=$<TARGET_FILE:${shim}_shim>")
  endif()
  foreach(name IN LISTS ARGN)
    add_test(NAME program.${name}
      COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/program/${name}_test.py -v)
    # Each run has a limit of its own; with HEED_TEST_ALL there are very many.
    set_tests_properties(program.${name} PROPERTIES LABELS "program;trusted" TIMEOUT 36000 COST 500
      ENVIRONMENT "${program_environment};${library}")
  endforeach()
endfunction()
program_tests_with_shim(saving saving save_order)
program_tests_with_shim(memory memory)

# The pages in a browser. Debian's python3-selenium is there for Debian's Python, which need not be the first one found.
add_executable(page_maker program/page_maker.cc)
target_link_libraries(page_maker PRIVATE heed_flags heed::view nlohmann_json::nlohmann_json)
set(browser_python ${Python3_EXECUTABLE})
foreach(candidate ${Python3_EXECUTABLE} /usr/bin/python3)
  execute_process(COMMAND ${candidate} -c "import selenium" RESULT_VARIABLE without OUTPUT_QUIET ERROR_QUIET)
  if(without EQUAL 0)
    set(browser_python ${candidate})
    break()
  endif()
endforeach()
foreach(name page page_around page_use page_long page_frames page_everyone page_story picture_page live_page serve_page report_page firefox_page)
  add_test(NAME program.${name} COMMAND ${browser_python} -B ${CMAKE_CURRENT_SOURCE_DIR}/program/${name}_test.py -v)
  set(labels program page)
  if(name MATCHES "^(firefox_page|page_frames)$")
    list(APPEND labels long)
  endif()
  set_tests_properties(program.${name} PROPERTIES LABELS "${labels}" TIMEOUT 1200 COST 1000
    SKIP_RETURN_CODE 77
    ENVIRONMENT "${program_environment};HEED_PAGE_MAKER=$<TARGET_FILE:page_maker>")
endforeach()
set_tests_properties(program.page_frames PROPERTIES RUN_SERIAL ON)  # it counts processor time
