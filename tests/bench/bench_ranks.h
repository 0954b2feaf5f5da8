// Ranks of a benchmark: threads of this process, on the CPU or on a GPU each (several may share
// one), or processes under mpirun.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <string>

#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/core/cuda_plugin.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/thread_pool.h"

namespace hlite::bench {

struct RankOptions {
  bool gpu = false;
  int ranks = 2, nodes = 1, threads = 1;
};
// --device, --nodes and --threads.
void add_rank_options(CLI::App& app, RankOptions& options);
// Throws ConfigError when the ranks do not spread evenly over the nodes.
comm::Topology topology_of(const RankOptions& options);

// Returns the exit code for main(): that of `run`, or 1 after printing what it threw.
int run_bench(const char* name, int (*run)(int, char**), int argc, char** argv);

class BenchRank {
 public:
  // `gpu`: null on the CPU; `device`: which of its devices.
  BenchRank(comm::Communicator& world, const cuda::Backend* gpu, int device, int threads);
  ~BenchRank();
  BenchRank(const BenchRank&) = delete;
  BenchRank& operator=(const BenchRank&) = delete;

  [[nodiscard]] int rank() const { return world_.rank(); }
  [[nodiscard]] int ranks() const { return world_.size(); }
  // Of the hosts, and of the devices where ranks are GPUs.
  [[nodiscard]] comm::Communicator& world() const { return world_; }
  [[nodiscard]] comm::DeviceCommunicator* devices() const { return devices_.get(); }
  [[nodiscard]] comm::Communicator& collectives() const;
  [[nodiscard]] const cuda::Backend* gpu() const { return gpu_; }
  // Whether ranks may capture: DeviceCommunicator::may_capture().
  [[nodiscard]] bool captures() const { return devices_ && devices_->may_capture(); }
  [[nodiscard]] Exec exec() const;
  [[nodiscard]] Exec host() const { return {.pool = &pool_}; }
  void synchronize() const;
  // Collective; before a rank frees memory that its peers use.
  void leave() noexcept;

  // Collective: the largest, or rank 0's.
  [[nodiscard]] double largest(double value) const;
  [[nodiscard]] double first(double value) const;
  // Collective: seconds of a call that all ranks make at the same time, the best of three rounds of
  // as many in a row as take a third of `seconds` or of them one. Of a round the slowest rank's.
  // `graph`: as a graph of them; REQUIRES captures().
  double seconds_of(double seconds, bool graph, const std::function<void()>& call) const;

 private:
  comm::Communicator& world_;
  const cuda::Backend* const gpu_;
  mutable ThreadPool pool_;
  void* stream_ = nullptr;
  std::unique_ptr<comm::DeviceCommunicator> devices_;
};

// body(rank) for all ranks of this process. Throws what the first threw.
void on_ranks(const RankOptions& options, const std::function<void(BenchRank&)>& body);

}  // namespace hlite::bench
