// The size of a model, known before it takes memory: layers, tables, buffers, and whether it fits
// on a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hugectr_lite/trainer/model/model.h"

namespace hlite::trainer {

// One line of the table that --check prints.
struct LayerSize {
  std::string name, type, output, detail;
  int64_t parameters = 0;
};
std::vector<LayerSize> layer_sizes(const Model& model);

// One table of an embedding layer, of all ranks together; of a hashed layer the capacity of all
// ranks, as one.
struct TableSize {
  std::string name;
  int64_t rows = 0, bytes = 0;  // bytes of the rows, optimizer states left out
};
std::vector<TableSize> table_sizes(const Model& model);

// Two tiers of a layer whose tables are larger than memory, on one rank. A row lies in the first
// one, memory or a GPU's memory, or in the second, a disk or the host's memory. A GPU's memory over
// the host's over a disk are two of these, the GPU's first.
struct LayerTiers {
  std::string name, first, second;  // "memory", "memory of the GPU"; "the disk /nvme", "the host"
  int64_t rows = 0, resident = 0, row_bytes = 0;
  int64_t in_second = 0;     // rows that may lie in the second
  bool is_lower = false;     // the first tier is the second one of the entry before
  int64_t largest_file = 0;  // 0: the second tier is not a disk
  std::optional<embedding::TierForecast> forecast = {};  // nullopt: not known
};
// None if all rows are in memory.
std::vector<LayerTiers> tiers_of(const Model& model);
// The counters of these layers. Waits for a GPU.
std::vector<embedding::RowCacheCounts> moved_rows(const Model& model);
// Lines for --check and for the start of a run.
std::vector<std::string> tier_texts(const LayerTiers& tiers);
// A line with the rows that a run has moved, and the expected ones.
std::string tier_traffic_text(const LayerTiers& tiers, const embedding::RowCacheCounts& moved);
// Bytes of the host's memory for rows of a GPU's tables, of one rank.
int64_t host_row_bytes(const Model& model);
// "emb.table_0 (40000000 rows, 20.5 GB), ...": the three largest, largest first.
std::string largest_tables(std::vector<TableSize> tables);

// Bytes of one rank; on a GPU of its memory. Evaluation left out.
struct MemoryEstimate {
  int64_t tables = 0, optimizer_states = 0, dense_parameters = 0, activations = 0, gradients = 0,
          batch = 0, workspace = 0, matmul = 0;
  [[nodiscard]] int64_t total() const {
    return tables + optimizer_states + dense_parameters + activations + gradients + batch +
           workspace + matmul;
  }
};
MemoryEstimate memory_of(const Model& model);

// Checks a model on a GPU: throws DeviceError when the current device has too little memory free,
// with both numbers and the largest tables.
void require_device_memory(const Model& model);
void require_device_memory(const cuda::Backend& gpu, int64_t needed,
                           const std::vector<TableSize>& tables);

}  // namespace hlite::trainer
