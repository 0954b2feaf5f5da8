// Initial values of embedding tables: uniform in [-1/sqrt(rows), 1/sqrt(rows)), or normal with a
// standard deviation of the config's.
//
// Element (row, column) of a table is number row * width + column of the random stream named after
// the table, so every rank can fill just the rows it holds and all get the same table.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "embedding/initial_values.h"
#include "embedding/slot_layout.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

// Fills rows [first_row, first_row + rows.dim(0)) of the table called `name` that has `table_rows`
// rows in all. On the CPU threads touch the memory first here; on a GPU the same bits are made in
// device memory.
void init_table_rows(const Exec& exec, uint64_t seed, std::string_view name, int64_t table_rows,
                     int64_t first_row, Matrix<float> rows /*[n, width]*/);

// The same with normal values of that deviation, on the CPU.
void init_normal_rows(const Exec& exec, uint64_t seed, std::string_view name, float stddev,
                      int64_t first_row, Matrix<float> rows /*[n, width]*/);

// Fills all tables of a layer; table i of layer "x" is called "x.table_i".
void init_tables(const Exec& exec, uint64_t seed, std::string_view layer, const SlotLayout& layout,
                 Matrix<float> tables /*[total_rows, width]*/);

// values[i] = value.
void fill_values(const Exec& exec, Vector<float> values, float value);

// The same values as init_tables(), row by row, for a rank that holds some rows of each table.
class TableRowInit {
 public:
  // `stddev`: of normal values; 0: uniform ones. `type`: values are rounded to it, to nearest.
  TableRowInit(uint64_t seed, std::string_view layer, const SlotLayout& layout, float stddev = 0,
               FloatType type = FloatType::kFloat);
  // Takes the bounds of tables of rows[t] rows, whatever keys there are.
  TableRowInit(uint64_t seed, std::string_view layer, std::span<const int64_t> rows, int64_t width,
               FloatType type = FloatType::kFloat);
  // Row `key` of table `of`: `row` [width].
  void fill(int64_t of, uint32_t key, float* row) const;
  [[nodiscard]] const std::vector<TableStream>& streams() const { return streams_; }  // [tables]

 private:
  uint64_t seed_;
  int64_t width_;
  FloatType type_;
  float stddev_ = 0;
  std::vector<TableStream> streams_;
};

}  // namespace hlite::embedding
