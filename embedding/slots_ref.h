// SlotsRef: how kernels see the slots of an embedding layer, and the kernel of the lookup. The
// arrays lie in device memory and are made once (device_slots.h), so that calls upload nothing and
// any number of slots fits.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

// In place of a row of the tables.
inline constexpr uint32_t kNoRow = 0xffffffffu;

// One slot, in one load of 16 bytes.
struct alignas(16) SlotRef {
  uint32_t first_row;  // of the slot's table, among all tables' rows
  uint32_t rows;
  int32_t column;  // the slot's first, among all columns of the batch's keys
  int32_t hotness;

  // Row of a key; none for kNoKey, nor for a key beyond the table.
  [[nodiscard]] HLITE_HD uint32_t row_of(uint32_t key) const {
    return key < rows ? first_row + key : kNoRow;
  }
};

struct SlotsRef {
  const SlotRef* slots = nullptr;    // [count]
  const int32_t* slot_of = nullptr;  // [lookups] slot of each of the layer's columns
  int32_t count = 0;
  int32_t lookups = 0;       // columns of the layer, all slots together
  int32_t first_column = 0;  // the layer's first, among `columns`
  int32_t columns = 0;       // of the batch's keys
  uint32_t total_rows = 0;   // of all tables, below kNoRow
  int32_t width = 0;         // floats a row
  bool mean = false;         // several keys of a slot are averaged, else added

  [[nodiscard]] HLITE_HD bool one_hot() const { return lookups == count; }
  // Whether gradients of some rows are scaled.
  [[nodiscard]] HLITE_HD bool scales() const { return mean && !one_hot(); }
};

// The first key beyond its table, as kernels leave it: complements of the step and of the key
// matrix' index and the key, so that zeroed memory says none and the first is the largest.
struct KeyErrorRecord {
  unsigned long long step = 0;
  unsigned long long index_and_key = 0;  // index in the upper half
};

// Where lookups record such keys; without a record they are only read as absent.
struct KeyCheck {
  KeyErrorRecord* record = nullptr;  // device memory
  const int64_t* step = nullptr;     // device memory; null: every call is step 0
};

namespace kernels {
// lookup_forward() of lookup.h. An error for batches of 2^32 keys or output rows and more.
template <typename T>
inline const Kernel<void(const SlotsRef&, Matrix<const float> /*table*/,
                         Matrix<const uint32_t> /*keys*/, View<T, 3> /*out*/, const KeyCheck&)>
    lookup_forward{"lookup_forward"};
}  // namespace kernels

}  // namespace hlite::embedding
