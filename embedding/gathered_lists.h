// Request lists for this rank, made from the keys of all ranks: the same blocks, number by number,
// that an exchange of lists (routing.h) brings.
#pragma once

#include "embedding/routing.h"

namespace hlite::embedding {

struct GatheredListsArgs {
  SlotsRef slots = {};  // of the tables
  PlacementRef placement = {};
  ExchangeShape shape = {};
  int32_t rank = 0;                   // whose rows are listed
  Matrix<const uint32_t> keys = {};   // [B of all ranks, columns]
  int64_t samples_of_rank = 0;        // rank 0 has the first so many, rank 1 the next, ...
  uint32_t* blocks = nullptr;         // [ranks][kListHeader + capacity] written
  int64_t* received_bytes = nullptr;  // [ranks] written: of each block
  std::byte* workspace = nullptr;
  size_t workspace_bytes = 0;
};

// Bytes of the workspace for ranks of up to samples_of_rank samples each, and else as of
// routing_workspace().
size_t gathered_workspace(const Exec& exec, const SlotsRef& slots, int ranks,
                          int64_t samples_of_rank, uint32_t numbers, int threads);
void list_gathered(const Exec& exec, const GatheredListsArgs& args);

namespace kernels {
// Bytes for up to `lookups` keys of all ranks together, of rows with numbers up to `numbers`.
inline const Kernel<size_t(int64_t /*lookups*/, uint32_t /*numbers*/)> gathered_workspace{
    "gathered_workspace"};
inline const KernelOf<decltype(embedding::list_gathered)> list_gathered{"list_gathered"};
}  // namespace kernels

}  // namespace hlite::embedding
