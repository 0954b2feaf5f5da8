// HashedIndex: which rows there are of tables whose keys are not known beforehand (the ...Hash
// embedding types), on the CPU or a GPU.
//
// A key is known by its table and its number, and gets the next free row when a batch first trains
// it, new keys of a batch in the order of tables, then keys: so rows depend on the order of the
// batches alone. The rows of all tables share one pool of max_vocabulary_size_per_gpu.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "embedding/device_slots.h"
#include "embedding/hashed_args.h"
#include "embedding/key_index.h"
#include "embedding/table_storage.h"
#include "hugectr_lite/core/exec_memory.h"

namespace hlite::embedding {

class HashedIndex {
 public:
  // `exec`: where the rows of `storage` lie; both must outlive it. `max_batch`: samples of
  // find_rows(), 0: it is not called.
  HashedIndex(const TablesSpec& spec, const TableStorage& storage, const Exec& exec,
              int64_t max_batch);
  [[nodiscard]] int64_t bytes() const;
  // Takes them.
  void allocate();
  void clear();

  // rows[b, c]: the row of key c of the layer's in sample b, kNoKey where there is none. Training
  // gives new keys rows with first values. Where none is left the CPU throws DataError, and a GPU
  // leaves a note. Evaluation takes no rows: keys that have none get kUnseen.
  void find_rows(const Exec& exec, const SlotsRef& slots, Matrix<const uint32_t> keys,
                 Matrix<uint32_t> rows, bool training);
  // On a GPU waits for exec.stream. Throws DataError when a key found no row left.
  void check(const Exec& exec) const;
  // First values by table, in memory of the device.
  [[nodiscard]] const FirstValues& first_values() const { return first_; }

  // On several ranks keys come in lists (HashedArgs): these find the rows of such a list in
  // evaluation, and insert its keys in training. A key that finds no row left sets
  // *capacity_exceeded to 1 and gets the row kUnseen. `workspace`: list_workspace() bytes.
  void find_listed(const Exec& exec, HashedArgs list) const;
  void insert_listed(const Exec& exec, HashedArgs list, std::span<std::byte> workspace,
                     int32_t* capacity_exceeded);
  [[nodiscard]] int64_t list_workspace(int64_t keys) const;
  // out[i] = the vector of key i, behind either; without a row its first values. out[i] of no key
  // stays as it is.
  void gather_listed(const Exec& exec, const HashedArgs& list, Matrix<float> out) const;

  // Of the CPU: the row of a key, or KeyIndex::kAbsent; the same with a new row where it has none;
  // when none is left kAbsent, and a note for check().
  [[nodiscard]] int64_t find(int64_t table, uint32_t key) const {
    return index_->find(table_key(table, key));
  }
  int64_t insert(int64_t table, uint32_t key);

  // table_key() of the key that has the row, on the CPU: key 0 of table 0 of a row that no key has
  // yet, which a sweep over all rows meets too; the other of all rows that have one.
  [[nodiscard]] uint64_t key_of(uint32_t row) const {
    return row < index_->size() ? index_->keys()[row] : 0;
  }
  [[nodiscard]] std::vector<uint64_t> keys() const;
  // Holds these keys alone, with first values, key i in row i.
  void assign(const std::vector<uint64_t>& keys);

 private:
  void prefetch(int64_t table, uint32_t key) const { index_->prefetch(table_key(table, key)); }
  void find_list_on_cpu(const Exec& exec, const HashedArgs& list) const;
  void insert_list_on_cpu(const Exec& exec, const HashedArgs& list, int32_t* capacity_exceeded);
  void find_on_cpu(const Exec& exec, const SlotsRef& slots, Matrix<const uint32_t> keys,
                   Matrix<uint32_t> rows);
  void insert_unseen(const Exec& exec, const SlotsRef& slots, Matrix<const uint32_t> keys,
                     Matrix<uint32_t> rows);
  [[noreturn]] void fail_full(uint64_t refused) const;

  const TablesSpec& spec_;
  const TableStorage& storage_;
  const Exec exec_;
  const int64_t capacity_, max_lookups_;
  FirstValues first_;
  ExecMemory streams_;
  std::unique_ptr<KeyIndex> index_;            // on the CPU
  std::optional<uint64_t> refused_;            // there: the first key that insert() had no row for
  std::vector<std::vector<uint32_t>> unseen_;  // [tables] of a batch, on the CPU
  std::vector<uint64_t> unseen_listed_;        // the same of lists
  ExecMemory memory_, workspace_;              // on a GPU
  HashedTable table_;
};

}  // namespace hlite::embedding
