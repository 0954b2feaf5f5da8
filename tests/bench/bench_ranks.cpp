#include "tests/bench/bench_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <vector>

#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/stopwatch.h"

namespace hlite::bench {

void add_rank_options(CLI::App& app, RankOptions& options) {
  app.add_option_function<std::string>(
         "--device", [&](const std::string& device) { options.gpu = device == "cuda"; },
         "cpu or cuda; ranks take the GPUs in turn")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--nodes", options.nodes, "Of equally many ranks; processes under mpirun")
      ->check(CLI::Range(1, 4096));
  app.add_option("--threads", options.threads, "Of a rank")->check(CLI::Range(1, 1024));
}

comm::Topology topology_of(const RankOptions& options) {
  if (options.ranks % options.nodes != 0)
    raise<ConfigError>("expected as many ranks on each node, found {} ranks on {} nodes",
                       options.ranks, options.nodes);
  return comm::Topology(
      std::vector<int>(static_cast<size_t>(options.nodes), options.ranks / options.nodes));
}

int run_bench(const char* name, int (*run)(int, char**), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return 1;
  }
}

BenchRank::BenchRank(comm::Communicator& world, const cuda::Backend* gpu, int device, int threads)
    : world_(world), gpu_(gpu), pool_(threads) {
  if (!gpu_) return;
  gpu_->use_device(device);
  gpu_->stream_create(&stream_);
  const comm::DeviceRanks how{.shared = comm::launched_memory()};
  devices_ =
      std::make_unique<comm::DeviceCommunicator>(world.copy(comm::Route::kFlat), *gpu, device, how);
}

BenchRank::~BenchRank() {
  cuda::Failure ignored;
  if (stream_) (void)gpu_->stream_destroy.entry(&ignored, stream_);
}

comm::Communicator& BenchRank::collectives() const {
  return devices_ ? static_cast<comm::Communicator&>(*devices_) : world_;
}

Exec BenchRank::exec() const {
  if (!gpu_) return host();
  return {.device = Device::kCuda, .pool = &pool_, .cuda = gpu_, .stream = stream_};
}

void BenchRank::synchronize() const {
  if (gpu_) gpu_->stream_synchronize(stream_);
}

void BenchRank::leave() noexcept {
  if (devices_) devices_->leave(nullptr);
}

double BenchRank::largest(double value) const {
  std::vector<double> all(static_cast<size_t>(ranks()));
  world_.all_gather(host(), std::as_bytes(std::span(&value, 1)),
                    std::as_writable_bytes(std::span(all)), sizeof(double));
  return *std::max_element(all.begin(), all.end());
}

double BenchRank::first(double value) const {
  world_.broadcast(host(), std::as_writable_bytes(std::span(&value, 1)), 0);
  return value;
}

double BenchRank::seconds_of(double seconds, bool graph, const std::function<void()>& call) const {
  constexpr int kRounds = 3;
  constexpr double kMaxCalls = 1000, kMaxCaptured = 20;
  const auto time = [&](const std::function<void()>& work) {
    world_.barrier();
    const auto start = Clock::now();
    work();
    synchronize();
    return seconds_since(start);
  };
  call();  // may take memory
  synchronize();
  const double once = first(time(call));
  const auto calls = static_cast<int>(
      std::clamp(seconds / kRounds / std::max(once, 1e-9), 1.0, graph ? kMaxCaptured : kMaxCalls));
  const auto repeat = [&] {
    for (int i = 0; i < calls; ++i) call();
  };
  void* captured = nullptr;
  if (graph) {
    world_.barrier();
    gpu_->capture_begin(stream_);
    repeat();
    gpu_->capture_end(stream_, &captured);
  }
  double best = 1e300;
  for (int round = 0; round < kRounds; ++round) {
    const double took =
        captured ? time([&] { gpu_->graph_launch(captured, stream_); }) : time(repeat);
    best = std::min(best, largest(took) / calls);
  }
  world_.barrier();
  if (captured) gpu_->graph_destroy(captured);
  return best;
}

void on_ranks(const RankOptions& options, const std::function<void(BenchRank&)>& body) {
  const comm::Topology topology = topology_of(options);
  if (options.gpu && topology.ranks() > 1) comm::set_driver_for_ranks();
  const cuda::CudaPlugin plugin = options.gpu ? cuda::CudaPlugin::load() : cuda::CudaPlugin();
  const cuda::Backend* const gpu = options.gpu ? &plugin.require_device() : nullptr;
  const auto ranks =
      comm::under_mpirun() ? comm::mpi_ranks(topology) : comm::make_thread_ranks(topology);
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    const int device = gpu ? world.topology().local_of(world.rank()) % plugin.devices() : 0;
    BenchRank rank(world, gpu, device, options.threads);
    try {
      body(rank);
    } catch (const std::exception& error) {
      if (rank.devices()) rank.devices()->abort(error.what());
      rank.leave();
      throw;
    }
    rank.leave();
  });
}

}  // namespace hlite::bench
