heed_test(load_test ${CMAKE_SOURCE_DIR}/src/load/load_test.cc ${CMAKE_SOURCE_DIR}/src/load/text_stream_test.cc
          ${CMAKE_SOURCE_DIR}/src/load/token_file_test.cc
          LIBS heed::load)
