// GpuRun: what a model needs besides buffers and plans to run on a GPU.
#pragma once

#include <map>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/matmul_context.h"
#include "hugectr_lite/plan/device_executor.h"

namespace hlite::trainer {

class GpuRun {
 public:
  // On the device that is current. `buffers` must outlive it.
  GpuRun(const cuda::Backend& gpu, plan::Buffers& buffers, const config::SolverConfig& solver);
  ~GpuRun();
  GpuRun(const GpuRun&) = delete;
  GpuRun& operator=(const GpuRun&) = delete;

  // Issues a run of the plan and returns. The batch's memory is page-locked on its first use, and
  // belongs to the run until wait_for_input().
  void run(const plan::Plan& plan, const plan::StepContext& context);
  void wait_for_input() { executor_.wait_for_copies(); }
  // After more work on exec().stream that reads inputs of the last run.
  void extend_run() { executor_.extend_run(); }
  // Gives all batches' memory back: before it is freed.
  void release_input();
  // Where single ops can be put, behind all that was issued.
  [[nodiscard]] Exec exec() const {
    return {.device = Device::kCuda,
            .cuda = &gpu_,
            .stream = executor_.stream(),
            .matmul = matmul_.get()};
  }

 private:
  const cuda::Backend& gpu_;
  MatmulContext matmul_, weights_matmul_;  // of the lanes kCompute and kWeights
  plan::DeviceExecutor executor_;
  std::map<const void*, bool> pinned_;  // blocks of batches; false: could not be
};

}  // namespace hlite::trainer
