// Copying and adding blocks of columns: what Concat, Slice and a Reshape of selected slots consist
// of. Concat forward and Slice backward write into the wide matrix, the other two read from it; add
// serves gradients of a matrix that several consumers read.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// to[i][to_begin + j] = from[i][from_begin + j] for all rows i and j in [0, columns). The matrices
// have the same number of rows and do not overlap; other columns of `to` stay.
void copy_columns(const Exec& exec, Matrix<const float> from, int64_t from_begin, Matrix<float> to,
                  int64_t to_begin, int64_t columns);

// The same with +=.
void add_columns(const Exec& exec, Matrix<const float> from, int64_t from_begin, Matrix<float> to,
                 int64_t to_begin, int64_t columns);

}  // namespace hlite::ops
