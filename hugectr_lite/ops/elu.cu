#include "hugectr_lite/ops/elu.h"

#include "hugectr_lite/ops/activation_kernels.cuh"

namespace hlite::ops::gpu {

HLITE_KERNELS(elu) { add_activation<Elu>(list); }

}  // namespace hlite::ops::gpu
