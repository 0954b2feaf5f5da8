// Rows dealt into buckets that lie in a scratch file, for shuffle_rows().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/preparation/engine/placed_file.h"

namespace hlite::prep {

// A stored row is its number (two words, the low one first) and its words.
inline constexpr int64_t kRowNumberWords = 2;

class RowBuckets {
 public:
  // `block_rows`: rows of a bucket that are written at a time; buckets * block_rows rows are held
  // in memory until flush().
  RowBuckets(int64_t words, int64_t buckets, int64_t block_rows, const std::string& scratch);

  // Appends rows[order[i]], i in [0, count), whose numbers are first_row + order[i]. Several
  // threads may call it at once; the order within a bucket is then theirs.
  void add(int64_t bucket, const uint32_t* rows, int64_t first_row, const uint32_t* order,
           int64_t count);
  // After the last add(): writes what is left and frees the memory.
  void flush();

  [[nodiscard]] int64_t buckets() const { return static_cast<int64_t>(count_); }
  [[nodiscard]] int64_t rows(int64_t bucket) const {
    return buckets_[static_cast<size_t>(bucket)].rows;
  }
  // All stored rows of a bucket, [rows, kRowNumberWords + words]; after flush().
  void read(int64_t bucket, uint32_t* out, ThreadPool& pool) const;

 private:
  struct Extent {
    int64_t offset, rows;
  };
  struct RowBucket {
    std::mutex mutex;
    int64_t rows = 0;      // in all
    int64_t in_block = 0;  // of them still in memory
    std::vector<Extent> extents;
  };
  [[nodiscard]] uint32_t* block(const RowBucket& bucket) const;
  void write_block(RowBucket& bucket);

  int64_t stored_words_, block_rows_;
  size_t count_;
  std::unique_ptr<RowBucket[]> buckets_;
  HostMemory blocks_;
  PlacedFile file_;
  std::atomic<int64_t> end_{0};  // of the scratch file
};

}  // namespace hlite::prep
