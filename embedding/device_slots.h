// DeviceSlots: a layer's layout in the memory of the device that its ops run on.
#pragma once

#include "embedding/slot_layout.h"
#include "embedding/slots_ref.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/exec_memory.h"

namespace hlite::embedding {

class DeviceSlots {
 public:
  // On a GPU waits for exec.stream, and throws Error when all tables together have 2^32 - 1 rows or
  // more: rows are 32-bit numbers in sorts.
  DeviceSlots(const Exec& exec, const SlotLayout& layout);

  [[nodiscard]] const SlotsRef& ref() const { return ref_; }
  // ref() without its arrays: what can be known without the device. Throws likewise.
  [[nodiscard]] static SlotsRef numbers(const Exec& exec, const SlotLayout& layout);

 private:
  ExecMemory memory_;
  SlotsRef ref_;
};

}  // namespace hlite::embedding
