// RowCache against a table in memory, for batches that leave it the minimum capacity.
#include "embedding/row_cache.h"

#include <set>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/thread_pool.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::embedding {
namespace {

constexpr int64_t kWidth = 3;

float initial_weight(uint32_t row, int64_t j) {
  return static_cast<float>(row) + 0.125f * static_cast<float>(j);
}

// A cache, its lines, and the whole table.
struct Case {
  Case(int64_t rows, int64_t lines, const std::string& folder, int batches_in_use = 1,
       int64_t columns = kWidth)
      : width(columns),
        weights(lines, columns),
        states(lines, 1),
        cache({.name = "emb",
               .rows = rows,
               .lines = lines,
               .part_bytes = {columns * kFloatBytes, kFloatBytes},
               .first_state = 0.5f,
               .folder = folder,
               .batches_in_use = batches_in_use},
              [columns](uint32_t row, std::byte* out) {
                std::vector<float> values;
                for (int64_t j = 0; j < columns; ++j) values.push_back(initial_weight(row, j));
                std::memcpy(out, values.data(), values.size() * sizeof(float));
              }) {
    cache.attach({.w = weights.view(), .state0 = states.view()});
    for (uint32_t row = 0; row < rows; ++row) {
      for (int64_t j = 0; j < columns; ++j) table.push_back(initial_weight(row, j));
      table_states.push_back(0.5f);
    }
  }
  // Admits rows, compares what is in their lines, and in training changes each row once.
  void batch(const std::vector<uint32_t>& rows, bool training, int64_t columns = 1) {
    std::vector<uint32_t> lines = rows;
    const Matrix<uint32_t> at(lines.data(), std::ssize(rows) / columns, columns);
    cache.admit(exec, at, 0, columns, training);
    std::set<uint32_t> seen, taken;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (static_cast<int64_t>(rows[i]) >= std::ssize(table_states)) {
        CHECK(lines[i] == rows[i]);
        continue;
      }
      INFO("row " << rows[i]);
      REQUIRE(lines[i] < weights.view().dim(0));
      float* const line = weights.view().row(lines[i]);
      float* const want = table.data() + rows[i] * width;
      REQUIRE(std::equal(line, line + width, want));
      REQUIRE(*states.view().row(lines[i]) == table_states[rows[i]]);
      if (!seen.insert(rows[i]).second) {
        REQUIRE(taken.contains(lines[i]));
        continue;
      }
      REQUIRE(taken.insert(lines[i]).second);
    }
    if (!training) return;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (seen.erase(rows[i]) == 0) continue;
      trained.insert(rows[i]);
      for (int64_t j = 0; j < width; ++j) {
        table[rows[i] * width + j] += 1.5f;
        weights.view().row(lines[i])[j] += 1.5f;
      }
      *states.view().row(lines[i]) = table_states[rows[i]] += 0.25f;
    }
  }
  // The last trained rows take the numbers of those that leave.
  void close_up(const std::set<uint32_t>& evicted) {
    std::vector<uint32_t> from, to;
    for (const uint32_t row : evicted) trained.erase(row);
    for (const uint32_t row : evicted) {
      if (trained.empty() || *trained.rbegin() < row) break;
      from.push_back(*trained.rbegin());
      to.push_back(row);
      trained.erase(from.back());
    }
    cache.close_up(from, to, std::vector<uint32_t>(evicted.begin(), evicted.end()));
    const auto forget = [&](uint32_t row) {
      for (int64_t j = 0; j < width; ++j) table[row * width + j] = initial_weight(row, j);
      table_states[row] = 0.5f;
    };
    for (const uint32_t row : evicted) forget(row);
    for (size_t i = 0; i < from.size(); ++i) {
      std::copy_n(table.begin() + from[i] * width, width, table.begin() + to[i] * width);
      table_states[to[i]] = table_states[from[i]];
      trained.insert(to[i]);
      forget(from[i]);
    }
  }
  void check_files() {
    std::vector<uint32_t> all(table_states.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint32_t>(i);
    std::vector<float> got(table.size()), got_states(all.size());
    cache.read(0, all, got.data());
    cache.read(1, all, got_states.data());
    CHECK((got == table));
    CHECK((got_states == table_states));
    CHECK((cache.touched() == std::vector<uint32_t>(trained.begin(), trained.end())));
  }

  ThreadPool pool{3};
  Exec exec{.pool = &pool};
  const int64_t width;
  Tensor<float, 2> weights, states;
  RowCache cache;
  std::vector<float> table, table_states;
  std::set<uint32_t> trained;
};

}  // namespace

TEST_CASE("rows come and go with their states, and a batch finds what the whole table has",
          "[threads]") {
  const test::TemporaryDirectory folder;
  for (const int64_t lines : {60, 61, 200, 1000}) {
    INFO(lines << " lines");
    Case of(1000, lines, folder.path());
    uint64_t draws = 0;
    for (int round = 0; round < 400; ++round) {
      std::vector<uint32_t> rows(60);
      for (uint32_t& row : rows) {
        const uint32_t any = random::word(3, 1, draws++);
        row = any % 5 == 0 ? any % 1000 : any % 11 == 1 ? 0xffffffffu : any % 90;
      }
      if (round % 3 == 1) {
        std::vector<uint32_t> next = rows;
        of.cache.prefetch(of.exec, {next.data(), 20, 3}, 0, 3);
        if (round % 2 == 0) of.batch({7, 8, 9, 999}, true);  // between the two
      }
      of.batch(rows, round % 4 != 3, 3);
    }
    of.check_files();
    const RowCacheCounts& counts = of.cache.counts();
    CHECK(counts.first >= std::ssize(of.trained));
    CHECK((counts.fetched > 0) == (lines < 900));
    CHECK((counts.written > 0) == (lines < 900));
    CHECK(counts.resident < counts.lookups);
  }
}

TEST_CASE("rows are kept when their log fills segments again and cleans others") {
  const test::TemporaryDirectory folder;
  constexpr int64_t kRows = 800, kBatch = 40, kWide = 4095;  // with its state 16 KiB: 64 a segment
  Case of(kRows, 100, folder.path(), 1, kWide);
  for (uint64_t round = 0; round < 400; ++round) {
    std::vector<uint32_t> rows(kBatch);
    for (uint32_t i = 0; i < rows.size(); ++i)
      rows[i] = static_cast<uint32_t>(random::word(5, round, i) % kRows);
    of.batch(rows, round % 4 < 2);  // rows that are only read keep their places
    if (round % 5 != 4) continue;
    std::set<uint32_t> evicted;
    for (uint32_t i = 0; i < 12; ++i)
      if (const auto row = static_cast<uint32_t>(random::word(6, round, i) % kRows);
          of.trained.contains(row))
        evicted.insert(row);
    // The rows that get other numbers are in memory, most of them as they are in the log.
    of.batch({std::prev(of.trained.end(), 20), of.trained.end()}, false);
    of.close_up(evicted);
  }
  of.check_files();
  const RowLog& log = of.cache.log();
  CHECK(log.file_bytes() < log.written_bytes() / 2);
  CHECK(log.written_bytes() > of.cache.counts().written * (kWide + 1) * kFloatBytes);  // moved ones
}

TEST_CASE("rows that are only read are never written, and stay untouched", "[threads]") {
  const test::TemporaryDirectory folder;
  Case of(100, 10, folder.path());
  for (uint32_t first = 0; first < 100; first += 5)
    of.batch({first, first + 1, first + 2, first + 3, first + 4}, false);
  CHECK(of.cache.counts().written == 0);
  CHECK(of.cache.touched().empty());
  for (uint32_t row = 0; row < 100; row += 2) of.batch({row}, true);
  const int64_t written = of.cache.counts().written;
  for (uint32_t row = 0; row < 100; ++row) of.batch({row}, false);
  CHECK(of.cache.counts().written <= written + 10);  // lines that training left
  of.check_files();
}

TEST_CASE("values of a file go to lines while there are free ones, then to the disk", "[threads]") {
  const test::TemporaryDirectory folder;
  Case of(50, 8, folder.path());
  for (uint32_t row = 0; row < 50; ++row) {
    if (row % 10 == 3) continue;  // has its initial values in the file too
    of.trained.insert(row);
    for (int64_t j = 0; j < kWidth; ++j)
      of.table[row * kWidth + static_cast<uint32_t>(j)] = static_cast<float>(row * 7) + 0.5f;
  }
  for (uint32_t row = 0; row < 50; ++row) {
    of.cache.write(0, std::vector<uint32_t>{row}, of.table.data() + row * kWidth);
    of.cache.write(1, std::vector<uint32_t>{row}, of.table_states.data() + row);
  }
  of.check_files();
  of.batch({1, 2, 3, 4, 40, 49}, true);
  of.check_files();
  of.cache.clear();
  CHECK(of.cache.touched().empty());
}

TEST_CASE("a batch of more distinct rows than lines is an error", "[threads]") {
  const test::TemporaryDirectory folder;
  Case of(50, 4, folder.path());
  of.batch({1, 2, 3, 4, 4, 3}, true);
  test::check_contains(test::message_of<DataError>([&] {
                         of.batch({1, 2, 3, 4, 5}, true);
                       }),
                       {"emb", "more distinct rows than the 4", "host_gb"});
}

TEST_CASE("rows of the batch before stay in their lines where two are in use", "[threads]") {
  const test::TemporaryDirectory folder;
  constexpr int64_t kBatch = 20;
  Case of(1000, 2 * kBatch, folder.path(), 2);
  std::vector<uint32_t> before, before_lines;
  int64_t evicted = 0;
  for (uint64_t round = 0; round < 300; ++round) {
    if (round == 100) {  // a file's values come between: all lines may go
      of.table[5] = -3;  // of row 1
      of.trained.insert(1);
      of.cache.write(0, std::vector<uint32_t>{1}, of.table.data() + kWidth);
      before.clear();
    }
    std::vector<uint32_t> rows(kBatch);
    for (uint32_t i = 0; i < rows.size(); ++i) rows[i] = random::word(5, round, i) % 1000;
    std::vector<uint32_t> lines = rows;
    const Matrix<uint32_t> at(lines.data(), kBatch, 1);
    const int64_t version = of.cache.version();
    of.cache.choose(of.exec, at, 0, 1, /*training=*/false);
    CHECK(of.cache.version() != version);
    // Rows that leave are neither in this batch nor in the one before, and lie in their lines
    // still.
    for (const uint32_t row : of.cache.evicted()) {
      REQUIRE(std::ranges::find(before, row) == before.end());
      REQUIRE(std::ranges::find(rows, row) == rows.end());
    }
    for (const uint32_t line : before_lines)
      if (!before.empty())
        REQUIRE(std::ranges::find(before, of.cache.row_of_line()(line)) != before.end());
    evicted += std::ssize(of.cache.evicted());
    of.cache.fill(of.exec);
    const int64_t chosen = of.cache.version();
    if (round % 2 == 0) {
      of.cache.will_change(of.exec, at, 0, 1);
      std::set<uint32_t> seen;
      for (size_t i = 0; i < rows.size(); ++i) {
        if (!seen.insert(rows[i]).second) continue;
        of.trained.insert(rows[i]);
        for (int64_t j = 0; j < kWidth; ++j)
          of.weights.view().row(lines[i])[j] =
              of.table[rows[i] * kWidth + static_cast<uint32_t>(j)] += 1.5f;
      }
    }
    CHECK(of.cache.version() == chosen);
    for (size_t i = 0; i < rows.size(); ++i)
      REQUIRE(std::equal(of.table.begin() + rows[i] * kWidth,
                         of.table.begin() + (rows[i] + 1) * kWidth,
                         of.weights.view().row(lines[i])));
    before = rows;
    before_lines = lines;
  }
  CHECK(evicted > 3000);
  of.check_files();
}

TEST_CASE("lines that a file has filled are evicted for two batches in use", "[threads]") {
  const test::TemporaryDirectory folder;
  Case of(50, 8, folder.path(), 2);
  for (uint32_t row = 0; row < 50; ++row) {
    of.trained.insert(row);
    of.table[row * kWidth] = 7.5f;
    of.cache.write(0, std::vector<uint32_t>{row}, of.table.data() + row * kWidth);
  }
  of.batch({30, 31, 32, 33}, true);
  of.batch({40, 41, 42, 43}, true);
  of.check_files();
  test::check_contains(test::message_of<DataError>([&] {
                         of.batch({1, 2, 3, 4, 5}, true);
                       }),
                       {"emb", "two batches have more distinct rows than the 8", "host_gb"});
}

}  // namespace hlite::embedding
