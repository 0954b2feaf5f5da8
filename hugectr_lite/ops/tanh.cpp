#include "hugectr_lite/ops/tanh.h"

#include "hugectr_lite/ops/activation_loops.h"

namespace hlite::ops {

HLITE_ACTIVATION(Tanh)

}  // namespace hlite::ops
