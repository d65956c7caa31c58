# tests of cli
foreach(name progress checkpoint text_stream)
  heed_test(${name}_test ${CMAKE_SOURCE_DIR}/src/cli/${name}_test.cc LIBS heed_commands LABELS cli)
endforeach()

# The program as it is built, from outside.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(name usage files attention train translate generate)
  add_test(NAME program.${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/program/${name}_test.py -v)
  set_tests_properties(program.${name} PROPERTIES LABELS program TIMEOUT 600
    ENVIRONMENT "HEED_PROGRAM=$<TARGET_FILE:heed>;HEED_SHARED=${HEED_SHARED}")
endforeach()
