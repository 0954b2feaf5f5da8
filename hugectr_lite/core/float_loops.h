// Rows of numbers between float and the types of activations on the host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "hugectr_lite/core/half.h"

namespace hlite {

// to[i] = from[i], exactly, for i < n. No two arrays here overlap.
template <typename T>
inline void widen(const T* __restrict from, int64_t n, float* __restrict to) {
  if constexpr (std::is_same_v<T, float>)
    std::copy_n(from, n, to);
  else
    for (int64_t i = 0; i < n; ++i) to[i] = to_float(from[i]);
}

// to[i] = the T nearest to from[i].
template <typename T>
inline void narrow(const float* __restrict from, int64_t n, T* __restrict to) {
  if constexpr (std::is_same_v<T, float>)
    std::copy_n(from, n, to);
  else
    for (int64_t i = 0; i < n; ++i) to[i] = from_float<T>(from[i]);
}

// sums[i] += x[i].
template <typename T>
inline void add_row(const T* __restrict x, int64_t n, float* __restrict sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += to_float(x[i]);
}

}  // namespace hlite
