// A step that adds up several tensors: the Add layer, and gradients of a tensor with several
// readers.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/network/layer.h"

namespace hlite::network {

// out = inputs[0] + inputs[1] + ..., in that order; all of `type`.
void add_sum_step(plan::Plan& plan, const Buffers& buffers, FloatType type, const std::string& name,
                  const std::vector<BufferId>& inputs, BufferId out, const Dims& dims);

}  // namespace hlite::network
