// The part of a layer's rows that memory holds, by the bytes that it takes.
#include <cmath>
#include <numeric>

#include "embedding/disk_tier.h"
#include "embedding/row_log.h"
#include "embedding/table_storage.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/thread_pool.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::embedding {
namespace {

constexpr int64_t kTierWidth = 5, kTierBatch = 7;
constexpr double kTierShare = 0.4;

TablesSpec tiers_spec(optimizer::OptimizerType type = optimizer::OptimizerType::kAdaGrad,
                      FloatType precision = FloatType::kFloat) {
  TablesSpec spec{.name = "emb",
                  .layout = SlotLayout({1000, 9973}, kTierWidth),
                  .rule = {.type = type, .initial_accumulator = 0.25},
                  .seed = 9};
  spec.table_type = precision;
  return spec;
}

// Bytes of a row and its states, by what an optimizer keeps.
int64_t record_of(optimizer::OptimizerType type, FloatType precision) {
  const int64_t weight = precision == FloatType::kFloat ? 4 : 2;
  switch (type) {
    case optimizer::OptimizerType::kAdaGrad:
      return kTierWidth * (weight + 4);
    case optimizer::OptimizerType::kRowWiseAdaGrad:
      return kTierWidth * weight + 4;
    case optimizer::OptimizerType::kRowWiseAdam:
      return kTierWidth * (weight + 4) + 4;
    case optimizer::OptimizerType::kAdam:
      return kTierWidth * (weight + 8);
    default:
      return kTierWidth * weight;
  }
}

int64_t bytes_of_lines(int64_t rows, int64_t lines, int64_t record) {
  return lines * record + RowCache::memory_bytes(rows, lines, record);
}

TablesPlace over_disk(const std::string& folder, int64_t bytes) {
  TablesPlace place;
  place.max_batch = place.train_batch = kTierBatch;
  place.memory.lines = {.key = ".host_gb", .gigabytes = 0.125, .share = kTierShare, .bytes = bytes};
  place.memory.kind = &kDiskTier;
  place.memory.folder = folder;
  return place;
}

}  // namespace

TEST_CASE(
    "a host's memory holds as many rows as fit with their map, at least those of two batches") {
  using optimizer::OptimizerType;
  const test::TemporaryDirectory folder;
  for (const auto type : {OptimizerType::kAdaGrad, OptimizerType::kRowWiseAdaGrad,
                          OptimizerType::kRowWiseAdam, OptimizerType::kAdam, OptimizerType::kSgd})
    for (const auto precision : {FloatType::kFloat, FloatType::kBf16}) {
      const TablesSpec spec = tiers_spec(type, precision);
      constexpr int64_t kRows = 1000 + 9973, kMin = 2 * kTierBatch * 2;
      const int64_t record = record_of(type, precision);
      INFO("record of " << record << " bytes");
      REQUIRE(spec.stored_row_bytes() == record);
      for (const int64_t lines : {kMin, kMin + 1, int64_t{1009}, kRows - 1, kRows}) {
        const int64_t bytes = bytes_of_lines(kRows, lines, record);
        const TableStorage storage(spec, over_disk(folder.path(), bytes));
        CHECK(storage.held_rows() == lines);
        CHECK(storage.beyond_memory());
        REQUIRE(storage.tier());
        CHECK(storage.tier()->bytes() == bytes - lines * record);
        CHECK(storage.tier()->host_bytes() == 0);
        const std::vector<StorageTier> tiers = storage.tier()->memories();
        REQUIRE(tiers.size() == 1);
        CHECK(tiers[0].disk);
        CHECK(tiers[0].lines == lines);
        CHECK(tiers[0].largest_file == RowLog::largest_file(record, kRows - lines));
        CHECK_FALSE(tiers[0].forecast);
        if (lines > kMin)
          CHECK(TableStorage(spec, over_disk(folder.path(), bytes - 1)).held_rows() == lines - 1);
      }
      // Memory for more rows than there are holds them all.
      CHECK(TableStorage(spec, over_disk(folder.path(), int64_t{1} << 40)).held_rows() == kRows);
    }
}

TEST_CASE("memory that two batches do not fit into is refused with what they need") {
  const test::TemporaryDirectory folder;
  const TablesSpec spec = tiers_spec();
  constexpr int64_t kRows = 1000 + 9973, kMin = 28;
  const int64_t record = record_of(spec.rule.type, FloatType::kFloat),
                needed = bytes_of_lines(kRows, kMin, record);
  for (const int64_t bytes : {needed - 1, int64_t{0}}) {
    const std::string message =
        test::message_of<ConfigError>([&] { TableStorage(spec, over_disk(folder.path(), bytes)); });
    test::check_contains(message,
                         {"solver.embedding_memory.host_gb: expected at least 0.0",
                          "of which \"emb\" has a share of 0.400 on each rank, for the 28 rows of "
                          "two batches and the map of 10973 rows, found 0.125"});
    // The memory that it asks for is enough, and hardly more than that.
    const double asked =
        std::stod(message.substr(message.find("at least ") + 9)) * kTierShare * 1e9;
    CHECK(asked >= static_cast<double>(needed));
    CHECK(asked <= static_cast<double>(needed) + 2 * 1000 * kTierShare);
  }
}

TEST_CASE("tables that are smaller than two batches need memory for their rows alone") {
  const test::TemporaryDirectory folder;
  TablesSpec spec = tiers_spec();
  spec.layout = SlotLayout({3, 1}, kTierWidth);
  const int64_t record = record_of(spec.rule.type, FloatType::kFloat),
                bytes = bytes_of_lines(4, 4, record);
  CHECK(TableStorage(spec, over_disk(folder.path(), bytes)).held_rows() == 4);
  test::check_contains(test::message_of<ConfigError>(
                           [&] { TableStorage(spec, over_disk(folder.path(), bytes - 1)); }),
                       {"for the 4 rows of two batches and the map of 4 rows"});
}

TEST_CASE("rows that all lie in memory have no tiers") {
  const TablesSpec spec = tiers_spec();
  const TableStorage storage(spec, {.max_batch = kTierBatch, .train_batch = kTierBatch});
  CHECK(storage.held_rows() == 10973);
  CHECK_FALSE(storage.beyond_memory());
  CHECK(storage.tier() == nullptr);
}

TEST_CASE("all ranks refuse a memory that is too small for one of them") {
  const test::TemporaryDirectory folder;
  const TablesSpec spec = tiers_spec();
  const int64_t record = record_of(spec.rule.type, FloatType::kFloat);
  constexpr int kRanks = 3;
  constexpr int64_t kMin = 2 * kTierBatch * 2 * kRanks;
  // Rank 1 has the larger table, rank 2 nothing.
  const auto placement =
      std::make_shared<const RowPlacement>(RowPlacement::by_table(spec.layout, {{0}, {1}}, kRanks));
  const int64_t larger = bytes_of_lines(9973, kMin, record);
  for (int rank = 0; rank < kRanks; ++rank) {
    INFO("rank " << rank);
    const auto on_rank = [&](int64_t bytes) {
      TablesPlace place = over_disk(folder.path(), bytes);
      place.ranks = {.rank = rank,
                     .topology = std::make_shared<comm::Topology>(std::vector<int>{kRanks})};
      place.placement = placement;
      return place;
    };
    test::check_contains(
        test::message_of<ConfigError>([&] { TableStorage(spec, on_rank(larger - 1)); }),
        {"for the 84 rows of two batches and the map of 9973 rows"});
    const TableStorage storage(spec, on_rank(larger));
    // The smaller table has a smaller map, so that more of its rows fit.
    const int64_t line =
        record + RowCache::memory_bytes(0, 1, record) - RowCache::memory_bytes(0, 0, record);
    const int64_t lines[] = {kMin + (9973 - 1000) * 4 / line, kMin, 0};
    CHECK(storage.held_rows() == lines[rank]);
    CHECK((storage.tier() == nullptr) == (rank == 2));
    CHECK(storage.beyond_memory());
  }
}

TEST_CASE("steps say what a batch is expected to move, as the forecast of the rows has it") {
  const test::TemporaryDirectory folder;
  const TablesSpec spec = tiers_spec();
  constexpr int64_t kRows = 1000 + 9973, kLines = 503;
  const int64_t record = record_of(spec.rule.type, FloatType::kFloat);
  TablesPlace place = over_disk(folder.path(), bytes_of_lines(kRows, kLines, record));
  for (const double batches : {0.0, 1000.0}) {
    const KeyFrequencies keys =
        KeyFrequencies::counted({{900, 5}, {40, 300}, {2, 4000}, {1, 6668}}, 13834);
    place.keys =
        std::make_shared<ExpectedKeys>(ExpectedKeys{.frequencies = keys, .run_batches = batches});
    const ResidencyForecast want =
        forecast_residency(keys, {.lines = kLines, .batch = kTierBatch, .batches = batches});
    const TableStorage storage(spec, place);
    const auto tiers = storage.tier()->memories();
    REQUIRE(tiers.size() == 1);
    REQUIRE(tiers[0].forecast);
    CHECK(tiers[0].forecast->rows.missing == want.missing);
    CHECK(tiers[0].forecast->rows.displaced == want.displaced);
    CHECK(want.missing > want.first);
    CHECK(want.displaced > 0);
    // A row comes from the disk with its block of 4 KiB, but for those that no batch has had; it
    // goes there alone.
    const double read = (want.missing - want.first) * 4096,
                 written = want.displaced * static_cast<double>(record);
    CHECK(tiers[0].forecast->read_bytes == Approx(read).epsilon(1e-12));
    CHECK(tiers[0].forecast->written_bytes == Approx(written).epsilon(1e-12));
    for (const bool ahead : {false, true}) {
      const plan::TierBytes bytes = storage.tier()->traffic(0, kTierBatch, ahead);
      CHECK(bytes.read_per_sample == Approx(read / kTierBatch).epsilon(1e-12));
      CHECK(bytes.written_per_sample == Approx(written / kTierBatch).epsilon(1e-12));
      CHECK(bytes.disk);
      CHECK(bytes.ahead == ahead);
    }
  }
}

TEST_CASE("tiers count the rows that moved", "[threads]") {
  const test::TemporaryDirectory folder;
  const TablesSpec spec = tiers_spec();
  constexpr int64_t kLines = 28;
  const int64_t record = record_of(spec.rule.type, FloatType::kFloat);
  TableStorage storage(spec, over_disk(folder.path(), bytes_of_lines(10973, kLines, record)));
  plan::Buffers buffers;
  storage.declare(buffers);
  buffers.allocate();
  ThreadPool pool(2);
  const Exec exec{.pool = &pool};
  storage.start({});
  // Three batches of 14 rows, the third of which takes the lines of the first; then the first.
  for (const uint32_t first : {0u, 14u, 28u, 0u}) {
    std::vector<uint32_t> rows(2 * kTierBatch);
    std::iota(rows.begin(), rows.end(), first);
    const Matrix<uint32_t> at(rows.data(), kTierBatch, 2);
    storage.tier()->admit(exec, at, at, 0, 2, /*training=*/first != 28);
  }
  const RowCacheCounts moved = storage.tier()->memories(true).at(0).moved;
  CHECK(moved.lookups == 4 * 14);
  CHECK(moved.resident == 0);
  CHECK(moved.first == 3 * 14);
  CHECK(moved.fetched == 14);
  CHECK(moved.written == 2 * 14);  // the first two batches; the third was read only
  const RowLog& log = dynamic_cast<const DiskTier&>(*storage.tier()).cache().log();
  CHECK(moved.read_bytes == log.read_bytes());
  CHECK(moved.written_bytes == log.written_bytes());
  CHECK(storage.tier()->memories(false).at(0).moved.lookups == 0);
}

}  // namespace hlite::embedding
