#include "hugectr_lite/preparation/engine/row_shuffle.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "hugectr_lite/core/error.h"
#include "tests/preparation/engine/row_fixtures.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::GeneratedRows;
using test::TemporaryDirectory;

struct Shuffled {
  std::vector<uint32_t> words;
  int64_t pieces = 0;
};

Shuffled shuffled(const RowSource& rows, uint64_t seed, int64_t memory, int threads) {
  TemporaryDirectory folder;
  ThreadPool pool(threads);
  Shuffled result;
  shuffle_rows(rows, seed, {.memory_bytes = memory, .scratch = folder.path()}, pool,
               [&](const RowSource& piece) {
                 ++result.pieces;
                 const size_t at = result.words.size();
                 const auto words = static_cast<size_t>(piece.shape().words());
                 result.words.resize(at + static_cast<size_t>(piece.rows()) * words);
                 // In two parts, as a reader may.
                 const int64_t half = piece.rows() / 2;
                 piece.read(half, piece.rows() - half,
                            result.words.data() + at + static_cast<size_t>(half) * words);
                 piece.read(0, half, result.words.data() + at);
               });
  CHECK(folder.entries() == 0);
  return result;
}

// The definition: sort by (key, row).
std::vector<int64_t> expected_order(int64_t rows, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::pair(shuffle_key(seed, a), a) < std::pair(shuffle_key(seed, b), b);
  });
  return order;
}

std::vector<uint32_t> expected_words(const GeneratedRows& rows, uint64_t seed) {
  std::vector<uint32_t> words;
  for (const int64_t row : expected_order(rows.rows(), seed)) {
    const auto of_row = rows.words(row);
    words.insert(words.end(), of_row.begin(), of_row.end());
  }
  return words;
}

TEST_CASE("the order is the sorted one, whatever memory and threads there are", "[threads]") {
  for (const int64_t count : {0, 1, 2, 3, 997, 4096, 10007}) {
    const GeneratedRows rows({.dense = 1, .slots = 2}, count, {1000000, 3});
    const auto expected = expected_words(rows, 5);
    for (const int threads : {1, 2, 5})
      for (const int64_t memory : {int64_t{64} << 20, int64_t{100000}, int64_t{20000}}) {
        INFO(count << " rows, " << threads << " threads, " << memory << " bytes");
        const Shuffled got = shuffled(rows, 5, memory, threads);
        CHECK(got.words == expected);
        if (count * 32 > memory) CHECK(got.pieces >= count * 32 / memory);
      }
  }
}

TEST_CASE("another seed gives another order") {
  const GeneratedRows rows({.dense = 0, .slots = 1}, 1000, {1 << 30});
  CHECK(shuffled(rows, 1, 1 << 20, 1).words != shuffled(rows, 2, 1 << 20, 1).words);
  CHECK(shuffled(rows, 1, 1 << 20, 1).words == shuffled(rows, 1, 1 << 20, 1).words);
}

TEST_CASE("every row goes everywhere about equally often") {
  // How often a row of quarter i lands in quarter j, over many seeds.
  constexpr int64_t kRows = 64, kSeeds = 2000;
  int64_t seen[4][4] = {}, neighbours = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto order = expected_order(kRows, seed);
    for (int64_t i = 0; i < kRows; ++i) {
      ++seen[order[static_cast<size_t>(i)] * 4 / kRows][i * 4 / kRows];
      if (i > 0)
        neighbours += order[static_cast<size_t>(i)] == order[static_cast<size_t>(i - 1)] + 1;
    }
  }
  double chi_square = 0;
  const double expected = static_cast<double>(kRows * kSeeds) / 16;
  for (const auto& row : seen)
    for (const int64_t n : row) {
      const double off = static_cast<double>(n) - expected;
      chi_square += off * off / expected;
    }
  CHECK(chi_square < 32);  // nine degrees of freedom (less, if anything): once in 5000
  // Row r is followed by r + 1 once in kRows places; 63 places a seed.
  const double pairs = static_cast<double>(kSeeds * (kRows - 1)) / kRows;
  CHECK(std::abs(static_cast<double>(neighbours) - pairs) < 5 * std::sqrt(pairs));
}

TEST_CASE("too little memory for buckets is an error that says how much is needed", "[threads]") {
  const GeneratedRows rows({.dense = 13, .slots = 26}, 20000, std::vector<int64_t>(26, 1000));
  const std::string message = test::message_of<ConfigError>([&] { shuffled(rows, 1, 10000, 1); });
  test::check_contains(message,
                       {"memory: expected about", "20000 rows of 160 bytes", "found 10000"});
  // And that much is enough.
  const int64_t need = std::stoll(message.substr(message.find("about") + 6));
  CHECK(shuffled(rows, 1, need, 2).words == expected_words(rows, 1));
}

TEST_CASE("a full disk is an error that names the folder", "[threads]") {
  const GeneratedRows rows({.dense = 13, .slots = 26}, 10000, std::vector<int64_t>(26, 1000));
  TemporaryDirectory folder;
  ThreadPool pool(3);
  const std::string message = test::message_of<FileError>([&] {
    const test::FileSizeLimit limit(100000);
    shuffle_rows(rows, 1, {.memory_bytes = 500000, .scratch = folder.path()}, pool,
                 [](const RowSource&) { FAIL("no piece was expected"); });
  });
  test::check_contains(message, {folder.path(), "cannot write", "scratch file", "File too large"});
  CHECK(folder.entries() == 0);
  test::check_contains(test::message_of<FileError>([&] {
                         shuffle_rows(rows, 1, {.memory_bytes = 500000, .scratch = folder / "none"},
                                      pool, [](const RowSource&) {});
                       }),
                       {"none: cannot create a scratch file: No such file"});
}

}  // namespace
}  // namespace hlite::prep
