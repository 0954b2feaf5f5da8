# Finds the library that multiplies matrices and defines the target hlite::gemm.
# oneDNN is preferred (fastest measured); OpenBLAS is the fallback. Debian's dnnl CMake package needs
# OpenCL headers, so the library is looked for by hand. Sets HLITE_GEMM_ONEDNN, and with it DNNL_SONAME.
set(HLITE_GEMM AUTO CACHE STRING "GEMM library: AUTO, ONEDNN or OPENBLAS")
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(DNNL_LIBRARY dnnl)
find_path(OPENBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas-pthread openblas-openmp openblas
  HINTS /usr/include/x86_64-linux-gnu)
find_library(OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-pthread openblas-openmp)

if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY AND NOT HLITE_GEMM STREQUAL OPENBLAS)
  set(HLITE_GEMM_ONEDNN 1)
  set(Gemm_LIBRARY ${DNNL_LIBRARY})
  set(Gemm_INCLUDE_DIR ${DNNL_INCLUDE_DIR})
  # The name that a system without development files has it by: libdnnl.so.2 on Debian 12, libdnnl.so.3.6 on Debian 13.
  execute_process(COMMAND ${CMAKE_READELF} -d ${DNNL_LIBRARY} OUTPUT_VARIABLE dnnl_header)
  if(dnnl_header MATCHES "SONAME[^[]*\\[([^]]+)\\]")
    set(DNNL_SONAME ${CMAKE_MATCH_1})
  else()
    get_filename_component(DNNL_SONAME ${DNNL_LIBRARY} NAME)
  endif()
elseif(OPENBLAS_LIBRARY AND OPENBLAS_INCLUDE_DIR AND NOT HLITE_GEMM STREQUAL ONEDNN)
  set(HLITE_GEMM_ONEDNN 0)
  set(Gemm_LIBRARY ${OPENBLAS_LIBRARY})
  set(Gemm_INCLUDE_DIR ${OPENBLAS_INCLUDE_DIR})
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Gemm REQUIRED_VARS Gemm_LIBRARY Gemm_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libdnnl-dev (or libopenblas-dev), or run tools/setup.sh")
if(Gemm_FOUND AND NOT TARGET hlite::gemm)
  if(HLITE_GEMM_ONEDNN)
    # Headers only: the first product loads the library (hugectr_lite/ops/onednn.h).
    add_library(hlite::gemm INTERFACE IMPORTED)
    # Sanitizers' programs have it from the start. LeakSanitizer guesses where the thread-local storage of a library that
    # is loaded later lies, and crashes at the end of one in some thousand processes.
    if(HLITE_SANITIZE)
      set_target_properties(hlite::gemm PROPERTIES INTERFACE_LINK_LIBRARIES ${Gemm_LIBRARY})
    endif()
  else()
    add_library(hlite::gemm UNKNOWN IMPORTED)
    set_target_properties(hlite::gemm PROPERTIES IMPORTED_LOCATION ${Gemm_LIBRARY})
  endif()
  set_target_properties(hlite::gemm PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${Gemm_INCLUDE_DIR})
endif()
