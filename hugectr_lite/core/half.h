// The 16-bit floating-point types of mixed precision, by value and without CUDA's headers: bf16 (8
// bits of exponent, 7 of fraction) and fp16 (IEEE 754 binary16: 5 and 10). They hold activations
// and their gradients; arithmetic is float, on what to_float() gives.
//
// from_float() rounds to nearest, ties to even; too large becomes infinity; NaN stays NaN. The bits
// are those of __nv_bfloat16 and __half, so that pointers may be cast to these.
#pragma once

#include <cstdint>
#include <cstring>

#include "hugectr_lite/core/host_device.h"

namespace hlite {

struct bf16 {
  uint16_t bits;
};
struct fp16 {
  uint16_t bits;
};

namespace detail {

HLITE_HD inline uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
HLITE_HD inline float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// bits / 2^shift, rounded to nearest, ties to even; 1 <= shift <= 31.
HLITE_HD inline uint32_t round_shift(uint32_t bits, int shift) {
  const uint32_t half = 1u << (shift - 1);
  return (bits + (half - 1) + ((bits >> shift) & 1u)) >> shift;
}

HLITE_HD inline uint16_t bf16_bits(float x) {
  const uint32_t bits = bits_of(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>(round_shift(bits, 16));
}

HLITE_HD inline uint16_t fp16_bits(float x) {
  const uint32_t bits = bits_of(x), sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);   // NaN
  if (size >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 2^16 and more
  // Normal results: the exponent's bias goes from 127 to 15. Rounding may carry into infinity.
  if (size >= 0x38800000u) return static_cast<uint16_t>(sign | round_shift(size - 0x38000000u, 13));
  // Subnormal results: multiples of 2^-24. Below 2^-25 all is zero.
  const int exponent = static_cast<int>(size >> 23);
  if (exponent < 102) return static_cast<uint16_t>(sign);
  const uint32_t fraction = (size & 0x7fffffu) | 0x800000u;
  return static_cast<uint16_t>(sign | round_shift(fraction, 126 - exponent));
}

// Rounds stochastically: adds 16 random bits instead of one half.
HLITE_HD inline uint16_t bf16_bits_drawn(float x, uint32_t draw) {
  const uint32_t bits = bits_of(x), size = bits & 0x7fffffffu;
  // Infinity stays infinity: the bits that the draw is added to are 0.
  return static_cast<uint16_t>(size > 0x7f800000u ? (bits >> 16) | 0x40u : (bits + draw) >> 16);
}

HLITE_HD inline uint16_t fp16_bits_drawn(float x, uint32_t draw) {
  const uint32_t bits = bits_of(x), sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);   // NaN
  if (size >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 2^16 and more
  if (size >= 0x38800000u)  // normal results: 13 bits are left out
    return static_cast<uint16_t>(sign | ((size - 0x38000000u + (draw >> 3)) >> 13));
  // Subnormal results: multiples of 2^-24, of which `shift` bits are left out.
  const int exponent = static_cast<int>(size >> 23), shift = 126 - exponent;
  if (shift >= 40) return static_cast<uint16_t>(sign);  // no draw reaches 2^-24
  const uint64_t fraction = (size & 0x7fffffu) | 0x800000u;
  const uint64_t drawn = shift >= 16 ? uint64_t{draw} << (shift - 16) : draw >> (16 - shift);
  return static_cast<uint16_t>(sign | ((fraction + drawn) >> shift));
}

HLITE_HD inline float fp16_value(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, size = half & 0x7fffu;
  if (size >= 0x7c00u) return float_of(sign | 0x7f800000u | (size & 0x3ffu) << 13);
  if (size >= 0x400u) return float_of(sign | ((size << 13) + 0x38000000u));
  const float value = static_cast<float>(size) * 5.9604644775390625e-8f;  // 2^-24: exact
  return sign != 0 ? -value : value;
}

}  // namespace detail

HLITE_HD inline float to_float(float x) { return x; }
HLITE_HD inline float to_float(bf16 x) {
  return detail::float_of(static_cast<uint32_t>(x.bits) << 16);
}
HLITE_HD inline float to_float(fp16 x) {
#if defined(__CUDA_ARCH__)
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
#else
  return detail::fp16_value(x.bits);
#endif
}

// X(T) for each type that tensors of activations may have.
#define HLITE_FOR_EACH_FLOAT(X) X(float) X(bf16) X(fp16)
// Instantiates the function template op<T>, the only one of its name, for each of them.
#define HLITE_INSTANTIATE_FLOATS(op)      \
  template decltype(op<float>) op<float>; \
  template decltype(op<bf16>) op<bf16>;   \
  template decltype(op<fp16>) op<fp16>;

// The value of T nearest to x.
template <typename T>
HLITE_HD T from_float(float x);
template <>
HLITE_HD inline float from_float<float>(float x) {
  return x;
}
template <>
HLITE_HD inline bf16 from_float<bf16>(float x) {
#if defined(__CUDA_ARCH__)
  bf16 half;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half.bits) : "f"(x));
  return half;
#else
  return {detail::bf16_bits(x)};
#endif
}
template <>
HLITE_HD inline fp16 from_float<fp16>(float x) {
#if defined(__CUDA_ARCH__)
  fp16 half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(x));
  return half;
#else
  return {detail::fp16_bits(x)};
#endif
}

// x rounded up or down to a value of T, up with the probability of its distance from the lower one,
// so that the mean over all draws is x: `draw` are 16 random bits. Values of T stay as they are.
// The draw's 16 bits are all that bf16 leaves out, so its mean is exact; that of fp16 is below |x|
// by less than 2^-16 of the distance between neighbours, and by nothing where the result is normal.
// NaN stays NaN, infinity stays, and what rounds beyond the largest value becomes infinity.
template <typename T>
HLITE_HD T round_stochastically(float x, uint32_t draw);
template <>
HLITE_HD inline float round_stochastically<float>(float x, uint32_t) {
  return x;
}
template <>
HLITE_HD inline bf16 round_stochastically<bf16>(float x, uint32_t draw) {
  return {detail::bf16_bits_drawn(x, draw)};
}
template <>
HLITE_HD inline fp16 round_stochastically<fp16>(float x, uint32_t draw) {
  return {detail::fp16_bits_drawn(x, draw)};
}

}  // namespace hlite
