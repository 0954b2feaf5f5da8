#include "hugectr_lite/comm/device_ranks.h"

#include <cstdlib>

#include "hugectr_lite/comm/mpi_plugin.h"

namespace hlite::comm {

SharedMemory launched_memory() {
  return under_mpirun() ? SharedMemory::kOfANode : SharedMemory::kAll;
}

void set_driver_for_ranks() {
  constexpr int kOverwrite = 0;
  // A kernel that is loaded at its first launch, or queued after one that waits for another GPU,
  // could hold all of them up.
  setenv("CUDA_MODULE_LOADING", "EAGER", kOverwrite);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", kOverwrite);
  // Buffers that NCCL registers for a graph have made such graphs hang up to 2.31.
  setenv("NCCL_GRAPH_REGISTER", "0", kOverwrite);
}

}  // namespace hlite::comm
