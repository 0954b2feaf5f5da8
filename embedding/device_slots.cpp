#include "embedding/device_slots.h"

#include <limits>
#include <vector>

#include "embedding/cutter.h"
#include "hugectr_lite/core/error.h"

namespace hlite::embedding {

static int32_t narrow(int64_t n) { return static_cast<int32_t>(n); }

SlotsRef DeviceSlots::numbers(const Exec& exec, const SlotLayout& layout) {
  HLITE_CHECK(!exec.on_gpu() || layout.total_rows < int64_t{kNoRow},
              "embedding on a GPU: expected fewer than 2^32 - 1 rows in all tables, found {}",
              layout.total_rows);
  HLITE_CHECK(layout.keys.columns <= std::numeric_limits<int32_t>::max() &&
                  layout.width <= std::numeric_limits<int32_t>::max(),
              "embedding: {} columns of keys, width {}", layout.keys.columns, layout.width);
  return {.count = narrow(layout.slots()),
          .lookups = narrow(layout.columns()),
          .first_column = layout.slots() == 0 ? 0 : narrow(layout.column(0)),
          .columns = narrow(layout.keys.columns),
          .table_count = narrow(layout.tables()),
          .max_table_lookups = narrow(layout.max_table_lookups()),
          .width = narrow(layout.width),
          .total_rows = layout.total_rows,
          .mean = layout.combiner == Combiner::kMean,
          .complete = layout.complete,
          .ascending = layout.rows_ascend()};
}

DeviceSlots::DeviceSlots(const Exec& exec, const SlotLayout& layout) : ref_(numbers(exec, layout)) {
  std::vector<SlotRef> slots;
  std::vector<int32_t> slot_of, table_of, table_slots, table_columns;
  std::vector<TableRef> tables;
  for (int64_t s = 0; s < layout.slots(); ++s) {
    const auto i = static_cast<size_t>(s);
    slots.push_back({.first_row = layout.offset[i],
                     .rows = static_cast<uint32_t>(layout.rows[i]),
                     .column = narrow(layout.column(s))});
    slot_of.insert(slot_of.end(), static_cast<size_t>(layout.hotness(s)), narrow(s));
    table_of.push_back(narrow(layout.table_of[i]));
  }
  slots.push_back(
      {.first_row = layout.total_rows, .rows = 0, .column = ref_.first_column + ref_.lookups});

  int32_t lookups = 0;
  for (int64_t t = 0; t <= layout.tables(); ++t) {
    const auto i = static_cast<size_t>(t);
    const bool ends = t == layout.tables();
    tables.push_back({.first_row = ends ? layout.total_rows : layout.table_offset[i],
                      .rows = ends ? 0 : layout.table_rows[i],
                      .first_slot = narrow(std::ssize(table_slots)),
                      .first_lookup = lookups});
    if (ends) break;
    for (const int64_t s : layout.table_slots[i]) {
      table_slots.push_back(narrow(s));
      for (int64_t k = 0; k < layout.hotness(s); ++k)
        table_columns.push_back(narrow(layout.column(s) - layout.column(0) + k));
    }
    lookups += narrow(layout.table_lookups(t));
  }

  std::byte* memory = nullptr;
  for (const bool counting : {true, false}) {
    Cutter cutter(memory);
    const auto put = [&]<typename T>(const std::vector<T>& from) -> const T* {
      T* const to = cutter.cut<T>(std::ssize(from));
      if (!counting) put_bytes(exec, to, from.data(), from.size() * sizeof(T));
      return to;
    };
    ref_.slots = put(slots);
    ref_.slot_of = put(slot_of);
    ref_.table_of = put(table_of);
    ref_.table_slots = put(table_slots);
    ref_.table_columns = put(table_columns);
    ref_.tables = put(tables);
    if (counting) memory_ = ExecMemory(exec, cutter.bytes(), "embedding slots");
    memory = memory_.data();
  }
}

}  // namespace hlite::embedding
