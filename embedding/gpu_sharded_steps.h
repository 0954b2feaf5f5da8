// ShardedSteps on GPUs. All sizes stay in device memory, so that a run can be captured: exchanges
// have blocks of one capacity, and kernels look up how much of a block counts.
//
// The rows that a batch looks up, wherever they come from, form a pool in this rank's memory
// (routing_args.h), which a lookup and the first half of a sparse update treat like a table:
// routing gives every key its row of the pool. What others ask for is a table's sparse update with
// a list of rows for each rank: equal rows are summed in the order of ranks.
//
// Of tables whose rows come as keys come, lists hold keys. An owner finds their rows in the lists
// of all ranks at once, and gives new keys the next ones in the order of slots, then keys: so its
// rows depend on the order of the batches alone, and a run that is made again finds what it
// inserted.
#pragma once

#include <memory>

#include "embedding/cutter.h"
#include "embedding/device_placement.h"
#include "embedding/device_slots.h"
#include "embedding/hashed_index.h"
#include "embedding/key_errors.h"
#include "embedding/pool_rows.h"
#include "embedding/sharded_steps.h"
#include "embedding/sparse_update.h"
#include "hugectr_lite/core/device_memory.h"

namespace hlite::embedding {

class GpuShardedSteps final : public ShardedSteps {
 public:
  // `index`: null where rows do not come as keys come.
  GpuShardedSteps(const TablesSpec& spec, const TableStorage& storage, HashedIndex* index,
                  const TablesPlace& place);

  [[nodiscard]] int64_t workspace_bytes() const override;
  void prepare() override;
  void check(const Exec& exec) override;
  [[nodiscard]] std::vector<comm::StepTraffic> traffic() const override;

 private:
  void route(const plan::StepContext& c, const TablesIo& io) override;
  void exchange_keys(const plan::StepContext& c, const TablesIo& io) override;
  void list_keys(const plan::StepContext& c, const TablesIo& io) override;
  void insert(const plan::StepContext& c, const TablesIo& io) override;
  void gather(const plan::StepContext& c, const TablesIo& io) override;
  void exchange_vectors(const plan::StepContext& c, bool to_owners) override;
  void pool(const plan::StepContext& c, const TablesIo& io) override;
  void sort(const plan::StepContext& c, const TablesIo& io) override;
  void reduce(const plan::StepContext& c, const TablesIo& io) override;
  void update(const plan::StepContext& c, const TablesIo& io) override;
  void sum_gradients(const plan::StepContext& c, const TablesIo& io) override;
  void update_copied(const plan::StepContext& c, const TablesIo& io) override;
  [[nodiscard]] bool gives_up() const override { return false; }  // kernels find out
  [[nodiscard]] int64_t needed() const override;
  void allocate() override;

  // What has one size for good.
  struct Fixed {
    uint32_t* entries;  // [max_batch, columns] the batch's keys as rows of the pool
    WantedLists lists;  // without blocks
    AskedRows asked;    // without rows
    PeerCounts* counts;
    int64_t* received_bytes;  // [ranks] of the key lists
    int64_t* ignored_bytes;   // [ranks] of vectors: their number is known
    float* minus_one;
    optimizer::StepScalars* scalars;  // [2] of the reduction, of the update
    std::byte *routing, *gathered;
  };
  // And what grows.
  struct Growing {
    uint32_t *sent_lists, *got_lists;  // [ranks][header + capacity]
    uint32_t* asked;                   // [ranks * capacity] rows
    // Of hashed tables: [ranks * capacity] the keys that have them, the slot of each, and memory of
    // the insertion.
    uint32_t *listed_keys, *listed_slots;
    std::byte* insertion;
    float* owned;  // [ranks * capacity, V] rows for others; their gradients
    float* pool;   // [pool rows, V] rows that were asked for; their gradients
    // [ranks * capacity, V] where vectors travel narrow: as they leave, as they come
    bf16 *narrow_sent, *narrow_got;
  };
  [[nodiscard]] std::vector<comm::StepTraffic> traffic_by_rails(
      const std::vector<PeerCounts>& own) const;
  Fixed cut_fixed(Cutter& cutter) const;
  Growing cut_growing(Cutter& cutter) const;
  [[nodiscard]] PoolShape shape() const;
  [[nodiscard]] WantedLists lists() const;
  [[nodiscard]] AskedRows asked() const;
  [[nodiscard]] Matrix<uint32_t> entries(int64_t batch) const;
  [[nodiscard]] Matrix<float> pool_rows() const;
  [[nodiscard]] Matrix<float> owned_rows() const;
  [[nodiscard]] Matrix<float> listed_rows() const;
  [[nodiscard]] Matrix<uint32_t> asked_rows() const;
  [[nodiscard]] HashedArgs asked_list() const;
  [[nodiscard]] int64_t insertion_bytes() const;
  [[nodiscard]] SlotLayout pool_layout() const;
  [[nodiscard]] SlotLayout asked_layout() const;
  [[nodiscard]] SparseUpdateOptions reduction() const;
  [[nodiscard]] SparseUpdateOptions merging() const;
  void take_lists(const plan::StepContext& c, const TablesIo& io);
  void merge(const plan::StepContext& c, const UpdatedRows& rows,
             const optimizer::GradientScale& scale);
  [[nodiscard]] bool owns() const { return storage().own_rows() > 0; }

  HashedIndex* const index_;  // null: another type
  const Exec exec_;
  const int64_t copied_capacity_;
  size_t routing_bytes_ = 0, gathered_bytes_ = 0;
  std::unique_ptr<DevicePlacement> placement_;
  std::unique_ptr<DeviceSlots> slots_, pool_slots_, asked_slots_;
  std::unique_ptr<KeyErrors> train_errors_, eval_errors_;
  std::unique_ptr<SparseUpdate> reduce_, merge_;
  DeviceMemory fixed_memory_, growing_memory_;
  Fixed fixed_{};
  Growing growing_{};
};

}  // namespace hlite::embedding
