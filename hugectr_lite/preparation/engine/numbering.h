// Keys of a column, or of several that share a vocabulary, to ids.
//
//   default          0, 1, 2, ... in order of first appearance over all rows
//   min_count K > 0  id 0 stands for what is out of vocabulary: keys with fewer than K occurrences
//                    in the training rows (so also those that occur elsewhere only). The others
//                    follow from 1 in order of first appearance
//   by_frequency     most frequent in the training rows first, among equals the first to appear
//   hash_range N     no dictionary: id = mix(key) mod N, and key 0 (Criteo's missing) is
//   id 0
//   known_keys       with the first two: these come first, in their order, however often they occur
//
// Columns that share a vocabulary count as one whose values are those of row 0 in the order of the
// columns, then those of row 1, and so on. A column of several keys counts likewise; kAbsentKey is
// no value and gets kNoKey.
//
// One pass over the columns gives ids in order of first appearance and counts; recipes that need
// counts first take a second one over the ids. All memory is taken from a budget.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data_reader/manifest.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/mix.h"
#include "hugectr_lite/preparation/engine/key_dictionary.h"
#include "hugectr_lite/preparation/engine/memory_budget.h"

namespace hlite::prep {

// Calls visit(key) for each key of a slot in the order of ids, that of id 0 left out where it
// stands for what is out of vocabulary.
using KnownKeys = std::function<void(int slot, const std::function<void(uint64_t key)>& visit)>;

// Turns what the first stage stored for a slot into its keys, where those depend on all training
// rows. Of keys of 64 bits.
using FinishKeys = std::function<void(int slot, std::span<uint64_t> keys)>;

struct NumberingRecipe {
  uint64_t hash_range = 0;       // <= 2^32
  int64_t min_count = 0;         // 0: every key of all rows has an id of its own
  bool by_frequency = false;     // not with hash_range
  bool zero_is_missing = false;  // with min_count: key 0 becomes id 0, however frequent
  uint64_t key_limit = 0;        // known bound of all keys (exclusive); 0: none
  bool keep_keys = false;        // also write the keys in the order of their ids
  KnownKeys known_keys = {};
  FinishKeys finish_keys = {};
};

// Rows of a split, among those of all inputs.
struct SplitRows {
  std::string role;
  int64_t first = 0, rows = 0;
};

// Files of a column, by path.
struct ColumnFiles {
  std::string keys;  // key_bytes a key
  // Written: uint32 a key; uint32 an id, how many of
  // the keys of the column's training rows are it (saturating).
  std::string ids, counts;
  int slot = 0;         // for FinishKeys
  int64_t hotness = 1;  // keys of a row; several of 8 bytes alone, of which some may be kAbsentKey
};

struct TableTask {
  std::string name = {};             // for messages: "C1"
  int slot = 0;                      // the first of its columns, for KnownKeys
  std::vector<ColumnFiles> columns;  // those that share the vocabulary
  int key_bytes = 4;
  int64_t rows = 0, train_rows = 0;    // training rows come first
  std::vector<SplitRows> others = {};  // splits of which missing and unknown values are counted
  // Written with keep_keys: key_bytes an id (0 for the one that is out of vocabulary).
  std::string keys_of_ids;
  std::function<void(int64_t values)> progress = {};  // so many more done; may throw
};

// A table wants more memory than is left.
class TableOutOfBudget final : public Error {
 public:
  TableOutOfBudget(int64_t needed, int64_t distinct)
      : Error(fmt::format("{} bytes of memory needed after {} distinct keys", needed, distinct)),
        needed_(needed),
        distinct_(distinct) {}
  [[nodiscard]] int64_t needed() const { return needed_; }      // with what it had already
  [[nodiscard]] int64_t distinct() const { return distinct_; }  // keys until then

 private:
  int64_t needed_, distinct_;
};

// The parts of which numbering is made, here and in one_pass.h.

// Counts ids; the counts stop at 2^32 - 1.
void count_ids(const uint32_t* ids, size_t count, const BudgetArray<uint32_t>& counts);
// Grows the counts to `size` ids.
void grow_to(BudgetArray<uint32_t>& counts, int64_t size);
// Numbers NumberingRecipe::known_keys of a slot of that name. Returns how many there are.
template <typename Key>
int64_t number_known_keys(const NumberingRecipe& recipe, int slot, const std::string& name,
                          KeyDictionary<Key>& dictionary, std::vector<Key>* added);
// ManifestColumn::vocabulary: digits of the sum of the terms of all (key, id).
uint64_t vocabulary_term(uint64_t key, uint32_t id);
std::string vocabulary_digits(uint64_t sum);
std::string hashed_vocabulary(const NumberingRecipe& recipe);
// Sets rows, distinct and top_share. `values`: the sum of the counts.
data::ManifestColumn column_statistics(int64_t values, const uint32_t* counts, int64_t size);

// Returns the statistics of each column but for `name` and `missing`. Throws TableOutOfBudget,
// DataError for more than 2^32 - 2 distinct keys, FileError.
std::vector<data::ManifestColumn> number_table(const NumberingRecipe& recipe, const TableTask& task,
                                               MemoryBudget& budget);

}  // namespace hlite::prep
