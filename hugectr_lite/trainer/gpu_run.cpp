#include "hugectr_lite/trainer/gpu_run.h"

#include "hugectr_lite/core/log.h"

namespace hlite::trainer {
namespace {
// The reader's ring has a few dozen; batches that are all in memory are too many to lock.
constexpr size_t kMostPinned = 1024;

MatmulContext make_matmul(const cuda::Backend& gpu, const config::SolverConfig& solver) {
  const std::string file = solver.algorithm_search ? default_algorithm_file() : std::string();
  return {gpu,
          {.tf32 = solver.enable_tf32_compute,
           .algorithm_file = file.c_str(),
           .warn = [](const char* text) { log::warning("{}", text); }}};
}

std::array<void*, plan::kLanes> lanes(const MatmulContext& compute, const MatmulContext& weights) {
  std::array<void*, plan::kLanes> matmuls{};
  matmuls[static_cast<size_t>(plan::Lane::kCompute)] = compute.get();
  matmuls[static_cast<size_t>(plan::Lane::kWeights)] = weights.get();
  return matmuls;
}
}  // namespace

GpuRun::GpuRun(const cuda::Backend& gpu, plan::Buffers& buffers, const config::SolverConfig& solver)
    : gpu_(gpu),
      matmul_(make_matmul(gpu, solver)),
      weights_matmul_(make_matmul(gpu, solver)),
      executor_(gpu, buffers, lanes(matmul_, weights_matmul_), solver.cuda_graph) {}

GpuRun::~GpuRun() { release_input(); }

// Also on the way out of a failure: there is nobody to tell of another one.
void GpuRun::release_input() {
  cuda::Failure ignored;
  (void)gpu_.device_synchronize.entry(&ignored);
  for (const auto& [data, pinned] : pinned_)
    if (pinned) (void)gpu_.unpin.entry(&ignored, const_cast<void*>(data));
  pinned_.clear();
}

void GpuRun::run(const plan::Plan& plan, const plan::StepContext& context) {
  const auto memory = context.input.memory;
  if (!memory.empty() && pinned_.size() < kMostPinned && !pinned_.contains(memory.data())) {
    // Where the system refuses, copies are slower and nothing else changes.
    cuda::Failure why;
    void* const data = const_cast<std::byte*>(memory.data());
    const bool pinned = gpu_.pin.entry(&why, data, memory.size());
    if (!pinned && pinned_.empty())
      log::warning("batches cannot be page-locked, copies to the GPU will be slower: {}", why.text);
    pinned_[memory.data()] = pinned;
  }
  executor_.run(plan, context, context.mean_over());
}

}  // namespace hlite::trainer
