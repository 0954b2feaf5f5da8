#include "hugectr_lite/trainer/model/resources.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "hugectr_lite/comm/device_ranks.h"
#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/comm/peer_kernels.h"
#include "hugectr_lite/core/cuda_plugin.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/ops/bf16_piece.h"
#include "hugectr_lite/trainer/model/placements.h"

namespace hlite::trainer {

std::string needs_cpu(const config::TrainConfig& config) {
  const int64_t ranks = config.solver.ranks();
  if (ranks == 1) return "";
  if (ranks > kernels::kMaxGpus)
    return fmt::format("at most {} GPUs train together, and the config has {} ranks",
                       kernels::kMaxGpus, ranks);
  if (const int64_t most = comm::under_mpirun() ? config.solver.max_ranks_of_a_node() : ranks;
      most > kernels::kMaxPeers)
    return fmt::format("at most {} GPUs of a process train together, and the config has {}",
                       kernels::kMaxPeers, most);
  if (const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING"); blocking && *blocking == '1')
    return "with CUDA_LAUNCH_BLOCKING=1 GPUs would wait for each other for ever";
  return "";
}

int gpu_of(const config::SolverConfig& solver, const comm::RankContext& rank) {
  const comm::Topology& topology = *rank.topology;
  return solver.gpu[static_cast<size_t>(topology.node_of(rank.rank))]
                   [static_cast<size_t>(topology.local_of(rank.rank))];
}

// The highest number of a GPU in the config.
static int highest_gpu(const config::SolverConfig& solver) {
  int highest = 0;
  for (const auto& row : solver.gpu)
    for (const int id : row) highest = std::max(highest, id);
  return highest;
}

const cuda::Backend* choose_device(const config::TrainConfig& config,
                                   std::optional<config::DeviceChoice> wanted) {
  const config::DeviceChoice device = wanted.value_or(config.solver.device);
  if (device == config::DeviceChoice::kCpu) return nullptr;
  if (config.solver.ranks() > 1) comm::set_driver_for_ranks();
  const auto plugin = cuda::CudaPlugin::load();
  std::string reason = needs_cpu(config);
  if (reason.empty() && config.solver.ranks() > 1 && plugin.devices() > 0 &&
      plugin.backend().loads_lazily())
    reason =
        "the driver loads kernels at their first launch (CUDA_MODULE_LOADING=LAZY, or another "
        "library started CUDA in this process before), and GPUs would wait for each other for "
        "ever: set CUDA_MODULE_LOADING=EAGER before the process starts";
  if (device == config::DeviceChoice::kCuda) {
    const cuda::Backend& gpu = plugin.require_device();
    if (!reason.empty()) raise<DeviceError>("device cuda: {}; run with --device cpu", reason);
    if (const int id = highest_gpu(config.solver); id >= plugin.devices())
      raise<DeviceError>("device cuda: solver.gpu asks for device {}, and there are {} here", id,
                         plugin.devices());
    return &gpu;
  }
  const bool fits = reason.empty() && highest_gpu(config.solver) < plugin.devices();
  return fits ? &plugin.backend() : nullptr;
}

const cuda::Backend& absent_gpu() {
  static const cuda::Backend none{};
  return none;
}

int64_t ranks_here(const config::SolverConfig& solver) {
  return comm::under_mpirun() ? comm::processes_here() * solver.max_ranks_of_a_node()
                              : solver.ranks();
}

uint64_t random_word() {
  std::random_device entropy;
  return (uint64_t{entropy()} << 32 | entropy()) >> 1;
}

// A printed seed can be put into a config: it is below 2^63.
uint64_t resolve_seed(const config::TrainConfig& config) {
  return config.solver.seed != 0 ? config.solver.seed : random_word();
}

int resolve_threads(const config::TrainConfig& config, int threads) {
  if (threads > 0) return threads;
  return config.solver.threads > 0 ? config.solver.threads : available_threads();
}

std::string processors_warning(int threads, int allowed, int processes, int all) {
  // Open MPI's default is one core a process where there are one or two, else a socket or a share.
  if (processes > 0 && allowed * processes < all)
    return fmt::format(
        "mpirun lets each of its {} processes here run on {} of {} processors; with --bind-to none "
        "on all",
        processes, allowed, all);
  constexpr int kCrowd = 4;
  if (threads > kCrowd * allowed)
    return fmt::format("{} threads share {} processor{}: fewer may be faster", threads, allowed,
                       allowed == 1 ? "" : "s");
  return {};
}

std::string processors_warning(const config::TrainConfig& config, int threads) {
  return processors_warning(resolve_threads(config, threads), available_threads(),
                            comm::under_mpirun() ? comm::processes_here() : 0,
                            static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

std::string precision_text(const Model& model) {
  if (model.gpu() || model.type() == FloatType::kFloat) return "";
  const char* const how = ops::describe(ops::bf16_products());
  const bool fp16 = model.config().solver.precision == FloatType::kFp16;
  return fmt::format("{}; {}",
                     fp16 ? "mixed_precision on the CPU: bf16, without a loss scale" : "bf16", how);
}

}  // namespace hlite::trainer
