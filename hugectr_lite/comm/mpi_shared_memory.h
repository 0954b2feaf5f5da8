// Checks the space for the files that Open MPI writes on this machine. Without it Open MPI fails
// with messages of its own, or with a bus error much later.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hugectr_lite/core/thread_pool.h"

namespace hlite::comm {

// Facts from the environment that mpirun gives a process.
struct MpiPlaces {
  std::string session = {};  // folder of its files; empty: not known
  std::string shared = {};   // folder of the shared memory between processes
  bool default_shared = true;
  int64_t shared_bytes = 0;  // all processes of this node; 0: they use none
};
MpiPlaces mpi_places();

using FreeBytes = FunctionRef<std::optional<int64_t>(const std::string& folder)>;

// Another folder for the shared memory, if the default one is too small and the session's is large
// enough; else empty. Throws CommError with advice if both are too small.
std::string other_shared_folder(const MpiPlaces& places, FreeBytes free_bytes);

// Before MPI starts: makes Open MPI use that other folder, with a warning.
void ensure_mpi_shared_memory();

}  // namespace hlite::comm
