// KeyCounter: how many training batches have had each key that has no row yet (AdmissionType::
// kCount), on the CPU or a GPU.
//
// A batch may begin with any number of counted keys below the capacity, and then all of its new
// keys are counted; beyond it, only keys that are counted already. So what is counted depends on
// the batches alone, not on the order of threads. A key that gets a row is not among the counted
// keys any more; its place is free after the next drop() or assign().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "embedding/hashed_args.h"
#include "embedding/key_index.h"
#include "hugectr_lite/core/exec_memory.h"

namespace hlite::embedding {

struct CountedKey {
  uint64_t key = 0;  // table_key()
  RowUse use = {};
  bool operator<(const CountedKey& other) const { return key < other.key; }
};

class KeyCounter {
 public:
  // `most_keys`: distinct keys of a batch, at most; `rows`: keys with a row, at most.
  KeyCounter(std::string name, const Exec& exec, int64_t capacity, int64_t most_keys, int64_t rows);
  [[nodiscard]] int64_t bytes() const;
  void allocate();
  void clear();

  [[nodiscard]] int64_t capacity() const { return capacity_; }
  // On the CPU: counts a key for `iteration`, once. Returns its count, or 0 if this iteration has
  // counted it before or it is not taken.
  uint32_t count(uint64_t key, uint32_t iteration);
  // There: asks for the cache line that count() will read.
  void prefetch(uint64_t key) const { index_->prefetch(key); }
  // There: the key that was counted last has got a row.
  void has_row();
  // There: lets the keys that have a row, and those for whose use gone() is true, leave.
  void drop(FunctionRef<bool(const RowUse&)> gone);
  // On a GPU, for kernels.
  [[nodiscard]] const KeyCounts& ref() const { return counts_; }

  // The number of counted keys without a row. Synchronizes the device.
  [[nodiscard]] int64_t size() const;
  // All keys in it, in any order; on a GPU some of them may have got a row.
  [[nodiscard]] std::vector<CountedKey> entries() const;
  // Counts these keys alone. On a GPU synchronizes the device.
  void assign(const std::vector<CountedKey>& entries);

 private:
  [[nodiscard]] int64_t slots() const { return capacity_ + most_keys_ + rows_; }

  const std::string name_;
  const Exec exec_;
  const int64_t capacity_, most_keys_, rows_;
  std::unique_ptr<KeyIndex> index_;  // on the CPU
  std::vector<RowUse> uses_;         // there, of each key of the index
  size_t counted_ = 0;               // there, the place in them of the key that was counted last
  int64_t with_row_ = 0;
  uint32_t step_ = 0;
  bool open_ = false;
  ExecMemory memory_;  // on a GPU
  KeyCounts counts_;
};

}  // namespace hlite::embedding
