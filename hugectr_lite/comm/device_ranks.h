// Functions that join ranks on GPUs, and that configure the driver before there are any.
#pragma once

namespace hlite::comm {

// Which ranks are threads of the same process.
enum class SharedMemory {
  kAll,      // all of them
  kOfANode,  // those of a node of the topology: a process each, as under mpirun
};
// Shared memory of this process, as it was started.
SharedMemory launched_memory();

struct DeviceRanks {
  SharedMemory shared = SharedMemory::kAll;
  bool unordered_sums = false;  // NCCL inside a process, too, for AllReduce::kUnordered
};

// Settings of the driver and of NCCL that several ranks want, where the environment has no others:
// kernels are loaded before any is launched, and as many queues as there may be. Before the CUDA
// plug-in is loaded, while no other thread reads the environment.
void set_driver_for_ranks();

}  // namespace hlite::comm
