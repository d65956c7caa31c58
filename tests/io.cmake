# tests of io
find_package(nlohmann_json 3.11 REQUIRED)
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)
foreach(name config_test file_test npy_test safetensors_test)
  heed_test(${name} ${CMAKE_SOURCE_DIR}/src/io/${name}.cc LIBS heed::nn nlohmann_json::nlohmann_json PkgConfig::libzip)
endforeach()
