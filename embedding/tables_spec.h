// The part of a layer's config that concerns its tables, and their names in files.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "embedding/slot_layout.h"
#include "embedding/vocabulary_rules.h"
#include "hugectr_lite/config/regularizer_config.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::embedding {

struct TablesSpec {
  std::string name;  // of the layer
  SlotLayout layout;
  // The columns of the batch's keys that are layout.keys; empty: all, as they are.
  std::vector<int32_t> key_columns = {};
  int64_t batch_columns = 0;
  optimizer::UpdateRule rule;
  optimizer::UpdateType update_type = optimizer::UpdateType::kLocal;
  // Set for the ...Hash types: rows of a rank (0: another type), and the table sizes [tables] that
  // determine initial values.
  int64_t hash_capacity = 0;
  std::vector<int64_t> init_rows = {};
  VocabularyRules vocabulary = {};  // for the same types
  uint64_t seed = 0;                // of the initializer
  float init_stddev = 0;            // normal initializer; 0: uniform, by the table's rows
  // Type of the weights. Initial values are rounded to nearest, updates by RowRounding.
  FloatType table_type = FloatType::kFloat;
  bool atomic_update = false;  // SGD on a GPU: no fixed order of sums
  // Each step's gradients of all rows are kept as a whole: the steps are then those of a dense
  // array, which penalties and clipping have their way with (whole_table_update.h).
  bool whole_gradients = false;
  config::RegularizerConfig penalty = {};  // of every row, in every step

  // Bytes of a row as a table stores it, and of one with its optimizer states.
  [[nodiscard]] int64_t row_bytes() const { return layout.width * float_type_bytes(table_type); }
  [[nodiscard]] int64_t stored_row_bytes() const {
    int64_t bytes = row_bytes();
    for (int i = 0; i < optimizer::state_count(rule.type); ++i)
      bytes += optimizer::state_width(rule.type, i, layout.width) * kFloatBytes;
    return bytes;
  }
};

inline std::string table_name(const std::string& layer, int64_t table) {
  return fmt::format("{}.table_{}", layer, table);
}
inline std::string keys_name(const std::string& layer, int64_t table) {
  return table_name(layer, table) + ".keys";
}
// The number that each row has on its rank.
inline std::string rows_name(const std::string& layer, int64_t table) {
  return table_name(layer, table) + ".rows";
}
// The use of each row (RowUse), and the keys that are counted and have no row.
inline std::string uses_name(const std::string& layer, int64_t table) {
  return table_name(layer, table) + ".uses";
}
inline std::string candidates_name(const std::string& layer, int64_t table) {
  return table_name(layer, table) + ".candidates";
}
inline std::string state_name(const std::string& layer, int64_t table,
                              optimizer::OptimizerType rule, int state) {
  return fmt::format("{}.{}", table_name(layer, table), optimizer::state_name(rule, state));
}

}  // namespace hlite::embedding
