#include "hugectr_lite/preparation/inspect/column_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

// Rows from memory, in chunks of a given size.
class MemoryRows final : public RowStream {
 public:
  MemoryRows(RowSchema schema, RowChunk all, int64_t chunk) : all_(std::move(all)), chunk_(chunk) {
    schema_ = std::move(schema);
  }
  bool next(RowChunk& out) override {
    const int64_t rows = std::min(chunk_, all_.rows - at_);
    if (rows <= 0) return false;
    out.resize(rows, schema_);
    const auto copy = [&](const auto& from, auto& to) {
      const auto width = static_cast<int64_t>(to.size()) / rows;
      std::copy_n(from.begin() + at_ * width, rows * width, to.begin());
    };
    copy(all_.labels, out.labels);
    copy(all_.numbers, out.numbers);
    copy(all_.keys, out.keys);
    out.first = at_;
    out.follows = at_ > 0;
    at_ += rows;
    return true;
  }
  [[nodiscard]] int64_t rows_in_file() const override { return all_.rows; }
  [[nodiscard]] std::string part() const override { return "all"; }

 private:
  RowChunk all_;
  int64_t chunk_, at_ = 0;
};

TEST_CASE("numbers: extremes, mean and what is missing") {
  NumberStats s;
  for (const double x : {3.0, -2.0, 0.0, std::numeric_limits<double>::quiet_NaN(),
                         std::numeric_limits<double>::infinity(), 5.0})
    s.add(x);
  CHECK(s.rows == 6);
  CHECK(s.missing == 1);
  CHECK(s.not_finite == 1);
  CHECK(s.zero == 1);
  CHECK(s.negative == 1);
  CHECK(s.min == -2.0);
  CHECK(s.max == 5.0);
  CHECK(s.mean() == 1.5);
  CHECK(NumberStats().mean() == 0.0);
}

TEST_CASE("keys are counted exactly while they fit") {
  KeyCounter counter(5000);
  std::map<uint64_t, int64_t> expected;
  for (uint64_t i = 0; i < 20000; ++i) {
    const uint64_t key = random::word(1, 1, i) % 2003 * (i % 2 == 0 ? 1 : 1000000007);
    counter.add(key);
    ++expected[key];
    if (i == 700) {
      counter.clear();
      expected.clear();
    }
  }
  CHECK(counter.undercount() == 0);
  std::vector<int64_t> counts;
  for (const auto& [key, n] : expected) counts.push_back(n);
  std::sort(counts.rbegin(), counts.rend());
  CHECK((counter.counts() == counts));
  CHECK(counter.distinct() == static_cast<int64_t>(expected.size()));
  CHECK(counter.largest() == expected.rbegin()->first);
}

TEST_CASE("in bounded memory rare keys are dropped, frequent ones stay") {
  KeyCounter counter(1000);
  // 10 keys of 2000 each among 50,000 that come once.
  for (uint64_t i = 0; i < 50000; ++i) {
    counter.add(1000 + i);
    if (i % 5 < 2) counter.add(i / 5 % 10);
  }
  CHECK(counter.total() == 70000);
  CHECK(counter.distinct() <= 1001);
  const std::vector<int64_t> counts = counter.counts();
  CHECK(counter.undercount() > 0);
  for (size_t i = 0; i < 10; ++i) {
    CHECK(counts[i] <= 2000);
    CHECK(counts[i] >= 2000 - counter.undercount());
  }
}

TEST_CASE("statistics of rows agree with their definition, whatever the chunks") {
  RowSchema schema;
  schema.label = "label";
  schema.numbers = {"x", "y"};
  schema.slots = {"a", "b"};
  schema.slot_of = {0, 0, 1};
  RowChunk all;
  all.resize(1009, schema);
  std::map<std::pair<int, uint64_t>, int64_t> expected;
  int64_t values[2] = {0, 0}, outside = 0;
  std::set<std::pair<int, uint64_t>> batch;  // of the first 100 rows, then of the next
  std::vector<double> distinct;
  for (size_t r = 0; r < 1009; ++r) {
    all.labels[r] = r % 3 == 0 ? 1 : 0;
    all.numbers[2 * r] = static_cast<double>(r);
    all.numbers[2 * r + 1] = -1;
    for (size_t c = 0; c < 3; ++c) {
      const int slot = c < 2 ? 0 : 1;
      uint64_t key = random::word(2, c, r) % (slot == 0 ? 40 : 300);
      if (c == 1 && r % 4 == 0) key = kMissingKey;
      all.keys[3 * r + c] = key;
      if (key == kMissingKey) continue;
      ++expected[{slot, key}];
      ++values[slot];
      outside += slot == 1 && key >= 250;
      batch.insert({slot, key});
    }
    if (r % 100 == 99) {
      distinct.push_back(static_cast<double>(batch.size()));
      batch.clear();
    }
  }
  for (const int64_t chunk : {1, 64, 5000}) {
    MemoryRows rows(schema, all, chunk);
    const FileStatistics s = collect(rows, {40, 250}, 100);
    CHECK(s.rows == 1009);
    CHECK(s.positives == 337);
    CHECK(s.odd_labels == 0);
    CHECK(s.numbers[0].mean() == 504.0);
    CHECK(s.numbers[1].negative == 1009);
    for (int slot = 0; slot < 2; ++slot) {
      std::vector<int64_t> counts;
      for (const auto& [key, n] : expected)
        if (key.first == slot) counts.push_back(n);
      std::sort(counts.rbegin(), counts.rend());
      const KeyStats& k = s.slots[static_cast<size_t>(slot)];
      CHECK(k.values == values[slot]);
      CHECK(k.distinct == static_cast<int64_t>(counts.size()));
      CHECK(k.top_share[0] == static_cast<double>(counts[0]) / static_cast<double>(values[slot]));
      double ten = 0;
      for (size_t i = 0; i < 10; ++i) ten += static_cast<double>(counts[i]);
      CHECK(k.top_share[1] == Approx(ten / static_cast<double>(values[slot])));
    }
    CHECK(s.slots[0].missing == 253);
    CHECK(s.slots[1].outside == outside);
    CHECK(s.skew.rows == static_cast<int64_t>(expected.size()));
    CHECK(s.skew.lookups == values[0] + values[1]);
    CHECK(s.skew.share_of(s.skew.rows) == Approx(1.0));
    int64_t most = 0;
    for (const auto& [key, n] : expected) most = std::max(most, n);
    CHECK(s.skew.share_of(1) ==
          Approx(static_cast<double>(most) / static_cast<double>(s.skew.lookups)));
    CHECK(s.skew.batches == 4);
    CHECK(s.skew.distinct_in_batch ==
          Approx((distinct[0] + distinct[1] + distinct[2] + distinct[3]) / 4));
  }
}

}  // namespace
}  // namespace hlite::prep
