# Finds libxxhash and defines the target hlite::xxhash (XXH3: checksums of data and checkpoints).
find_path(XXHASH_INCLUDE_DIR xxhash.h)
find_library(XXHASH_LIBRARY xxhash)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Xxhash REQUIRED_VARS XXHASH_LIBRARY XXHASH_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libxxhash-dev, or run tools/setup.sh")
if(Xxhash_FOUND AND NOT TARGET hlite::xxhash)
  add_library(hlite::xxhash UNKNOWN IMPORTED)
  set_target_properties(hlite::xxhash PROPERTIES IMPORTED_LOCATION ${XXHASH_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${XXHASH_INCLUDE_DIR})
endif()
