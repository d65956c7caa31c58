# The serial OpenBLAS, as OpenBLAS::serial (docs/decisions/0002-serial-openblas-behind-one-seam.md).
#
# Debian's flavours share one SONAME and the loader takes whichever the alternatives name, so the serial one is linked
# by its path, and everything that links it gets a run path. On systems that lay it elsewhere, give
# -DOpenBLASSerial_LIBRARY=... and -DOpenBLASSerial_INCLUDE_DIR=...; a threaded one is refused at run time.
find_library(OpenBLASSerial_LIBRARY NAMES openblas
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial NO_DEFAULT_PATH)
find_path(OpenBLASSerial_INCLUDE_DIR NAMES cblas.h
  PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial NO_DEFAULT_PATH)
mark_as_advanced(OpenBLASSerial_LIBRARY OpenBLASSerial_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLASSerial
  REQUIRED_VARS OpenBLASSerial_LIBRARY OpenBLASSerial_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "on Debian it is the package libopenblas-serial-dev")

if(OpenBLASSerial_FOUND AND NOT TARGET OpenBLAS::serial)
  get_filename_component(directory "${OpenBLASSerial_LIBRARY}" DIRECTORY)
  add_library(OpenBLAS::serial UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::serial PROPERTIES
    IMPORTED_LOCATION "${OpenBLASSerial_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${OpenBLASSerial_INCLUDE_DIR}"
    INTERFACE_LINK_OPTIONS "LINKER:-rpath,${directory}")
  unset(directory)
endif()
