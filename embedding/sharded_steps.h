// Tables whose rows are spread over ranks: each rank asks the owners for the distinct rows that its
// share of the batch needs, and hands back one gradient a row. Categories with a copy on every rank
// take no part in that; their gradients are summed over the ranks.
//
//   <layer>.route             keys -> which row is wanted of whom                embedding
//   <layer>.keys_exchange     lists of wanted rows                               comm
//   or <layer>.lists          the same lists, made from the keys of all ranks    embedding
//   <layer>.insert            of hashed tables: rows for keys that are new       embedding
//   <layer>.gather            rows that others want                              embedding
//   <layer>.rows_exchange     rows                                               comm
//   <layer>.pool              rows and copies -> output                          embedding
//   <layer>.sort              GPU: lookups by row, and lists by own row          embedding
//   <layer>.reduce            gradient of output -> a gradient a row             embedding
//   <layer>.grads_exchange    gradients                                          comm
//   <layer>.update            own rows; <layer>.update_copied: copies            embedding
//
// This class knows the steps, and how much room exchanges have; what a step does is
// HostShardedSteps on the CPU and GpuShardedSteps on GPUs.
//
// A hashed table that is full raises the flag of lists that do not fit, too, on its owner, whose
// host then looks and ends all ranks (EmbeddingTables::check()).
//
// Where gradients are kept as a whole, <layer>.clear and .gradients (whole_table_update.h) come
// before the update.
//
// Buffers have room for `capacity` rows from any one rank to any other. Every list travels with the
// longest that its sender has, so when one does not fit, all ranks know in the same step. Then a
// flag in TablesIo::overflow says that the run counts for nothing: the updates of all layers, which
// read it, change nothing. The host looks at it (on a GPU while the run goes on), grows, clears it
// and runs the iteration again.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "embedding/table_steps.h"
#include "embedding/table_storage.h"
#include "embedding/tables_place.h"
#include "embedding/whole_table_update.h"

namespace hlite::embedding {

class ShardedSteps : public TableSteps {
 public:
  void declare(plan::Buffers& buffers) final;
  void emit_forward(plan::Plan& plan, const TablesIo& io) final;
  void emit_backward(plan::Plan& plan, const TablesIo& io) final;
  void emit_update(plan::Plan& plan, const TablesIo& io) final;
  [[nodiscard]] std::vector<WholeGradients> whole_gradients() const final;

  // The gradients of the copied rows, then a mark for each that was looked up where the update
  // needs it: what has to be summed over the ranks between emit_backward()'s steps and
  // emit_update()'s. Whoever sums says where they lie, before emit_backward().
  [[nodiscard]] int64_t copied_gradient_bytes() const;
  void set_copied_gradients(plan::BufferId id) { copied_gradients_ = id; }

  // Makes the room that the last run did not have; says how much, or nothing where it had enough.
  // The same on all ranks. REQUIRES that nothing runs, on any rank.
  [[nodiscard]] std::string grow();
  // What each exchange step has sent and got so far. On a GPU waits, and is collective. REQUIRES a
  // world.
  [[nodiscard]] virtual std::vector<comm::StepTraffic> traffic() const = 0;

 protected:
  // Collective when place.ranks.world is given. `header`: words before a list. All but `place` must
  // outlive it.
  ShardedSteps(const TablesSpec& spec, const TableStorage& storage, const TablesPlace& place,
               int64_t header);

  // What the steps do.
  virtual void route(const plan::StepContext& c, const TablesIo& io) = 0;
  virtual void exchange_keys(const plan::StepContext& c, const TablesIo& io) = 0;
  // In its place, where keys are gathered: leaves what it would have left.
  virtual void list_keys(const plan::StepContext& c, const TablesIo& io) = 0;
  virtual void insert(const plan::StepContext& c, const TablesIo& io) = 0;
  virtual void gather(const plan::StepContext& c, const TablesIo& io) = 0;
  // Rows from their owners to those that listed them, or gradients back.
  virtual void exchange_vectors(const plan::StepContext& c, bool to_owners) = 0;
  virtual void pool(const plan::StepContext& c, const TablesIo& io) = 0;
  virtual void sort(const plan::StepContext& c, const TablesIo& io) = 0;
  virtual void reduce(const plan::StepContext& c, const TablesIo& io) = 0;
  virtual void update(const plan::StepContext& c, const TablesIo& io) = 0;
  // Adds the batch's gradients to whole().summed(), where they are kept as a whole.
  virtual void sum_gradients(const plan::StepContext& c, const TablesIo& io) = 0;
  virtual void update_copied(const plan::StepContext& c, const TablesIo& io) = 0;
  // Whether the host knows that the run at hand counts for nothing: then its steps are left out.
  [[nodiscard]] virtual bool gives_up() const = 0;
  // Rows of the longest list of any rank in the last run.
  [[nodiscard]] virtual int64_t needed() const = 0;
  // Takes what depends on capacity().
  virtual void allocate() = 0;

  [[nodiscard]] const TablesSpec& spec() const { return spec_; }
  [[nodiscard]] const TableStorage& storage() const { return storage_; }
  [[nodiscard]] const TablesPlace& place() const { return place_; }
  [[nodiscard]] const comm::RankContext& ranks() const { return place_.ranks; }
  // Samples of rank q in io.all_keys, [begin, end): the first ranks of a small batch have all.
  [[nodiscard]] std::pair<int64_t, int64_t> samples_of(int rank, const plan::StepContext& c,
                                                       const TablesIo& io) const;
  // Room of one rank there.
  [[nodiscard]] int64_t samples_of_rank(const TablesIo& io) const {
    return io.training ? place_.train_batch : place_.max_batch;
  }
  [[nodiscard]] bool narrow_wire() const { return place_.wire != FloatType::kFloat; }
  // Of a row or its gradient as it travels.
  [[nodiscard]] int64_t wire_row_bytes() const {
    return spec_.layout.width * float_type_bytes(place_.wire);
  }
  [[nodiscard]] int64_t capacity() const { return capacity_; }
  [[nodiscard]] int64_t header() const { return header_; }
  [[nodiscard]] const plan::Buffers& buffers() const { return *buffers_; }
  [[nodiscard]] bool global_update() const {
    return spec_.update_type == optimizer::UpdateType::kGlobal;
  }
  [[nodiscard]] const WholeTableUpdate& whole() const { return whole_; }
  // Of the sparse update, or of the sums in its place.
  [[nodiscard]] plan::BufferId rate_of(const TablesIo& io) const {
    return spec_.whole_gradients ? whole_.sum_rate() : io.rate;
  }
  [[nodiscard]] Matrix<float> copied_gradients() const;
  // [copied rows], or empty where no mark is kept.
  [[nodiscard]] std::span<float> touched() const;
  template <typename T>
  [[nodiscard]] View<T, 3> vectors(plan::BufferId id, int64_t batch) const {
    return {buffers_->data<T>(id), batch, spec_.layout.slots(), spec_.layout.width};
  }
  struct Exchanges {
    std::unique_ptr<comm::Communicator> keys, rows, grads;
  };
  [[nodiscard]] const Exchanges& exchanges() const { return exchanges_; }
  // Names of exchanges() in reports.
  [[nodiscard]] std::vector<comm::StepTraffic> traffic_of(const comm::TrafficTotals& keys,
                                                          const comm::TrafficTotals& rows,
                                                          const comm::TrafficTotals& grads) const;

 private:
  [[nodiscard]] std::vector<double> likely_rows(double room) const;
  [[nodiscard]] std::vector<double> expected_rows() const;
  [[nodiscard]] int64_t likely_capacity() const;
  // What a full batch is expected to move, for each sample of it.
  struct MovedBytes {
    double route = 0, gather = 0, pool = 0, reduce = 0, update = 0, update_copied = 0;
  };
  [[nodiscard]] MovedBytes moved_bytes() const;
  [[nodiscard]] plan::SentBytes sends(int64_t header, int64_t row, bool to_owners) const;
  // Adds a step of that name, behind the layer's, which is left out when the run gives up.
  void add(plan::Plan& plan, plan::Step step);
  void emit_lists(plan::Plan& plan, const TablesIo& io, double routed_bytes);
  // Adds one that changes what it writes, unless any layer's exchange was too small or gradients
  // overflowed.
  void add_update(plan::Plan& plan, plan::Step step, const TablesIo& io);

  const TablesSpec& spec_;
  const TableStorage& storage_;
  const TablesPlace place_;
  const bool marks_;      // whether touched() is kept
  const int64_t header_;  // words
  int64_t capacity_;
  const Exchanges exchanges_;

  WholeTableUpdate whole_;  // where spec_.whole_gradients
  const plan::Buffers* buffers_ = nullptr;
  plan::BufferId copied_gradients_ = plan::kNoBuffer;
  // What a step leaves for later ones lies in memory that grows; the plan orders the steps by
  // these.
  plan::BufferId lists_ = plan::kNoBuffer, wanted_ = plan::kNoBuffer, outgoing_ = plan::kNoBuffer,
                 incoming_ = plan::kNoBuffer, sorted_ = plan::kNoBuffer;
};

}  // namespace hlite::embedding
