# OpenBLAS, as OpenBLAS::pthread, for bench/attention's comparison alone: the flavour that is safe to call from several
# threads. Debian's flavours share one SONAME and the loader takes whichever the alternatives name, so it is linked by its
# path, with a run path.
find_library(OpenBLASPthread_LIBRARY NAMES openblas
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread NO_DEFAULT_PATH)
find_path(OpenBLASPthread_INCLUDE_DIR NAMES cblas.h
  PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread NO_DEFAULT_PATH)
mark_as_advanced(OpenBLASPthread_LIBRARY OpenBLASPthread_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLASPthread
  REQUIRED_VARS OpenBLASPthread_LIBRARY OpenBLASPthread_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "on Debian it is the package libopenblas-pthread-dev")

if(OpenBLASPthread_FOUND AND NOT TARGET OpenBLAS::pthread)
  get_filename_component(directory "${OpenBLASPthread_LIBRARY}" DIRECTORY)
  add_library(OpenBLAS::pthread UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::pthread PROPERTIES
    IMPORTED_LOCATION "${OpenBLASPthread_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${OpenBLASPthread_INCLUDE_DIR}"
    INTERFACE_LINK_OPTIONS "LINKER:-rpath,${directory}")
  unset(directory)
endif()
