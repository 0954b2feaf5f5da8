// The sum of a row on the CPU, in an order that vector units like and the length alone decides.
#pragma once

#include <cstdint>

namespace hlite::ops {

// value(0) + ... + value(n - 1): eight partial sums, added up in their order at the end.
template <typename Value>
float row_sum(int64_t n, Value&& value) {
  constexpr int64_t kSums = 8;
  float sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (int64_t k = 0; k < kSums; ++k) sums[k] += value(i + k);
  for (; i < n; ++i) sums[i % kSums] += value(i);
  float sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

}  // namespace hlite::ops
