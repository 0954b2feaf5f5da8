# Finds an MPI library and mpirun, and defines the target hlite::mpi. CMake's own module ends the configuration where the
# compiler's wrapper is there and what it names is not. Sets Mpi_MISSING, a list of what is not there.
include(OptionalPart)
find_program(MPI_WRAPPER mpicxx)
set(folders)
if(MPI_WRAPPER)
  execute_process(COMMAND ${MPI_WRAPPER} --showme OUTPUT_VARIABLE flags ERROR_QUIET RESULT_VARIABLE failed)  # Open MPI
  if(failed)
    execute_process(COMMAND ${MPI_WRAPPER} -show OUTPUT_VARIABLE flags ERROR_QUIET)  # MPICH
  endif()
  string(REGEX MATCHALL "-[IL][^ \n]+" folders "${flags}")
  list(TRANSFORM folders REPLACE "^-[IL]" "")
endif()
# Debian's own folder is named, as its wrapper is of another package.
find_path(MPI_INCLUDE_DIR mpi.h HINTS ${folders} PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include)
find_library(MPI_LIBRARY mpi HINTS ${folders})
find_program(MPIEXEC_EXECUTABLE NAMES mpirun mpiexec)
set(Mpi_MISSING)
hlite_require(Mpi_MISSING MPI_INCLUDE_DIR "mpi.h (libopenmpi-dev)")
hlite_require(Mpi_MISSING MPI_LIBRARY "libmpi.so (libopenmpi-dev)")
hlite_require(Mpi_MISSING MPIEXEC_EXECUTABLE "mpirun (openmpi-bin)")
if(NOT Mpi_MISSING)
  if(NOT TARGET hlite::mpi)
    add_library(hlite::mpi INTERFACE IMPORTED GLOBAL)
    target_include_directories(hlite::mpi SYSTEM INTERFACE ${MPI_INCLUDE_DIR})
    target_link_libraries(hlite::mpi INTERFACE ${MPI_LIBRARY})
  endif()
  hlite_require_links(Mpi_MISSING HLITE_MPI_LINKS MPI hlite::mpi [[
#define OMPI_SKIP_MPICXX
#include <mpi.h>
int main() { return MPI_Init(nullptr, nullptr); }]])
endif()
