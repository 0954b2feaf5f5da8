// EmbeddingTables: the tables of one embedding layer: the rows that this rank holds (TableStorage),
// which rows there are (all, or as keys come: HashedIndex),
// and what an iteration does with them (TableSteps).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "embedding/hashed_index.h"
#include "embedding/sharded_steps.h"
#include "embedding/table_storage.h"

namespace hlite::embedding {

class EmbeddingTables {
 public:
  // Collective when ranks.world is given.
  EmbeddingTables(TablesSpec spec, const TablesPlace& place);

  // Names the buffers of rows, states and steps.
  void declare(plan::Buffers& buffers);
  // Bytes of what is not among the buffers.
  [[nodiscard]] int64_t workspace_bytes() const;
  // Takes them. To be called once, behind all steps' emit...() and before any of them runs.
  void prepare();
  // What the layer does in an iteration: table_steps.h.
  [[nodiscard]] TableSteps& steps() const { return *steps_; }
  // The same object on several ranks, else null.
  [[nodiscard]] ShardedSteps* sharded() const { return sharded_; }

  // Where rows come as keys come: makes room for the rows of a file, before it is read.
  // keys_of(table): the keys of its rows, ascending.
  void make_room(const std::function<std::vector<uint32_t>(const std::string&)>& keys_of);
  // First values of tables and states. REQUIRES allocated buffers.
  void initialize(const Exec& exec) const;
  // What steps have noted and left to the host: waits for exec.stream, behind which all runs are
  // ordered. Throws DeviceError when a lookup on a GPU met a key beyond its table, though the
  // reader lets none pass, and DataError when a key found no row left.
  void check(const Exec& exec);
  // What a file holds; collective, as rows may be anywhere.
  [[nodiscard]] std::vector<TensorRef> tables() const { return storage_.tables(file_keys()); }
  [[nodiscard]] std::vector<TensorRef> states() const { return storage_.states(file_keys()); }

 private:
  [[nodiscard]] TableStorage::Keys file_keys() const;

  const TablesSpec spec_;
  const comm::RankContext ranks_;
  TableStorage storage_;
  std::unique_ptr<HashedIndex> index_;  // null: all keys have rows, from the start
  std::unique_ptr<TableSteps> steps_;
  ShardedSteps* sharded_ = nullptr;
};

}  // namespace hlite::embedding
