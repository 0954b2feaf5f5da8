// Eight or sixteen floats at a time, by the compiler's vector extension: a register of AVX or
// AVX-512, several smaller ones elsewhere. For the bodies of wide() (core/wide.h); everything here
// is compiled inline into them.
#pragma once

#include <cstring>

#define HLITE_INLINE [[gnu::always_inline]] inline

namespace hlite::ops {

template <int kLanes>
struct LanesOf;
template <>
struct LanesOf<8> {
  using Floats = float __attribute__((vector_size(32)));
};
template <>
struct LanesOf<16> {
  using Floats = float __attribute__((vector_size(64)));
};
template <int kLanes>
using Lanes = typename LanesOf<kLanes>::Floats;
using Eight = Lanes<8>;

template <int kLanes>
HLITE_INLINE Lanes<kLanes> load(const float* from) {
  Lanes<kLanes> v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
template <typename V>
HLITE_INLINE void store(float* to, V v) {
  std::memcpy(to, &v, sizeof(v));
}

// Within each half of the lanes: a0 b0 a1 b1, a2 b2 a3 b3, a0 a1 b0 b1, a2 a3 b2 b3; and the halves
// themselves: both first ones, both second ones. One instruction each on AVX.
HLITE_INLINE Eight zip_low(Eight a, Eight b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
}
HLITE_INLINE Eight zip_high(Eight a, Eight b) {
  return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
}
HLITE_INLINE Eight pair_low(Eight a, Eight b) {
  return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
}
HLITE_INLINE Eight pair_high(Eight a, Eight b) {
  return __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}
HLITE_INLINE Eight first_halves(Eight a, Eight b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
}
HLITE_INLINE Eight second_halves(Eight a, Eight b) {
  return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}

// Lanes i and i + 8 added, of sixteen.
HLITE_INLINE Eight fold(Eight v) { return v; }
HLITE_INLINE Eight fold(Lanes<16> v) {
  return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
         __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
}

// The eight sums of eight accumulators, by a tree that adds and transposes at once.
template <typename V>
HLITE_INLINE Eight horizontal_sums(const V (&v)[8]) {
  Eight twos[4], fours[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Eight a = fold(v[2 * i]), b = fold(v[2 * i + 1]);
    twos[i] = zip_low(a, b) + zip_high(a, b);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
    fours[i] = pair_low(twos[2 * i], twos[2 * i + 1]) + pair_high(twos[2 * i], twos[2 * i + 1]);
  return first_halves(fours[0], fours[1]) + second_halves(fours[0], fours[1]);
}

}  // namespace hlite::ops
