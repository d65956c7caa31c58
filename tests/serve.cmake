# tests of serve
heed_test(request_head_test ${CMAKE_SOURCE_DIR}/src/serve/request_head_test.cc LIBS heed::serve)
heed_test(http_server_test ${CMAKE_SOURCE_DIR}/src/serve/http_server_test.cc LIBS heed::serve)
