// RowRounding: how an update rounds the weights of tables in 16 bits. A weight goes up or down at
// random, so that its mean is the float that the optimizer made: rounded to nearest, updates below
// half the distance between neighbours would be lost for good (Gupta et al. 2015, "Deep Learning
// with Limited Numerical Precision").
//
// A draw is a function of (seed, table, key, column, step), so that a run repeats, also across a
// resume, and draws do not depend on ranks, threads or where a row lies. Kernels make the same ones
// (row_names.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "embedding/row_names.h"
#include "embedding/row_placement.h"

namespace hlite::embedding {

class RowRounding {
 public:
  // Which table and key a row of the rounded array belongs to. Called by several threads.
  using NameOfRow = std::function<TableRow(int64_t row)>;
  RowRounding(uint64_t seed, const std::string& layer, int64_t tables, NameOfRow name_of_row);

  // to[j] = from[j] rounded for column j of row `row`, j < width, by round_stochastically(). Its
  // loops are in row_rounding_loops.h.
  template <typename T>
  void round(int64_t row, int64_t step, const float* from, int64_t width, T* to) const;

  // The 16 bits for one column.
  [[nodiscard]] uint32_t draw(const TableRow& row, int64_t step, int64_t column) const;
  [[nodiscard]] const std::vector<uint64_t>& seeds() const { return seeds_; }  // [tables]

 private:
  static void two_blocks(const RowDraws& of, uint32_t first, uint32_t* words);
  // Columns [first, first + n), n <= 8 kBlocks.
  template <int kBlocks, typename T>
  static void round_columns(const RowDraws& of, int64_t first, const float* from, int64_t n, T* to);

  std::vector<uint64_t> seeds_;  // [tables]
  const NameOfRow name_of_row_;
};

}  // namespace hlite::embedding
