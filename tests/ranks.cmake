heed_test(ranks_test ${CMAKE_SOURCE_DIR}/src/ranks/communicator_test.cc ${CMAKE_SOURCE_DIR}/src/ranks/tree_sum_test.cc
          LIBS heed::attention LABELS threads)
