// A copy of two words of a GPU's, as one piece of work.
#pragma once

#include "hugectr_lite/core/kernel.h"

namespace hlite::kernels {

struct TwoFloats {
  const float* from[2] = {};
  float* to[2] = {};
};
// *to[i] <- *from[i], in the GPU's memory or in page-locked memory, which is read when the kernel
// runs. In a graph, two copies would be two nodes of some microseconds each.
inline const Kernel<void(const TwoFloats&)> copy_two{"copy_two"};

}  // namespace hlite::kernels
