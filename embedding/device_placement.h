// A RowPlacement in the memory of the device that ops run on.
#pragma once

#include "embedding/placement_ref.h"
#include "embedding/row_placement.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/exec_memory.h"

namespace hlite::embedding {

class DevicePlacement {
 public:
  // On a GPU waits, and throws DeviceError for 2^32 - 1 rows and more on all ranks together; the
  // CPU has no use for their numbers.
  DevicePlacement(const Exec& exec, const RowPlacement& placement);
  [[nodiscard]] const PlacementRef& ref() const { return ref_; }

 private:
  ExecMemory memory_;
  PlacementRef ref_;
};

}  // namespace hlite::embedding
