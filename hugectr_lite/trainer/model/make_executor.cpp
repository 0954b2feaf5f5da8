#include "hugectr_lite/trainer/model/make_executor.h"

#include <exception>
#include <string>

#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/plan/device_executor.h"
#include "hugectr_lite/plan/lane_executor.h"

namespace hlite::trainer {
namespace {

// Called when a step throws: another lane of this rank may be waiting for others, who will never
// come.
void end_exchanges(const comm::RankContext& ranks) {
  try {
    throw;
  } catch (const std::exception& e) {
    ranks.world->abort(comm::abort_reason(ranks.rank, e));
  }
}

void name_step(const std::string& step) {
  try {
    throw;
  } catch (const comm::CommError&) {
    throw;  // of another rank, and says so
  } catch (const TimeoutError&) {
    throw;  // names its step
  } catch (const DeviceError& e) {
    raise<DeviceError>("step {}: {}", step, e.what());
  }
}

}  // namespace

std::unique_ptr<plan::Executor> make_executor(const config::TrainConfig& config,
                                              const comm::RankContext& ranks,
                                              const cuda::Backend* gpu, plan::Buffers& buffers,
                                              const Exec& host) {
  const config::SolverConfig& solver = config.solver;
  if (gpu) {
    const bool several = ranks.devices != nullptr;
    const std::string file = solver.algorithm_search ? default_algorithm_file() : std::string();
    return std::make_unique<plan::DeviceExecutor>(
        *gpu, buffers,
        plan::DeviceOptions{
            .graphs = solver.cuda_graph && !(several && !ranks.devices->may_capture()),
            .rendezvous =
                several ? std::function<void()>([ranks] { ranks.devices->barrier(); }) : nullptr,
            .wait = several ? std::function<void(const Exec&)>(
                                  [ranks](const Exec& exec) { ranks.devices->wait_for(exec); })
                            : nullptr,
            .on_failure = name_step,
            .matmul = MatmulOptions{.tf32 = solver.enable_tf32_compute,
                                    .algorithm_file = file.c_str(),
                                    .one_for_all_batches = !config.trains,
                                    .warn = [](const char* text) { log::warning("{}", text); }}});
  }
  if (ranks.ranks() > 1 && solver.enable_overlap)
    return std::make_unique<plan::LaneExecutor>(host, [ranks] { end_exchanges(ranks); });
  return std::make_unique<plan::SerialExecutor>(host);
}

}  // namespace hlite::trainer
