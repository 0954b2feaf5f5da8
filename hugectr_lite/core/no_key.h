// kNoKey, apart from the key layout: kernels use it too.
#pragma once

#include <cstdint>

namespace hlite {

// Stands in place of a key. Tables have at most 2^32 - 1 rows, so it is no valid key.
inline constexpr uint32_t kNoKey = 0xffffffffu;

}  // namespace hlite
