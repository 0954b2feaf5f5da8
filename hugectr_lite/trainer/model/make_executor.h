// The executor of a model's plans: the one place that knows of more than one kind.
#pragma once

#include <memory>

#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/plan/executor.h"

namespace hlite::trainer {

// On `gpu`, the current device; without one on `host`, with a thread for each lane where several
// ranks exchange and the config wants that to overlap (enable_overlap). Throws DeviceError.
std::unique_ptr<plan::Executor> make_executor(const config::TrainConfig& config,
                                              const comm::RankContext& ranks,
                                              const cuda::Backend* gpu, plan::Buffers& buffers,
                                              const Exec& host);

}  // namespace hlite::trainer
