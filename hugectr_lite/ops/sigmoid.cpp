#include "hugectr_lite/ops/sigmoid.h"

#include "hugectr_lite/ops/activation_loops.h"

namespace hlite::ops {

HLITE_ACTIVATION(Sigmoid)

}  // namespace hlite::ops
