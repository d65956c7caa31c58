# tests of cli
heed_test(progress_test ${CMAKE_SOURCE_DIR}/src/cli/progress_test.cc LIBS heed_commands LABELS cli)
