// Sum of several vectors. Its gradient is a copy to each input, which needs no op of its own.
#pragma once

#include <span>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// out[i] = inputs[0][i] + inputs[1][i] + ..., added in that order; at least one input, all of out's
// size. out may be the very view of inputs[0], and overlaps no other input.
void add_forward(const Exec& exec, std::span<const Vector<const float>> inputs, Vector<float> out);

}  // namespace hlite::ops
