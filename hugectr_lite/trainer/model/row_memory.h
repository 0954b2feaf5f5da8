// Decides where the rows of tables lie in a run ("embedding_memory": "auto"), and finds faults of a
// folder for rows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hugectr_lite/core/disk_folder.h"
#include "hugectr_lite/trainer/model/model.h"

namespace hlite::trainer {

struct RowMemoryDecision {
  RowTiers tiers;
  std::vector<std::string> lines, warnings;  // for a person; lines: of "auto" alone
};

// The run that is to be placed. One process of several decides for itself and comes to the same as
// the others.
struct RowMemorySetup {
  const config::TrainConfig& config;
  bool without_data = false;  // the config's files are not opened
  std::string save = {};      // --save, beside which rows may lie
  std::vector<LayerPlacement> placements = {};
  int threads = 1;                     // per rank
  const cuda::Backend* gpu = nullptr;  // for the current device; null: the CPU
  comm::RankContext ranks = {};        // this process's first rank, without world
  // All ranks of this process, if there are other processes: what is collective is so for each.
  std::span<const std::unique_ptr<comm::Communicator>> process = {};
};

// The memory available for a run: the minimum over all machines and GPUs that it uses.
struct ScratchFolder {
  std::string path;
  DiskFolder disk;
};
struct AvailableMemory {
  int64_t host_bytes = 0, gpu_bytes = 0;    // available; gpu_bytes: of each GPU
  std::vector<ScratchFolder> folders = {};  // where rows may go, the best place first
};
// Collective if there are other processes.
AvailableMemory available_memory(const RowMemorySetup& setup);

// Throws ConfigError if the machine has too little for any way to train.
RowMemoryDecision decide_row_memory(const RowMemorySetup& setup, const AvailableMemory& available);
// Decides for this machine; an empty decision if the config has no embedding_memory. Collective if
// there are other processes.
RowMemoryDecision decide_row_memory(const RowMemorySetup& setup);

// Decides for a run that begins. Throws ConfigError, before anything large is allocated, if the run
// takes more memory of the host than is available (host_shortage()). Collective if there are other
// processes.
RowMemoryDecision require_memory(const RowMemorySetup& setup);

// Returns warnings about a folder in which rows may take `bytes`.
std::vector<std::string> folder_warnings(const std::string& path, const DiskFolder& folder,
                                         int64_t bytes);

}  // namespace hlite::trainer
