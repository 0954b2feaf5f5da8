// Tables whose rows are spread over ranks: each rank asks the owners for the distinct rows that its
// share of the batch needs, and hands back one gradient a row. Categories with a copy on every rank
// take no part in that; their gradients are summed over the ranks.
//
//   <layer>.route             keys -> which row is wanted of whom                embedding
//   <layer>.keys_exchange     lists of wanted rows                               comm
//   <layer>.insert            of hashed tables: rows for keys that are new       embedding
//   <layer>.gather            rows that others want                              embedding
//   <layer>.rows_exchange     rows                                               comm
//   <layer>.pool              rows and copies -> output                          embedding
//   <layer>.reduce            gradient of output -> a gradient a row             embedding
//   <layer>.grads_exchange    gradients                                          comm
//   <layer>.update            own rows; <layer>.update_copied: copies            embedding
//
// Where gradients are kept as a whole, <layer>.clear and .gradients (whole_table_update.h) come
// before the update.
//
// Of tables whose keys are not known beforehand the lists are of keys, and the owner knows their
// rows (wanted_rows.h).
//
// Buffers have room for `capacity` rows from any one rank to any other. Every list travels with the
// longest that its sender has, so when one does not fit, all ranks know in the same step. Then a
// flag in TablesIo::overflow says that the run counts for nothing: the updates of all layers, which
// read it, change nothing, and this layer's steps are left out. The host looks at it behind the
// run, grows, clears it and runs the iteration again.
#pragma once

#include <functional>

#include "embedding/key_routing.h"
#include "embedding/routed_rows.h"
#include "embedding/table_steps.h"
#include "embedding/table_storage.h"
#include "embedding/tables_place.h"
#include "embedding/wanted_rows.h"
#include "embedding/whole_table_update.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::embedding {

class ShardedSteps final : public TableSteps {
 public:
  // Collective when ranks.world is given. `index`: null where rows do not come as keys come. All
  // but `place` must outlive it.
  ShardedSteps(const TablesSpec& spec, const TableStorage& storage, HashedIndex* index,
               const TablesPlace& place);

  void declare(plan::Buffers& buffers) override;
  [[nodiscard]] int64_t workspace_bytes() const override;
  void prepare() override;
  void emit_forward(plan::Plan& plan, const TablesIo& io) override;
  void emit_backward(plan::Plan& plan, const TablesIo& io) override;
  void emit_update(plan::Plan& plan, const TablesIo& io) override;
  [[nodiscard]] std::vector<WholeGradients> whole_gradients() const override;

  // The gradients of the copied rows, then a mark for each that was looked up where the update
  // needs it: what has to be summed over the ranks between emit_backward()'s steps and
  // emit_update()'s. Whoever sums says where they lie, before emit_backward().
  [[nodiscard]] int64_t copied_gradient_bytes() const;
  void set_copied_gradients(plan::BufferId id) { copied_gradients_ = id; }

  // Makes the room that the last run did not have; says how much, or nothing where it had enough.
  // The same on all ranks. REQUIRES that nothing runs.
  [[nodiscard]] std::string grow();
  // What each exchange step has sent and got so far. REQUIRES a world.
  [[nodiscard]] std::vector<comm::StepTraffic> traffic() const;

 private:
  [[nodiscard]] std::vector<double> likely_rows(double room) const;
  [[nodiscard]] int64_t likely_capacity() const;
  [[nodiscard]] plan::SentBytes sends(int64_t header, int64_t row, bool to_owners) const;
  void allocate();
  // Whether the lists of this run have the room that they need.
  [[nodiscard]] bool fits() const { return needed_ <= capacity_; }
  [[nodiscard]] Matrix<float> copied_gradients() const;
  [[nodiscard]] std::span<float> touched() const;
  [[nodiscard]] std::span<const uint32_t> wanted(int rank) const;
  [[nodiscard]] KeyList wanted_keys(int rank) const;
  // `rows` rows from the `first` one on.
  [[nodiscard]] Matrix<float> block(const HostMemory& memory, int64_t first, int64_t rows) const;
  template <typename T>
  [[nodiscard]] View<T, 3> vectors(plan::BufferId id, int64_t batch) const;
  [[nodiscard]] RowStep step_of(const TablesIo& io) const;
  // Adds a step that is left out of a run whose lists do not fit.
  void add(plan::Plan& plan, plan::Step step);
  void exchange_keys(const Exec& exec, const TablesIo& io);
  void insert();
  void gather(const Exec& exec, bool training);
  void look_up(const Exec& exec, const KeyList& list, Matrix<float> out) const;
  void exchange_vectors(const Exec& exec, bool to_owners);
  void pool(const plan::StepContext& c, const TablesIo& io);
  void reduce(const plan::StepContext& c, const TablesIo& io);
  void update(const Exec& exec, const RowStep& step, const UpdatedRows& rows);

  const TablesSpec& spec_;
  const TableStorage& storage_;
  HashedIndex* const index_;  // null: another type
  const comm::RankContext ranks_;
  const ExchangeOptions options_;
  const int64_t max_batch_;
  const int threads_;
  const FloatType type_;  // of the output and its gradient; rows travel as float
  const bool marks_;      // whether touched() is kept
  const int64_t header_;  // words before a list
  int64_t capacity_;
  int64_t needed_ = 0;  // rows of the longest list of any rank in the last run
  std::unique_ptr<comm::Communicator> keys_exchange_, rows_exchange_, grads_exchange_;
  std::unique_ptr<KeyRouting> routing_;

  WholeTableUpdate whole_;  // where spec_.whole_gradients
  const plan::Buffers* buffers_ = nullptr;
  plan::BufferId copied_gradients_ = plan::kNoBuffer;
  // What a step leaves for later ones lies in the memory below, which grows; the plan orders the
  // steps by these.
  plan::BufferId lists_ = plan::kNoBuffer, wanted_ = plan::kNoBuffer, outgoing_ = plan::kNoBuffer,
                 incoming_ = plan::kNoBuffer;

  HostMemory key_send_,
      key_receive_;         // [ranks][header + capacity] uint32: longest list, counts, list
  HostMemory owned_rows_;   // [ranks][capacity, V] rows for others; their gradients
  HostMemory listed_rows_;  // [ranks][capacity, V] rows from others; gradients for them
  std::vector<int64_t> send_bytes_, received_bytes_;
  std::vector<size_t> wanted_count_;
  std::vector<RowGradients> row_gradients_;
  WantedRows wanted_rows_;  // of hashed tables: the rows that lists name
};

}  // namespace hlite::embedding
