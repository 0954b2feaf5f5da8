// Keys of one column to ids.
//
//   default          0, 1, 2, ... in order of first appearance over all rows
//   min_count K > 0  id 0 stands for what is out of vocabulary: keys with fewer than K occurrences
//                    in the training rows (so also those that occur elsewhere only). The others
//                    follow from 1 in order of first appearance
//   by_frequency     most frequent in the training rows first, among equals the first to appear
//   hash_range N     no dictionary: id = mix(key) mod N, and key 0 (Criteo's missing) is
//   id 0
//
// One pass over the column gives ids in order of first appearance and counts; recipes that need
// counts first take a second one over the ids. All memory is taken from a budget.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "data_reader/manifest.h"
#include "hugectr_lite/core/error.h"
#include "tools/prep/memory_budget.h"

namespace hlite::tools {

struct NumberingRecipe {
  uint64_t hash_range = 0;       // <= 2^32
  int64_t min_count = 0;         // 0: every key of all rows has an id of its own
  bool by_frequency = false;     // not with hash_range
  bool zero_is_missing = false;  // with min_count: key 0 becomes id 0, however frequent
  uint64_t key_limit = 0;        // known bound of all keys (exclusive); 0: none
  bool keep_keys = false;        // also write the keys in the order of their ids
};

struct ColumnTask {
  std::string name;  // for messages: "C1"
  std::string keys;  // path: key_bytes a row
  int key_bytes = 4;
  int64_t rows = 0, train_rows = 0;
  // Written (ids over a file that may be there already): uint32 a row; uint32 an id, its training
  // rows (saturating); with keep_keys key_bytes an id (0 for the one that is out of vocabulary).
  std::string ids, counts, keys_of_ids;
  std::function<void(int64_t rows)> progress = {};  // so many more done; may throw
};

// A column wants more memory than is left.
class ColumnOutOfBudget final : public Error {
 public:
  ColumnOutOfBudget(int64_t needed, int64_t distinct)
      : Error(fmt::format("{} bytes of memory needed after {} distinct keys", needed, distinct)),
        needed_(needed),
        distinct_(distinct) {}
  [[nodiscard]] int64_t needed() const { return needed_; }      // with what it had already
  [[nodiscard]] int64_t distinct() const { return distinct_; }  // keys until then

 private:
  int64_t needed_, distinct_;
};

// Returns the statistics but for `name` and `missing`. Throws ColumnOutOfBudget, DataError for more
// than 2^32 - 2 distinct keys, FileError.
data::ManifestColumn number_column(const NumberingRecipe& recipe, const ColumnTask& task,
                                   MemoryBudget& budget);

}  // namespace hlite::tools
