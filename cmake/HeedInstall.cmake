# cmake --install: the libraries with their headers, find_package(heed COMPONENTS ...) and pkg-config files for them,
# the program and the bundled model. Each library stands in an export set of its own, so that its dependencies are
# looked for only where it is asked for.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/heed)
set(rpath "-Wl,-rpath,")

# heed_install(NAME HEADERS header... REQUIRES pkg... LIBS flag...): headers are relative to include/heed; REQUIRES and
# LIBS are for pkg-config (the libraries are static, so what they need is needed by whoever links them).
function(heed_install name)
  cmake_parse_arguments(arg "" "DESCRIPTION" "HEADERS;REQUIRES;LIBS" ${ARGN})
  install(TARGETS heed_${name} EXPORT heed-${name} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT heed-${name} NAMESPACE heed:: DESTINATION ${package_dir} FILE heed-${name}-targets.cmake)
  list(TRANSFORM arg_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/heed/)
  install(FILES ${arg_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/heed)
  list(JOIN arg_REQUIRES ", " arg_REQUIRES)
  list(JOIN arg_LIBS " " arg_LIBS)
  file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" to_prefix "${to_prefix}")
  configure_file(${PROJECT_SOURCE_DIR}/cmake/heed.pc.in ${PROJECT_BINARY_DIR}/pkgconfig/heed-${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/pkgconfig/heed-${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

set(attention_headers attention.h attention_operator.h checked.h communicator.h cpp20.h dual.h error.h executor.h
                      file_kind.h finite.h kinds.h kv_cache.h model_files.h rotary.h score_mod.h split.h tensor.h
                      timeline.h tree_sum.h workspace.h)
set(text_headers text.h tokenizer.h)
set(view_headers label.h view.h)
set(pages_headers head_changes.h pages.h weights_file.h)
set(mpi_headers attention_over_ranks.h mpi.h)
set(recipe_headers recipe.h)
set(serve_headers http_server.h)
set(served_headers served_model.h)
set(load_headers adapters.h attended.h chat.h corpus.h load.h paths.h picture_reader.h text_generator.h text_reader.h token_file.h
                 translator.h)
file(GLOB nn_headers RELATIVE ${PROJECT_SOURCE_DIR}/include/heed CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/include/heed/*.h)
list(REMOVE_ITEM nn_headers heed.h ${attention_headers} ${text_headers} ${view_headers} ${mpi_headers} ${load_headers}
     ${pages_headers} ${recipe_headers} ${serve_headers} ${served_headers})
install(FILES ${PROJECT_SOURCE_DIR}/include/heed/heed.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/heed)

heed_install(attention DESCRIPTION "Attention, forward and backward" HEADERS ${attention_headers} REQUIRES tbb)
if(HEED_NN)
  heed_install(nn DESCRIPTION "Tape, layers, models, training, files" HEADERS ${nn_headers}
    REQUIRES "heed-attention = ${PROJECT_VERSION}" libzip zlib)
endif()
if(HEED_TEXT)
  heed_install(text DESCRIPTION "Vocabularies, BLEU and chrF" HEADERS ${text_headers}
    REQUIRES sentencepiece libutf8proc libpcre2-8)
endif()
if(HEED_NN AND HEED_TEXT)
  heed_install(load DESCRIPTION "Models with their vocabularies: load, save, translate, generate" HEADERS ${load_headers}
    REQUIRES "heed-nn = ${PROJECT_VERSION}" "heed-text = ${PROJECT_VERSION}")
endif()
if(HEED_VIEW)
  heed_install(view DESCRIPTION "Attention maps" HEADERS ${view_headers}
    REQUIRES "heed-attention = ${PROJECT_VERSION}" libutf8proc libpng zlib
    LIBS ${rpath}\${libdir} -ldl)
endif()

if(TARGET heed_pages)
  heed_install(pages DESCRIPTION "Pages for a browser from models" HEADERS ${pages_headers}
    REQUIRES "heed-load = ${PROJECT_VERSION}" "heed-view = ${PROJECT_VERSION}")
endif()

if(HEED_MPI)
  heed_install(mpi DESCRIPTION "Ranks over MPI, attention over ranks" HEADERS ${mpi_headers}
    REQUIRES "heed-attention = ${PROJECT_VERSION}"
    LIBS ${rpath}\${libdir} -ldl)
endif()

if(TARGET heed_recipe)
  heed_install(recipe DESCRIPTION "Training from files to a model directory" HEADERS ${recipe_headers}
    REQUIRES "heed-pages = ${PROJECT_VERSION}" "heed-mpi = ${PROJECT_VERSION}")
endif()

if(TARGET heed_served)
  heed_install(served DESCRIPTION "The routes of a model for an HTTP server" HEADERS ${served_headers}
    REQUIRES "heed-pages = ${PROJECT_VERSION}" "heed-serve = ${PROJECT_VERSION}")
endif()

if(TARGET heed_serve)
  heed_install(serve DESCRIPTION "An HTTP server for programs that compute" HEADERS ${serve_headers}
    REQUIRES "heed-attention = ${PROJECT_VERSION}"
    LIBS ${rpath}\${libdir} -ldl)
endif()

configure_package_config_file(cmake/heed-config.cmake.in ${PROJECT_BINARY_DIR}/heed-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heed-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heed-config.cmake ${PROJECT_BINARY_DIR}/heed-config-version.cmake
        DESTINATION ${package_dir})

# The program finds the model in share/heed/models of the prefix that its bin/ lies in (heed::cli::find_model).
if(HEED_CLI)
  install(TARGETS heed RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY ${PROJECT_BINARY_DIR}/share/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/share/bash-completion ${PROJECT_BINARY_DIR}/share/zsh
                    ${PROJECT_BINARY_DIR}/share/fish DESTINATION share
          OPTIONAL)
  if(EXISTS ${PROJECT_SOURCE_DIR}/models/spa-eng)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/spa-eng DESTINATION share/heed/models)
  endif()
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
