// The 16-bit types of CUDA's headers for those of core/half.h.
#pragma once

#include "hugectr_lite/core/half.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace hlite {

// The type of CUDA's headers with the bits of T, for what takes no other (tensor cores, libraries);
// T itself where these headers are not.
template <typename T>
struct CudaType {
  using type = T;
};
#if defined(__CUDACC__)
template <>
struct CudaType<bf16> {
  using type = __nv_bfloat16;
};
template <>
struct CudaType<fp16> {
  using type = __half;
};
#endif

}  // namespace hlite
