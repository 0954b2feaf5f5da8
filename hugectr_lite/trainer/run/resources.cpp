#include "hugectr_lite/trainer/run/resources.h"

#include <random>

#include "hugectr_lite/core/cuda_plugin.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/ops/bf16_piece.h"

namespace hlite::trainer {

std::string needs_cpu(const config::TrainConfig& config) {
  if (config.solver.ranks() > 1)
    return fmt::format("one rank trains on a GPU so far, and the config has {}",
                       config.solver.ranks());
  return "";
}

const cuda::Backend* choose_device(const config::TrainConfig& config, const Options& options) {
  const config::DeviceChoice device = options.device.value_or(config.solver.device);
  if (device == config::DeviceChoice::kCpu) return nullptr;
  const auto plugin = cuda::CudaPlugin::load();
  const std::string reason = needs_cpu(config);
  if (device == config::DeviceChoice::kCuda) {
    const cuda::Backend& gpu = plugin.require_device();
    if (const int id = config.solver.gpu[0][0]; id >= plugin.devices())
      raise<DeviceError>("device cuda: solver.gpu asks for device {}, and there are {} here", id,
                         plugin.devices());
    if (!reason.empty()) raise<DeviceError>("device cuda: {}; run with --device cpu", reason);
    return &gpu;
  }
  const bool fits = reason.empty() && config.solver.gpu[0][0] < plugin.devices();
  return fits ? &plugin.backend() : nullptr;
}

const cuda::Backend& absent_gpu() {
  static const cuda::Backend none{};
  return none;
}

uint64_t resolve_seed(const config::TrainConfig& config) {
  if (config.solver.seed != 0) return config.solver.seed;
  // Below 2^63, so that a printed seed can be put into a config.
  std::random_device entropy;
  return (uint64_t{entropy()} << 32 | entropy()) >> 1;
}

int resolve_threads(const config::TrainConfig& config, const Options& options) {
  if (options.threads > 0) return options.threads;
  return config.solver.threads > 0 ? config.solver.threads : available_threads();
}

std::string precision_text(const Model& model) {
  if (model.gpu() || model.type() == FloatType::kFloat) return "";
  const char* const how = ops::describe(ops::bf16_products());
  const bool fp16 = model.config().solver.precision == FloatType::kFp16;
  return fmt::format("{}; {}",
                     fp16 ? "mixed_precision on the CPU: bf16, without a loss scale" : "bf16", how);
}

}  // namespace hlite::trainer
