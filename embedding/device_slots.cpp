#include "embedding/device_slots.h"

#include <limits>
#include <vector>

namespace hlite::embedding {

static int32_t narrow(int64_t n) { return static_cast<int32_t>(n); }

SlotsRef DeviceSlots::numbers(const TableLayout& layout, const Pooling& pooling) {
  HLITE_CHECK(pooling.slots == layout.slots(), "{} slots with keys, {} tables", pooling.slots,
              layout.slots());
  HLITE_CHECK(layout.total_rows < int64_t{kNoRow},
              "embedding on a GPU: expected fewer than 2^32 - 1 rows in all tables, found {}",
              layout.total_rows);
  HLITE_CHECK(pooling.keys.columns <= std::numeric_limits<int32_t>::max() &&
                  layout.width <= std::numeric_limits<int32_t>::max(),
              "embedding on a GPU: {} columns of keys, width {}", pooling.keys.columns,
              layout.width);
  return {.count = narrow(layout.slots()),
          .lookups = narrow(pooling.columns()),
          .first_column = layout.slots() == 0 ? 0 : narrow(pooling.column(0)),
          .columns = narrow(pooling.keys.columns),
          .total_rows = static_cast<uint32_t>(layout.total_rows),
          .width = narrow(layout.width),
          .mean = pooling.combiner == Combiner::kMean};
}

DeviceSlots::DeviceSlots(const Exec& exec, const TableLayout& layout, const Pooling& pooling)
    : ref_(numbers(layout, pooling)) {
  HLITE_CHECK(exec.on_gpu(), "device slots need a GPU");
  std::vector<SlotRef> slots;
  std::vector<int32_t> slot_of;
  for (int64_t s = 0; s < layout.slots(); ++s) {
    const auto i = static_cast<size_t>(s);
    slots.push_back({.first_row = static_cast<uint32_t>(layout.offset[i]),
                     .rows = static_cast<uint32_t>(layout.rows[i]),
                     .column = narrow(pooling.column(s)),
                     .hotness = narrow(pooling.hotness(s))});
    slot_of.insert(slot_of.end(), static_cast<size_t>(pooling.hotness(s)), narrow(s));
  }

  const size_t slots_bytes = slots.size() * sizeof(SlotRef);
  const size_t slot_of_bytes = slot_of.size() * sizeof(int32_t);
  memory_ = DeviceMemory(*exec.cuda, slots_bytes + slot_of_bytes);
  exec.cuda->copy(memory_.data(), slots.data(), slots_bytes, exec.stream);
  exec.cuda->copy(memory_.data() + slots_bytes, slot_of.data(), slot_of_bytes, exec.stream);
  exec.cuda->stream_synchronize(exec.stream);
  ref_.slots = reinterpret_cast<const SlotRef*>(memory_.data());
  ref_.slot_of = reinterpret_cast<const int32_t*>(memory_.data() + slots_bytes);
}

}  // namespace hlite::embedding
