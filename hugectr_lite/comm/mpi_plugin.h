// The seam to libhlite_mpi: linking MPI costs every start of a program tens of milliseconds and a
// package, so only a program that was started by mpirun loads it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "hugectr_lite/comm/communicator.h"
#include "hugectr_lite/comm/identity_text.h"

namespace hlite::comm {

inline constexpr int kMpiPluginVersion = 5;

// Returns true if this process was started by mpirun (or another launcher of Open MPI).
bool under_mpirun();
// Processes of this run on this machine: one without mpirun.
int processes_here();

// The ranks of this process, which is the node of its place under mpirun. Once a process. Throws
// CommError that says what is missing, or how to start it when there are not as many processes as
// nodes. Where `identity` is not that of process 0, one message says how it differs, and all
// processes end (kExitDevice).
std::vector<std::unique_ptr<Communicator>> mpi_ranks(const Topology& topology,
                                                     const RunIdentity& identity = {});

}  // namespace hlite::comm
