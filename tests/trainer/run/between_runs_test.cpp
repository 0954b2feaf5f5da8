// Calls that may wait in a driver until no kernel runs, on peers either. A rank that is slow at them
// must not find a faster one's next graph there, which waits for this rank.
#include <atomic>
#include <chrono>
#include <thread>

#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/trainer/model/placements.h"
#include "hugectr_lite/trainer/run/trainer.h"
#include "tests/trainer/run/gpu_runs.h"

namespace hlite::test {
namespace {

// A driver in which GPU 1 takes its time, while the other rank goes as far as it may.
thread_local bool slow = false;
std::atomic<int> refused = 0;  // calls that met a waiting kernel, of which PinnedBlocks only warns
bool noted(bool done) {
  if (!done) ++refused;
  return done;
}
void take_time() {
  if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(30));
}
cuda::Backend slow_backend() {
  cuda::Backend backend = emulated_cuda();
  backend.pin.entry = [](cuda::Failure* why, void* data, size_t bytes) noexcept {
    take_time();
    return noted(emulated_cuda().pin.entry(why, data, bytes));
  };
  backend.unpin.entry = [](cuda::Failure* why, void* data) noexcept {
    take_time();
    return noted(emulated_cuda().unpin.entry(why, data));
  };
  return backend;
}

// Calls body(trainer, config) on both ranks, when each plan has a graph for either side.
void train_and(Words changes,
               const std::function<void(trainer::Trainer&, const config::TrainConfig&)>& body) {
  const GpuRuns runs(2);
  changes.push_back(gpu("[[0,1]]"));
  const auto config = runs.load(std::move(changes));
  const auto topology =
      std::make_shared<const comm::Topology>(trainer::topology_of(config->solver));
  const auto placements = trainer::make_placements(*config, *topology, true);
  const trainer::Options options{.quiet = true};
  const cuda::Backend backend = slow_backend();
  comm::run_ranks(*topology, [&](comm::Communicator& world) {
    backend.use_device(world.rank());
    comm::DeviceCommunicator devices(world.copy(comm::Route::kFlat), backend, world.rank(), {});
    trainer::Trainer trainer(*config, options,
                             {.ranks = {world.rank(), topology, &world, &devices},
                              .placements = placements,
                              .threads = 1,
                              .gpu = &backend});
    trainer.start();
    const auto steps = [&] {
      for (int i = 0; i < 4; ++i) trainer.step();
    };
    steps();
    for (int i = 0; i < 4; ++i) static_cast<void>(trainer.evaluations().evaluate().value());
    slow = world.rank() == 1;
    body(trainer, *config);
    steps();
    slow = false;
    devices.leave(nullptr);
    world.barrier();
  });
}

TEST_CASE("a rank that page-locks slowly meets the others before their next run") {
  const auto scores = [](trainer::Trainer& trainer, const config::TrainConfig& config) {
    static_cast<void>(
        trainer.evaluations().score_file(config.resolve(config.data.eval_source)).value());
  };
  const auto tests = [](trainer::Trainer& trainer, const config::TrainConfig&) {
    static_cast<void>(trainer.evaluations().test());
  };
  CHECK_NOTHROW(train_and({}, scores));
  CHECK_NOTHROW(train_and({"layers.data.test_source=\"eval.bin\""}, tests));
  CHECK(refused == 0);
}

}  // namespace
}  // namespace hlite::test
