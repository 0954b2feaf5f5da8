// EmbeddingTables: the tables of one embedding layer: the rows that this rank holds (TableStorage),
// the rows that exist (all, or those of the keys seen: HashedIndex), and the steps of an iteration
// (TableSteps).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "embedding/hashed_index.h"
#include "embedding/host_rows.h"
#include "embedding/table_files.h"
#include "embedding/table_steps.h"

namespace hlite::embedding {

class EmbeddingTables {
 public:
  // Collective when ranks.world is given.
  EmbeddingTables(TablesSpec spec, const TablesPlace& place);

  // Names the buffers of rows, states and steps.
  void declare(plan::Buffers& buffers);
  // Bytes of what is not among the buffers: on their device, and on a GPU's host.
  [[nodiscard]] int64_t workspace_bytes() const;
  [[nodiscard]] int64_t host_bytes() const;
  // Allocates buffers. Call once, after all steps' emit...() and before any of them runs.
  void prepare();
  // The steps of the layer in an iteration: table_steps.h.
  [[nodiscard]] TableSteps& steps() { return steps_; }
  [[nodiscard]] const TableStorage& storage() const { return storage_; }
  // To be called around each run of a plan: RowTier::begin_run(). Collective.
  void begin_run(const Exec& exec, const Exec& host, const plan::HostInput& input, int64_t batch,
                 bool training);
  void end_run(const Exec& host);
  // What this rank has sent for them. Empty on one rank.
  [[nodiscard]] std::vector<comm::StepTraffic> traffic() const;

  // Reserves the rows of a file before it is read. Rows that the file does not have get their
  // initial values. keys_of(table, all) returns the keys of the file's rows, ascending; for a table
  // without a list of keys, those of all rows or, if not `all`, none. words_of(name) returns a
  // tensor of the states that belong to the file, nullopt if there is none: hashed rows get the
  // numbers that they have there, as far as these are those of this number of ranks, and where they
  // do not fit and when_full is kEvict, the least recently used are left out. REQUIRES allocated
  // buffers.
  using KeysOf =
      std::function<std::optional<std::vector<uint32_t>>(const std::string& table, bool all)>;
  void reserve(const KeysOf& keys_of, const WordsOf& words_of, const Exec& exec);
  // Called after a file's last tensor: tables() and states() then return all rows again.
  void end_reading() {
    read_keys_ = nullptr;
    reads_all_ = false;
  }
  // Sets the initial values of tables and states. REQUIRES allocated buffers.
  void initialize(const Exec& exec);
  // Checks what steps have noted and left to the host. Synchronizes exec.stream; every run is
  // ordered on it. Throws DeviceError when a lookup on a GPU met a key beyond its table, though the
  // reader lets none pass, and DataError when a key found no row left.
  void check(const Exec& exec);
  // The tensors of a file. Collective, as rows may be anywhere. Tables larger than memory have the
  // rows that have been trained, or all.
  [[nodiscard]] std::vector<TensorRef> tables(bool all_rows = false) const {
    return files_.tables(all_rows && !index_ ? nullptr : file_keys());
  }
  [[nodiscard]] std::vector<TensorRef> states() const;

  // The rules by which keys get and lose rows; null if the tables are not hashed or keep no uses.
  [[nodiscard]] const VocabularyRules* vocabulary_rules() const {
    return index_ && spec_.vocabulary.keeps_uses() ? &spec_.vocabulary : nullptr;
  }
  // These need vocabulary_rules(), and that nothing runs on any rank. evict():
  // HashedIndex::evict(). vocabulary(): that of all ranks; collective. read_vocabulary(): takes the
  // counted keys of a file, words_of(name) of a tensor, nullopt if there is none; without uses in
  // the file every row counts as used once, in `iteration`. To be called before states() are read.
  void evict(int64_t iteration, int64_t before) { index_->evict(iteration, before); }
  [[nodiscard]] VocabularyCounts vocabulary() const;
  void read_vocabulary(const WordsOf& words_of, int64_t iteration);

 private:
  [[nodiscard]] std::unique_ptr<HostRows> make_host_rows(const TablesPlace& place);
  [[nodiscard]] bool finds_rows_on_host() const {
    return storage_.tier() && storage_.tier()->finds_rows();
  }
  [[nodiscard]] TableFiles::Keys file_keys() const;
  [[nodiscard]] TableFiles::Keys touched_keys() const;
  [[nodiscard]] TableFiles::Keys with_rows(std::vector<std::vector<uint32_t>> keys) const;
  void read_touched(const KeysOf& keys_of, const Exec& exec);
  void reserve_hashed(const KeysOf& keys_of, const WordsOf& words_of);
  // An own row of a file: its key, its index in the file's table, and its number there.
  struct FileRow {
    uint64_t key;  // table_key()
    uint32_t at, number;
  };
  static void sort_by_number(std::vector<FileRow>& rows);
  void leave_out_displaced(std::vector<FileRow>& rows, const FileKeys& file,
                           const WordsOf& words_of);

  const TablesSpec spec_;
  const comm::RankContext ranks_;
  TableStorage storage_;
  const TableFiles files_{spec_, storage_};
  const bool index_on_host_;                  // of a GPU, where a tier finds rows
  const std::unique_ptr<HashedIndex> index_;  // null: all keys have rows, from the start
  TableSteps steps_;
  // Of a GPU whose own tier finds rows on the host, or another rank's does.
  const std::unique_ptr<HostRows> host_rows_;
  // While a file is read: whether it has all rows, and else the keys of those that it has.
  bool reads_all_ = false;
  TableFiles::Keys read_keys_;
};

}  // namespace hlite::embedding
