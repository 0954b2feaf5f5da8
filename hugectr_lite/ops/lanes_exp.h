// Exponentials and reductions of vectors of floats, for the bodies of wide().
#pragma once

#include <cstring>

#include "hugectr_lite/ops/lanes.h"

namespace hlite::ops {

// e^x in every lane for x up to 88, within 2 units in the last place. Below e^-87 it is 0. NaN stays
// NaN.
template <typename V>
HLITE_INLINE V exp_of(V x) {
  using Ints = decltype(V{} < V{});  // of as many lanes
  constexpr float kLowest = -87.0f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: what is added to it, is rounded to integers
  const V within = x < kLowest ? V{} + kLowest : x;
  const V shifted = within * 1.44269504f + kRound;
  const V power = shifted - kRound;
  const V r = (within - power * 0.693359375f) + power * 2.12194440e-4f;
  V e = r * 1.9875691500e-4f + 1.3981999507e-3f;
  e = e * r + 8.3334519073e-3f;
  e = e * r + 4.1665795894e-2f;
  e = e * r + 1.6666665459e-1f;
  e = e * r + 5.0000001201e-1f;
  e = e * (r * r) + r + 1.0f;
  Ints bits;
  std::memcpy(&bits, &shifted, sizeof(V));
  bits = (bits - 0x4b400000 + 127) << 23;  // 2^power
  V scale;
  std::memcpy(&scale, &bits, sizeof(V));
  return x < kLowest ? V{} : e * scale;
}

template <typename V>
HLITE_INLINE V larger_of(V a, V b) {
  return a > b ? a : b;
}

// op of all lanes, by halves.
template <typename Op>
HLITE_INLINE float reduce_lanes(Eight v, Op&& op) {
  v = op(v, Eight(__builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3)));
  v = op(v, Eight(__builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5)));
  v = op(v, Eight(__builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)));
  return v[0];
}
template <typename Op>
HLITE_INLINE float reduce_lanes(Lanes<16> v, Op&& op) {
  return reduce_lanes(op(Eight(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)),
                         Eight(__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15))),
                      op);
}

}  // namespace hlite::ops
