# Defines hlite::zstd (compressed input of the preparation tools).
find_path(ZSTD_INCLUDE_DIR zstd.h)
find_library(ZSTD_LIBRARY zstd)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Zstd REQUIRED_VARS ZSTD_LIBRARY ZSTD_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libzstd-dev, or run tools/setup.sh")
if(Zstd_FOUND AND NOT TARGET hlite::zstd)
  add_library(hlite::zstd UNKNOWN IMPORTED)
  set_target_properties(hlite::zstd PROPERTIES IMPORTED_LOCATION ${ZSTD_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ZSTD_INCLUDE_DIR})
endif()
