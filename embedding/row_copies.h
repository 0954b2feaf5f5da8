// Copies of rows at random places, in kernels.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding::kernels {

// out[i] = table[rows[i]], exactly; table[rows[i]] = in[i]. Rows are there once in a scatter.
inline const Kernel<void(Matrix<const float> /*table*/, Vector<const uint32_t> /*rows*/,
                         Matrix<float> /*out*/)>
    gather_rows{"gather_rows"};
inline const Kernel<void(Matrix<const float> /*in*/, Vector<const uint32_t> /*rows*/,
                         Matrix<float> /*table*/)>
    scatter_rows{"scatter_rows"};

}  // namespace hlite::embedding::kernels
