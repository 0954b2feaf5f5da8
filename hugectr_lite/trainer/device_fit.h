// Whether a model fits a GPU's memory, and what to say when it does not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hugectr_lite/core/backend.h"

namespace hlite::trainer {

// One table of an embedding layer, of all ranks together.
struct TableSize {
  std::string name;
  int64_t rows = 0, bytes = 0;  // bytes of the rows, optimizer states left out
};

// "emb.table_0 (40000000 rows, 20.5 GB), ...": the three largest, largest first.
std::string largest_tables(std::vector<TableSize> tables);

// Throws DeviceError when the current device has fewer than `needed` bytes free, with both numbers
// and the largest tables.
void require_device_memory(const cuda::Backend& gpu, int64_t needed,
                           const std::vector<TableSize>& tables);

}  // namespace hlite::trainer
