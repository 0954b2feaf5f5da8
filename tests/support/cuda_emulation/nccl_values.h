// Sizes of NCCL's types, and its sums.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tests/support/cuda_emulation/nccl.h"

namespace hlite::emulation {

[[nodiscard]] size_t type_bytes(ncclDataType_t type);

// All ranks' `count` values put together, in the order of ranks (the real library takes others);
// those of 16 bits in float, rounded once.
[[nodiscard]] std::vector<std::byte> combine(ncclDataType_t type, ncclRedOp_t op, size_t count,
                                             std::span<const std::byte* const> ranks);

}  // namespace hlite::emulation
