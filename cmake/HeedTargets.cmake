# Flags and helper functions shared by every room.

add_library(heed_flags INTERFACE)
target_compile_options(heed_flags INTERFACE -Wall -Wextra -Wshadow -fno-math-errno)
# g++ 12 takes "text" + std::string() for overlapping copies (GCC bug 105651).
target_compile_options(heed_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(HEED_SANITIZE)
  # Behind the configuration's own flags: what a sanitizer needs, and less to compile.
  add_compile_options(-O1 -g1 -fsanitize=${HEED_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HEED_SANITIZE})
elseif(NOT HEED_DEBUG_INFO)
  add_compile_options(-g0)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Debuggers read types and variables beside the objects: in each of a hundred programs they were four fifths of 7 GB.
  add_compile_options($<$<CONFIG:RelWithDebInfo>:-gsplit-dwarf>)
endif()

# How files with SIMD code are compiled: once for each of Highway's targets, but for those listed. Kernels keep vectors in
# arrays, which those of unknown length do not allow; the few processors that stop at SSSE3 run Highway's emulated vectors.
set(disabled HWY_SVE HWY_SVE2 HWY_SVE_256 HWY_SVE2_128 HWY_RVV HWY_SSSE3)
set(heed_simd_options)
set(heed_simd_definitions HWY_IS_DEBUG_BUILD=0)
if(HEED_SANITIZE)
  # Highway's emulated vectors convert NaN to an integer as the hardware does, in the language it is undefined.
  list(APPEND disabled HWY_SSE4)
  list(APPEND heed_simd_options -fno-sanitize=null,alignment,float-cast-overflow)
  if(HEED_SANITIZE_TARGET STREQUAL "best" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    # Instrumented kernels are half of the time to compile. One target, this processor's best, is a third of that.
    # Each processor with AVX-512VL has what else x86-64-v4 asks for, and each one with AVX2 what x86-64-v3 does.
    file(STRINGS /proc/cpuinfo features REGEX "^flags" LIMIT_COUNT 1)
    string(REPLACE " " ";" features "${features}")
    if("avx512vl" IN_LIST features)
      list(APPEND heed_simd_options -march=x86-64-v4 -maes -mpclmul)
    elseif("avx2" IN_LIST features)
      list(APPEND heed_simd_options -march=x86-64-v3 -maes -mpclmul)
    endif()
    list(APPEND heed_simd_definitions HWY_COMPILE_ONLY_STATIC)
    list(APPEND heed_simd_options $<$<CXX_COMPILER_ID:Clang>:-Wno-pragma-clang-attribute>)  # regions left without a function
  endif()
endif()
list(JOIN disabled "|" disabled)
list(APPEND heed_simd_definitions "HWY_DISABLED_TARGETS=(${disabled})")

# heed_kernels(TARGET source...): these have SIMD code. Of Highway they have its headers alone: not its choice of a target
# (src/simd/targets.h), nor assertions, which call its library.
function(heed_kernels target)
  target_include_directories(${target} SYSTEM PRIVATE ${hwy_INCLUDE_DIRS})
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES
    COMPILE_OPTIONS "${heed_simd_options}" COMPILE_DEFINITIONS "${heed_simd_definitions}")
endfunction()

# Where programs look for libheed_pictures, libheed_messages and libheed_http: in the build tree, and from bin/ once installed.
list(APPEND CMAKE_BUILD_RPATH "${CMAKE_BINARY_DIR}/src/view" "${CMAKE_BINARY_DIR}/src/mpi"
     "${CMAKE_BINARY_DIR}/src/serve")
list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

# heed_library(NAME source...): libheed_NAME.a, exported as heed::NAME.
function(heed_library name)
  add_library(heed_${name} STATIC ${ARGN})
  add_library(heed::${name} ALIAS heed_${name})
  target_include_directories(heed_${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                                          PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_compile_features(heed_${name} PUBLIC cxx_std_20)
  target_link_libraries(heed_${name} PRIVATE $<BUILD_INTERFACE:heed_flags>)
  set_target_properties(heed_${name} PROPERTIES EXPORT_NAME ${name})
endfunction()

# heed_opened(NAME LIBRARY source...): libheed_NAME.so, which heed::LIBRARY opens by its bare name where it is needed
# (docs/decisions/0001-pictures-loaded-on-demand.md). Programs find it by their run path: those built here have it from
# above; others get the place heed was installed to, or was built in as a part of their own build.
function(heed_opened name library)
  add_library(heed_${name} SHARED ${ARGN})
  target_include_directories(heed_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(heed_${name} PRIVATE heed_flags)
  set_target_properties(heed_${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON SOVERSION 1)
  install(TARGETS heed_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
  add_dependencies(heed_${library} heed_${name})
  target_link_options(heed_${library} INTERFACE
    "$<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}>")
  if(NOT PROJECT_IS_TOP_LEVEL)
    target_link_options(heed_${library} INTERFACE
      "$<BUILD_INTERFACE:LINKER:-rpath,$<TARGET_FILE_DIR:heed_${name}>>")
  endif()
endfunction()

# heed_test(NAME source... LIBS library... LABELS label... TIMEOUT seconds SHARDS count UNSANITIZED filter COMPUTES): a
# GoogleTest program. It is one CTest test, NAME; with SHARDS, NAME.1 to NAME.count, so that a long one fills several
# processors. UNSANITIZED is a --gtest_filter of cases that sanitizers leave out. COMPUTES: the test's own arithmetic takes
# long, so sanitizers compile it with optimisation, too. Reads HEED_SHARED from the environment.
function(heed_test name)
  cmake_parse_arguments(arg "COMPUTES" "TIMEOUT;SHARDS;UNSANITIZED" "LABELS;LIBS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(HEED_SANITIZE)
    math(EXPR arg_TIMEOUT "3 * ${arg_TIMEOUT}")
  elseif(CMAKE_CROSSCOMPILING)
    math(EXPR arg_TIMEOUT "10 * ${arg_TIMEOUT}")  # emulated
  endif()
  # The thread sanitizer runs what is labelled threads; the rest is not built for it.
  if(HEED_SANITIZE STREQUAL "thread" AND NOT "threads" IN_LIST arg_LABELS)
    return()
  endif()
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE heed_flags ${arg_LIBS} GTest::gtest_main)
  # A third less to compile than with -O2, and under sanitizers half as long with -O0 as with -O1.
  if(HEED_SANITIZE AND NOT arg_COMPUTES)
    target_compile_options(${name} PRIVATE -O0)
  else()
    target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  endif()
  set(filter)
  if(HEED_SANITIZE AND arg_UNSANITIZED)
    set(filter --gtest_filter=-${arg_UNSANITIZED})
  endif()
  set(shards ${arg_SHARDS})
  if(NOT shards)
    set(shards 1)
  endif()
  foreach(shard RANGE 1 ${shards})
    set(test ${name})
    set(environment "HEED_SHARED=${HEED_SHARED}")
    if(shards GREATER 1)
      math(EXPR index "${shard} - 1")
      string(APPEND test .${shard})
      list(APPEND environment GTEST_TOTAL_SHARDS=${shards} GTEST_SHARD_INDEX=${index})
    endif()
    add_test(NAME ${test} COMMAND ${name} --gtest_brief=1 ${filter})
    set_tests_properties(${test} PROPERTIES TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${environment}" LABELS "unit;${arg_LABELS}")
  endforeach()
endfunction()
