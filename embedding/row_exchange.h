// RowExchange adds the steps of several ranks to an iteration of a layer's tables (TableSteps).
// Each rank requests the distinct rows that its share of the batch needs from their owners, and
// returns one gradient per row. Replicated rows (frequent categories) are not exchanged; their
// gradients are summed over the ranks.
//
//   <layer>.route             keys -> request lists by owner                     embedding
//   <layer>.keys_exchange     request lists                                      comm
//   or <layer>.lists          the same lists, made from the keys of all ranks    embedding
//   <layer>.insert            of hashed tables: inserts new keys, where the tier does not bring
//                             their rows                                       embedding
//   <layer>.admit             of tables larger than memory: rows -> lines        embedding
//   <layer>.gather            rows that other ranks request                      embedding
//   <layer>.rows_exchange     rows                                               comm
//   <layer>.pool              received and replicated rows -> output             embedding
//   <layer>.sort              lookups by row, and lists by own row               embedding
//   <layer>.reduce            gradient of output -> a gradient a row             embedding
//   <layer>.grads_exchange    gradients                                          comm
//   <layer>.update            own rows; <layer>.update_replicated: replicated    embedding
//
// The rows that a batch looks up are collected in one array of this rank's memory, the received
// rows (routing.h). A lookup and the first half of a sparse update treat it like a table: routing
// gives every key its row there. The owner's side is a sparse update of its own rows, with one list
// of rows per rank: equal rows are summed in the order of ranks.
//
// All sizes stay in the memory of the device, so that a run on a GPU can be captured: exchanges
// have blocks of one capacity, and ops look up how much of a block counts.
//
// For hashed tables lists hold keys. An owner finds their rows in the lists of all ranks at once,
// and gives new keys the next ones in the order of slots, then keys: so its rows depend on the
// order of the batches alone, and a run that is made again finds what it inserted. A full hashed
// table sets the same flag as a list that does not fit, on its owner, whose host then ends all
// ranks (EmbeddingTables::check()).
//
// Every list carries the length of its sender's longest list, so all ranks learn in the same step
// if one exceeds the capacity. They set TablesIo::capacity_exceeded: the updates of all layers read
// it and change nothing. The host reads it too (on a GPU while the run goes on), grows the buffers,
// clears it and repeats the run.
//
// Where TablesPlace::keys_ahead, the steps up to the lists stand in a plan of their own, which may
// run while the batch before is worked on: what they leave for the others is there twice, a side
// for each of the two batches.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "embedding/device_placement.h"
#include "embedding/device_slots.h"
#include "embedding/exchange_forecast.h"
#include "embedding/hashed_index.h"
#include "embedding/key_errors.h"
#include "embedding/requested_rows.h"
#include "embedding/sparse_update.h"
#include "embedding/whole_table_update.h"
#include "hugectr_lite/core/exec_memory.h"

namespace hlite::embedding {

class Cutter;

class RowExchange {
 public:
  // Collective when place.ranks.world is given. `index`: null if the tables are not hashed.
  // All but `place` must outlive it.
  RowExchange(const TablesSpec& spec, const TableStorage& storage, HashedIndex* index,
              const LayerKeyErrors& errors, const TablesPlace& place);

  void declare(plan::Buffers& buffers);
  [[nodiscard]] int64_t workspace_bytes() const;
  void prepare();

  // Emits the steps from keys to output: into `keys`, which may be the same plan, those that need
  // keys alone.
  void emit_forward(plan::Plan& keys, plan::Plan& plan, const TablesIo& io);
  // Emits the steps from the gradient of output to the gradients of own rows, one per requesting
  // rank, and of replicated rows. `sorted` orders them after sort().
  void emit_backward(plan::Plan& plan, const TablesIo& io, plan::BufferId sorted);
  // The part of "<layer>.sort".
  void sort(const plan::StepContext& c, const TablesIo& io);
  // Updates the replicated rows, whose gradients have been summed.
  void update_replicated(const plan::StepContext& c, const TablesIo& io) const;

  // `training`: elements are sent as place.wire says, else in float.
  [[nodiscard]] ExchangeShape shape(bool training = true) const;
  // Rows that other ranks request, as a batch of one slot with one sample per row of capacity.
  [[nodiscard]] SlotLayout requested_layout() const;
  [[nodiscard]] int64_t max_requested() const { return shape().list_capacity(); }
  [[nodiscard]] Matrix<uint32_t> requested_rows() const {
    return {growing_.lists[side()].requested, max_requested(), 1};
  }
  // The lines of the requested rows if storage holds lines. On the CPU they replace the rows in
  // place.
  [[nodiscard]] Matrix<uint32_t> requested_lines() const {
    return {growing_.lines ? growing_.lines : growing_.lists[side()].requested, max_requested(), 1};
  }
  [[nodiscard]] Matrix<uint32_t> sorted_rows() const {
    return storage_.sorts_rows() ? requested_rows() : requested_lines();
  }
  [[nodiscard]] View<const float, 3> requested_gradients() const {
    return {growing_.owned, max_requested(), 1, spec_.layout.width};
  }
  // Buffers by which the plan orders other steps after these.
  [[nodiscard]] plan::BufferId lists() const { return lists_; }
  [[nodiscard]] plan::BufferId requested() const { return requested_; }
  [[nodiscard]] plan::BufferId outgoing() const { return outgoing_; }
  [[nodiscard]] const ExchangeForecast& forecast() const { return forecast_; }

  // The gradients of the replicated rows, then, if the update needs it, a mark for each row that
  // was looked up. The caller sums them over the ranks between backward steps and updates, and sets
  // their buffer before emit_backward().
  [[nodiscard]] int64_t replicated_gradient_bytes() const;
  void set_replicated_gradients(plan::BufferId id) { replicated_gradients_ = id; }
  [[nodiscard]] plan::BufferId replicated_gradients() const { return replicated_gradients_; }

  // Returns true if the last run exceeded the capacity, on all ranks alike. Synchronizes.
  [[nodiscard]] bool exceeded_capacity() const { return needed() > capacity_; }
  // Grows the capacity; returns a message. REQUIRES that nothing runs, on any rank.
  [[nodiscard]] std::string grow();
  // Traffic of each exchange step so far. On a GPU this synchronizes and is collective. REQUIRES a
  // world.
  [[nodiscard]] std::vector<comm::StepTraffic> traffic() const;

 private:
  // What the steps on keys leave for the others: of constant size, and what grows.
  struct FixedLists {
    uint32_t* entries;        // [max_batch, columns] the batch's keys as received rows
    RequestLists lists;       // without blocks
    RequestedRows requested;  // without rows
  };
  struct GrowingLists {
    uint32_t* requested;  // [ranks * capacity] rows
    // Set for hashed tables: [ranks * capacity] the keys of the rows, the table of each.
    uint32_t *requested_keys, *requested_tables;
  };
  // Arrays of constant size.
  struct Fixed {
    std::array<FixedLists, 2> lists;  // of each side; the same where there is one
    PeerCounts* counts;
    int64_t* received_bytes;  // [ranks] of the key lists
    int64_t* ignored_bytes;   // [ranks] of vectors: their number is known
    float* minus_one;
    optimizer::StepScalars* scalars;  // the reduction's
    std::byte *routing, *gathered;
  };
  // Arrays that grow with the capacity.
  struct Growing {
    std::array<GrowingLists, 2> lists;
    uint32_t *sent_lists, *got_lists;  // [ranks][header + capacity]
    uint32_t* lines;                   // [ranks * capacity] of a GPU that holds lines; else null
    std::byte* insertion;              // of hashed tables
    float* owned;                      // [ranks * capacity, V] rows for others; their gradients
    float* received;                   // [received rows, V] the rows; later their gradients
    // [ranks * capacity, V] if vectors travel in 16 bits: sent and received
    bf16 *narrow_sent, *narrow_got;
  };
  void route(const plan::StepContext& c, const TablesIo& io);
  void exchange_keys(const plan::StepContext& c, const TablesIo& io);
  void list_keys(const plan::StepContext& c, const TablesIo& io);
  void take_lists(const plan::StepContext& c, const TablesIo& io);
  void insert(const plan::StepContext& c, const TablesIo& io);
  void admit(const plan::StepContext& c, const TablesIo& io);
  void gather(const plan::StepContext& c, const TablesIo& io);
  // Sends rows from their owners to the ranks that requested them, or gradients back.
  void exchange_vectors(const plan::StepContext& c, bool training, bool to_owners);
  void pool(const plan::StepContext& c, const TablesIo& io);
  void reduce(const plan::StepContext& c, const TablesIo& io);

  // The side that the step at hand reads or writes.
  [[nodiscard]] size_t side() const {
    return place_.keys_ahead ? static_cast<size_t>(buffers_->side()) : 0;
  }
  [[nodiscard]] const FixedLists& lists_here() const { return fixed_.lists[side()]; }
  [[nodiscard]] FixedLists cut_lists(Cutter& cutter) const;
  [[nodiscard]] GrowingLists cut_growing_lists(Cutter& cutter) const;
  Fixed cut_fixed(Cutter& cutter) const;
  Growing cut_growing(Cutter& cutter) const;
  void allocate();
  [[nodiscard]] int64_t needed() const;
  [[nodiscard]] const comm::RankContext& ranks() const { return place_.ranks; }
  [[nodiscard]] int64_t header() const { return shape().header_words(); }
  [[nodiscard]] bool narrow_wire() const { return place_.wire != FloatType::kFloat; }
  [[nodiscard]] SlotLayout received_layout() const { return spec_.layout.pooled(shape().rows()); }
  [[nodiscard]] SparseUpdateOptions reduction() const;
  [[nodiscard]] RequestLists request_lists() const;
  [[nodiscard]] RequestedRows received_requests() const;
  [[nodiscard]] HashedArgs requested_list(Matrix<uint32_t> rows) const;
  [[nodiscard]] int64_t insertion_bytes() const;
  [[nodiscard]] static plan::BufferId routed_before(const TablesIo& io) {
    return io.routed != plan::kNoBuffer ? io.routed : io.step;
  }
  // Returns true if the rows of hashed tables come with the batch.
  [[nodiscard]] bool brings_rows() const {
    return index_ && storage_.tier() && storage_.tier()->finds_rows();
  }
  [[nodiscard]] Matrix<uint32_t> entries(int64_t batch) const;
  [[nodiscard]] Matrix<float> received_rows() const;
  [[nodiscard]] Matrix<float> owned_rows() const;
  [[nodiscard]] Matrix<float> list_capacity() const;
  [[nodiscard]] Matrix<float> replicated_gradient_rows() const;
  // [replicated rows], or empty if no mark is kept.
  [[nodiscard]] std::span<float> touched() const;
  // Samples of one rank in io.all_keys: the first ranks of a small batch have all its samples.
  [[nodiscard]] int64_t samples_of_rank(const TablesIo& io) const {
    return io.training ? place_.train_batch : place_.max_batch;
  }
  template <typename T>
  [[nodiscard]] View<T, 3> vectors(plan::BufferId id, int64_t batch) const {
    return {buffers_->data<T>(id), batch, spec_.layout.slots(), spec_.layout.width};
  }
  void emit_lists(plan::Plan& plan, const TablesIo& io, double routed_bytes);
  [[nodiscard]] std::vector<comm::StepTraffic> traffic_by_rails(
      const std::vector<PeerCounts>& own) const;
  // Names of the exchanges in reports.
  [[nodiscard]] std::vector<comm::StepTraffic> traffic_of(const comm::TrafficTotals& keys,
                                                          const comm::TrafficTotals& rows,
                                                          const comm::TrafficTotals& grads) const;

  const TablesSpec& spec_;
  const TableStorage& storage_;
  HashedIndex* const index_;  // null: another type
  const LayerKeyErrors& errors_;
  const TablesPlace place_;
  const Exec exec_;
  const ExchangeForecast forecast_;
  const bool marks_;  // true if touched() is kept
  const int64_t replicated_capacity_;
  int64_t capacity_;
  const std::unique_ptr<comm::Communicator> key_exchange_, row_exchange_, gradient_exchange_;

  const plan::Buffers* buffers_ = nullptr;
  plan::BufferId replicated_gradients_ = plan::kNoBuffer;
  // Steps hand data on in memory that grows, outside of the plan's buffers. These buffers stand for
  // it in the plan, so that it orders the steps.
  plan::BufferId lists_ = plan::kNoBuffer, requested_ = plan::kNoBuffer,
                 outgoing_ = plan::kNoBuffer, incoming_ = plan::kNoBuffer;
  size_t routing_bytes_ = 0, gathered_bytes_ = 0;
  std::unique_ptr<DevicePlacement> placement_;
  std::unique_ptr<DeviceSlots> slots_, received_slots_, requested_slots_;
  std::unique_ptr<SparseUpdate> reduce_;
  ExecMemory fixed_memory_, growing_memory_;
  Fixed fixed_{};
  Growing growing_{};
};

}  // namespace hlite::embedding
