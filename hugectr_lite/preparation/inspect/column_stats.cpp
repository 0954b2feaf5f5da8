#include "hugectr_lite/preparation/inspect/column_stats.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "hugectr_lite/core/mix.h"
#include "hugectr_lite/preparation/io/top_counts.h"

namespace hlite::prep {
namespace {

constexpr int64_t kMaxCountedKeys = int64_t{1}
                                    << 24;  // of all tables together: 16 bytes each, twice
constexpr int64_t kSampledBatches = 4;
constexpr size_t kFirstCapacity = 64;

// Rows 1, 2, ... 10, then about 40 a decade, and the last.
Skew skew_of(const std::vector<KeyCounter>& counters) {
  Skew skew;
  std::vector<int64_t> counts;
  for (const KeyCounter& counter : counters) {
    const std::vector<int64_t> of_slot = counter.counts();
    counts.insert(counts.end(), of_slot.begin(), of_slot.end());
    skew.lookups += counter.total();
    skew.exact = skew.exact && counter.undercount() == 0;
  }
  std::sort(counts.begin(), counts.end(), std::greater<>());
  skew.rows = static_cast<int64_t>(counts.size());
  int64_t sum = 0, next = 1;
  for (size_t i = 0; i < counts.size(); ++i) {
    sum += counts[i];
    const auto rows = static_cast<int64_t>(i) + 1;
    if (rows != next && rows != skew.rows && rows != 60000) continue;
    skew.curve.push_back({rows, static_cast<double>(sum) / static_cast<double>(skew.lookups)});
    if (rows == next)
      next = std::max<int64_t>(rows + 1, std::llround(static_cast<double>(rows) * 1.06));
  }
  return skew;
}

void finish_slot(const KeyCounter& counter, KeyStats& stats) {
  stats.distinct = counter.distinct();
  stats.distinct_is_exact = counter.undercount() == 0;
  stats.largest = counter.largest();
  TopCounts top;
  for (const int64_t count : counter.counts()) top.add(count);
  top.shares(stats.values, stats.top_share);
}

// Counts the distinct rows of the first few stretches of `batch` consecutive rows.
class BatchCounter {
 public:
  BatchCounter(int64_t batch, const RowSchema& schema) : schema_(schema) {
    skew_.batch = batch;
    for (size_t s = 0; s < schema.slots.size(); ++s) seen_.emplace_back(kMaxCountedKeys);
  }
  void add(const RowChunk& chunk) {
    if (!chunk.follows) begin();
    const size_t columns = schema_.slot_of.size();
    for (int64_t r = 0; r < chunk.rows && skew_.batches < kSampledBatches; ++r) {
      for (size_t c = 0; c < columns; ++c) {
        const uint64_t key = chunk.keys[static_cast<size_t>(r) * columns + c];
        if (key != kMissingKey) seen_[static_cast<size_t>(schema_.slot_of[c])].add(key);
      }
      if (++rows_ == skew_.batch) end();
    }
  }
  // A file shorter than a batch gives what there is of it.
  void finish(Skew& skew) {
    if (skew_.batches == 0 && rows_ > 0) {
      skew_.batch = rows_;
      end();
    }
    const double n = std::max<double>(1, static_cast<double>(skew_.batches));
    skew.batch = skew_.batch;
    skew.batches = skew_.batches;
    skew.distinct_in_batch = skew_.distinct_in_batch / n;
    skew.lookups_in_batch = skew_.lookups_in_batch / n;
  }

 private:
  void begin() {
    for (KeyCounter& counter : seen_) counter.clear();
    rows_ = 0;
  }
  void end() {
    for (const KeyCounter& counter : seen_) {
      skew_.distinct_in_batch += static_cast<double>(counter.distinct());
      skew_.lookups_in_batch += static_cast<double>(counter.total());
    }
    ++skew_.batches;
    begin();
  }

  const RowSchema& schema_;
  std::vector<KeyCounter> seen_;
  Skew skew_;
  int64_t rows_ = 0;
};

}  // namespace

void NumberStats::add(double value) {
  ++rows;
  if (std::isnan(value)) {
    ++missing;
  } else if (std::isinf(value)) {
    ++not_finite;
  } else {
    const bool first = finite() == 1;
    min = first ? value : std::min(min, value);
    max = first ? value : std::max(max, value);
    sum += value;
    zero += value == 0;
    negative += value < 0;
  }
}

KeyCounter::KeyCounter(int64_t most) : max_(most), table_(kFirstCapacity) {}

void KeyCounter::clear() {
  std::fill(table_.begin(), table_.end(), KeyCount{0, 0});
  used_ = total_ = dropped_below_ = 0;
  largest_ = 0;
}

void KeyCounter::insert(uint64_t key, int64_t count) {
  const size_t mask = table_.size() - 1;
  size_t at = mix(key) & mask;
  while (table_[at].count != 0 && table_[at].key != key) at = (at + 1) & mask;
  used_ += table_[at].count == 0;
  table_[at].key = key;
  table_[at].count += count;
}

void KeyCounter::rebuild(size_t capacity, int64_t drop_below) {
  std::vector<KeyCount> old(capacity);
  old.swap(table_);
  used_ = 0;
  for (const KeyCount& e : old)
    if (e.count >= std::max<int64_t>(drop_below, 1)) insert(e.key, e.count);
}

void KeyCounter::add(uint64_t key) {
  insert(key, 1);
  ++total_;
  largest_ = std::max(largest_, key);
  if (used_ > max_) {
    while (used_ > max_ / 2) rebuild(table_.size(), ++dropped_below_ + 1);
  } else if (static_cast<size_t>(used_) * 2 > table_.size()) {
    rebuild(table_.size() * 2, 0);
  }
}

std::vector<int64_t> KeyCounter::counts() const {
  std::vector<int64_t> counts;
  counts.reserve(static_cast<size_t>(used_));
  for (const KeyCount& e : table_)
    if (e.count > 0) counts.push_back(e.count);
  std::sort(counts.begin(), counts.end(), std::greater<>());
  return counts;
}

double Skew::share_of(int64_t k) const {
  double share = 0;
  for (const Point& p : curve) {
    if (p.rows > k) break;
    share = p.share;
  }
  return share;
}

FileStatistics collect(RowStream& rows, const std::vector<int64_t>& limits, int64_t batch) {
  const RowSchema& schema = rows.schema();
  FileStatistics all;
  all.numbers.resize(schema.numbers.size());
  all.slots.resize(schema.slots.size());
  const int64_t most =
      kMaxCountedKeys / std::max<int64_t>(1, static_cast<int64_t>(schema.slots.size()));
  std::vector<KeyCounter> counters(schema.slots.size(), KeyCounter(most));
  BatchCounter in_batches(batch, schema);
  for (size_t s = 0; s < std::min(limits.size(), all.slots.size()); ++s)
    all.slots[s].limit = limits[s];

  RowChunk chunk;
  const size_t numbers = schema.numbers.size(), columns = schema.slot_of.size();
  while (rows.next(chunk)) {
    all.rows += chunk.rows;
    for (const double label : chunk.labels) {
      ++all.labels;
      all.positives += label == 1;
      all.odd_labels += label != 0 && label != 1;
    }
    for (size_t i = 0; i < chunk.numbers.size(); ++i)
      all.numbers[i % numbers].add(chunk.numbers[i]);
    for (size_t i = 0; i < chunk.keys.size(); ++i) {
      const auto s = static_cast<size_t>(schema.slot_of[i % columns]);
      KeyStats& stats = all.slots[s];
      if (chunk.keys[i] == kMissingKey) {
        ++stats.missing;
        continue;
      }
      ++stats.values;
      stats.outside += stats.limit > 0 && chunk.keys[i] >= static_cast<uint64_t>(stats.limit);
      counters[s].add(chunk.keys[i]);
    }
    in_batches.add(chunk);
  }
  for (size_t s = 0; s < counters.size(); ++s) finish_slot(counters[s], all.slots[s]);
  all.skew = skew_of(counters);
  in_batches.finish(all.skew);
  return all;
}

}  // namespace hlite::prep
