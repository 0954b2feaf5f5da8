// How large a model is, known before it takes memory: layers, tables, buffers, and whether a GPU
// has room for it.
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

// One table of an embedding layer, of all ranks together; of a hashed layer what all ranks have
// room for, as one.
struct TableSize {
  std::string name;
  int64_t rows = 0, bytes = 0;  // bytes of the rows, optimizer states left out
};
std::vector<TableSize> table_sizes(const Model& model);
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

// Of a model on a GPU: throws DeviceError when the current device has too little memory free, with
// both numbers and the largest tables.
void require_device_memory(const Model& model);
void require_device_memory(const cuda::Backend& gpu, int64_t needed,
                           const std::vector<TableSize>& tables);

}  // namespace hlite::trainer
