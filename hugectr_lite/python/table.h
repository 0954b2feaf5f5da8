// Columns of a table as Python hands them over (frames.py), for C++.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hugectr_lite/preparation/apply/table_batches.h"
#include "hugectr_lite/preparation/csv/csv_schema.h"

namespace hlite::python {

// A column is a tuple (kind, values, missing): "int64", "uint64", "float32", "float64" or "bool" with
// a C-contiguous array of that type, "text" with a list of str or None, "none" with None; missing is
// an array of bool or None. Holds what they lie in.
class Table {
 public:
  // Throws DataError for columns of other forms or of several lengths.
  explicit Table(const pybind11::list& columns);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  [[nodiscard]] const std::vector<prep::TableColumn>& columns() const { return columns_; }
  [[nodiscard]] int64_t rows() const { return rows_; }

 private:
  const Py_buffer& buffer_of(const pybind11::handle& array, size_t size);
  void check_rows(int64_t rows);

  pybind11::list held_;
  std::vector<Py_buffer> buffers_;
  std::vector<prep::TableColumn> columns_;
  int64_t rows_ = -1;  // not known
};

// Writes rows of a table as lines of comma-separated text. `rows`: their numbers, an array of int64.
void write_table(const std::string& path, const pybind11::list& columns,
                 const pybind11::object& rows);

// What a table has to have for a schema: a list of (names, index, kind, type), one for each use of a
// column. `names`: those that it may have, the best first; `header`: of the training file. `kind`:
// "numbers", "text" or "date " and a format. `type`: of a category, "" if it has none.
pybind11::list inputs_of(const prep::CsvSchema& schema, const std::vector<std::string>& header);

}  // namespace hlite::python
