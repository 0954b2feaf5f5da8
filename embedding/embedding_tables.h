// EmbeddingTables: the tables of one embedding layer: the rows that this rank holds (TableStorage),
// which rows there are (all, or as keys come: HashedRows), and what an iteration does with them
// (TableSteps).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "embedding/hashed_rows.h"
#include "embedding/sharded_steps.h"
#include "embedding/table_storage.h"
#include "hugectr_lite/core/float_type.h"

namespace hlite::embedding {

// Where the tables of a layer lie and what they have to do.
struct TablesPlace {
  comm::RankContext ranks = {};
  // On several ranks, where rows do not come as keys come; the same on all of them.
  std::shared_ptr<const RowPlacement> placement = nullptr;
  ExchangeOptions exchange = {};
  int64_t max_batch = 0, train_batch = 0;  // samples of one rank
  int threads = 1;                         // of the CPU, at most
  const cuda::Backend* gpu = nullptr;      // where they lie; null: on the CPU
  FloatType type = FloatType::kFloat;      // of the output and its gradient; on the CPU float
};

class EmbeddingTables {
 public:
  // Collective when ranks.world is given.
  EmbeddingTables(TablesSpec spec, const TablesPlace& place);

  // Names the buffers of rows, states and steps.
  void declare(plan::Buffers& buffers);
  // What the layer does in an iteration: table_steps.h.
  [[nodiscard]] TableSteps& steps() const { return *steps_; }
  // The same object on several ranks, else null.
  [[nodiscard]] ShardedSteps* sharded() const { return sharded_; }

  // Where rows come as keys come: makes room for the rows of a file, before it is read.
  // keys_of(table): the keys of its rows, ascending.
  void make_room(const std::function<std::vector<uint32_t>(const std::string&)>& keys_of);
  // First values of tables and states. REQUIRES allocated buffers.
  void initialize(const Exec& exec) const;
  // What a file holds; collective, as rows may be anywhere.
  [[nodiscard]] std::vector<TensorRef> tables() const { return storage_.tables(file_keys()); }
  [[nodiscard]] std::vector<TensorRef> states() const { return storage_.states(file_keys()); }

 private:
  [[nodiscard]] TableStorage::Keys file_keys() const;

  const TablesSpec spec_;
  const comm::RankContext ranks_;
  TableStorage storage_;
  std::unique_ptr<HashedRows> hashed_;  // null: another type
  std::unique_ptr<TableSteps> steps_;
  ShardedSteps* sharded_ = nullptr;
};

}  // namespace hlite::embedding
