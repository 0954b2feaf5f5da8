// What other ranks want of this one, found on a GPU from the keys of all ranks: the blocks that an
// exchange of lists (routing_args.h) would have brought, number by number.
#pragma once

#include "embedding/routing_args.h"

namespace hlite::embedding {

struct GatheredListsArgs {
  SlotsRef slots = {};  // of the tables
  PlacementRef placement = {};
  PoolShape pool = {};
  int32_t rank = 0;                   // whose rows are listed
  Matrix<const uint32_t> keys = {};   // [B of all ranks, columns]
  int64_t samples_of_rank = 0;        // rank 0 has the first so many, rank 1 the next, ...
  uint32_t* blocks = nullptr;         // [ranks][kListHeader + capacity] written
  int64_t* received_bytes = nullptr;  // [ranks] written: of each block
  std::byte* workspace = nullptr;
  size_t workspace_bytes = 0;
};

namespace kernels {
// Bytes for up to `lookups` keys of all ranks together, of rows with numbers up to `numbers`.
inline const Kernel<size_t(int64_t /*lookups*/, uint32_t /*numbers*/)> gathered_workspace{
    "gathered_workspace"};
inline const Kernel<void(const GatheredListsArgs&)> list_gathered{"list_gathered"};
}  // namespace kernels

}  // namespace hlite::embedding
