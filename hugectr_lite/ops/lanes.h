// Eight floats at a time, by the compiler's vector extension:
// one AVX register, two SSE or NEON ones.
#pragma once

#include <cstdint>
#include <cstring>

namespace hlite::ops {

constexpr int64_t kLanes = 8;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

inline Lanes load(const float* from) {
  Lanes v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
inline void store(float* to, Lanes v) { std::memcpy(to, &v, sizeof(v)); }

// Within each half of the lanes: a0 b0 a1 b1, a2 b2 a3 b3, a0 a1 b0 b1, a2 a3 b2 b3; and the halves
// themselves: both first ones, both second ones. One instruction each on AVX.
inline Lanes zip_low(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
}
inline Lanes zip_high(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
}
inline Lanes pair_low(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
}
inline Lanes pair_high(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}
inline Lanes first_halves(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
}
inline Lanes second_halves(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}

}  // namespace hlite::ops
