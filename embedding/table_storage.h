// TableStorage: the rows and optimizer states that one rank holds of a layer's tables, in buffers
// of a plan, on the CPU or a GPU, and their initial values.
//
// Rows are the rank's own or, on several ranks, replicated: the same on every rank. If memory
// cannot hold all own rows, the buffers hold some of them, and steps admit those they need
// (row_tier.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "embedding/row_placement.h"
#include "embedding/row_rounding.h"
#include "embedding/row_tier.h"
#include "embedding/stored_rows.h"
#include "embedding/table_init.h"
#include "embedding/tables_place.h"
#include "embedding/tables_spec.h"
#include "embedding/updated_rows.h"
#include "embedding/vocabulary_rules.h"
#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/exec_memory.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::embedding {

class Cutter;

class TableStorage {
 public:
  // place.placement: null where this rank holds all rows, in the order of the layout. `spec` must
  // outlive it. Throws ConfigError where place.memory is less than two batches need.
  TableStorage(const TablesSpec& spec, const TablesPlace& place);

  // Names the buffers of rows and states.
  void declare(plan::Buffers& buffers);
  // The rows by their numbers, in any tier.
  [[nodiscard]] const StoredRows& rows() const { return rows_; }

  // The memories that the rows lie in, where the buffers hold lines of them: then a step must admit
  // rows before others use them. Null: the buffers hold all own rows.
  [[nodiscard]] RowTier* tier() const { return tier_.get(); }
  [[nodiscard]] const comm::RankContext& ranks() const { return ranks_; }
  // Null where this rank holds all rows in order.
  [[nodiscard]] const RowPlacement* placement() const { return placement_.get(); }
  [[nodiscard]] int64_t own_rows() const;
  // Those in the buffers: all, or the lines of the tier.
  [[nodiscard]] int64_t held_rows() const { return tier_ ? tier_->lines() : own_rows(); }
  // Returns true if the tables may be larger than the memory of their ranks; the same on all ranks.
  [[nodiscard]] bool beyond_memory() const { return beyond_memory_; }
  // True if sparse updates must sort by row, not by line: on a GPU the sums depend on that order.
  [[nodiscard]] bool sorts_rows() const { return tier_ && exec_.on_gpu() && !spec_.atomic_update; }
  [[nodiscard]] int64_t replicated_rows() const {
    return placement_ ? placement_->replicated_rows() : 0;
  }
  // REQUIRES allocated buffers.
  [[nodiscard]] UpdatedRows own() const {
    return rounded(rows_.arrays(&StoredRows::Part::own), own_rounding_, own_names_);
  }
  [[nodiscard]] UpdatedRows replicated() const {
    return rounded(rows_.arrays(&StoredRows::Part::replicated), replicated_rounding_,
                   replicated_names_);
  }
  // Where kernels may use any own row: the tier's array of all, or the buffers.
  [[nodiscard]] UpdatedRows all_own() const {
    const UpdatedRows* const all = tier_ ? tier_->all_rows() : nullptr;
    return all ? *all : own();
  }

  // Sets the initial values of all rows and states. Synchronizes.
  void initialize(const Exec& exec) const;
  // Sets, for hashed tables, the function that returns the key of an own row. Must be called before
  // any row is used.
  using KeyOfRow = std::function<TableRow(uint32_t row)>;
  void set_key_of_row(KeyOfRow key_of) { key_of_ = std::move(key_of); }
  // The same for kernels: [own rows] table_key(), in memory of the device.
  void set_device_keys(const unsigned long long* keys) { own_names_.keys = keys; }
  // Starts the tier, if there is one, with rows that have never been written, and tells kernels
  // which row is whose. REQUIRES allocated buffers. Waits for a GPU.
  void start(const Exec& host);
  // Bytes on a GPU in addition to the buffers.
  [[nodiscard]] int64_t names_bytes() const;
  // Keys of the own rows of a tier with a disk that have been trained, by table, ascending.
  // REQUIRES tables that are not hashed.
  [[nodiscard]] std::vector<std::vector<uint32_t>> touched_keys() const;
  // Writes, for hashed tables on the CPU, the initial values that a full table would have for the
  // key, as a vector or as row `row` with its states.
  void initial_values(int64_t table, uint32_t key, float* vector) const {
    init_->fill(table, key, vector);
  }
  void initial_values(int64_t table, uint32_t key, int64_t row) const;

 private:
  void initialize_normal(const Exec& host) const;
  void initialize_rows(const Exec& host, const Exec& exec, int rank, const WeightRows& rows) const;
  [[nodiscard]] TableRow table_row(uint32_t own_row) const;
  // Returns the table row that lies in row `row` of the own rows in memory.
  [[nodiscard]] TableRow held_row(int64_t row) const;
  // Writes the initial weights of an own row. REQUIRES init_.
  void initial_weights(uint32_t own_row, std::byte* weights) const;
  [[nodiscard]] static UpdatedRows rounded(UpdatedRows rows,
                                           const std::unique_ptr<const RowRounding>& rounding,
                                           const RowNames& names) {
    rows.rounding = rounding.get();
    rows.names = names;
    return rows;
  }
  // What names_bytes() are of: seeds and first rows of tables, and the numbers of rows that a
  // placement decides on.
  struct NameArrays {
    uint64_t* seeds;
    int64_t* first_rows;
    uint32_t *own, *replicated;
  };
  [[nodiscard]] NameArrays cut_names(Cutter& cutter) const;
  void name_rows(const Exec& host);

  const TablesSpec& spec_;
  const std::shared_ptr<const RowPlacement> placement_;
  const comm::RankContext ranks_;
  const Exec exec_;
  const plan::Buffers* buffers_ = nullptr;
  std::unique_ptr<TableRowInit> init_;  // set for hashed tables or a tier
  std::unique_ptr<RowTier> tier_;
  bool beyond_memory_ = false;
  StoredRows rows_{exec_, tier_};
  RowOfLine row_of_line_;
  KeyOfRow key_of_;  // null if the tables are not hashed
  // Set for tables of 16 bits; else null.
  std::unique_ptr<const RowRounding> own_rounding_, replicated_rounding_;
  ExecMemory names_;  // on a GPU
  RowNames own_names_, replicated_names_;
};

}  // namespace hlite::embedding
