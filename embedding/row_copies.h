// Copies of rows at random places, in kernels.
#pragma once

#include <cstdint>

#include "embedding/weight_rows.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding::kernels {

// out[i] = table[rows[i]], exactly; table[rows[i]] = in[i]. Rows are there once in a scatter. All are
// of one type.
inline const Kernel<void(const ConstWeightRows& /*table*/, Vector<const uint32_t> /*rows*/,
                         const WeightRows& /*out*/)>
    gather_rows{"gather_rows"};
inline const Kernel<void(const ConstWeightRows& /*in*/, Vector<const uint32_t> /*rows*/,
                         const WeightRows& /*table*/)>
    scatter_rows{"scatter_rows"};

}  // namespace hlite::embedding::kernels
