#include "data_reader/open_source.h"

#include "data_reader/reader_plan.h"
#include "hugectr_lite/core/error.h"
#include "tests/data_reader/raw_batch.h"
#include "tests/data_reader/raw_fixture.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::data;
using test::async_param;
using test::check_contains;
using test::RawFixture;

namespace {
constexpr int64_t kPlenty = int64_t{1} << 40;

struct Planned {
  int64_t threads, each;
  bool operator==(const Planned&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Planned& p) {
  return out << p.threads << " x " << p.each;
}
// Samples of 28 bytes in the file and as many in memory (the dense width is 3), 1000 a batch.
ReaderPlan plan_of(int64_t threads, int64_t each, int64_t batches, int64_t available = kPlenty,
                   bool resident = false) {
  config::DataConfig data = test::RawShape{3, {5, 1, 70}}.config();
  data.async_param = async_param(threads, each, 4096, 8, 512);
  return plan_reader(data, 1000, batches, resident, available);
}
Planned planned(const ReaderPlan& p) { return {p.threads, p.batches_per_thread}; }
}  // namespace

TEST_CASE("the rows of a shard") {
  const auto rows = [](int64_t batch, int64_t index, int64_t count) {
    const BatchRows r = rows_of_batch(batch, 25, 12, {index, count});
    return std::pair(r.first_sample, r.size);
  };
  using Pair = std::pair<int64_t, int64_t>;
  CHECK(rows(0, 0, 1) == Pair(0, 12));
  CHECK(rows(1, 0, 1) == Pair(12, 12));
  CHECK(rows(2, 0, 1) == Pair(24, 1));
  CHECK(rows(1, 1, 3) == Pair(16, 4));
  CHECK(rows(2, 0, 3) == Pair(24, 1));
  CHECK(rows(2, 1, 3) == Pair(25, 0));
  CHECK(rows(2, 2, 3) == Pair(25, 0));
  CHECK_THROWS_AS(rows(0, 3, 3), Error);
  CHECK_THROWS_AS(rows(0, 0, 5), Error);
}

TEST_CASE("async_param is honoured where epoch and memory allow") {
  CHECK(planned(plan_of(4, 3, 100)) == Planned{4, 3});
  CHECK(plan_of(4, 3, 100).remark.empty());
  const ReaderPlan p = plan_of(4, 3, 100);
  CHECK(p.shape.block == 4096);
  CHECK(p.shape.depth == 8);
  CHECK(p.shape.alignment == 512);
  // 8 reads of 4096 bytes: two batches of 28000 in flight, and one that is decoded.
  CHECK(p.buffers_per_thread == 3);
  CHECK(p.bytes >= 4 * (3 * 28'000 + 3 * 28'000));
  CHECK(p.bytes < 4 * (3 * 28'000 + 3 * 28'000 + 3 * 2 * 4096));  // in whole pages, and aligned

  CHECK(planned(plan_of(4, 3, 11)) == Planned{4, 2});
  CHECK(planned(plan_of(4, 3, 4)) == Planned{4, 1});
  CHECK(planned(plan_of(4, 3, 3)) == Planned{3, 1});
  CHECK(plan_of(4, 3, 3).remark ==
        "reading 3 x 1 batches ahead instead of 4 x 3 (num_threads x num_batches_per_thread): the "
        "epoch has 3");
  CHECK(planned(plan_of(4, 3, 1)) == Planned{1, 2});
  CHECK(planned(plan_of(1, 1, 100)) == Planned{1, 2});
  CHECK(plan_of(1, 1, 100).remark.empty());

  CHECK(planned(plan_of(4, 3, 100, 8 * 500'000)) == Planned{4, 2});
  CHECK(planned(plan_of(4, 3, 100, 8 * 190'000)) == Planned{3, 1});
  CHECK(planned(plan_of(4, 3, 100, 0)) == Planned{2, 1});
  CHECK(planned(plan_of(1, 3, 100, 0)) == Planned{1, 2});
  check_contains(plan_of(4, 3, 100, 8'000'000).remark.empty() ? plan_of(4, 3, 100, 0).remark : "",
                 {"reading 2 x 1 batches ahead instead of 4 x 3",
                  "an eighth of the available memory is 0 MB"});
}

TEST_CASE("a resident source has a slot for every batch") {
  for (const int64_t batches : {1, 2, 3, 4, 5, 100}) {
    const ReaderPlan p = plan_of(4, 3, batches, 0, true);
    CHECK(p.threads <= 4);
    CHECK(p.threads * p.batches_per_thread >= batches);
    CHECK(p.threads * p.batches_per_thread < batches + 4);
  }
}

TEST_CASE("a source without async_param reads with defaults", "[threads]") {
  RawFixture f(95);
  f.data.format = &config::data_format("Raw");
  f.data.num_samples = 90;
  const auto source = open_source(f.data, f.path, Split::kTrain, 10, f.shape.slot_rows);
  CHECK(source->samples() == 90);
  for (int p = 0; p < 20; ++p) CHECK(test::is_right(f.shape, source->next()));
  CHECK(source_memory_bytes(f.data, 10, 90) > 8 * 10 * 28);
}

TEST_CASE("each format says what its source takes of memory") {
  constexpr int64_t kRow = 28, kRows = 10;
  config::DataConfig data = test::RawShape{3, {5, 1, 70}}.config();
  data.async_param = async_param(16, 1024, 4096, 8, 512);  // of raw files alone
  const int64_t raw = source_memory_bytes(data, kRows, 1000);
  CHECK(raw > 16 * 1024 * kRows * kRow);
  data.format = &config::data_format("Norm");
  CHECK(source_memory_bytes(data, kRows, 1000) == 4 * kRows * kRow);
  data.format = &config::data_format("Parquet");
  data.num_workers = 2;
  CHECK(source_memory_bytes(data, kRows, 1000) == 5 * kRows * kRow + 1000 * kRow);
  // Row groups are decoded ahead up to a limit.
  CHECK(source_memory_bytes(data, kRows, int64_t{1} << 40) <=
        5 * kRows * kRow + (int64_t{1} << 30));
  // A shuffled set stays in memory.
  CHECK(source_memory_bytes(data, kRows, 1000, {.shuffle_samples = true}) ==
        4 * kRows * kRow + 1000 * kRow);
}
