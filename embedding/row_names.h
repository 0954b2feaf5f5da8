// RowNames: which table and key a row of an array belongs to, as kernels find it out, and the random
// numbers that follow from these (row_rounding.h).
#pragma once

#include <cstdint>

#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/philox_round.h"
#include "hugectr_lite/core/random.h"

namespace hlite::embedding {

// The draws of a row in a step. The one of column c is half c % 2 of word c % 8 / 2 of block c / 8.
struct RowDraws {
  uint64_t seed;  // the table's
  uint32_t key;
  uint64_t step;

  // random::philox(). Kernels have it wherever a row may end, so its code is short there.
  [[nodiscard]] HLITE_HD random::Block block(uint32_t index) const {
    random::Block of{{index, key, static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)}};
    auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (int round = 0; round < random::kPhiloxRounds; ++round)
      random::philox_round(of.word, k0, k1);
    return of;
  }
};

// All arrays lie in memory of the device.
struct RowNames {
  const uint64_t* seeds = nullptr;      // [tables]
  const int64_t* first_rows = nullptr;  // [tables] of each, among the rows of all tables
  int32_t tables = 0;
  const uint32_t* row_of_line = nullptr;  // of a tier's lines; null: line r holds row r
  // [rows] table_key() of hashed ones, some key's for those that are not in use.
  const unsigned long long* keys = nullptr;
  const uint32_t* numbers = nullptr;  // [rows] of others, among the rows of all tables; null: r

  [[nodiscard]] HLITE_HD RowDraws draws(int64_t row, int64_t step) const {
    if (row_of_line) row = row_of_line[row];
    if (keys)
      return {seeds[keys[row] >> 32], static_cast<uint32_t>(keys[row]),
              static_cast<uint64_t>(step)};
    const int64_t number = numbers ? int64_t{numbers[row]} : row;
    int32_t table = 0;  // the last one that begins at or before the row
    for (int32_t end = tables; end - table > 1;) {
      const int32_t middle = (table + end) / 2;
      (first_rows[middle] <= number ? table : end) = middle;
    }
    return {seeds[table], static_cast<uint32_t>(number - first_rows[table]),
            static_cast<uint64_t>(step)};
  }
};

}  // namespace hlite::embedding
