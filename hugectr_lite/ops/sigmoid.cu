#include "hugectr_lite/ops/sigmoid.h"

#include "hugectr_lite/ops/activation_kernels.cuh"

namespace hlite::ops::gpu {

HLITE_KERNELS(sigmoid) { add_activation<Sigmoid>(list); }

}  // namespace hlite::ops::gpu
