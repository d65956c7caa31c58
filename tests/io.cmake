# tests of io
find_package(nlohmann_json 3.11 REQUIRED)
foreach(name config_test file_test safetensors_test)
  heed_test(${name} ${CMAKE_SOURCE_DIR}/src/io/${name}.cc LIBS heed::nn nlohmann_json::nlohmann_json)
endforeach()
