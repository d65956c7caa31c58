# tests of cli
foreach(name progress checkpoint text_stream training_report)
  heed_test(${name}_test ${CMAKE_SOURCE_DIR}/src/cli/${name}_test.cc LIBS heed_commands LABELS cli)
endforeach()

# The program as it is built, from outside.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(name usage files attention look train report translate generate)
  add_test(NAME program.${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/program/${name}_test.py -v)
  set_tests_properties(program.${name} PROPERTIES LABELS program TIMEOUT 600
    ENVIRONMENT "HEED_PROGRAM=$<TARGET_FILE:heed>;HEED_SHARED=${HEED_SHARED}")
endforeach()

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
foreach(name page report_page)
  add_test(NAME program.${name} COMMAND ${browser_python} -B ${CMAKE_CURRENT_SOURCE_DIR}/program/${name}_test.py -v)
  set_tests_properties(program.${name} PROPERTIES LABELS program TIMEOUT 1200
    SKIP_REGULAR_EXPRESSION "SKIPPED: the page was seen by no browser"
    ENVIRONMENT "HEED_PROGRAM=$<TARGET_FILE:heed>;HEED_PAGE_MAKER=$<TARGET_FILE:page_maker>;HEED_SHARED=${HEED_SHARED}")
endforeach()
