// The seam to libhlite_mpi: linking MPI costs every start of a program tens of milliseconds and a
// package, so only a program that was started by mpirun loads it.
#pragma once

#include <cstddef>
#include <memory>

#include "hugectr_lite/comm/communicator.h"

namespace hlite::comm {

inline constexpr int kMpiPluginVersion = 1;

// Whether this process was started by mpirun (or another launcher of Open MPI).
bool under_mpirun();

// The communicator of all processes; once a process. Throws CommError that says what is missing.
std::unique_ptr<Communicator> mpi_world();

}  // namespace hlite::comm
