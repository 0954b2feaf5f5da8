// TableLayout: where the tables of one embedding layer lie.
//
// All tables of a layer share one width and lie one after another in a single array
// [total_rows, width]: key k of slot s is row offset[s] + k. One array means one allocation (huge
// pages), one pointer in every kernel, and optimizer states of the same shape.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/key_layout.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

struct TableLayout {
  std::vector<int64_t> rows;    // [S] rows of each slot's table, >= 1
  std::vector<int64_t> offset;  // [S] exclusive prefix sums of rows
  int64_t total_rows = 0;
  int64_t width = 0;  // floats a row

  TableLayout() = default;
  // Throws ConfigError when a table has no row or more than 32-bit keys can reach, or width < 1.
  TableLayout(std::vector<int64_t> table_rows, int64_t row_width)
      : rows(std::move(table_rows)), width(row_width) {
    if (width < 1) raise<ConfigError>("embedding: expected a vector size >= 1, found {}", width);
    offset.reserve(rows.size());
    for (size_t s = 0; s < rows.size(); ++s) {
      if (rows[s] < 1 || rows[s] > int64_t{kNoKey})
        raise<ConfigError>("embedding: table {}: expected 1 to 2^32 - 1 rows, found {}", s,
                           rows[s]);
      offset.push_back(total_rows);
      total_rows += rows[s];
    }
  }

  [[nodiscard]] int64_t slots() const { return static_cast<int64_t>(rows.size()); }
  // The rows of slot s in an array of this layout (weights or optimizer state).
  template <typename T>
  [[nodiscard]] Matrix<T> table(Matrix<T> all, int64_t s) const {
    const auto i = static_cast<size_t>(s);
    return all.rows(offset[i], offset[i] + rows[i]);
  }
};

}  // namespace hlite::embedding
