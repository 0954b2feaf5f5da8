#include "hugectr_lite/ops/elu.h"

#include "hugectr_lite/ops/activation_loops.h"

namespace hlite::ops {

void Elu::check() const { HLITE_CHECK(alpha >= 0, "ELU: alpha {}", alpha); }

HLITE_ACTIVATION(Elu)

}  // namespace hlite::ops
