// TableFiles: the tensors of files: the rows of all ranks by table and key, from any tier.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "embedding/row_place.h"
#include "embedding/table_storage.h"
#include "hugectr_lite/core/tensor_ref.h"

namespace hlite::embedding {

// The keys of hashed tables in a file, [tables] each: the keys of the rows, ascending, and this
// rank's own row of each, or kNoRow.
struct FileKeys {
  std::vector<std::vector<uint32_t>> keys, rows;
  bool leaves_out = false;  // own keys of a file that is read have no row
};

class TableFiles {
 public:
  // Both must outlive it, and the tensors that it makes.
  TableFiles(const TablesSpec& spec, const TableStorage& storage)
      : spec_(spec), storage_(storage), rows_(storage.rows()) {}

  // Tensors of a file. tables(): <layer>.table_<i>, of hashed tables also <layer>.table_<i>.keys.
  // states(): <layer>.table_<i>.<state>, also .uses if the tables keep them, and .rows if sums
  // depend on the order of rows. On several ranks get() is collective: all ranks call it with the
  // same range, and rank 0 gets the elements. put() is not: each rank takes what it holds of any
  // range. `keys`: of hashed tables, the same on all ranks except FileKeys::rows; else null.
  using Keys = std::shared_ptr<const FileKeys>;
  [[nodiscard]] std::vector<TensorRef> tables(const Keys& keys) const;
  [[nodiscard]] std::vector<TensorRef> states(const Keys& keys) const;

 private:
  using Part = StoredRows::Part;
  // The columns [begin, end) of a row.
  struct RowColumns {
    int64_t begin, end;
  };
  // Calls body(place, columns, where in the range) for the rows that elements [first, first +
  // count) of a table in a file are in; of rows of `width`.
  void for_each_part(
      int64_t width, const FileKeys* keys, int64_t table, int64_t first, int64_t count,
      const std::function<void(const RowPlace&, const RowColumns&, int64_t)>& body) const;
  [[nodiscard]] RowPlace place_of(const FileKeys* keys, int64_t table, int64_t row) const;
  [[nodiscard]] TensorRef tensor(std::string name, const Part& part, const Keys& keys,
                                 int64_t table) const;
  [[nodiscard]] TensorRef device_tensor(TensorRef ref, const Part& part, const Keys& keys,
                                        int64_t table) const;
  [[nodiscard]] TensorRef numbers_tensor(std::string name, const Keys& keys, int64_t table) const;
  // TensorRef::part and join.
  [[nodiscard]] std::vector<float> own_part(const Part& part, const FileKeys* keys, int64_t table,
                                            int64_t first, int64_t count) const;
  void join_parts(const Part& part, const FileKeys* keys, int64_t table, int64_t first,
                  std::span<const float> parts, std::span<float> out) const;
  void put_rows(const Part& part, const FileKeys* keys, int64_t table, int64_t first,
                std::span<const float> in) const;

  const TablesSpec& spec_;
  const TableStorage& storage_;
  const StoredRows& rows_;
};

}  // namespace hlite::embedding
