// What ranks on GPUs of two processes train when another transport joins them.
#include "hugectr_lite/comm/transport.h"

#include <utility>

#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/trainer/model/placements.h"
#include "hugectr_lite/trainer/run/trainer.h"
#include "tests/support/host_transport.h"
#include "tests/trainer/run/gpu_runs.h"

namespace hlite::test {
namespace {

struct Joined {
  std::string links;           // as rank 0 describes them
  std::vector<double> losses;  // of rank 0
};

// Two processes of a GPU each, which are threads.
Joined train(comm::Transport::Join* join, Words changes) {
  const GpuRuns runs(2);
  changes.push_back(gpu("[[0],[1]]"));
  const auto config = runs.load(std::move(changes));
  const auto topology =
      std::make_shared<const comm::Topology>(trainer::topology_of(config->solver));
  const auto placements = trainer::make_placements(*config, *topology, true);
  const trainer::Options options{.quiet = true};
  Joined joined;
  comm::run_ranks(*topology, [&](comm::Communicator& world) {
    emulated_cuda().use_device(world.rank());
    comm::DeviceCommunicator devices(world.copy(comm::Route::kFlat), emulated_cuda(), world.rank(),
                                     {.shared = comm::SharedMemory::kOfANode,
                                      .unordered_sums = !config->all_reduce.ordered,
                                      .join = join});
    trainer::Trainer trainer(*config, options,
                             {.ranks = {world.rank(), topology, &world, &devices},
                              .placements = placements,
                              .threads = 1,
                              .gpu = &emulated_cuda()});
    trainer.start();
    for (int i = 0; i < 20; ++i) {
      trainer.step();
      const double loss = trainer.batch_loss();
      if (world.rank() == 0) joined.losses.push_back(loss);
    }
    const double auc = trainer.evaluations().evaluate()->auc.value();
    if (world.rank() == 0) {
      joined.losses.push_back(auc);
      joined.links = devices.describe();
    }
    devices.leave(nullptr);
    world.barrier();
  });
  return joined;
}

// A sum of two is the same in any order.
TEST_CASE("GPUs that are joined by a transport that the product does not know train the same") {
  const std::string type = "layers.emb.sparse_embedding_hparam.communication_type=";
  for (const Words& changes : {Words{type + "IB_NVLink"}, Words{type + "IB_NVLink_Hierarchical"},
                               Words{R"(all_reduce={"algo":"NCCL","ordered":false})"}}) {
    INFO(changes[0]);
    const Joined nccl = train(comm::join_by_nccl, changes);
    const Joined host = train(join_by_host_memory, changes);
    check_contains(host.links, {"between them host memory, without graphs, which want NCCL"});
    check_contains(nccl.links, {"between them NCCL 2.30.7"});
    CHECK(host.losses == nccl.losses);
  }
}

}  // namespace
}  // namespace hlite::test
