// LineOfRow: the map from rows of a table to their lines in a GPU's memory (device_row_cache.h).
#pragma once

#include <cstdint>

namespace hlite::embedding {

struct LineOfRow {
  const uint32_t* line_of = nullptr;  // [rows] in memory of the device; null: row r is line r
  uint32_t lines = 0;                 // in all
};

}  // namespace hlite::embedding
