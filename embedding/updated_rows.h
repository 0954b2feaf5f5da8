// UpdatedRows: what a step of an optimizer changes.
#pragma once

#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

// Weights and the states that an update rule keeps of them, all [rows, V]; states beyond the rule's
// may be empty.
struct UpdatedRows {
  Matrix<float> w = {}, state0 = {}, state1 = {};
};

}  // namespace hlite::embedding
