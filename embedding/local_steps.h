// The steps of tables all of whose rows are on this rank, on the CPU or a GPU:
//
//   <layer>.lookup    rows of the tables -> output               embedding
//   <layer>.sort      of the lookups by row, beside the network  embedding
//   <layer>.update    of the rows                                embedding
#pragma once

#include <memory>

#include "embedding/device_slots.h"
#include "embedding/key_errors.h"
#include "embedding/sparse_update.h"
#include "embedding/table_steps.h"
#include "embedding/table_storage.h"
#include "hugectr_lite/core/float_type.h"

namespace hlite::embedding {

class LocalSteps final : public TableSteps {
 public:
  // `exec`: where the steps run. `type`: of the output and its gradient; rows are float. The others
  // must outlive it.
  LocalSteps(const TablesSpec& spec, const TableStorage& storage, const Exec& exec, FloatType type,
             int64_t train_batch, int threads);

  void declare(plan::Buffers& buffers) override;
  [[nodiscard]] int64_t workspace_bytes() const override;
  void prepare() override;
  void emit_forward(plan::Plan& plan, const TablesIo& io) override;
  void emit_backward(plan::Plan& plan, const TablesIo& io) override;
  void emit_update(plan::Plan& plan, const TablesIo& io) override;
  void check(const Exec& exec) override;

 private:
  template <typename T>
  void look_up(const plan::StepContext& context, const TablesIo& io);
  void sort(const plan::StepContext& context, const TablesIo& io);
  template <typename T>
  void update(const plan::StepContext& context, const TablesIo& io);
  [[nodiscard]] Matrix<const uint32_t> keys_of(const TablesIo& io, int64_t batch) const;

  const TablesSpec& spec_;
  const TableStorage& storage_;
  const Exec exec_;
  const FloatType type_;
  const SparseUpdateOptions how_;
  const plan::Buffers* buffers_ = nullptr;
  plan::BufferId sorted_ = plan::kNoBuffer;  // the step's scalars; the list is in the workspace
  std::unique_ptr<DeviceSlots> slots_;
  // On a GPU: of training and of evaluation, which has no steps.
  std::unique_ptr<KeyErrors> train_errors_, eval_errors_;
  bool updates_ = false;
  std::unique_ptr<SparseUpdate> update_;
};

}  // namespace hlite::embedding
