// TableStorage: the rows and optimizer states that one rank holds of a layer's tables, in buffers
// of a plan, on the CPU or a GPU; their first values; and all ranks' rows by their names in files.
//
// Rows are the rank's own or, on several ranks, copied: the same on every rank.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "embedding/row_placement.h"
#include "embedding/table_init.h"
#include "embedding/tables_spec.h"
#include "embedding/updated_rows.h"
#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/tensor_ref.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::embedding {

// Of tables whose rows come as keys come, [slots] each: the keys of the rows in a file, ascending,
// and this rank's own row of each, or kNoRow.
struct FileKeys {
  std::vector<std::vector<uint32_t>> keys, rows;
};

class TableStorage {
 public:
  // `placement`: null where this rank holds all rows, in the order of the layout. `exec`: where
  // buffers lie. `spec` must outlive it.
  TableStorage(const TablesSpec& spec, std::shared_ptr<const RowPlacement> placement,
               const comm::RankContext& ranks, const Exec& exec);

  // Names the buffers of rows and states.
  void declare(plan::Buffers& buffers);
  // Those that a step reads of the own or the copied rows: of weights, or of states too.
  [[nodiscard]] plan::BufferId own_weights() const { return parts_[0].own; }
  [[nodiscard]] plan::BufferId copied_weights() const { return parts_[0].copied; }
  [[nodiscard]] std::vector<plan::BufferId> own_buffers() const;
  [[nodiscard]] std::vector<plan::BufferId> copied_buffers() const;

  // Null where this rank holds all rows in order.
  [[nodiscard]] const RowPlacement* placement() const { return placement_.get(); }
  [[nodiscard]] int64_t own_rows() const;
  [[nodiscard]] int64_t copied_rows() const { return placement_ ? placement_->copied_rows() : 0; }
  // REQUIRES allocated buffers.
  [[nodiscard]] UpdatedRows own() const { return arrays(&Part::own, own_rows()); }
  [[nodiscard]] UpdatedRows copied() const { return arrays(&Part::copied, copied_rows()); }

  // First values of all rows and states. Waits.
  void initialize(const Exec& exec) const;
  // Of tables whose rows come as keys come, on the CPU: what a table of all keys would have had in
  // the row of a key from the start, as vector or as row `row` with its states.
  void first_values(int64_t slot, uint32_t key, float* vector) const {
    init_->fill(slot, key, vector);
  }
  void first_values(int64_t slot, uint32_t key, int64_t row) const;

  // What a file holds: <layer>.table_<i>, of hashed tables also <layer>.table_<i>.keys, and
  // <layer>.table_<i>.<state>. On several ranks get() is collective: all ranks call it with the
  // same range, and rank 0 gets the elements; put() is not: each rank takes what it holds of any
  // range. `keys`: of hashed tables, the same on all ranks but for rows; else null.
  using Keys = std::shared_ptr<const FileKeys>;
  [[nodiscard]] std::vector<TensorRef> tables(const Keys& keys) const;
  [[nodiscard]] std::vector<TensorRef> states(const Keys& keys) const;

 private:
  struct Part {  // the own rows and the copied ones, of weights or of a state
    plan::BufferId own, copied;
  };
  void initialize_normal(const Exec& host) const;
  [[nodiscard]] UpdatedRows arrays(plan::BufferId Part::*which, int64_t rows) const;
  [[nodiscard]] Matrix<float> matrix(plan::BufferId id, int64_t rows) const;
  // The columns [begin, end) of a row.
  struct RowPart {
    int64_t begin, end;
  };
  // Calls body(place, columns, where in the range) for the rows that elements [first, first +
  // count) of a slot's table in a file are in.
  void for_each_part(
      const FileKeys* keys, int64_t slot, int64_t first, int64_t count,
      const std::function<void(const RowPlace&, const RowPart&, int64_t)>& body) const;
  [[nodiscard]] RowPlace place_of(const FileKeys* keys, int64_t slot, int64_t row) const;
  [[nodiscard]] TensorRef tensor(std::string name, const Part& part, const Keys& keys,
                                 int64_t slot) const;
  [[nodiscard]] TensorRef device_tensor(TensorRef ref, const Part& part, const Keys& keys,
                                        int64_t slot) const;
  void get_rows(const Part& part, const FileKeys* keys, int64_t slot, int64_t first,
                std::span<float> out) const;
  void put_rows(const Part& part, const FileKeys* keys, int64_t slot, int64_t first,
                std::span<const float> in) const;
  // Calls use(row), where row(i) are the values of table row rows[i], in place or, on a GPU, as a
  // copy, which is written back if asked to.
  using RowValues = std::function<float*(size_t)>;
  void with_rows(Matrix<float> table, std::span<const uint32_t> rows, bool write,
                 const std::function<void(const RowValues&)>& use) const;

  const TablesSpec& spec_;
  const std::shared_ptr<const RowPlacement> placement_;
  const comm::RankContext ranks_;
  const Exec exec_;
  const plan::Buffers* buffers_ = nullptr;
  std::vector<Part> parts_;             // weights, then states
  std::unique_ptr<TableRowInit> init_;  // of hashed tables
};

}  // namespace hlite::embedding
