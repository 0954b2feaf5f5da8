// One optimizer step over a dense parameter array.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::optimizer {

// Applies `rule` to every element: w, g and the rule's state arrays have the same size n and do not
// overlap; states that the rule does not keep may be empty. `step` counts from 1. The bits do not
// depend on the number of threads. Runs on the CPU.
void dense_update(const Exec& exec, const UpdateRule& rule, float lr, int64_t step,
                  Vector<float> w /*[n]*/, Vector<const float> g /*[n]*/,
                  Vector<float> state0 /*[n] or empty*/, Vector<float> state1 /*[n] or empty*/);

}  // namespace hlite::optimizer
