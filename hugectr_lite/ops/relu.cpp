#include "hugectr_lite/ops/relu.h"

#include "hugectr_lite/ops/activation_loops.h"

namespace hlite::ops {

HLITE_ACTIVATION(Relu)

}  // namespace hlite::ops
