// The list of a sparse update, made and sorted by one kernel, in which a block, or a cluster of them,
// sorts the lookups of a table in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "embedding/line_of_row.h"
#include "embedding/slots_ref.h"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::embedding::gpu {

// Values that make a step's scalars, in device memory.
struct StepInputs {
  optimizer::UpdateRule rule;
  const float* lr;
  const int64_t* step;
};

// A bit for each row that is looked up.
__device__ inline void mark_row(uint32_t* touched, uint32_t row) {
  const uint32_t bit = 1u << (row % 32);
  uint32_t* const word = &touched[row / 32];
  // Frequent rows find their bit set, whatever other threads do: bits are only ever set.
  if ((*static_cast<const volatile uint32_t*>(word) & bit) == 0) atomicOr(word, bit);
}

// Everything lies in device memory.
struct TableSort {
  SlotsRef slots;
  const uint32_t* keys;  // [batch, columns]
  uint32_t batch;
  LineOfRow lines;
  // [batch * lookups]: pairs of row (its line, where there are lines) and bag, by row and those of a
  // row as a batch has them; then, in any order, the bags of lookups without a row, with the row
  // total_rows (the number of lines).
  uint32_t* rows;
  uint32_t* sources;
  uint32_t* touched;  // marked, or null
  // [1 + slots.parts()], all 0 before the first sort: a kernel's blocks tell each other here how
  // many lookups have a row.
  unsigned long long* progress;
  StepInputs inputs;
  optimizer::StepScalars* scalars;  // written
};

// Shared memory of each of the blocks, 1 or kClusterBlocks, that sort `lookups` lookups, at most
// kMaxPartLookups.
size_t table_sort_bytes(int64_t lookups, unsigned blocks = 1);
inline constexpr int64_t kMaxPartLookups = int64_t{1} << 16;
inline constexpr unsigned kClusterBlocks = 4;

// How many blocks sort a part: as many as have shared memory for the longest on the current device,
// and are expected to take no longer than CUB takes for all lookups; 0: CUB sorts them.
unsigned table_sort_blocks(int64_t part, int64_t all);

// REQUIRES shared memory for batch * slots.max_part_lookups() lookups, and at least one part.
void sort_by_table(cudaStream_t stream, const TableSort& sort, unsigned blocks);

}  // namespace hlite::embedding::gpu
