// Sums over a whole tensor on a GPU: each block of a kernel leaves one number in a workspace, and a
// single block adds these up. Which elements a block takes and the order of all additions follow
// from the tensor's size alone, so the bits do, too.
#pragma once

#include <cstdint>

namespace hlite::ops {

// Numbers (doubles) that the workspace of such an op holds: the most blocks it uses, about four for
// each multiprocessor of the largest GPUs.
inline constexpr int64_t kBlockSums = 512;

}  // namespace hlite::ops
