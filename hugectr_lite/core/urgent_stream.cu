#include "hugectr_lite/core/urgent_stream.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "hugectr_lite/core/cuda_raii.cuh"
#include "hugectr_lite/core/kernel_list.cuh"

namespace hlite::gpu {

void create_urgent_stream(void** stream, int urgency) {
  int least = 0, greatest = 0;  // numbers fall as priority rises
  HLITE_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t made = nullptr;
  HLITE_CUDA(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking,
                                          std::max(greatest, least - urgency)));
  *stream = made;
}

HLITE_KERNELS(urgent_stream) { list.add<create_urgent_stream>(kernels::create_urgent_stream); }

}  // namespace hlite::gpu
