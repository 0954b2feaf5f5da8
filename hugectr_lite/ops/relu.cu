// Kernels of the ReLU that no matrix product took along.
#include "hugectr_lite/ops/relu.h"

#include "hugectr_lite/ops/activation_kernels.cuh"

namespace hlite::ops::gpu {

HLITE_KERNELS(relu) { add_activation<Relu>(list); }

}  // namespace hlite::ops::gpu
