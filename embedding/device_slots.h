// DeviceSlots: a layer's layout and pooling in device memory, as kernels read them.
#pragma once

#include "embedding/pooling.h"
#include "embedding/slots_ref.h"
#include "embedding/table_layout.h"
#include "hugectr_lite/core/device_memory.h"
#include "hugectr_lite/core/exec.h"

namespace hlite::embedding {

class DeviceSlots {
 public:
  // Waits for exec.stream. Throws Error when all tables together have 2^32 - 1 rows or more: rows
  // are 32-bit numbers in sorts.
  DeviceSlots(const Exec& exec, const TableLayout& layout, const Pooling& pooling);

  [[nodiscard]] const SlotsRef& ref() const { return ref_; }
  // ref() without its arrays: what can be known without a GPU. Throws likewise.
  [[nodiscard]] static SlotsRef numbers(const TableLayout& layout, const Pooling& pooling);

 private:
  DeviceMemory memory_;
  SlotsRef ref_;
};

}  // namespace hlite::embedding
