# Compiles through ccache where it is found, whatever started the build: sources that another build has compiled, in whatever
# folder, come from its cache. -DCMAKE_CXX_COMPILER_LAUNCHER= builds without.
find_program(HLITE_CCACHE ccache)
if(HLITE_CCACHE)
  # Paths below the sources are relative in the cache, and debug information does not name the folder of the build.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${HLITE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher} CACHE STRING "What starts the C++ compiler")
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher} CACHE STRING "What starts nvcc")
endif()
