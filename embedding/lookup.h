// One-hot lookup: out[b, s, :] = table[offset[s] + keys[b, s], :].
#pragma once

#include <cstdint>

#include "embedding/table_layout.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

// keys [B,S] are local to their slot's table; the reader has checked keys[b,s] < rows[s].
// Overwrites out [B,S,V], exactly (rows are copied). Runs on the CPU.
void lookup_forward(const Exec& exec, const TableLayout& layout,
                    Matrix<const float> table /*[total_rows,V]*/,
                    Matrix<const uint32_t> keys /*[B,S]*/, View<float, 3> out /*[B,S,V]*/);

}  // namespace hlite::embedding
