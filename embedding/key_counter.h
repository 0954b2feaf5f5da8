// KeyCounter: how many training batches have had a key that has no row yet (AdmissionType::kCount),
// on the CPU or a GPU.
//
// What is counted depends on the batches alone, not on the order of threads, and a run that is made
// again counts nothing twice.
//
// A batch may begin with any number of counted keys below the capacity, and then all of its new
// keys are counted; beyond it, only keys that are counted already. A key that gets a row is not
// among the counted keys any more; its place is free after the next forget() or assign().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "embedding/hashed_args.h"
#include "embedding/key_index.h"
#include "embedding/tables_spec.h"
#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/exec_memory.h"
#include "hugectr_lite/core/tensor_ref.h"

namespace hlite::embedding {

// The words of a tensor in a file; nullopt if there is none.
using WordsOf = std::function<std::optional<std::vector<uint32_t>>(const std::string& tensor)>;

// The memory and threads of a counter.
struct KeyCounterPlace {
  Exec exec = {};
  int64_t rows = 0;      // keys with a row, at most
  int64_t max_keys = 0;  // keys of a training batch, at most
  // Returns the keys that have a row. REQUIRES that nothing runs.
  std::function<std::vector<uint64_t>()> keys_with_row = {};
};

struct CountedKey {
  uint64_t key = 0;  // table_key()
  RowUse use = {};
  bool operator<(const CountedKey& other) const { return key < other.key; }
};

class KeyCounter {
 public:
  // `spec` must outlive the counter.
  KeyCounter(const TablesSpec& spec, KeyCounterPlace place);
  [[nodiscard]] int64_t bytes() const;
  void allocate();
  void clear() { assign({}); }

  // On the CPU: counts a key for `iteration`, once. Returns its count, or 0 if it is not taken or
  // its count is known to the caller.
  uint32_t count(uint64_t key, uint32_t iteration);
  // Prefetches the cache lines that count() will read.
  void prefetch(uint64_t key) const { index_->prefetch(key); }
  // There: the key that was counted last has got a row. REQUIRES that it is `key`.
  void has_row(uint64_t key);
  // On a GPU: what the kernels of an insertion need.
  [[nodiscard]] const KeyCounts& counts() const { return counts_; }

  // These are called between two iterations and synchronize the device.
  // Makes place for other keys after `iteration`: keys leave that have got a row, those that no
  // batch has had for steps_to_live, and if more than three quarters of the capacity are left, the
  // half that was seen least recently.
  void forget(int64_t iteration);
  // The number of keys that are counted.
  [[nodiscard]] int64_t size();
  // <layer>.table_<i>.candidates, [n, 3] words: key, count and last iteration of the keys that any
  // rank counts, by key. Collective.
  [[nodiscard]] std::vector<TensorRef> tensors(const comm::RankContext& ranks);
  // Takes the counts of a file. `owns`: whether this rank counts a key of a table.
  void read(const WordsOf& words_of, const std::function<bool(int64_t table, uint32_t key)>& owns);

  // The keys that are counted and have no row, in any order.
  [[nodiscard]] std::vector<CountedKey> entries() const;
  // Counts these keys alone.
  void assign(const std::vector<CountedKey>& entries);

 private:
  [[nodiscard]] int64_t slots() const { return capacity_ + place_.max_keys + place_.rows; }
  [[nodiscard]] bool on_gpu() const { return place_.exec.on_gpu(); }
  [[nodiscard]] std::vector<CountedKey> device_entries() const;
  void drop_on_cpu(int64_t iteration);

  const TablesSpec& spec_;
  const KeyCounterPlace place_;
  const int64_t capacity_;
  std::unique_ptr<KeyIndex> index_;  // on the CPU
  std::vector<RowUse> uses_;         // there, of each key of the index
  size_t counted_ = 0;               // there, the place in them of the key that was counted last
  int64_t with_row_ = 0;             // there, how many of them have got a row
  uint32_t step_ = 0;
  bool open_ = false;
  ExecMemory memory_;  // on a GPU
  KeyCounts counts_;
};

}  // namespace hlite::embedding
