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
// Tables whose keys are not known beforehand (spec.hash_capacity) come here on one rank too: lists
// are of keys, and the owner knows their rows (hashed_rows.h).
//
// Buffers have room for `capacity` rows from any one rank to any other. Every list travels with the
// longest that its sender has, so when one does not fit, all ranks know in the same step, before
// any weight has changed: each throws CapacityOverflow, and the caller grows and runs the iteration
// again.
#pragma once

#include "embedding/embedding_tables.h"
#include "embedding/hashed_rows.h"
#include "embedding/key_routing.h"
#include "embedding/routed_rows.h"
#include "embedding/row_placement.h"
#include "embedding/table_init.h"
#include "hugectr_lite/comm/rank_context.h"

namespace hlite::embedding {

class ExchangedTables;

// Thrown on all ranks in the same step.
class CapacityOverflow final : public Error {
 public:
  CapacityOverflow(ExchangedTables& tables, const std::string& layer, int64_t needed,
                   int64_t capacity)
      : Error(fmt::format("{}: {} rows wanted of one rank, room for {}", layer, needed, capacity)),
        tables_(&tables),
        needed_(needed) {}
  [[nodiscard]] ExchangedTables& tables() const { return *tables_; }
  [[nodiscard]] int64_t needed() const { return needed_; }

 private:
  ExchangedTables* tables_;
  int64_t needed_;
};

struct ExchangeOptions {
  comm::Route route = comm::Route::kFlat;
  // Share of the lookups that go to rows which are not copied, for the first capacity.
  double exchanged_share = 1;
  int64_t capacity = 0;  // rows; 0: as statistics and the placement make likely
};

class ExchangedTables final : public EmbeddingTables {
 public:
  // Collective when ranks.world is given. `max_batch`: samples of one rank, training or evaluation.
  ExchangedTables(TablesSpec spec, std::shared_ptr<const RowPlacement> placement,
                  const comm::RankContext& ranks, const ExchangeOptions& options, int64_t max_batch,
                  int threads);

  void declare(plan::Buffers& buffers) override;
  [[nodiscard]] int64_t workspace_bytes() const override;
  // Allocates the exchange's memory.
  void emit_forward(plan::Plan& plan, const TablesIo& io) override;
  void emit_backward(plan::Plan& plan, const TablesIo& io) override;
  void emit_update(plan::Plan& plan, const TablesIo& io) override;
  void make_room(const std::function<std::vector<uint32_t>(const std::string&)>& keys_of) override;
  void initialize(const Exec& exec, uint64_t seed) const override;
  // get() is collective: all ranks call it with the same range, and rank 0 gets the elements.
  // put() is not: each rank takes what it holds of any range.
  [[nodiscard]] std::vector<NamedRows> tables() const override;
  [[nodiscard]] std::vector<NamedRows> states() const override;

  // The gradients of the copied rows, then a mark for each that was looked up where the update
  // needs it: what has to be summed over the ranks between emit_backward()'s steps and
  // emit_update()'s. Whoever sums says where they lie, before emit_backward().
  [[nodiscard]] int64_t copied_gradient_bytes() const;
  void set_copied_gradients(plan::BufferId id) { copied_gradients_ = id; }

  [[nodiscard]] int64_t capacity() const { return capacity_; }
  // For at least `rows` rows from any one rank to any other; the same on all ranks. REQUIRES that
  // nothing runs.
  void grow(int64_t rows);
  [[nodiscard]] const RowPlacement& placement() const { return *placement_; }
  // What each exchange step has sent and got so far. REQUIRES a world.
  [[nodiscard]] std::vector<comm::StepTraffic> traffic() const;

 private:
  struct Part {  // the own rows and the copied ones, of weights or of a state
    plan::BufferId own, copied;
  };
  [[nodiscard]] std::vector<double> likely_rows(double room) const;
  [[nodiscard]] int64_t likely_capacity() const;
  [[nodiscard]] plan::SentBytes sends(int64_t header, int64_t row, bool to_owners) const;
  void allocate();
  [[nodiscard]] Matrix<float> own(const Part& part) const;
  [[nodiscard]] Matrix<float> copied(const Part& part) const;
  [[nodiscard]] Matrix<float> copied_gradients() const;
  [[nodiscard]] std::span<float> touched() const;
  [[nodiscard]] std::span<const uint32_t> wanted(int rank) const;
  [[nodiscard]] KeyList wanted_keys(int rank) const;
  // `rows` rows from the `first` one on.
  [[nodiscard]] Matrix<float> block(const HostMemory& memory, int64_t first, int64_t rows) const;
  [[nodiscard]] RowStep step_of(const TablesIo& io) const;
  void exchange_keys(const Exec& exec);
  void first_values(int64_t slot, uint32_t key, int64_t row);
  void insert();
  void gather(const Exec& exec, bool training);
  void look_up(const Exec& exec, const KeyList& list, Matrix<float> out) const;
  void exchange_vectors(const Exec& exec, bool to_owners);
  void update(const Exec& exec, const TablesIo& io);
  // Of hashed tables: [slots] the keys of the rows in a file, ascending. Else null: all keys.
  using Keys = std::shared_ptr<const std::vector<std::vector<uint32_t>>>;
  [[nodiscard]] Keys all_keys() const;
  [[nodiscard]] int64_t file_rows(const Keys& keys, int64_t slot) const;
  [[nodiscard]] RowPlace place_of(const Keys& keys, int64_t slot, int64_t row) const;
  [[nodiscard]] std::vector<NamedRows> named(const Part& part, int state, const Keys& keys) const;
  void get_rows(const Part& part, const Keys& keys, int64_t slot, int64_t first,
                std::span<float> out) const;
  void put_rows(const Part& part, const Keys& keys, int64_t slot, int64_t first,
                std::span<const float> in) const;

  const TablesSpec spec_;
  const std::shared_ptr<const RowPlacement> placement_;
  const comm::RankContext ranks_;
  const ExchangeOptions options_;
  const int64_t max_batch_;
  const int threads_;
  const bool marks_;      // whether touched() is kept
  const int64_t header_;  // words before a list
  int64_t capacity_;
  std::unique_ptr<comm::Communicator> keys_exchange_, rows_exchange_, grads_exchange_;
  std::unique_ptr<KeyRouting> routing_;
  std::unique_ptr<HashedRows> hashed_;  // null: another type
  std::unique_ptr<TableRowInit> init_;  // of hashed rows

  const plan::Buffers* buffers_ = nullptr;
  Part table_{plan::kNoBuffer, plan::kNoBuffer};
  std::vector<Part> states_;
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
};

}  // namespace hlite::embedding
