// Looking for numbers that are none.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// NaN and infinity alone have an exponent of all ones.
HLITE_HD inline bool non_finite(float x) {
  constexpr uint32_t kExponent = 0x7f800000u;
  return (hlite::detail::bits_of(x) & kExponent) == kExponent;
}

// T: float, bf16, or on a GPU fp16. Index of the first NaN or infinity in x, or -1: names the
// layer where a loss turned NaN. On a GPU it waits for the stream.
template <typename T = float>
[[nodiscard]] int64_t first_non_finite(const Exec& exec, VectorOf<const T> x);

// Sets *found, in memory of the op's device, to 1 if there is a NaN or infinity in x, and leaves it
// otherwise: several tensors share a flag. Does not wait.
template <typename T = float>
void flag_non_finite(const Exec& exec, VectorOf<const T> x, int32_t* found);

namespace kernels {
// Takes and gives back eight bytes of device memory.
template <typename T>
inline const KernelOf<decltype(ops::first_non_finite<T>)> first_non_finite{"first_non_finite"};
template <typename T>
inline const KernelOf<decltype(ops::flag_non_finite<T>)> flag_non_finite{"flag_non_finite"};
}  // namespace kernels

}  // namespace hlite::ops
