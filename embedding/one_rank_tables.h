// Tables all of whose rows are on this rank: a lookup and a sparse update.
#pragma once

#include "embedding/embedding_tables.h"
#include "embedding/sparse_update.h"

namespace hlite::embedding {

class OneRankTables final : public EmbeddingTables {
 public:
  OneRankTables(TablesSpec spec, int64_t train_batch, int threads)
      : spec_(std::move(spec)), train_batch_(train_batch), threads_(threads) {}

  void declare(plan::Buffers& buffers) override;
  [[nodiscard]] int64_t workspace_bytes() const override {
    return SparseUpdate::workspace_bytes(spec_.pooling, train_batch_, threads_);
  }
  void emit_forward(plan::Plan& plan, const TablesIo& io) override;
  void emit_backward(plan::Plan&, const TablesIo&) override {}
  // Allocates the workspace.
  void emit_update(plan::Plan& plan, const TablesIo& io) override;
  void initialize(const Exec& exec, uint64_t seed) const override;
  [[nodiscard]] std::vector<NamedRows> tables() const override;
  [[nodiscard]] std::vector<NamedRows> states() const override;

 private:
  [[nodiscard]] Matrix<float> all_rows(plan::BufferId id) const;
  [[nodiscard]] Matrix<const uint32_t> keys_of(const TablesIo& io, int64_t batch) const {
    return {buffers_->data<uint32_t>(io.keys), batch, spec_.pooling.keys.columns};
  }

  const TablesSpec spec_;
  const int64_t train_batch_;
  const int threads_;
  const plan::Buffers* buffers_ = nullptr;
  plan::BufferId table_ = plan::kNoBuffer;
  std::vector<plan::BufferId> states_;
  std::unique_ptr<SparseUpdate> sparse_update_;
};

}  // namespace hlite::embedding
