#include "hugectr_lite/preparation/engine/row_shuffle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/preparation/engine/row_buckets.h"

namespace hlite::prep {
namespace {

constexpr int64_t kReadRows = 1 << 14;               // rows read from the source at a time
constexpr int64_t kReadsPerThread = 8;               // between two progress reports
constexpr int64_t kMaxBlockBytes = 1 << 20;          // largest write of a bucket to scratch
constexpr int64_t kMaxPieceRows = int64_t{1} << 31;  // ShuffledRow::index has 32 bits

struct ShuffledRow {
  uint64_t key;    // shuffle_key()
  uint32_t index;  // place of the row in memory
};

// Rows in memory, read in shuffled order. The rows stay in place; only their entries are sorted.
class SortedRows final : public RowSource {
 public:
  // `rows`: `count` rows, `stride` words apart; the words to read begin at word `offset` of each.
  SortedRows(const RowShape& shape, const uint32_t* rows, int64_t stride, int64_t offset,
             int64_t count)
      : shape_(shape),
        rows_(rows + offset),
        stride_(stride),
        count_(count),
        memory_(static_cast<size_t>(count) * sizeof(ShuffledRow), "order of the row shuffle"),
        entries_(reinterpret_cast<ShuffledRow*>(memory_.data())) {}

  // Sorts by shuffle_key(), ties by row number. number(i): the number of row i in the whole data
  // set. `known_bits`: how many top bits all keys have in common.
  template <typename Number>
  void sort(uint64_t seed, int known_bits, ThreadPool& pool, Number number) {
    constexpr size_t kParts = 256;  // by the 8 bits below the known ones
    const auto part_of = [&](uint64_t key) {
      return static_cast<size_t>(known_bits + 8 > 64 ? 0 : key << known_bits >> 56);
    };
    // A counting sort into parts: starts[range][part] is a count first, then a place in entries_.
    const int64_t ranges = std::clamp<int64_t>(count_ / 4096, 1, pool.threads() * int64_t{4});
    std::vector<std::array<int64_t, kParts + 1>> starts(static_cast<size_t>(ranges));
    const auto for_range = [&](int64_t range, auto&& body) {
      for (int64_t i = count_ * range / ranges; i < count_ * (range + 1) / ranges; ++i)
        body(i, shuffle_key(seed, number(i)));
    };
    pool.run(ranges, [&](int64_t range, int) {
      auto& counts = starts[static_cast<size_t>(range)];
      counts.fill(0);
      for_range(range, [&](int64_t, uint64_t key) { ++counts[part_of(key)]; });
    });
    std::array<int64_t, kParts + 1> bounds = {};
    int64_t end = 0;
    for (size_t part = 0; part < kParts; ++part) {
      bounds[part] = end;
      for (auto& counts : starts) end += std::exchange(counts[part], end);
    }
    bounds[kParts] = end;
    pool.run(ranges, [&](int64_t range, int) {
      auto& next = starts[static_cast<size_t>(range)];
      for_range(range, [&](int64_t i, uint64_t key) {
        entries_[next[part_of(key)]++] = {key, static_cast<uint32_t>(i)};
      });
    });
    pool.run(kParts, [&](int64_t part, int) {
      const auto p = static_cast<size_t>(part);
      std::sort(entries_ + bounds[p], entries_ + bounds[p + 1],
                [&](const ShuffledRow& a, const ShuffledRow& b) {
                  return a.key != b.key ? a.key < b.key : number(a.index) < number(b.index);
                });
    });
  }

  [[nodiscard]] const RowShape& shape() const override { return shape_; }
  [[nodiscard]] int64_t rows() const override { return count_; }
  void read(int64_t first, int64_t count, uint32_t* out) const override {
    constexpr int64_t kRowsAhead = 16;
    const auto row = [&](int64_t i) { return rows_ + entries_[i].index * stride_; };
    const auto words = static_cast<size_t>(shape_.words());
    for (int64_t i = first; i < first + count; ++i, out += words) {
      if (i + kRowsAhead < count_) __builtin_prefetch(row(i + kRowsAhead));
      std::memcpy(out, row(i), words * sizeof(uint32_t));
    }
  }

 private:
  RowShape shape_;
  const uint32_t* rows_;
  int64_t stride_, count_;
  HostMemory memory_;
  ShuffledRow* entries_;
};

// Returns the bytes of memory that a row takes while its piece is sorted.
int64_t sorting_bytes(int64_t words) {
  return words * 4 + static_cast<int64_t>(sizeof(ShuffledRow));
}

// Returns the number of buckets, a power of two. A bucket fits into memory even if its size is six
// standard deviations above the mean. Throws ConfigError if no number of buckets does that.
int64_t bucket_count(int64_t rows, int64_t stored_words, int64_t memory) {
  const int64_t fit = std::min(memory / sorting_bytes(stored_words), kMaxPieceRows);
  const auto n = static_cast<double>(rows);
  for (int64_t buckets = 2; buckets * stored_words * 4 <= memory / 2; buckets *= 2) {
    const double mean = n / static_cast<double>(buckets);
    if (mean + 6 * std::sqrt(mean) <= static_cast<double>(fit)) return buckets;
  }
  // Write buffers of B buckets take B * row_bytes <= memory / 2, a bucket to sort takes
  // n / B * sorting_bytes <= memory. The best B makes both equal; a power of two may miss it by 2x.
  const double need =
      2 * std::sqrt(2 * n * static_cast<double>(stored_words * 4 * sorting_bytes(stored_words))) +
      4096;
  raise<ConfigError>(
      "memory: expected about {:.0f} bytes or more to shuffle {} rows of {} bytes, found {}", need,
      rows, 4 * (stored_words - kRowNumberWords), memory);
}

void shuffle_in_memory(const RowSource& rows, uint64_t seed, ThreadPool& pool,
                       const std::function<void(const RowSource&)>& take) {
  const int64_t words = rows.shape().words(), count = rows.rows();
  const HostMemory memory(static_cast<size_t>(count * words) * sizeof(uint32_t),
                          "rows of the row shuffle");
  auto* data = reinterpret_cast<uint32_t*>(memory.data());
  pool.run((count + kReadRows - 1) / kReadRows, [&](int64_t i, int) {
    const int64_t first = i * kReadRows;
    rows.read(first, std::min(kReadRows, count - first), data + first * words);
  });
  SortedRows sorted(rows.shape(), data, words, 0, count);
  sorted.sort(seed, 0, pool, [](int64_t i) { return i; });
  take(sorted);
}

// Deals rows of the source into buckets. One thread uses it; its memory is reused by the next call.
class Dealer {
 public:
  // Deals rows [first, first + count) by the top `bits` bits of their keys.
  void deal(const RowSource& rows, int64_t first, int64_t count, uint64_t seed, int bits,
            RowBuckets& buckets) {
    rows_.resize(static_cast<size_t>(count * rows.shape().words()));
    rows.read(first, count, rows_.data());
    // A counting sort of the rows' indices by bucket.
    bucket_.resize(static_cast<size_t>(count));
    order_.resize(static_cast<size_t>(count));
    ends_.assign(static_cast<size_t>(buckets.buckets() + 1), 0);
    for (size_t i = 0; i < bucket_.size(); ++i) {
      bucket_[i] =
          static_cast<uint32_t>(shuffle_key(seed, first + static_cast<int64_t>(i)) >> (64 - bits));
      ++ends_[bucket_[i] + 1];
    }
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    for (uint32_t i = 0; i < bucket_.size(); ++i)
      order_[static_cast<size_t>(ends_[bucket_[i]]++)] = i;
    for (int64_t b = 0, begin = 0; b < buckets.buckets(); ++b) {
      const int64_t end = ends_[static_cast<size_t>(b)];
      if (end > begin) buckets.add(b, rows_.data(), first, order_.data() + begin, end - begin);
      begin = end;
    }
  }

 private:
  std::vector<uint32_t> rows_, bucket_, order_;
  std::vector<int64_t> ends_;  // after the sort: where each bucket's part of order_ ends
};

void shuffle_by_buckets(const RowSource& rows, uint64_t seed, const SplitResources& resources,
                        ThreadPool& pool, const std::function<void(const RowSource&)>& take) {
  const int64_t words = rows.shape().words(), stored = words + kRowNumberWords;
  const int64_t memory = resources.memory_bytes;
  const int64_t count = bucket_count(rows.rows(), stored, memory);
  const int bits = std::countr_zero(static_cast<uint64_t>(count));
  // While rows are dealt, half of the memory is for blocks of buckets, a quarter for the dealers:
  // the row and its 8 bytes of bucket_ and order_, and ends_ with 8 bytes a bucket.
  const int64_t block_rows =
      std::clamp<int64_t>(memory / 2 / count, stored * 4, std::max(kMaxBlockBytes, stored * 4)) /
      (stored * 4);
  const int64_t read_rows = std::clamp<int64_t>(
      (memory / 4 / pool.threads() - 8 * count) / (words * 4 + 8), 1, kReadRows);
  RowBuckets buckets(words, count, block_rows, resources.scratch);
  std::vector<Dealer> dealers(static_cast<size_t>(pool.threads()));
  const int64_t window = pool.threads() * kReadsPerThread * read_rows;
  for (int64_t first = 0; first < rows.rows(); first += window) {
    const int64_t end = std::min(first + window, rows.rows());
    pool.run((end - first + read_rows - 1) / read_rows, [&](int64_t task, int worker) {
      const int64_t at = first + task * read_rows;
      dealers[static_cast<size_t>(worker)].deal(rows, at, std::min(read_rows, end - at), seed, bits,
                                                buckets);
    });
    if (resources.progress) resources.progress(0, rows.rows());
  }
  dealers.clear();
  dealers.shrink_to_fit();
  buckets.flush();

  int64_t max_rows = 0;
  for (int64_t b = 0; b < count; ++b) max_rows = std::max(max_rows, buckets.rows(b));
  const HostMemory memory_of_bucket(static_cast<size_t>(max_rows * stored) * sizeof(uint32_t),
                                    "a bucket of the row shuffle");
  auto* data = reinterpret_cast<uint32_t*>(memory_of_bucket.data());
  for (int64_t b = 0; b < count; ++b) {
    buckets.read(b, data, pool);
    SortedRows sorted(rows.shape(), data, stored, kRowNumberWords, buckets.rows(b));
    sorted.sort(seed, bits, pool, [&](int64_t i) {
      const uint32_t* row = data + i * stored;
      return static_cast<int64_t>(uint64_t{row[1]} << 32 | row[0]);
    });
    take(sorted);
  }
}

}  // namespace

void shuffle_rows(const RowSource& rows, uint64_t seed, const SplitResources& resources,
                  ThreadPool& pool, const std::function<void(const RowSource&)>& take) {
  const int64_t fit =
      std::min(resources.memory_bytes / sorting_bytes(rows.shape().words()), kMaxPieceRows);
  if (rows.rows() <= fit)
    shuffle_in_memory(rows, seed, pool, take);
  else
    shuffle_by_buckets(rows, seed, resources, pool, take);
}

}  // namespace hlite::prep
