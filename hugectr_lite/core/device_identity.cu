#include "hugectr_lite/core/device_identity.h"

#include "hugectr_lite/core/cuda_raii.cuh"
#include "hugectr_lite/core/kernel_list.cuh"

namespace hlite::gpu {

void device_bus_id(int device, char* text, size_t size) {
  HLITE_CUDA(cudaDeviceGetPCIBusId(text, static_cast<int>(size), device));
}

HLITE_KERNELS(device_identity) { list.add<device_bus_id>(kernels::device_bus_id); }

}  // namespace hlite::gpu
