#include "hugectr_lite/trainer/run/session.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/trainer/model/placements.h"
#include "hugectr_lite/trainer/model/resources.h"
#include "hugectr_lite/trainer/model/row_memory.h"
#include "hugectr_lite/trainer/run/run_identity.h"
#include "hugectr_lite/trainer/run/trainer.h"

namespace hlite::trainer {

namespace {

// A rank that is one of several GPUs: it does not free what its peers use before all have ended.
class AmongDevices {
 public:
  AmongDevices(comm::Communicator& world, const cuda::Backend& gpu, int device, bool ordered)
      : device_(device) {
    gpu.use_device(device);
    devices_.emplace(
        world.copy(comm::Route::kFlat), gpu, device,
        comm::DeviceRanks{.shared = comm::launched_memory(), .unordered_sums = !ordered});
  }
  [[nodiscard]] comm::DeviceCommunicator* get() { return &*devices_; }
  // Reports the error at hand, after so many iterations: ends all ranks, and is thrown with its
  // place.
  [[noreturn]] void fail(int64_t iterations) {
    try {
      throw;
    } catch (const comm::CommError&) {
      throw;  // another rank's
    } catch (const DeviceError& e) {
      const std::string text = fmt::format("rank {} on GPU {}, after {} iterations: {}",
                                           devices_->rank(), device_, iterations, e.what());
      devices_->abort(text);
      throw DeviceError(text);
    } catch (const std::exception& e) {
      devices_->abort(e.what());
      throw;
    }
  }

 private:
  const int device_;
  std::optional<comm::DeviceCommunicator> devices_;
};

// A trainer that leaves its peers, if it has any, when it is done.
struct RankMember {
  std::optional<Trainer> trainer = {};
  comm::DeviceCommunicator* devices = nullptr;
  ~RankMember() {
    if (devices) devices->leave(nullptr);
  }
};

// `gpu`, whose current device is then the process's first.
const cuda::Backend* current_gpu(const config::TrainConfig& config, const cuda::Backend* gpu,
                                 const comm::RankContext& first) {
  if (gpu) gpu->use_device(gpu_of(config.solver, first));
  return gpu;
}

int train_rank(const config::TrainConfig& config, const Options& options, RankOptions rank) {
  if (!rank.gpu || rank.ranks.ranks() == 1) return Trainer(config, options, std::move(rank)).run();
  AmongDevices among(*rank.ranks.world, *rank.gpu, gpu_of(config.solver, rank.ranks),
                     config.all_reduce.ordered);
  rank.ranks.devices = among.get();
  RankMember member{.devices = among.get()};
  try {
    member.trainer.emplace(config, options, std::move(rank));
    return member.trainer->run();
  } catch (...) {
    among.fail(member.trainer ? member.trainer->iteration() : 0);
  }
}

}  // namespace

int run_training(const config::TrainConfig& config, const Options& options) {
  return run_training(config, options, choose_device(config, options.device));
}

int run_training(const config::TrainConfig& config, const Options& options,
                 const cuda::Backend* gpu) {
  const auto topology = std::make_shared<const comm::Topology>(topology_of(config.solver));
  const auto ranks = comm::under_mpirun()
                         ? comm::mpi_ranks(*topology, run_identity(config, options, gpu != nullptr))
                         : comm::make_thread_ranks(*topology);
  const InterruptGuard interrupts;
  const BrokenPipeGuard pipes;
  const int threads =
      std::max(1, resolve_threads(config, options.threads) / static_cast<int>(ranks.size()));
  // Made once for all ranks of this process. When one process of several fails here, the others
  // learn of it.
  std::vector<LayerPlacement> placements;
  RowMemoryDecision memory;
  try {
    placements = make_placements(config, *topology, /*read_data=*/true);
    const comm::RankContext first{.rank = ranks[0]->rank(), .topology = topology};
    memory =
        require_memory({.config = config,
                        .without_data = options.without_data,
                        .save = options.save,
                        .placements = placements,
                        .threads = threads,
                        .gpu = current_gpu(config, gpu, first),
                        .ranks = first,
                        .process = comm::under_mpirun()
                                       ? std::span<const std::unique_ptr<comm::Communicator>>(ranks)
                                       : std::span<const std::unique_ptr<comm::Communicator>>()});
  } catch (const std::exception& e) {
    if (comm::under_mpirun()) ranks[0]->abort(e.what());
    throw;
  }
  std::atomic<int> exit_code{kExitDone};
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    if (world.rank() != 0) log::mute_this_thread();
    RankOptions rank;
    rank.ranks = {.rank = world.rank(), .topology = topology, .world = &world};
    rank.placements = placements;
    rank.memory = memory;
    rank.threads = threads;
    rank.gpu = gpu;
    const int code = train_rank(config, options, std::move(rank));
    if (world.rank() == 0 || code != kExitDone) exit_code = code;
    // MPI waits for all processes at its end, without a time limit.
    if (comm::under_mpirun()) world.barrier();
  });
  return exit_code;
}

}  // namespace hlite::trainer
