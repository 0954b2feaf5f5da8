// Sum of several vectors. Its gradient is a copy to each input, which needs no op of its own.
#pragma once

#include <span>
#include <type_traits>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// out[i] = inputs[0][i] + inputs[1][i] + ..., added in that order in float; at least one input, all
// of out's size. T: float, bf16, or on a GPU fp16 (rounded to T at the end, and on a GPU after
// every 63 further inputs where there are more than 64). out may be the very view of inputs[0], and
// overlaps no other input.
template <typename T = float>
void add_forward(const Exec& exec, std::span<const Vector<const std::type_identity_t<T>>> inputs,
                 Vector<std::type_identity_t<T>> out);

namespace kernels {
template <typename T>
inline const Kernel<void(std::span<const Vector<const T>> /*inputs*/, Vector<T> /*out*/)>
    add_forward{"add_forward"};
}  // namespace kernels

}  // namespace hlite::ops
