#include "hugectr_lite/trainer/session.h"

#include <algorithm>
#include <atomic>

#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/trainer/placements.h"
#include "hugectr_lite/trainer/trainer.h"

namespace hlite::trainer {

int run_training(const config::TrainConfig& config, const Options& options) {
  const cuda::Backend* const gpu = choose_device(config, options);
  const auto topology = std::make_shared<const comm::Topology>(topology_of(config.solver));
  const auto ranks =
      comm::under_mpirun() ? comm::mpi_ranks(*topology) : comm::make_thread_ranks(*topology);
  const InterruptGuard interrupts;
  const int threads =
      std::max(1, resolve_threads(config, options) / static_cast<int>(ranks.size()));
  // Made once for all ranks of this process. When one process of several fails here, the others
  // learn of it.
  std::vector<LayerPlacement> placements;
  try {
    placements = make_placements(config, *topology, /*read_data=*/true);
  } catch (const std::exception& e) {
    if (comm::under_mpirun()) ranks[0]->abort(e.what());
    throw;
  }
  std::atomic<int> exit_code{kExitDone};
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    if (world.rank() != 0) log::mute_this_thread();
    Trainer trainer(config, options,
                    {.ranks = {.rank = world.rank(), .topology = topology, .world = &world},
                     .placements = placements,
                     .threads = threads,
                     .gpu = gpu});
    const int code = trainer.run();
    if (world.rank() == 0 || code != kExitDone) exit_code = code;
  });
  return exit_code;
}

}  // namespace hlite::trainer
