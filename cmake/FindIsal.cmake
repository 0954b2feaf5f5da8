# Defines hlite::isal (ISA-L, which decodes gzip for the preparation tools).
find_path(ISAL_INCLUDE_DIR isa-l/igzip_lib.h)
find_library(ISAL_LIBRARY isal)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Isal REQUIRED_VARS ISAL_LIBRARY ISAL_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libisal-dev, or run tools/setup.sh")
if(Isal_FOUND AND NOT TARGET hlite::isal)
  add_library(hlite::isal UNKNOWN IMPORTED)
  set_target_properties(hlite::isal PROPERTIES IMPORTED_LOCATION ${ISAL_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ISAL_INCLUDE_DIR})
endif()
