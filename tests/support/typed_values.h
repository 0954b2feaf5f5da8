// Values of float, bf16 and fp16 for the tests of ops.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "hugectr_lite/core/half.h"
#include "tests/support/compare.h"

namespace hlite::test {

template <typename T>
std::vector<T> rounded(const std::vector<float>& values) {
  std::vector<T> out;
  for (const float x : values) out.push_back(from_float<T>(x));
  return out;
}
template <typename T>
std::vector<float> widened(const std::vector<T>& values) {
  std::vector<float> out;
  for (const T x : values) out.push_back(to_float(x));
  return out;
}
// What T holds of the values.
template <typename T>
std::vector<float> as(const std::vector<float>& values) {
  return widened(rounded<T>(values));
}

// n uniform numbers in [-1, 1), as T holds them.
template <typename T = float>
std::vector<float> random_values(int64_t n, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(n));
  fill_random(values, seed);
  return as<T>(values);
}

inline std::vector<float> nans(int64_t n) {
  return std::vector<float>(static_cast<size_t>(n), std::numeric_limits<float>::quiet_NaN());
}

// Half a unit in the last place, relative: what rounding to T may cost.
template <typename T>
inline constexpr double kRounding = 0x1p-24;
template <>
inline constexpr double kRounding<bf16> = 0x1p-8;
template <>
inline constexpr double kRounding<fp16> = 0x1p-11;
// The largest number of T, and the least above 0.
template <typename T>
inline constexpr float kLargest = std::numeric_limits<float>::max();
template <>
inline constexpr float kLargest<bf16> = 0x1.FEp127f;
template <>
inline constexpr float kLargest<fp16> = 65504;
template <typename T>
inline constexpr float kMin = std::numeric_limits<float>::denorm_min();
template <>
inline constexpr float kMin<bf16> = 0x1p-133f;
template <>
inline constexpr float kMin<fp16> = 0x1p-24f;

// Same bits, but any NaN for a NaN.
inline bool same_values(const std::vector<float>& a, const std::vector<float>& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i)
    same = std::isnan(a[i]) ? std::isnan(b[i])
                            : std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i]);
  return same;
}

}  // namespace hlite::test
