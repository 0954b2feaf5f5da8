// Emulated GPUs of several processes, and the NCCL between them, as tests set them up.
#pragma once

#include <cstdlib>

#include "tests/cuda/gpu_rank.h"
#include "tests/support/cuda_emulation/nccl.h"

namespace hlite::test {

// A variable of the environment for a scope.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* const name_;
};

// Another NCCL for a scope.
struct NcclScope {
  emulation::NcclMachine before = emulation::nccl_machine();
  NcclScope() = default;
  NcclScope(const NcclScope&) = delete;
  NcclScope& operator=(const NcclScope&) = delete;
  ~NcclScope() { emulation::nccl_machine() = before; }
};

// Each node is a process, each rank has a device.
inline void on_nodes(const comm::Topology& topology, const std::function<void(GpuRank&)>& body,
                     comm::Transport::Join* join = comm::join_by_nccl) {
  on_gpus(
      topology, {.shared = comm::SharedMemory::kOfANode, .join = join},
      [](int rank) { return rank; }, body);
}

}  // namespace hlite::test
