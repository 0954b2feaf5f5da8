// UpdatedRows: what a step of an optimizer changes.
#pragma once

#include "embedding/row_names.h"
#include "embedding/weight_rows.h"

namespace hlite::embedding {

class RowRounding;

// Weights [rows, V] and the states that an update rule keeps of them,
// [rows, state_width(rule, i, V)]; states beyond the rule's may be empty.
struct UpdatedRows {
  WeightRows w = {};
  Matrix<float> state0 = {}, state1 = {};
  // What rounds weights of 16 bits, on the CPU and in kernels; else empty.
  const RowRounding* rounding = nullptr;
  RowNames names = {};
  bool from_zero = false;  // SGD of float: weights count as 0, whatever they are, and are not read
};

}  // namespace hlite::embedding
