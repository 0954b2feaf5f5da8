// Prepared rows, between the stage that numbers keys and the stage that writes files: whoever has
// rows implements RowSource, write_split() (preparation/engine/split_writer.h) turns them into files.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "data_reader/history_check.h"

namespace hlite::prep {

// A row is 1 + dense + keys() 32-bit words: the label (0 or 1, an integer, or float32 if
// real_label), the dense values (int32, or float32 where dense_is_float), the ids of one slot after
// the other: one, or as many as `hotness` says, of which the last ones may be kNoKey. The first
// dense values are the labels after the first and, if weighted, the weight of the row, as formats
// have them.
struct RowShape {
  int dense = 0;
  int slots = 0;
  bool dense_is_float = false;
  std::vector<int64_t> slot_tables = {};  // slot_tables.h
  bool real_label = false, weighted = false;
  int labels = 1;
  std::vector<int64_t> hotness = {};  // [slots] most ids; empty: one each
  std::vector<data::History> histories = {};
  [[nodiscard]] int hotness_of(int slot) const {
    return hotness.empty() ? 1 : static_cast<int>(hotness[static_cast<size_t>(slot)]);
  }
  [[nodiscard]] int keys() const {
    return hotness.empty()
               ? slots
               : static_cast<int>(std::accumulate(hotness.begin(), hotness.end(), int64_t{0}));
  }
  [[nodiscard]] int words() const { return 1 + dense + keys(); }
  [[nodiscard]] int features() const { return dense - (labels - 1) - (weighted ? 1 : 0); }
};

class RowSource {
 public:
  virtual ~RowSource() = default;
  [[nodiscard]] virtual const RowShape& shape() const = 0;
  [[nodiscard]] virtual int64_t rows() const = 0;
  // Rows [first, first + count), row after row, words() words each. Several threads may call it at
  // once. Throws FileError.
  virtual void read(int64_t first, int64_t count, uint32_t* out) const = 0;
};

// Resources for turning rows into files.
struct SplitResources {
  int64_t memory_bytes = int64_t{1} << 30;  // for all that is allocated
  std::string scratch;                      // existing folder for what a shuffle spills
  // Called from the calling thread with rows done of rows to do (a row that is spilled first counts
  // when it is written); what it throws ends the call.
  std::function<void(int64_t done, int64_t rows)> progress = {};
};

}  // namespace hlite::prep
