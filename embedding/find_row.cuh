// From keys to rows of the tables, in kernels.
#pragma once

#include <cstdint>

#include "embedding/key_error_record.h"
#include "embedding/slots_ref.h"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/no_key.h"

namespace hlite::embedding::gpu {

// Notes a key beyond its table: of the first step that has one, the one with the lowest index. A
// step's kernels are ordered against another step's, so a thread that finds an earlier step
// recorded leaves the record alone.
__device__ inline void record_key(const KeyRecorder& check, uint32_t index, uint32_t key) {
  if (!check.record) return;
  using Word = unsigned long long;
  const Word step = ~static_cast<Word>(check.step ? *check.step : 0);
  if (atomicMax(&check.record->step, step) > step) return;
  atomicMax(&check.record->index_and_key, ~(static_cast<Word>(index) << 32 | key));
}

// Row of the key at `index` of the key matrix; none where it is absent or beyond the table.
__device__ inline uint32_t find_row(const SlotRef& slot, const uint32_t* keys, uint32_t index,
                                    const KeyRecorder& check) {
  const uint32_t key = keys[index];
  const uint32_t row = slot.row_of(key);
  if (row == kNoRow && key != kNoKey) record_key(check, index, key);
  return row;
}

// One of B * slots.lookups lookups.
struct Lookup {
  uint32_t row;  // or kNoRow
  uint32_t bag;  // sample * slots + slot: row of the output, and of its gradient
};

// The place of the key in a column of the layer; and of that of lookup i, which are sample by
// sample, column by column.
struct KeyPlace {
  uint32_t sample, slot;
  uint32_t index;  // in the key matrix
};
__device__ inline KeyPlace place_of_key(const SlotsRef& slots, uint32_t sample, uint32_t column) {
  const uint32_t slot = slots.one_hot() ? column : static_cast<uint32_t>(slots.slot_of[column]);
  return {sample, slot,
          sample * static_cast<uint32_t>(slots.columns) +
              static_cast<uint32_t>(slots.first_column) + column};
}
__device__ inline KeyPlace place_of_key(const SlotsRef& slots, uint32_t i) {
  const auto lookups = static_cast<uint32_t>(slots.lookups);
  const uint32_t sample = i / lookups;
  return place_of_key(slots, sample, i - sample * lookups);
}

__device__ inline Lookup find_lookup(const SlotsRef& slots, const uint32_t* keys, uint32_t i,
                                     const KeyRecorder& check) {
  const KeyPlace place = place_of_key(slots, i);
  return {find_row(slots.slots[place.slot], keys, place.index, check),
          place.sample * static_cast<uint32_t>(slots.count) + place.slot};
}

// Limits of the 32-bit arithmetic above.
inline bool indices_fit(const SlotsRef& slots, int64_t batch) {
  return batch * slots.columns < int64_t{1} << 32 && batch * slots.count < int64_t{1} << 32;
}

}  // namespace hlite::embedding::gpu
