# An outside project against the installed library, and the order of the rooms.
set(components attention)
foreach(component nn text view pages mpi recipe serve)
  if(TARGET heed_${component})
    string(APPEND components ",${component}")
  endif()
endforeach()
set(flags "${CMAKE_CXX_FLAGS}")
if(HEED_SANITIZE)
  string(APPEND flags " -fsanitize=${HEED_SANITIZE}")
endif()
add_test(NAME install.consumer
  COMMAND ${CMAKE_COMMAND} -D BUILD=${CMAKE_BINARY_DIR} -D SOURCE=${CMAKE_SOURCE_DIR}
          -D WORK=${CMAKE_BINARY_DIR}/install-test -D COMPONENTS=${components} -D CXX=${CMAKE_CXX_COMPILER}
          -D "FLAGS=${flags}" -D LIBDIR=${CMAKE_INSTALL_LIBDIR}
          -P ${CMAKE_CURRENT_SOURCE_DIR}/install/check.cmake)
set_tests_properties(install.consumer PROPERTIES LABELS install TIMEOUT 600)

find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME rooms COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/rooms.py ${CMAKE_SOURCE_DIR})
set_tests_properties(rooms PROPERTIES LABELS scripts TIMEOUT 60)

add_test(NAME headers.older_standard
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/older_standard.py ${CMAKE_CXX_COMPILER} ${CMAKE_SOURCE_DIR})
set_tests_properties(headers.older_standard PROPERTIES LABELS install TIMEOUT 120)
