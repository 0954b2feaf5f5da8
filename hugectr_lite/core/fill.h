// Initial values of arrays in a GPU's memory.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::kernels {

// Every element of `out` becomes `value`.
inline const Kernel<void(Vector<float> /*out*/, float /*value*/)> fill{"fill"};

// random::fill_uniform of core/random.h, with the same bits: out[i] = low + (high - low) *
// uniform(element first + i of random_stream under seed).
inline const Kernel<void(Vector<float> /*out*/, uint64_t /*seed*/, uint64_t /*random_stream*/,
                         uint64_t /*first*/, float /*low*/, float /*high*/)>
    fill_uniform{"fill_uniform"};

}  // namespace hlite::kernels
