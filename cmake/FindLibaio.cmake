# Defines hlite::aio (reads of the batch files that the kernel finishes on its own).
find_path(LIBAIO_INCLUDE_DIR libaio.h)
find_library(LIBAIO_LIBRARY aio)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libaio REQUIRED_VARS LIBAIO_LIBRARY LIBAIO_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libaio-dev, or run tools/setup.sh")
if(Libaio_FOUND AND NOT TARGET hlite::aio)
  add_library(hlite::aio UNKNOWN IMPORTED)
  set_target_properties(hlite::aio PROPERTIES IMPORTED_LOCATION ${LIBAIO_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${LIBAIO_INCLUDE_DIR})
endif()
