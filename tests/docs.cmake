# The code blocks of README.md and docs/ are compiled and run; the README's table is what its generator renders.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(execute ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/docs/execute.py)
set(programs ${CMAKE_BINARY_DIR}/docs)
set(heed_program "")
if(HEED_CLI)
  set(heed_program $<TARGET_FILE:heed>)
endif()

file(GLOB documents CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/*.md)
foreach(document IN LISTS documents ITEMS ${CMAKE_SOURCE_DIR}/README.md)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${document})
  execute_process(COMMAND ${execute} extract ${document} ${programs} OUTPUT_VARIABLE sources
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" sources "${sources}")
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(docs_${name} ${source})
    set_target_properties(docs_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${programs})
    target_link_libraries(docs_${name} PRIVATE heed_flags heed::nn heed::text heed::view)
  endforeach()
  file(READ ${document} content)
  if(NOT content MATCHES "\n```cpp|\n[$] ")
    continue()  # nothing of it runs
  endif()
  get_filename_component(name ${document} NAME)
  add_test(NAME docs.${name} COMMAND ${execute} run ${document} ${programs} ${heed_program})
  set_tests_properties(docs.${name} PROPERTIES LABELS docs TIMEOUT 600 SKIP_RETURN_CODE 77)
endforeach()

add_test(NAME docs.links COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/docs/links.py ${CMAKE_SOURCE_DIR})

add_test(NAME docs.table COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/readme-table --check)
set_tests_properties(docs.links docs.table PROPERTIES LABELS docs TIMEOUT 60)
