# A directory as others write it, whole and broken; tests/conformance/models_test.cc has the numbers.
find_package(nlohmann_json 3.11 REQUIRED)
heed_test(pretrained_test ${CMAKE_SOURCE_DIR}/src/pretrained/pretrained_test.cc LIBS heed::nn nlohmann_json::nlohmann_json)
heed_test(gguf_model_test ${CMAKE_SOURCE_DIR}/src/pretrained/gguf_test.cc LIBS heed::nn)
