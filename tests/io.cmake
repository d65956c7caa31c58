# tests of io
find_package(nlohmann_json 3.11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)
foreach(name config_test directory_test file_test npy_test safetensors_test)
  heed_test(${name} ${CMAKE_SOURCE_DIR}/src/io/${name}.cc LIBS heed::nn nlohmann_json::nlohmann_json PkgConfig::libzip
            TIMEOUT 900)  # 10,000 saves on a busy machine
endforeach()
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
heed_test(gzip_test ${CMAKE_SOURCE_DIR}/src/io/gzip_test.cc LIBS heed::nn PkgConfig::zlib)
if(HEED_CLI)
  find_package(CLI11 REQUIRED)
  set(cli ${CMAKE_SOURCE_DIR}/src/cli)
  heed_test(cli_attention_test ${cli}/attention_test.cc LIBS heed_commands nlohmann_json::nlohmann_json)
  heed_test(cli_inspect_test ${cli}/inspect_test.cc LIBS heed_commands nlohmann_json::nlohmann_json)
endif()
