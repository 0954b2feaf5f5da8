// Writing tensors whose elements are spread over ranks: rank 0 writes, and says piece by piece what
// it wants; the others hand over what they hold of it.
#pragma once

#include <functional>
#include <vector>

#include "hugectr_lite/checkpoint/safetensors.h"
#include "hugectr_lite/comm/rank_context.h"

namespace hlite::trainer {

using RankLists = std::vector<std::vector<TensorRef>>;

// Collective. `lists`: the same tensors on every rank, get() of those without `data` collective.
// Rank 0 calls write(lists) with tensors that it can read like its own. When rank 0 throws, the
// others get a CommError.
void write_collected(const Exec& exec, const comm::RankContext& ranks, const RankLists& lists,
                     const std::function<void(const RankLists&)>& write);

// The same in an image of the memory of all ranks, which are threads of one process: tensors that
// rank 0 can read there by itself. `ranks`: the lists of each, which must outlive the result.
RankLists joined_lists(const std::vector<const RankLists*>& ranks);

}  // namespace hlite::trainer
