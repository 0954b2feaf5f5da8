#include "embedding/device_slots.h"

#include <limits>
#include <vector>

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
          .most_hotness = narrow(layout.most_hotness()),
          .width = narrow(layout.width),
          .total_rows = layout.total_rows,
          .mean = layout.combiner == Combiner::kMean,
          .complete = layout.complete};
}

DeviceSlots::DeviceSlots(const Exec& exec, const SlotLayout& layout) : ref_(numbers(exec, layout)) {
  std::vector<SlotRef> slots;
  std::vector<int32_t> slot_of;
  for (int64_t s = 0; s < layout.slots(); ++s) {
    const auto i = static_cast<size_t>(s);
    slots.push_back({.first_row = layout.offset[i],
                     .rows = static_cast<uint32_t>(layout.rows[i]),
                     .column = narrow(layout.column(s))});
    slot_of.insert(slot_of.end(), static_cast<size_t>(layout.hotness(s)), narrow(s));
  }
  slots.push_back(
      {.first_row = layout.total_rows, .rows = 0, .column = ref_.first_column + ref_.lookups});

  const size_t slots_bytes = slots.size() * sizeof(SlotRef);
  const size_t slot_of_bytes = slot_of.size() * sizeof(int32_t);
  memory_ = ExecMemory(exec, slots_bytes + slot_of_bytes, "embedding slots");
  put_bytes(exec, memory_.data(), slots.data(), slots_bytes);
  put_bytes(exec, memory_.data() + slots_bytes, slot_of.data(), slot_of_bytes);
  ref_.slots = reinterpret_cast<const SlotRef*>(memory_.data());
  ref_.slot_of = reinterpret_cast<const int32_t*>(memory_.data() + slots_bytes);
}

}  // namespace hlite::embedding
