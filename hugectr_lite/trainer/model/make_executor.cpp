#include "hugectr_lite/trainer/model/make_executor.h"

#include <exception>
#include <string>

#include "hugectr_lite/core/log.h"
#include "hugectr_lite/plan/device_executor.h"
#include "hugectr_lite/plan/lane_executor.h"

namespace hlite::trainer {
namespace {

// Of a step that throws: another lane of this rank may be waiting for others, who will never come.
void end_exchanges(const comm::RankContext& ranks) {
  try {
    throw;
  } catch (const std::exception& e) {
    ranks.world->abort(fmt::format("rank {}: {}", ranks.rank, e.what()));
  }
}

}  // namespace

std::unique_ptr<plan::Executor> make_executor(const config::SolverConfig& solver,
                                              const comm::RankContext& ranks,
                                              const cuda::Backend* gpu, plan::Buffers& buffers,
                                              const Exec& host) {
  if (gpu) {
    const std::string file = solver.algorithm_search ? default_algorithm_file() : std::string();
    return std::make_unique<plan::DeviceExecutor>(
        *gpu, buffers,
        plan::DeviceOptions{
            .graphs = solver.cuda_graph,
            .matmul = MatmulOptions{.tf32 = solver.enable_tf32_compute,
                                    .algorithm_file = file.c_str(),
                                    .warn = [](const char* text) { log::warning("{}", text); }}});
  }
  if (ranks.ranks() > 1 && solver.enable_overlap)
    return std::make_unique<plan::LaneExecutor>(host, [ranks] { end_exchanges(ranks); });
  return std::make_unique<plan::SerialExecutor>(host);
}

}  // namespace hlite::trainer
