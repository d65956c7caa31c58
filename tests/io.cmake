# tests of io
find_package(nlohmann_json 3.11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)
foreach(name config_test file_test npy_test safetensors_test)
  heed_test(${name} ${CMAKE_SOURCE_DIR}/src/io/${name}.cc LIBS heed::nn nlohmann_json::nlohmann_json PkgConfig::libzip)
endforeach()
if(HEED_CLI)
  find_package(CLI11 REQUIRED)
  set(cli ${CMAKE_SOURCE_DIR}/src/cli)
  heed_test(cli_attention_test ${cli}/attention_test.cc ${cli}/attention.cc ${cli}/attention_layout.cc
            LIBS heed::nn heed::text nlohmann_json::nlohmann_json CLI11::CLI11)
  heed_test(cli_inspect_test ${cli}/inspect_test.cc ${cli}/inspect.cc
            LIBS heed::nn heed::text nlohmann_json::nlohmann_json CLI11::CLI11)
endif()
