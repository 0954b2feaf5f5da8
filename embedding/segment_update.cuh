// Sums of gradients row by row, and the update of each row, from a list sorted by row.
#pragma once

#include <cstdint>

#include "embedding/row_update.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/optimizer/gradient_scale.h"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::embedding::gpu {

// Pairs of the sorted lookups that one group of lanes walks through.
inline constexpr int64_t kTilePairs = 64;
// Lists are read four pairs at a time, also past their end.
inline constexpr int64_t kPairsPerLoad = 4;

// Stands in place of a source: a gradient of zero.
inline constexpr uint32_t kNoSource = 0xffffffffu;

// The scalars of one step, all of them in device memory.
struct StepSource {
  const optimizer::StepScalars* scalars;
  optimizer::GradientScale scale;
};

// The arguments of a step as a kernel reads them.
struct DeviceStep {
  optimizer::StepScalars scalars;
  float gradient_scale;
  bool skips;  // nothing changes
};
__device__ inline DeviceStep load_step(const StepSource& from) {
  return {*from.scalars, from.scale.inverse ? *from.scale.inverse : 1.0f, from.scale.skips()};
}

// count pairs (row, source), equal rows side by side; the source is a row of `gradients`. Both
// arrays are aligned to 16 bytes and padded for whole loads.
template <typename T>
struct SortedList {
  const uint32_t* rows;
  const uint32_t* sources;
  int64_t count;
  const T* gradients;            // [*, width]
  const float* scale = nullptr;  // of each row of gradients; null: all 1
};

// The list of what crosses tiles' edges: two entries a tile, whose source e is row e of sums.
struct CarriedList {
  uint32_t* rows;     // [2 * tiles]
  uint32_t* sources;  // [2 * tiles]
  float* sums;        // [2 * tiles, width]
};

inline int64_t tiles_of(int64_t count, int64_t pairs = kTilePairs) {
  return (count + pairs - 1) / pairs;
}
// Entries that a block of update_carried() takes at least: its tile, of a width that fills a warp.
inline constexpr int64_t kMinCarriedTile = 512;

// Updates, through `rule`, the rows all of whose pairs lie in one tile, and writes the others' sums
// to `carried`. A list of one tile carries nothing: `carried` may be empty then.
template <typename T, typename W>
void update_segments(cudaStream_t stream, optimizer::OptimizerType rule, const SortedList<T>& list,
                     const TableRows<W>& table, const StepSource& step, const CarriedList& carried);

// The same for a list of `count` entries that tiles have carried, with a block a tile. Returns the
// number of entries that its tiles carry in their turn: at most 2 * tiles_of(count,
// kMinCarriedTile), and 0 where one tile took all.
template <typename W>
int64_t update_carried(cudaStream_t stream, optimizer::OptimizerType rule, const CarriedList& list,
                       int64_t count, const TableRows<W>& table, const StepSource& step,
                       const CarriedList& carried);

}  // namespace hlite::embedding::gpu
