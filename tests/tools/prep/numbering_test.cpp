#include "tools/prep/numbering.h"

#include <cstring>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"
#include "tests/tools/criteo/criteo_oracle.h"

namespace hlite::tools {
namespace {

using test::read_text;
using test::TemporaryDirectory;
using test::write_text;

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
std::vector<T> values_of(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// Keys of which some are frequent, many occur once, and some in the last rows only.
std::vector<uint64_t> some_keys(size_t count, uint64_t limit) {
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t draw = random::word(4, 2, i);
    keys.push_back((draw % 4 == 0 ? draw / 4 : draw / 4 % 50) % limit);
  }
  return keys;
}

struct Column {
  TemporaryDirectory folder;
  ColumnTask task;
  Column(const std::vector<uint64_t>& keys, size_t train, int key_bytes) {
    task = {.name = "C1",
            .keys = folder / "keys",
            .key_bytes = key_bytes,
            .rows = static_cast<int64_t>(keys.size()),
            .train_rows = static_cast<int64_t>(train),
            .ids = folder / "ids",
            .counts = folder / "counts",
            .keys_of_ids = folder / "vocabulary"};
    write_text(task.keys, key_bytes == 8
                              ? bytes_of(keys)
                              : bytes_of(std::vector<uint32_t>(keys.begin(), keys.end())));
  }
};

TEST_CASE("columns are numbered by every recipe, for both widths of keys and any table") {
  const OracleRecipe recipes[] = {{},
                                  {.min_count = 1},
                                  {.min_count = 5},
                                  {.by_frequency = true},
                                  {.min_count = 2, .by_frequency = true},
                                  {.hash = 1000}};
  for (const size_t rows : {size_t{0}, size_t{1}, size_t{70001}}) {
    for (const uint64_t limit : {uint64_t{3}, uint64_t{40000}, uint64_t{1} << 30}) {
      const std::vector<uint64_t> keys = some_keys(rows, limit);
      const size_t train = rows * 9 / 10;
      for (const OracleRecipe& recipe : recipes) {
        const OracleColumn expected = oracle_column(keys, train, recipe);
        for (const int key_bytes : {4, 8}) {
          const Column column(keys, train, key_bytes);
          MemoryBudget budget(int64_t{1} << 28);
          const data::ManifestColumn statistics =
              number_column({.hash_range = recipe.hash,
                             .min_count = recipe.min_count,
                             .by_frequency = recipe.by_frequency,
                             .key_limit = limit < 50000 ? limit : 0},
                            column.task, budget);
          CHECK((values_of<uint32_t>(read_text(column.task.ids)) == expected.ids));
          if (rows > 0 || recipe.hash == 0) {
            CHECK((values_of<uint32_t>(read_text(column.task.counts)) == expected.counts));
            CHECK(statistics.rows == static_cast<int64_t>(expected.counts.size()));
          }
          CHECK(statistics.out_of_vocabulary == expected.dropped);
          budget.take(budget.total());  // everything was given back
        }
      }
    }
  }
}

TEST_CASE("a column in order of frequency has its largest counts first, beyond any bucket") {
  // Counts 5000, 1500, 1500, 1024, 1023, 2, 2, 1: keys in an order of their own.
  const std::vector<std::pair<uint64_t, int>> groups = {{9, 2}, {4, 1500}, {7, 1023}, {1, 5000},
                                                        {3, 1}, {8, 1500}, {5, 1024}, {2, 2}};
  std::vector<uint64_t> keys;
  for (const auto& [key, count] : groups) keys.insert(keys.end(), size_t(count), key);
  Column column(keys, keys.size(), 8);
  MemoryBudget budget(int64_t{1} << 28);
  number_column({.by_frequency = true, .keep_keys = true}, column.task, budget);
  CHECK(values_of<uint64_t>(read_text(column.task.keys_of_ids)) ==
        std::vector<uint64_t>{1, 4, 8, 5, 7, 9, 2, 3});
  CHECK(values_of<uint32_t>(read_text(column.task.counts)) ==
        std::vector<uint32_t>{5000, 1500, 1500, 1024, 1023, 2, 2, 1});
}

TEST_CASE("with zero_is_missing key 0 shares the id of rare keys and does not count as dropped") {
  const std::vector<uint64_t> keys = {5, 0, 0, 0, 6, 5, 0, 7, 8};
  Column column(keys, 8, 8);
  MemoryBudget budget(int64_t{1} << 28);
  const data::ManifestColumn statistics = number_column(
      {.min_count = 1, .zero_is_missing = true, .keep_keys = true}, column.task, budget);
  CHECK(values_of<uint32_t>(read_text(column.task.ids)) ==
        std::vector<uint32_t>{1, 0, 0, 0, 2, 1, 0, 3, 0});
  CHECK(values_of<uint32_t>(read_text(column.task.counts)) == std::vector<uint32_t>{4, 2, 1, 1});
  CHECK(values_of<uint64_t>(read_text(column.task.keys_of_ids)) ==
        std::vector<uint64_t>{0, 5, 6, 7});
  CHECK(statistics.out_of_vocabulary == 0);
  CHECK(statistics.distinct == 4);
}

TEST_CASE("a column beyond its memory says what it needs, at any step, and gives all back") {
  const std::vector<uint64_t> keys = some_keys(70001, uint64_t{1} << 30);
  const Column column(keys, 60000, 4);
  const NumberingRecipe recipe{.min_count = 2, .by_frequency = true, .keep_keys = true};
  int refused = 0;
  for (int64_t bytes = 10000;; bytes += bytes / 6) {
    MemoryBudget budget(bytes);
    try {
      number_column(recipe, column.task, budget);
      break;
    } catch (const ColumnOutOfBudget& error) {
      ++refused;
      CHECK(error.needed() > bytes);
      CHECK(error.distinct() > 0);
    }
    budget.take(bytes);
  }
  CHECK(refused > 10);
  CHECK((values_of<uint32_t>(read_text(column.task.ids)) ==
         oracle_column(keys, 60000, {.min_count = 2, .by_frequency = true}).ids));
}

}  // namespace
}  // namespace hlite::tools
