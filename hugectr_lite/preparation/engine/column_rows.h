// The rows of a numbered data set, put together from its column files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hugectr_lite/core/file.h"
#include "hugectr_lite/preparation/engine/row_source.h"

namespace hlite::prep {

// Dense column k of the data set from doubles to the 32-bit words of a row, `stride` words apart.
using DenseFinish =
    std::function<void(int k, const double* values, int64_t count, uint32_t* out, int64_t stride)>;

class ColumnRows final : public RowSource {
 public:
  // Rows [first, first + rows) of the columns in `paths`: label, dense, ids of a slot. With
  // `finish` dense columns hold doubles, 32-bit words otherwise. Throws FileError for a file that
  // cannot be opened or is too short.
  ColumnRows(RowShape shape, const std::vector<std::string>& paths, int64_t first, int64_t rows,
             DenseFinish finish = {});
  [[nodiscard]] const RowShape& shape() const override { return shape_; }
  [[nodiscard]] int64_t rows() const override { return rows_; }
  void read(int64_t first, int64_t count, uint32_t* out) const override;

 private:
  [[nodiscard]] int64_t bytes(int column) const;  // in each row
  RowShape shape_;
  std::vector<int> words_;  // [columns] in each row
  int64_t first_, rows_;
  std::vector<ReadFile> columns_;
  DenseFinish finish_;
};

}  // namespace hlite::prep
