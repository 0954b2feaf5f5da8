// Metrics of an evaluation set in device memory: launchers of the kernels in evaluation.cu. What
// they compute is said in gpu_metrics.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/trainer/evaluation_sums.h"

namespace hlite::trainer::gpu {

// Bytes of device memory for up to max_samples samples: about 10 a sample. Throws CudaError for
// 2^31 samples and more.
size_t evaluation_workspace(int64_t max_samples);

// `to` lies in page-locked host memory and is written by a copy on `stream`.
void evaluate(cudaStream_t stream, Vector<const float> logits, Vector<const float> labels,
              std::byte* workspace, size_t workspace_bytes, EvaluationSums* to);

}  // namespace hlite::trainer::gpu
