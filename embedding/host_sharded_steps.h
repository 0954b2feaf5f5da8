// ShardedSteps on the CPU. Of tables whose keys are not known beforehand the lists are of keys, and
// the owner knows their rows (wanted_rows.h).
#pragma once

#include "embedding/key_routing.h"
#include "embedding/routed_rows.h"
#include "embedding/sharded_steps.h"
#include "embedding/wanted_rows.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::embedding {

class HostShardedSteps final : public ShardedSteps {
 public:
  // `index`: null where rows do not come as keys come.
  HostShardedSteps(const TablesSpec& spec, const TableStorage& storage, HashedIndex* index,
                   const TablesPlace& place);

  [[nodiscard]] int64_t workspace_bytes() const override;
  void prepare() override;
  [[nodiscard]] std::vector<comm::StepTraffic> traffic() const override;

 private:
  void route(const plan::StepContext& c, const TablesIo& io) override;
  void exchange_keys(const plan::StepContext& c, const TablesIo& io) override;
  void list_keys(const plan::StepContext& c, const TablesIo& io) override;
  void insert(const plan::StepContext& c, const TablesIo& io) override;
  void gather(const plan::StepContext& c, const TablesIo& io) override;
  void exchange_vectors(const plan::StepContext& c, bool to_owners) override;
  void pool(const plan::StepContext& c, const TablesIo& io) override;
  void sort(const plan::StepContext&, const TablesIo&) override {}
  void reduce(const plan::StepContext& c, const TablesIo& io) override;
  void update(const plan::StepContext& c, const TablesIo& io) override;
  void sum_gradients(const plan::StepContext& c, const TablesIo& io) override;
  void update_copied(const plan::StepContext& c, const TablesIo& io) override;
  [[nodiscard]] bool gives_up() const override { return needed_ > capacity(); }
  [[nodiscard]] int64_t needed() const override { return needed_; }
  void allocate() override;

  [[nodiscard]] int64_t longest_list(const KeyRouting& routing) const;
  // The list for rank `to` as it travels; returns its bytes.
  int64_t write_list(const KeyRouting& routing, int to, std::byte* block) const;
  // What lists came, of which the longest has at least `longest` rows.
  void take_lists(int64_t longest, const TablesIo& io);
  [[nodiscard]] std::span<const uint32_t> wanted(int rank) const;
  [[nodiscard]] KeyList wanted_keys(int rank) const;
  // `rows` rows from the `first` one on.
  [[nodiscard]] Matrix<float> block(const HostMemory& memory, int64_t first, int64_t rows) const;
  [[nodiscard]] RowStep step_of(const TablesIo& io) const;
  void update(const Exec& exec, const RowStep& step, const UpdatedRows& rows);
  void look_up(const Exec& exec, const KeyList& list, Matrix<float> out) const;

  HashedIndex* const index_;  // null: another type
  int64_t needed_ = 0;
  std::unique_ptr<KeyRouting> routing_;
  std::unique_ptr<KeyRouting> others_routing_;  // of one other rank, where keys are gathered
  HostMemory key_send_,
      key_receive_;         // [ranks][header + capacity] uint32: longest list, counts, list
  HostMemory owned_rows_;   // [ranks][capacity, V] rows for others; their gradients
  HostMemory listed_rows_;  // [ranks][capacity, V] rows from others; gradients for them
  HostMemory narrow_send_,
      narrow_receive_;  // [ranks][capacity, V] bf16, where vectors travel so
  std::vector<int64_t> send_bytes_, received_bytes_;
  std::vector<size_t> wanted_count_;
  std::vector<RowGradients> row_gradients_;
  WantedRows wanted_rows_;  // of hashed tables: the rows that lists name
};

}  // namespace hlite::embedding
