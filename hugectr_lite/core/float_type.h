// FloatType: the type of a tensor as a value, and the way from it to code that is compiled for it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "hugectr_lite/core/half.h"

namespace hlite {

constexpr int64_t kFloatBytes = sizeof(float);

enum class FloatType { kFloat, kBf16, kFp16 };

// True if the CPU computes on tensors of T. fp16 is for GPUs: few processors convert it, none that
// we know multiplies it faster.
template <typename T>
inline constexpr bool kOnCpu = !std::is_same_v<T, fp16>;

constexpr const char* float_type_name(FloatType type) {
  return type == FloatType::kFloat ? "fp32" : type == FloatType::kBf16 ? "bf16" : "fp16";
}
constexpr int64_t float_type_bytes(FloatType type) {
  return type == FloatType::kFloat ? sizeof(float) : sizeof(bf16);
}

// f.operator()<T>() with the T of `type`: float, bf16 or fp16.
template <typename F>
decltype(auto) with_float_type(FloatType type, F&& f) {
  switch (type) {
    case FloatType::kBf16:
      return f.template operator()<bf16>();
    case FloatType::kFp16:
      return f.template operator()<fp16>();
    case FloatType::kFloat:
      break;
  }
  return f.template operator()<float>();
}

// The value nearest to x that a tensor of the type holds, ties to even.
HLITE_HD inline float rounded_to(FloatType type, float x) {
  if (type == FloatType::kBf16) return to_float(from_float<bf16>(x));
  return type == FloatType::kFp16 ? to_float(from_float<fp16>(x)) : x;
}

// f.operator()<T>() for each of them.
template <typename F>
void for_each_float(F&& f) {
  f.template operator()<float>();
  f.template operator()<bf16>();
  f.template operator()<fp16>();
}

}  // namespace hlite
