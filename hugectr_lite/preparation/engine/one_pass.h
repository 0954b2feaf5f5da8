// Rows that are numbered as they are parsed, and written once.
//
// Where all dictionaries fit the memory together, and ids are hashes or in order of first
// appearance, no column files are needed: rows with their ids go to a file of rows. That of the
// training rows is a result as it is if the results are such rows. The keys of a slot, in the order
// of their ids, are kept in a file as far as a saved state needs them: a later run makes the
// dictionary from it, and counts the ids of the rows that are there.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "data_reader/manifest.h"
#include "hugectr_lite/preparation/engine/block_sink.h"
#include "hugectr_lite/preparation/engine/key_dictionary.h"
#include "hugectr_lite/preparation/engine/numbering.h"
#include "hugectr_lite/preparation/engine/placed_file.h"
#include "hugectr_lite/preparation/engine/row_parser.h"
#include "hugectr_lite/preparation/engine/row_source.h"
#include "hugectr_lite/preparation/io/output_file.h"

namespace hlite::prep {

// A list has an element a slot.
struct OnePassState {
  std::vector<int64_t> keys = {};      // in the slot's file
  std::vector<int64_t> zeros = {};     // rows with key 0 that are no training rows
  std::vector<int64_t> known = {};     // ids of NumberingRecipe::known_keys
  std::vector<int64_t> zero_ids = {};  // id of key 0; -1: it has none
  int64_t train_rows = 0, positives = 0;
};

struct OnePassFiles {
  std::string rows;
  std::vector<std::string> keys = {};  // of each slot
  // The file of the training rows, and its name as a result; "": they go to `rows` like the others.
  std::string result = {}, result_name = {};
};

class OnePass final : public BlockSink {
 public:
  // REQUIRES columns of 32 bits, each with a table of its own. `rows` rows are there, and `state`,
  // of an earlier run. Throws OutOfBudget, as take() does; FileError.
  OnePass(const NumberingRecipe& recipe, const RowParser& parser, OnePassFiles files,
          int64_t memory_bytes, ThreadPool& pool, int64_t rows, const OnePassState& state,
          const std::function<void(std::string_view)>& at_point);

  [[nodiscard]] int lanes() const override { return static_cast<int>(lanes_.size()); }
  void take(int lane, PlacedRows& rows) override;
  void write(PlacedRows& rows) override;
  [[nodiscard]] bool appends() const override { return true; }
  void append(PlacedRows& rows) override;

  // All that was appended, and the keys of its ids, are in the files afterwards. By the thread that
  // appends.
  OnePassState save();
  // After the last row: a slot's statistics but for name, missing values and splits. Writes how
  // often each id occurs in training rows.
  data::ManifestColumn finish(int slot, const std::string& counts_path);
  [[nodiscard]] std::unique_ptr<OutputFile> take_result() { return std::move(result_); }

 private:
  struct Slot {
    Slot(MemoryBudget& budget, uint64_t key_limit, const std::string& path, int64_t keys_there)
        : dictionary(budget, key_limit),
          counts(budget),
          keys(path, keys_there * 4),
          stored(keys_there) {}
    KeyDictionary<uint32_t> dictionary;
    BudgetArray<uint32_t> counts;  // [id], training rows
    PlacedFile keys;
    int64_t stored;               // keys in the file
    std::vector<uint32_t> added;  // those that follow
    uint64_t vocabulary = 0;      // sum over all keys
    int64_t known = 0;
  };
  struct Lane {
    std::mutex mutex;
    size_t first, last;  // slots
  };
  void add_stored(Slot& slot);
  void note(Slot& slot, size_t before) const;
  void number(Slot& slot, uint32_t* keys, size_t count, bool train);
  void count_stored(ThreadPool& pool);

  const NumberingRecipe recipe_;
  const OnePassFiles files_;
  const RowLayout layout_;
  const int64_t row_bytes_;
  MemoryBudget budget_;
  std::deque<Slot> slots_;
  std::deque<Lane> lanes_;
  PlacedFile rows_;
  const std::function<void(std::string_view)>& at_point_;
  std::unique_ptr<OutputFile> result_;
  // Counts of what was appended:
  int64_t train_rows_ = 0, positives_ = 0;
  std::vector<int64_t> zeros_;  // OnePassState::zeros
};

// Rows in a file, words() words each.
class StoredRows final : public RowSource {
 public:
  // Rows [first, first + rows) of the file.
  StoredRows(RowShape shape, const std::string& path, int64_t first, int64_t rows)
      : shape_(std::move(shape)), first_(first), rows_(rows), file_(path) {}
  [[nodiscard]] const RowShape& shape() const override { return shape_; }
  [[nodiscard]] int64_t rows() const override { return rows_; }
  void read(int64_t first, int64_t count, uint32_t* out) const override;

 private:
  RowShape shape_;
  int64_t first_, rows_;
  ReadFile file_;
};

// Counts what columns have in the rows of a split that is not trained on. `counts`: paths of what
// finish() wrote, of each slot.
std::vector<data::SplitValues> split_values(const RowSource& rows, const std::string& role,
                                            const OnePassState& state, bool hashed,
                                            const std::vector<std::string>& counts,
                                            ThreadPool& pool);

}  // namespace hlite::prep
