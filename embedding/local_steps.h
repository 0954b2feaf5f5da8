// The steps of tables all of whose rows are on this rank, on the CPU or a GPU:
//
//   <layer>.index     of tables whose rows come as keys come: keys -> rows, taken by training
//   <layer>.lookup    rows of the tables -> output               embedding
//   <layer>.sort      of the lookups by row, beside the network  embedding
//   <layer>.update    of the rows                                embedding
//
// or, where gradients are kept as a whole, those of whole_table_update.h behind the sort.
#pragma once

#include <memory>

#include "embedding/device_slots.h"
#include "embedding/hashed_index.h"
#include "embedding/key_errors.h"
#include "embedding/sparse_update.h"
#include "embedding/table_steps.h"
#include "embedding/table_storage.h"
#include "embedding/tables_place.h"
#include "embedding/whole_table_update.h"

namespace hlite::embedding {

class LocalSteps final : public TableSteps {
 public:
  // `index`: null where rows do not come as keys come. All but `place` must outlive it.
  LocalSteps(const TablesSpec& spec, const TableStorage& storage, HashedIndex* index,
             const TablesPlace& place);

  void declare(plan::Buffers& buffers) override;
  [[nodiscard]] int64_t workspace_bytes() const override;
  void prepare() override;
  void emit_forward(plan::Plan& plan, const TablesIo& io) override;
  void emit_backward(plan::Plan& plan, const TablesIo& io) override;
  void emit_update(plan::Plan& plan, const TablesIo& io) override;
  [[nodiscard]] std::vector<WholeGradients> whole_gradients() const override;
  void check(const Exec& exec) override;

 private:
  void find_rows(const plan::StepContext& context, const TablesIo& io);
  template <typename T>
  void look_up(const plan::StepContext& context, const TablesIo& io);
  void sort(const plan::StepContext& context, const TablesIo& io);
  template <typename T>
  void update(const plan::StepContext& context, const TablesIo& io);
  void emit_sparse_update(plan::Plan& plan, const TablesIo& io, const char* name,
                          const std::vector<plan::BufferId>& changed);
  // What the tables are looked up by: the batch's keys,
  // or their rows where these come as keys come.
  [[nodiscard]] plan::BufferId lookup_keys(const TablesIo& io) const {
    return index_ ? rows_ : io.keys;
  }
  [[nodiscard]] Matrix<uint32_t> key_matrix(plan::BufferId id, int64_t batch) const;

  const TablesSpec& spec_;
  const TableStorage& storage_;
  HashedIndex* const index_;  // null: another type
  const SlotLayout layout_;   // of what the tables are looked up by
  const Exec exec_;
  const FloatType type_;
  const int64_t max_batch_;
  const double sample_rows_;  // of the tables, read for each sample of a batch
  const SparseUpdateOptions how_;
  WholeTableUpdate whole_;  // where spec_.whole_gradients
  const plan::Buffers* buffers_ = nullptr;
  plan::BufferId rows_ = plan::kNoBuffer;    // uint32, like the keys
  plan::BufferId sorted_ = plan::kNoBuffer;  // the step's scalars; the list is in the workspace
  std::unique_ptr<DeviceSlots> slots_;
  // On a GPU: of training and of evaluation, which has no steps.
  std::unique_ptr<KeyErrors> train_errors_, eval_errors_;
  bool updates_ = false;
  std::unique_ptr<SparseUpdate> update_;
};

}  // namespace hlite::embedding
