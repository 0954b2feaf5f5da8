# Finds prometheus-cpp's core, which counts and prints metrics, and defines the target hlite::prometheus. The library's own
# CMake package also asks for the development files of its HTTP server and client, which are not used.
find_path(PROMETHEUS_CPP_INCLUDE_DIR prometheus/registry.h)
find_library(PROMETHEUS_CPP_LIBRARY prometheus-cpp-core)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(PrometheusCpp REQUIRED_VARS PROMETHEUS_CPP_LIBRARY PROMETHEUS_CPP_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install prometheus-cpp-dev, or run tools/setup.sh")
if(PrometheusCpp_FOUND AND NOT TARGET hlite::prometheus)
  add_library(hlite::prometheus UNKNOWN IMPORTED)
  set_target_properties(hlite::prometheus PROPERTIES IMPORTED_LOCATION ${PROMETHEUS_CPP_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${PROMETHEUS_CPP_INCLUDE_DIR})
endif()
