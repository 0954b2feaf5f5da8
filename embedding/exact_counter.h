// ExactCounter: counts of keys that have no row, each key by itself (AdmissionType::kCount).
//
// A batch may begin with any number of counted keys below the capacity, and then all of its new
// keys are counted; beyond it, only keys that are counted already. A key that gets a row is not
// among the counted keys any more; its place is free after the next forget() or assign().
#pragma once

#include <memory>
#include <vector>

#include "embedding/key_counter.h"
#include "embedding/key_index.h"
#include "hugectr_lite/core/exec_memory.h"

namespace hlite::embedding {

struct CountedKey {
  uint64_t key = 0;  // table_key()
  RowUse use = {};
  bool operator<(const CountedKey& other) const { return key < other.key; }
};

class ExactCounter final : public KeyCounter {
 public:
  ExactCounter(const TablesSpec& spec, KeyCounterPlace place);
  [[nodiscard]] int64_t bytes() const override;
  void allocate() override;
  void clear() override { assign({}); }
  uint32_t count(uint64_t key, uint32_t iteration) override;
  void prefetch(uint64_t key) const override { index_->prefetch(key); }
  void has_row(uint64_t key) override;
  void add_to(AdmissionArgs& args) const override { args.counts = counts_; }

  // Lets keys leave that have got a row, those that no batch has had for steps_to_live, and if more
  // than three quarters of the capacity are left, the half that was seen least recently.
  void forget(int64_t iteration) override;
  [[nodiscard]] int64_t size() override;
  // <layer>.table_<i>.candidates, [n, 3] words: key, count and last iteration of the keys that any
  // rank counts, by key.
  [[nodiscard]] std::vector<TensorRef> tensors(const comm::RankContext& ranks) override;
  void read(const WordsOf& words_of,
            const std::function<bool(int64_t table, uint32_t key)>& owns) override;

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

// The `<table>.candidates` of a file that this rank counts, by key.
std::vector<CountedKey> read_candidates(
    const TablesSpec& spec, const WordsOf& words_of,
    const std::function<bool(int64_t table, uint32_t key)>& owns);

}  // namespace hlite::embedding
