// SlotsRef: the slots of an embedding layer as ops read them, on the CPU and in kernels. The arrays
// lie in memory of the op's device and are made once (device_slots.h), so that calls upload nothing
// and any number of slots fits.
#pragma once

#include <cstdint>
#include <span>

#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/no_key.h"

namespace hlite::embedding {

// Stands in place of a row of the tables.
inline constexpr uint32_t kNoRow = 0xffffffffu;
// Stands in place of the row of a key of a hash table that has none.
inline constexpr uint32_t kUnseen = 0xfffffffeu;

// One slot, in one load of 16 bytes.
struct alignas(16) SlotRef {
  int64_t first_row;  // of the slot's table, among all tables' rows
  uint32_t rows;
  int32_t column;  // the slot's first, among all columns of the batch's keys

  // Row of a key; none for kNoKey, nor for a key beyond the table. REQUIRES rows of 32 bits.
  [[nodiscard]] HLITE_HD uint32_t row_of(uint32_t key) const {
    return key < rows ? static_cast<uint32_t>(first_row) + key : kNoRow;
  }
};

// One table.
struct TableRef {
  int64_t first_row;  // among all tables' rows
  int64_t rows;
  int32_t first_slot;    // of SlotsRef::table_slots
  int32_t first_lookup;  // lookups of a sample in the tables before
};

struct SlotsRef {
  const SlotRef* slots = nullptr;        // [count + 1]; the last one only says where columns end
  const int32_t* slot_of = nullptr;      // [lookups] slot of each of the layer's columns
  const int32_t* table_of = nullptr;     // [count] table of each slot
  const int32_t* table_slots = nullptr;  // [count] slots by table, those of a table ascending
  // [lookups] the layer's columns, counted from its first, by table, those of a table ascending
  const int32_t* table_columns = nullptr;
  const TableRef* tables = nullptr;  // [table_count + 1]; the last one only says where they end
  int32_t count = 0;
  int32_t lookups = 0;       // columns of the layer, all slots together
  int32_t first_column = 0;  // the layer's first, among `columns`
  int32_t columns = 0;       // of the batch's keys
  int32_t table_count = 0;
  int32_t max_table_lookups = 0;  // of a sample, in the table that has most
  int32_t width = 0;              // floats a row
  int64_t total_rows = 0;         // of all tables; on a GPU below kNoRow
  bool mean = false;              // several keys of a slot are averaged, else added
  bool complete = false;          // no column is ever without a key
  bool ascending = false;  // tables share no row, and each table's rows follow the last one's

  [[nodiscard]] HLITE_HD bool one_hot() const { return lookups == count; }
  // Returns true if gradients of some rows are scaled.
  [[nodiscard]] HLITE_HD bool scales() const { return mean && !one_hot(); }
  [[nodiscard]] HLITE_HD int32_t hotness(int64_t s) const {
    return slots[s + 1].column - slots[s].column;
  }
  // Parts of the lookups that can be sorted by row one without the others: tables, or all as one;
  // and the lookups of a sample in the longest of them.
  [[nodiscard]] int32_t parts() const { return ascending ? table_count : 1; }
  [[nodiscard]] int32_t max_part_lookups() const { return ascending ? max_table_lookups : lookups; }
  // The slots that share table t.
  [[nodiscard]] std::span<const int32_t> slots_of_table(int64_t t) const {
    return {table_slots + tables[t].first_slot, table_slots + tables[t + 1].first_slot};
  }
};

}  // namespace hlite::embedding
