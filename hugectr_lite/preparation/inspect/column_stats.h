// Statistics of columns, a chunk of rows at a time, in bounded memory.
#pragma once

#include <cstdint>
#include <vector>

#include "hugectr_lite/preparation/inspect/rows.h"

namespace hlite::prep {

struct NumberStats {
  int64_t rows = 0, missing = 0, zero = 0, negative = 0, not_finite = 0;
  double min = 0, max = 0, sum = 0;  // of finite values
  void add(double value);            // NaN: missing
  [[nodiscard]] int64_t finite() const { return rows - missing - not_finite; }
  [[nodiscard]] double mean() const {
    return finite() > 0 ? sum / static_cast<double>(finite()) : 0.0;
  }
};

// Counts how often each key occurs: a hash table of at most `most` keys. When it is full, rare keys
// are dropped ("lossy counting", Manku and Motwani 2002): a key that comes back is counted from
// anew, so counts are too low by at most undercount().
class KeyCounter {
 public:
  explicit KeyCounter(int64_t most);
  void add(uint64_t key);
  void clear();
  [[nodiscard]] int64_t distinct() const { return used_; }  // a lower bound after dropping
  [[nodiscard]] int64_t total() const { return total_; }
  [[nodiscard]] int64_t undercount() const { return dropped_below_; }
  [[nodiscard]] uint64_t largest() const { return largest_; }
  // Largest first; keys that were dropped are not among them.
  [[nodiscard]] std::vector<int64_t> counts() const;

 private:
  struct KeyCount {
    uint64_t key;
    int64_t count;  // 0: free
  };
  void insert(uint64_t key, int64_t count);
  void rebuild(size_t capacity, int64_t drop_below);

  int64_t max_, used_ = 0, total_ = 0, dropped_below_ = 0;
  uint64_t largest_ = 0;
  std::vector<KeyCount> table_;  // a power of two
};

struct KeyStats {
  int64_t values = 0, missing = 0;
  uint64_t largest = 0;
  int64_t limit = 0, outside = 0;  // rows of the table, if known, and keys not below that
  int64_t distinct = 0;
  bool distinct_is_exact = true;
  double top_share[4] = {0, 0, 0, 0};  // of the 1, 10, 100, 1000 most frequent, of `values`
};

// Look-ups over the rows of all tables, most frequent first.
struct Skew {
  int64_t lookups = 0, rows = 0;
  bool exact = true;
  struct Point {
    int64_t rows;
    double share;  // of look-ups, on the so many most frequent rows
  };
  std::vector<Point> curve;  // rows 1, 2, 3, ..., at growing distances, up to all
  [[nodiscard]] double share_of(int64_t rows) const;
  // Batches of consecutive rows of the file.
  int64_t batch = 0, batches = 0;
  double distinct_in_batch = 0, lookups_in_batch = 0;
};

struct FileStatistics {
  int64_t rows = 0, labels = 0, positives = 0, odd_labels = 0;  // odd: neither 0 nor 1
  std::vector<NumberStats> numbers;
  std::vector<KeyStats> slots;
  Skew skew;
};

// Reads the stream to its end. `limits`: rows of each slot's table, or empty. `batch`: samples
// whose distinct rows are counted.
FileStatistics collect(RowStream& rows, const std::vector<int64_t>& limits, int64_t batch);

}  // namespace hlite::prep
