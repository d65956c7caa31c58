# Other people's cases and rules.
heed_test(conformance_pytorch_test conformance/pytorch_test.cc COMPUTES LIBS heed::attention)
if(HEED_NN)
  find_package(nlohmann_json 3.11 REQUIRED)
  heed_test(conformance_onnx_test conformance/onnx_test.cc LIBS heed::nn heed::attention nlohmann_json::nlohmann_json)
  if(TARGET conformance_onnx_test)  # the list of cases makes the tests' names, and is read when tests are listed, too
    target_compile_definitions(conformance_onnx_test PRIVATE HEED_SHARED_DEFAULT="${HEED_SHARED}")
  endif()
  heed_test(conformance_models_test conformance/models_test.cc LIBS heed::nn nlohmann_json::nlohmann_json)
  heed_test(conformance_generation_test conformance/generation_test.cc LIBS heed::nn nlohmann_json::nlohmann_json)
  if(TARGET conformance_generation_test)
    target_compile_definitions(conformance_generation_test PRIVATE
                               HEED_SEARCHES="${CMAKE_CURRENT_SOURCE_DIR}/models/searches.json")
  endif()
  if(HEED_TEXT)
    heed_test(conformance_tuning_test conformance/tuning_test.cc LIBS heed::load nlohmann_json::nlohmann_json)
  endif()
endif()
