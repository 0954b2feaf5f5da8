// HashedIndex: which rows there are of tables whose keys are not known beforehand (the ...Hash
// embedding types), on the CPU or a GPU.
//
// A key is known by its table and its number, and gets the next free row when a batch first trains
// it, new keys of a batch in the order of tables, then keys: so rows depend on the order of the
// batches alone. The rows of all tables share one pool of max_vocabulary_size_per_gpu.
//
// VocabularyRules may refuse a new key its row, and take rows out of the tables between iterations.
// The rows that are left then close up, so that rows [0, size) are always those that keys have.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "embedding/device_slots.h"
#include "embedding/hashed_args.h"
#include "embedding/key_counter.h"
#include "embedding/key_index.h"
#include "embedding/table_storage.h"
#include "hugectr_lite/core/exec_memory.h"

namespace hlite::embedding {

class HashedIndex {
 public:
  // `exec`: where rows are found: where those of `storage` lie, or on their host. `storage` must
  // outlive it. `max_batch`: samples of find_rows(), 0: it is not called. `max_keys`: distinct keys
  // of a training batch, at most; 0: the lookups of max_batch.
  HashedIndex(const TablesSpec& spec, const TableStorage& storage, const Exec& exec,
              int64_t max_batch, int64_t max_keys = 0);
  [[nodiscard]] int64_t bytes() const;
  // Takes them.
  void allocate();
  void clear();

  // rows[b, c]: the row of key c of the layer's in sample b, kNoKey where there is none. Training
  // gives new keys rows with initial values. If no row is left the CPU throws DataError, and a GPU
  // leaves a note. Evaluation takes no rows: keys that have none get kUnseen, as in training do
  // those that the rules refuse one. `step`: the number of iterations before this one, in memory of
  // the device; needed in training if the tables keep uses.
  void find_rows(const Exec& exec, const SlotsRef& slots, Matrix<const uint32_t> keys,
                 Matrix<uint32_t> rows, bool training, const int64_t* step = nullptr);
  // On a GPU waits for exec.stream. Throws DataError when a key found no row left.
  void check(const Exec& exec) const;
  // The vectors of keys without a row, in memory of the storage's device.
  [[nodiscard]] const InitialValues& absent_values() const { return absent_; }

  // On several ranks keys arrive in lists (HashedArgs): these find the rows of such a list in
  // evaluation, and insert its keys in training. A key that finds no row left sets
  // *capacity_exceeded to 1 and gets the row kUnseen. `workspace`: list_workspace() bytes.
  void find_requested(const Exec& exec, HashedArgs list) const;
  void insert_requested(const Exec& exec, HashedArgs list, std::span<std::byte> workspace,
                        int32_t* capacity_exceeded, const int64_t* step = nullptr);
  [[nodiscard]] int64_t list_workspace(int64_t keys) const;
  // out[i] = the vector of key i, after either; without a row its absent_values(). out[i] of no
  // key stays as it is.
  void gather_requested(const Exec& exec, const HashedArgs& list, Matrix<float> out) const;

  // On the CPU: the row of a key, or KeyIndex::kAbsent.
  [[nodiscard]] int64_t find(int64_t table, uint32_t key) const {
    return index_->find(table_key(table, key));
  }

  // table_key() of the key that has the row, on the CPU: key 0 of table 0 of a row that no key has
  // yet, which a sweep over all rows meets too; the other of all rows that have one.
  [[nodiscard]] uint64_t key_of(uint32_t row) const {
    return row < index_->size() ? index_->keys()[row] : 0;
  }
  // On the CPU: the rows that keys have.
  [[nodiscard]] int64_t size() const { return index_->size(); }
  [[nodiscard]] std::vector<uint64_t> keys() const;
  // On a GPU: table_key() by row, some key's of rows that none has; else null.
  [[nodiscard]] const unsigned long long* device_keys() const { return table_.key_of_row; }
  // Replaces all keys by these: key i gets row i with initial values. Drops the counted keys.
  void assign(const std::vector<uint64_t>& keys);

  // The rows that evict() would let leave a table as full as one with these keys, ascending.
  [[nodiscard]] std::vector<uint32_t> choose_displaced(std::span<const uint64_t> keys,
                                                       std::span<const RowUse> uses);
  [[nodiscard]] int64_t capacity() const { return capacity_; }

  // Lets rows and counted keys leave by the rules, between two iterations: after `iteration`, when
  // the last time was after `before` (0: never). REQUIRES that nothing runs.
  void evict(int64_t iteration, int64_t before);
  // Returns the counts of this rank's vocabulary. REQUIRES that nothing runs.
  [[nodiscard]] VocabularyCounts vocabulary() const;
  // Null if the rules count no keys.
  [[nodiscard]] KeyCounter* counter() const { return counter_.get(); }

 private:
  void place_keys(const std::vector<uint64_t>& keys);
  void close_up(std::vector<uint64_t> keys, const std::vector<uint32_t>& evicted);
  void decay_counts();
  int64_t insert_row(uint64_t both, uint32_t iteration);
  [[nodiscard]] bool admits(uint64_t both, uint32_t iteration);
  void new_use(int64_t row, uint32_t iteration) const;
  void touch(int64_t row, uint32_t iteration) const;
  void touch_table(const SlotsRef& slots, int64_t table, Matrix<const uint32_t> rows,
                   uint32_t iteration) const;
  [[nodiscard]] HashedInsertArgs insert_args(const HashedArgs& batch, const int64_t* step) const;
  [[nodiscard]] HashedCounts device_counts() const;
  void prefetch(int64_t table, uint32_t key) const { index_->prefetch(table_key(table, key)); }
  void find_list_on_cpu(const Exec& exec, const HashedArgs& list) const;
  void insert_list_on_cpu(const Exec& exec, const HashedArgs& list, int32_t* capacity_exceeded,
                          uint32_t iteration);
  void find_on_cpu(const Exec& exec, const SlotsRef& slots, Matrix<const uint32_t> keys,
                   Matrix<uint32_t> rows, std::optional<uint32_t> touched_in);
  void insert_unseen(const Exec& exec, const SlotsRef& slots, Matrix<const uint32_t> keys,
                     Matrix<uint32_t> rows, uint32_t iteration);
  [[noreturn]] void fail_full(uint64_t refused) const;

  const TablesSpec& spec_;
  const TableStorage& storage_;
  const Exec exec_;
  const VocabularyRules& rules_;
  const int64_t capacity_, max_lookups_, max_keys_;
  InitialValues first_, absent_;
  ExecMemory streams_, absent_streams_;
  const std::unique_ptr<KeyCounter> counter_;  // as counter()
  VocabularyCounts counts_;                    // without those in memory of a GPU
  std::unique_ptr<KeyIndex> index_;            // on the CPU
  std::optional<uint64_t> refused_;            // there: the first listed key that found no row
  // [tables] on the CPU: of a batch the keys without a row, then those of them that got one.
  std::vector<std::vector<uint32_t>> unseen_;
  std::vector<uint64_t> unseen_requests_;  // of lists, there
  // There: lookups of a batch whose keys had no row, by table; those that got one, by slot.
  std::vector<int64_t> unseen_lookups_, found_of_slot_;
  ExecMemory memory_, workspace_;  // on a GPU
  HashedTable table_;
};

}  // namespace hlite::embedding
