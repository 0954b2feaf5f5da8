// Matrices [rows, n] whose columns belong together, as normalisations have them: sums of two terms
// down each column, and bodies for each element or column. What is summed or done is a small class
// F, trivially copyable and the same on the CPU and a GPU, with a static kName and
//
//   HLITE_HD Terms operator()(int64_t row, int64_t column) const       for sums
//   HLITE_HD void operator()(int64_t element, int64_t column) const    for elements
//   HLITE_HD void operator()(int64_t column) const                     for columns
//
// CPU bodies: column_terms_loops.h; kernels: column_term_kernels.cuh.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

struct Terms {
  double first = 0, second = 0;
};

// The number of parts that rows are cut into: the bits of a sum follow from the number of rows
// alone.
inline constexpr int64_t kTermParts = 32;
constexpr int64_t terms_workspace(int64_t columns) { return kTermParts * 2 * columns; }

namespace kernels {
template <typename F>
inline const Kernel<void(const F&, int64_t /*rows*/, int64_t /*columns*/, double* /*workspace*/,
                         double* /*sums*/)>
    sum_terms{F::kName};
template <typename F>
inline const Kernel<void(const F&, int64_t /*rows*/, int64_t /*columns*/)> for_each_element{
    F::kName};
template <typename F>
inline const Kernel<void(const F&, int64_t /*columns*/)> for_each_column{F::kName};
}  // namespace kernels

}  // namespace hlite::ops
