// How ranks on GPUs are joined, and functions that configure the driver before there are any.
#pragma once

#include "hugectr_lite/comm/transport.h"

namespace hlite::comm {

// Which ranks are threads of the same process.
enum class SharedMemory {
  kAll,      // all of them
  kOfANode,  // those of a node of the topology: a process each, as under mpirun
};
// Shared memory of this process, as it was started.
SharedMemory launched_memory();

// The transports that there are.
Transport::Join join_by_nccl;

struct DeviceRanks {
  SharedMemory shared = SharedMemory::kAll;
  bool unordered_sums = false;  // the transport inside a process, too, for AllReduce::kUnordered
  Transport::Join* join = join_by_nccl;  // the same on all ranks
};

// Settings of the driver and of NCCL that several ranks want, where the environment has no others:
// kernels are loaded before any is launched, and as many queues as there may be. Before the CUDA
// plug-in is loaded, while no other thread reads the environment.
void set_driver_for_ranks();

}  // namespace hlite::comm
