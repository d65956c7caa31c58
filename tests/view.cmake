find_package(PkgConfig REQUIRED)
pkg_check_modules(zlib_test REQUIRED IMPORTED_TARGET zlib)
find_package(nlohmann_json 3.11 REQUIRED)
heed_test(view_test ${CMAKE_SOURCE_DIR}/src/view/color_map_test.cc ${CMAKE_SOURCE_DIR}/src/view/label_test.cc
  ${CMAKE_SOURCE_DIR}/src/view/page_test.cc ${CMAKE_SOURCE_DIR}/src/view/report_test.cc
  ${CMAKE_SOURCE_DIR}/src/view/statistics_test.cc ${CMAKE_SOURCE_DIR}/src/view/terminal_test.cc ${CMAKE_SOURCE_DIR}/src/view/top_test.cc
  LIBS heed::view PkgConfig::zlib_test nlohmann_json::nlohmann_json)
# Apart, because it reads PNG with cairo: view_test checks that text loads no cairo.
pkg_check_modules(cairo_test REQUIRED IMPORTED_TARGET cairo glib-2.0)
heed_test(picture_test ${CMAKE_SOURCE_DIR}/src/view/picture_test.cc LIBS heed::view PkgConfig::cairo_test
  PkgConfig::zlib_test)

find_package(Python3 REQUIRED COMPONENTS Interpreter)
get_property(page_scripts GLOBAL PROPERTY heed_page_scripts)
get_property(report_scripts GLOBAL PROPERTY heed_report_scripts)
add_test(NAME lint.pages COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/lint_page.py
         ${CMAKE_SOURCE_DIR}/src/view/page/eslintrc.json ${page_scripts} -- ${report_scripts})
set_tests_properties(lint.pages PROPERTIES LABELS scripts TIMEOUT 120 SKIP_RETURN_CODE 77)
