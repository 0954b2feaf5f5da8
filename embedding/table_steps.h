// TableSteps: what an embedding layer does in an iteration, on the CPU or a GPU:
//
//   <layer>.keys      the layer's columns of the batch's keys, where it selects them
//   <layer>.index     hashed tables: keys -> rows, inserted by training; or the tier brings them
//   <layer>.admit     tables larger than memory: rows -> lines of the tier (row_tier.h)
//   <layer>.lookup    rows of the tables -> output               embedding
//   <layer>.rows      in its place: keys -> rows, where what reads the output makes it
//   <layer>.sort      lookups by row, overlaps the network       embedding
//   <layer>.update    rows and optimizer states                  embedding
//
// On several ranks the rows are sharded. RowExchange then stands between keys and output, and
// between the gradient of output and the update; sort and update work on the requested rows.
//
// If gradients are kept for whole tables, <layer>.clear and .gradients (whole_table_update.h) come
// before the update.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "embedding/device_slots.h"
#include "embedding/key_columns.h"
#include "embedding/row_exchange.h"
#include "embedding/whole_table_update.h"
#include "hugectr_lite/plan/gathered_rows.h"

namespace hlite::embedding {

class TableSteps {
 public:
  // `index`: null if the tables are not hashed. All but `place` must outlive it. Collective
  // when place.ranks.world is given.
  TableSteps(const TablesSpec& spec, const TableStorage& storage, HashedIndex* index,
             const TablesPlace& place);

  // Returns true if output may be left to be made of rows(): that is, where each of its vectors is
  // a row of floats in the memory of this rank, which a key alone names.
  [[nodiscard]] bool can_leave_lookup() const;
  // Does so. Call before declare().
  void leave_lookup() { leaves_lookup_ = true; }
  // Of output, where it is left.
  [[nodiscard]] plan::GatheredRows gathered_rows() const;

  // Names the buffers that the steps alone use.
  void declare(plan::Buffers& buffers);
  // Bytes of what is not among the buffers.
  [[nodiscard]] int64_t workspace_bytes() const;
  // Allocates buffers. Call once, after all emit...() and before any step runs.
  void prepare();

  // keys, tables -> output; and the same in two plans, of which `keys` has what needs keys alone,
  // where place.keys_ahead.
  void emit_forward(plan::Plan& plan, const TablesIo& io) { emit_forward(plan, plan, io); }
  void emit_forward(plan::Plan& keys, plan::Plan& plan, const TablesIo& io);
  // Adds the steps of training that have to run before any update, exchanges of gradients included.
  void emit_backward(plan::Plan& plan, const TablesIo& io);
  void emit_update(plan::Plan& plan, const TablesIo& io);
  // Those that steps keep. After declare().
  [[nodiscard]] std::vector<WholeGradients> whole_gradients() const;

  // Checks what steps have noted and left to the host: EmbeddingTables::check().
  void check(const Exec& exec) {
    errors_.report(spec_.name, exec);
    if (tier_) tier_->check();
  }

  // Null on one rank.
  [[nodiscard]] RowExchange* exchange() const { return exchange_.get(); }
  // Grows exchanges whose capacity the last run exceeded; returns a message, or "" if none was
  // exceeded. The same on all ranks. REQUIRES several, and that nothing runs on any.
  [[nodiscard]] std::string grow();

 private:
  void select_keys(const plan::StepContext& c, const TablesIo& batch);
  // `batch` with the layer's own keys, where it selects them.
  [[nodiscard]] TablesIo own_keys(const TablesIo& batch) const;
  void emit_keys(plan::Plan& plan, const TablesIo& batch);
  void find_rows(const plan::StepContext& c, const TablesIo& io);
  void admit(const plan::StepContext& c, const TablesIo& io);
  [[nodiscard]] const int64_t* iterations_before(const TablesIo& io) const;
  [[nodiscard]] KeyRecorder key_check(const TablesIo& io) const;
  template <typename T>
  void look_up(const plan::StepContext& c, const TablesIo& io);
  void sort(const plan::StepContext& c, const TablesIo& io);
  void update(const plan::StepContext& c, const TablesIo& io, const UpdatedRows& rows,
              const optimizer::GradientScale& scale);
  void emit_index(plan::Plan& plan, const TablesIo& io);
  void emit_admit(plan::Plan& plan, const TablesIo& io);
  void emit_lookup(plan::Plan& plan, const TablesIo& io);
  void emit_rows(plan::Plan& plan, const TablesIo& io);
  // `changed`: the rows and what is kept of them, or the gradients in place of these.
  void emit_sparse_update(plan::Plan& plan, const TablesIo& io, const char* name,
                          const std::vector<plan::BufferId>& changed);
  void make_update();
  void declare_rows(plan::Buffers& buffers);
  // Layouts of what is looked up: the batch's keys, or the lines or rows that they have; of the
  // keys before; and of what the update sorts, which may be what ranks request.
  [[nodiscard]] SlotLayout lookup_layout() const;
  [[nodiscard]] SlotLayout row_layout() const;
  [[nodiscard]] SlotLayout updated_layout() const;
  [[nodiscard]] SparseUpdateOptions how() const;
  // Returns true if the row of a key has to be looked up in an index or a tier.
  [[nodiscard]] bool finds_rows() const { return index_ || tier_; }
  // Returns true if the rows of hashed tables come with the batch.
  [[nodiscard]] bool brings_rows() const { return index_ && tier_ && tier_->finds_rows(); }
  // Returns true if reads for the next batch are started while a batch is worked on.
  [[nodiscard]] bool prefetches() const {
    return tier_ && tier_->reads_ahead() && !index_ && !exchange_;
  }
  [[nodiscard]] plan::BufferId lookup_keys(const TablesIo& io) const {
    return lines_ != plan::kNoBuffer ? lines_ : row_keys(io);
  }
  // The rows of the keys as they are when all rows are in memory.
  [[nodiscard]] plan::BufferId row_keys(const TablesIo& io) const {
    return index_ ? rows_ : io.keys;
  }
  [[nodiscard]] plan::BufferId sorted_keys(const TablesIo& io) const {
    return storage_.sorts_rows() ? row_keys(io) : lookup_keys(io);
  }
  [[nodiscard]] plan::BufferId rate_of(const TablesIo& io) const {
    return spec_.whole_gradients ? whole_.sum_rate() : io.rate;
  }
  [[nodiscard]] Matrix<uint32_t> key_matrix(plan::BufferId id, int64_t batch) const {
    return {buffers_->data<uint32_t>(id), batch, spec_.layout.keys.columns};
  }
  template <typename T>
  [[nodiscard]] View<T, 3> vectors(plan::BufferId id, int64_t batch) const {
    return {buffers_->data<T>(id), batch, spec_.layout.slots(), spec_.layout.width};
  }

  const TablesSpec& spec_;
  const TableStorage& storage_;
  RowTier* const tier_;       // storage_.tier()
  HashedIndex* const index_;  // null: another type
  const TablesPlace place_;
  const Exec exec_;
  KeyColumns columns_;
  LayerKeyErrors errors_;
  const std::unique_ptr<RowExchange> exchange_;
  WholeTableUpdate whole_;  // where spec_.whole_gradients
  const plan::Buffers* buffers_ = nullptr;
  // uint32, like the keys: rows_ of hashed tables, or for gathered_rows(); lines_ of the tier,
  // which replace the rows in place on the CPU.
  plan::BufferId rows_ = plan::kNoBuffer, lines_ = plan::kNoBuffer;
  // The layer's keys, and those of all ranks; where it selects them.
  plan::BufferId own_keys_ = plan::kNoBuffer, all_own_keys_ = plan::kNoBuffer;
  plan::BufferId sorted_ = plan::kNoBuffer;  // the step's scalars; the list is in the workspace
  bool updates_ = false, leaves_lookup_ = false;
  std::unique_ptr<DeviceSlots> slots_, row_slots_, updated_slots_;  // the three layouts
  HostMemory next_keys_, next_rows_;  // uint32, as the layer's keys of the next batch
  std::unique_ptr<SparseUpdate> update_;
};

}  // namespace hlite::embedding
