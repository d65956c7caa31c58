# A directory as others write it, whole and broken; tests/conformance/models_test.cc has the numbers.
find_package(nlohmann_json 3.11 REQUIRED)
heed_test(pretrained_test ${CMAKE_SOURCE_DIR}/src/pretrained/pretrained_test.cc LIBS heed::nn nlohmann_json::nlohmann_json)
set(pretrained ${CMAKE_SOURCE_DIR}/src/pretrained)
heed_test(pretrained_gguf_test ${pretrained}/gguf_test.cc ${pretrained}/gguf_tensor_test.cc LIBS heed::nn)
heed_test(pretrained_generation_test ${pretrained}/generation_test.cc LIBS heed::nn nlohmann_json::nlohmann_json)
if(TARGET pretrained_generation_test)
  target_compile_definitions(pretrained_generation_test PRIVATE HEED_RULE_CASES="${CMAKE_CURRENT_SOURCE_DIR}/models/rules.json")
endif()
