#include "hugectr_lite/ops/tanh.h"

#include "hugectr_lite/ops/activation_kernels.cuh"

namespace hlite::ops::gpu {

HLITE_KERNELS(tanh) { add_activation<Tanh>(list); }

}  // namespace hlite::ops::gpu
