# Defines hlite::arrow: Arrow C++ with its Parquet library, for the Parquet plug-in alone. Of PyPI's pyarrow as
# tools/setup.sh unpacks it, of the folder HLITE_ARROW_ROOT (a pyarrow package's, or any with include/ and lib/), or
# installed. Sets ArrowCpp_MISSING, a list of what is not there.
include(OptionalPart)
set(HLITE_ARROW_ROOT "" CACHE PATH "Folder that holds Arrow C++; empty: where tools/setup.sh puts it, or the system's")
if(DEFINED ENV{XDG_CACHE_HOME})
  set(arrow_cache "$ENV{XDG_CACHE_HOME}")
else()
  set(arrow_cache "$ENV{HOME}/.cache")
endif()
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../tools/arrow.txt arrow_version REGEX "^pyarrow==")
string(REGEX REPLACE "^pyarrow==([0-9.]+).*" "\\1" arrow_version "${arrow_version}")
set(arrow_folders ${HLITE_ARROW_ROOT} "${arrow_cache}/hugectr_lite/arrow-${arrow_version}")
find_path(ARROW_INCLUDE_DIR parquet/file_reader.h HINTS ${arrow_folders} PATH_SUFFIXES include)
# A wheel has the names with versions only.
foreach(library ARROW PARQUET)
  string(TOLOWER ${library} name)
  find_library(${library}_LIBRARY ${name} HINTS ${arrow_folders} PATH_SUFFIXES lib)
  if(NOT ${library}_LIBRARY AND ARROW_INCLUDE_DIR)
    get_filename_component(arrow_folder ${ARROW_INCLUDE_DIR} DIRECTORY)
    file(GLOB found ${arrow_folder}/lib/lib${name}.so.* ${arrow_folder}/lib${name}.so.*)
    if(found)
      list(GET found 0 found)
      set(${library}_LIBRARY ${found} CACHE FILEPATH "lib${name}" FORCE)
    endif()
  endif()
endforeach()
set(ArrowCpp_MISSING)
hlite_require(ArrowCpp_MISSING ARROW_INCLUDE_DIR "parquet/file_reader.h (tools/setup.sh --parquet fetches Arrow C++)")
hlite_require(ArrowCpp_MISSING ARROW_LIBRARY "libarrow.so (of Arrow C++)")
hlite_require(ArrowCpp_MISSING PARQUET_LIBRARY "libparquet.so (of Arrow C++)")
if(NOT ArrowCpp_MISSING)
  if(NOT TARGET hlite::arrow)
    add_library(hlite::arrow INTERFACE IMPORTED GLOBAL)
    target_include_directories(hlite::arrow SYSTEM INTERFACE ${ARROW_INCLUDE_DIR})
    target_link_libraries(hlite::arrow INTERFACE ${PARQUET_LIBRARY} ${ARROW_LIBRARY})
  endif()
  hlite_require_links(ArrowCpp_MISSING HLITE_ARROW_LINKS "Arrow C++" hlite::arrow [[
#include <arrow/memory_pool.h>
#include <parquet/file_reader.h>
int main() {
  return parquet::ParquetFileReader::OpenFile("")->metadata()->num_rows() == arrow::default_memory_pool()->bytes_allocated();
}]])
endif()
