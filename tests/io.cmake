# tests of io
find_package(nlohmann_json 3.11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)
foreach(name config_test file_test npy_test safetensors_test)
  heed_test(${name} ${CMAKE_SOURCE_DIR}/src/io/${name}.cc LIBS heed::nn nlohmann_json::nlohmann_json PkgConfig::libzip)
endforeach()
if(HEED_CLI)
  find_package(CLI11 REQUIRED)
  foreach(name attention inspect)
    heed_test(cli_${name}_test ${CMAKE_SOURCE_DIR}/src/cli/${name}_test.cc ${CMAKE_SOURCE_DIR}/src/cli/${name}.cc
              LIBS heed::nn heed::text nlohmann_json::nlohmann_json CLI11::CLI11)
  endforeach()
endif()
