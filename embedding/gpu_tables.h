// Tables all of whose rows are on this rank's GPU: OneRankTables with the kernels of lookup.h and
// gpu_sparse_update.h.
#pragma once

#include "embedding/device_slots.h"
#include "embedding/embedding_tables.h"
#include "embedding/gpu_sparse_update.h"
#include "embedding/key_errors.h"
#include "hugectr_lite/core/float_type.h"

namespace hlite::embedding {

class GpuTables final : public EmbeddingTables {
 public:
  // `gpu`: works on the device that is current when it is called. `type`: of the output and its
  // gradient; rows are float.
  GpuTables(TablesSpec spec, const cuda::Backend& gpu, int64_t train_batch, FloatType type)
      : spec_(std::move(spec)),
        type_(type),
        exec_{.device = Device::kCuda, .cuda = &gpu},
        train_batch_(train_batch) {}

  void declare(plan::Buffers& buffers) override;
  [[nodiscard]] int64_t workspace_bytes() const override;
  void emit_forward(plan::Plan& plan, const TablesIo& io) override;
  void emit_backward(plan::Plan& plan, const TablesIo& io) override;
  void emit_update(plan::Plan& plan, const TablesIo& io) override;
  void prepare() override;
  void check_keys(const Exec& exec) override;
  // `exec` is not looked at: the GPU makes the same bits as a CPU.
  void initialize(const Exec& exec, uint64_t seed) const override;
  [[nodiscard]] std::vector<NamedRows> tables() const override;
  [[nodiscard]] std::vector<NamedRows> states() const override;

 private:
  [[nodiscard]] Matrix<float> all_rows(plan::BufferId id) const;
  [[nodiscard]] Matrix<const uint32_t> keys_of(const TablesIo& io, int64_t batch) const;
  [[nodiscard]] optimizer::GradientScale gradient_scale(const TablesIo& io) const;
  [[nodiscard]] NamedRows named(std::string name, plan::BufferId id, int64_t slot) const;
  void sort(const plan::StepContext& context, const TablesIo& io);
  [[nodiscard]] SparseUpdateMethod method() const {
    return spec_.atomic_update ? SparseUpdateMethod::kAtomic : SparseUpdateMethod::kSorted;
  }

  const TablesSpec spec_;
  const FloatType type_;
  const Exec exec_;
  const int64_t train_batch_;
  const plan::Buffers* buffers_ = nullptr;
  plan::BufferId table_ = plan::kNoBuffer;
  std::vector<plan::BufferId> states_;
  plan::BufferId sorted_ = plan::kNoBuffer;  // the step's scalars; the list is in the workspace
  std::unique_ptr<DeviceSlots> slots_;
  // Of training and of evaluation, which has no steps.
  std::unique_ptr<KeyErrors> train_errors_, eval_errors_;
  bool updates_ = false;
  std::unique_ptr<GpuSparseUpdate> update_;
};

}  // namespace hlite::embedding
