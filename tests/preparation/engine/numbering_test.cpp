#include "hugectr_lite/preparation/engine/numbering.h"

#include <cstring>
#include <set>

#include "hugectr_lite/core/random.h"
#include "tests/preparation/criteo/criteo_oracle.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
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

// Columns of the same rows. The first one's files are `keys`, `ids` and `counts`.
struct Column {
  TemporaryDirectory folder;
  TableTask task;
  std::string ids = folder / "ids0", counts = folder / "counts0";
  Column(const std::vector<uint64_t>& keys, size_t train, int key_bytes)
      : Column(std::vector<std::vector<uint64_t>>{keys}, train, key_bytes) {}
  Column(const std::vector<std::vector<uint64_t>>& columns, size_t train, int key_bytes) {
    task = {.columns = {},
            .key_bytes = key_bytes,
            .rows = static_cast<int64_t>(columns[0].size()),
            .train_rows = static_cast<int64_t>(train),
            .keys_of_ids = folder / "vocabulary"};
    for (size_t c = 0; c < columns.size(); ++c) {
      const auto& keys = columns[c];
      const auto path = [&](const char* kind) { return folder / (kind + std::to_string(c)); };
      task.columns.push_back({path("keys"), path("ids"), path("counts")});
      write_text(path("keys"), key_bytes == 8
                                   ? bytes_of(keys)
                                   : bytes_of(std::vector<uint32_t>(keys.begin(), keys.end())));
    }
  }
};

data::ManifestColumn number_column(const NumberingRecipe& recipe, const TableTask& task,
                                   MemoryBudget& budget) {
  const auto columns = number_table(recipe, task, budget);
  REQUIRE(columns.size() == 1);
  return columns[0];
}

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
          CHECK((values_of<uint32_t>(read_text(column.ids)) == expected.ids));
          if (rows > 0 || recipe.hash == 0) {
            CHECK((values_of<uint32_t>(read_text(column.counts)) == expected.counts));
            CHECK(statistics.rows == static_cast<int64_t>(expected.counts.size()));
          }
          CHECK(statistics.out_of_vocabulary == expected.dropped);
          budget.take(budget.total());  // everything was given back
        }
      }
    }
  }
}

TEST_CASE("columns of one vocabulary are numbered as one column, row by row, by every recipe") {
  const OracleRecipe recipes[] = {{},
                                  {.min_count = 3},
                                  {.by_frequency = true},
                                  {.min_count = 2, .by_frequency = true},
                                  {.hash = 1000}};
  constexpr size_t kColumns = 3;
  for (const size_t rows : {size_t{1}, size_t{50001}}) {
    const size_t train = rows * 4 / 5;
    const std::vector<uint64_t> keys = some_keys(rows * kColumns, 20000);
    std::vector<std::vector<uint64_t>> columns(kColumns);
    for (size_t i = 0; i < keys.size(); ++i) columns[i % kColumns].push_back(keys[i]);
    for (const OracleRecipe& recipe : recipes) {
      const OracleColumn expected = oracle_column(keys, train * kColumns, recipe);
      for (const int key_bytes : {4, 8}) {
        Column table(columns, train, key_bytes);
        table.task.others = {
            {"val", static_cast<int64_t>(train), static_cast<int64_t>(rows - train)}};
        MemoryBudget budget(int64_t{1} << 28);
        const auto statistics = number_table({.hash_range = recipe.hash,
                                              .min_count = recipe.min_count,
                                              .by_frequency = recipe.by_frequency,
                                              .keep_keys = recipe.hash == 0},
                                             table.task, budget);
        REQUIRE(statistics.size() == kColumns);
        std::set<uint64_t> known;
        for (size_t i = 0; i < train * kColumns; ++i)
          if (recipe.min_count == 0 || expected.ids[i] > 0) known.insert(keys[i]);
        int64_t dropped = 0;
        std::vector<uint32_t> counts(expected.counts.size());
        for (size_t c = 0; c < kColumns; ++c) {
          std::vector<uint32_t> ids, own(expected.counts.size());
          int64_t unknown = 0;
          for (size_t row = 0; row < rows; ++row) {
            const size_t i = row * kColumns + c;
            ids.push_back(expected.ids[i]);
            if (row < train) ++own[ids.back()];
            if (row >= train && keys[i] != 0 && recipe.hash == 0)
              unknown += !known.contains(keys[i]);
          }
          CHECK((values_of<uint32_t>(read_text(table.task.columns[c].ids)) == ids));
          CHECK((values_of<uint32_t>(read_text(table.task.columns[c].counts)) == own));
          CHECK(statistics[c].rows == static_cast<int64_t>(own.size()));
          CHECK(statistics[c].vocabulary == statistics[0].vocabulary);
          if (recipe.hash == 0) CHECK(statistics[c].splits[0].unknown == unknown);
          dropped += statistics[c].out_of_vocabulary;
          for (size_t id = 0; id < own.size(); ++id) counts[id] += own[id];
        }
        CHECK(dropped == expected.dropped);
        CHECK((counts == expected.counts));
        budget.take(budget.total());  // everything was given back
        if (recipe.hash > 0) continue;
        // The same vocabulary as that of one column with all of these keys.
        const Column one(keys, train * kColumns, key_bytes);
        MemoryBudget other(int64_t{1} << 28);
        CHECK(number_column({.min_count = recipe.min_count,
                             .by_frequency = recipe.by_frequency,
                             .keep_keys = true},
                            one.task, other)
                  .vocabulary == statistics[0].vocabulary);
        CHECK((read_text(one.task.keys_of_ids) == read_text(table.task.keys_of_ids)));
      }
    }
  }
}

TEST_CASE("values of other splits that training lacks are counted, by every recipe") {
  // Keys of training: 1 twice, 2 and 3 once, 0 (missing) once.
  const std::vector<uint64_t> keys = {1, 2, 0, 1, 3, /*val*/ 1, 0, 0, 2, 9, 9, /*test*/ 9, 8, 1, 3};
  Column column(keys, 5, 8);
  column.task.others = {{"val", 5, 6}, {"test", 11, 4}};
  const auto counted = [&](const NumberingRecipe& recipe) {
    MemoryBudget budget(int64_t{1} << 28);
    const data::ManifestColumn statistics = number_column(recipe, column.task, budget);
    REQUIRE(statistics.splits.size() == 2);
    CHECK(statistics.splits[0].role == "val");
    CHECK(statistics.splits[0].missing == 2);
    CHECK(statistics.splits[1].role == "test");
    CHECK(statistics.splits[1].missing == 0);
    return std::vector<int64_t>{statistics.splits[0].unknown, statistics.splits[1].unknown};
  };
  CHECK(counted({}) == std::vector<int64_t>{2, 2});  // ids of their own, without a training row
  CHECK(counted({.by_frequency = true}) == std::vector<int64_t>{2, 2});
  CHECK(counted({.min_count = 1, .zero_is_missing = true}) == std::vector<int64_t>{2, 2});
  CHECK(counted({.min_count = 2}) == std::vector<int64_t>{3, 3});  // 2 and 3 too
  CHECK(counted({.hash_range = uint64_t{1} << 20}) == std::vector<int64_t>{2, 2});
  // Splits over many chunks.
  const std::vector<uint64_t> many = some_keys(200'001, 40'000);
  Column large(many, 70'000, 4);
  large.task.others = {{"val", 70'000, 70'000}, {"test", 140'000, 60'001}};
  const std::set<uint64_t> seen(many.begin(), many.begin() + 70'000);
  MemoryBudget budget(int64_t{1} << 28);
  const auto splits = number_column({}, large.task, budget).splits;
  const auto unknown = [&](auto begin, auto end) {
    return std::count_if(begin, end, [&](uint64_t key) { return key != 0 && !seen.contains(key); });
  };
  CHECK(splits[0].unknown == unknown(many.begin() + 70'000, many.begin() + 140'000));
  CHECK(splits[1].unknown == unknown(many.begin() + 140'000, many.end()));
}

TEST_CASE("a vocabulary's digits depend on which key has which id, and on nothing else") {
  const auto vocabulary = [](const std::vector<uint64_t>& keys, NumberingRecipe recipe,
                             int key_bytes = 8) {
    const Column column(keys, keys.size(), key_bytes);
    MemoryBudget budget(int64_t{1} << 28);
    return number_column(recipe, column.task, budget).vocabulary;
  };
  const std::vector<uint64_t> keys = some_keys(70001, 40000);
  const std::string digits = vocabulary(keys, {});
  CHECK(digits.size() == 16);
  CHECK(vocabulary(keys, {.keep_keys = true}) == digits);
  CHECK(vocabulary(keys, {}, 4) == digits);
  CHECK(vocabulary(keys, {.key_limit = 40000}) ==
        digits);  // a plain array in place of a hash table
  // The same ids by another way: keys that are there already, keys that are all frequent enough.
  std::vector<uint64_t> more = keys;
  more.insert(more.end(), keys.begin(), keys.end());
  CHECK(vocabulary(more, {}) == digits);
  CHECK(vocabulary(more, {.min_count = 1}) == vocabulary(more, {.min_count = 2}));
  CHECK(vocabulary(keys, {.min_count = 1}) == vocabulary(more, {.min_count = 2}));
  // Others.
  CHECK(vocabulary(keys, {.min_count = 1}) != digits);  // all ids are one more
  CHECK(vocabulary(keys, {.min_count = 2}) != vocabulary(keys, {.min_count = 1}));
  CHECK(vocabulary(keys, {.by_frequency = true}) != digits);
  CHECK(vocabulary({1, 2, 3}, {}) != vocabulary({1, 3, 2}, {}));
  CHECK(vocabulary({1, 2, 3}, {}) != vocabulary({1, 2, 4}, {}));
  CHECK(vocabulary({1, 2, 3}, {}) != vocabulary({1, 2}, {}));
  CHECK(vocabulary({0}, {}) != vocabulary({}, {}));
  CHECK(vocabulary(keys, {.hash_range = 1000}) == "hash modulo 1000");
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
  CHECK(values_of<uint32_t>(read_text(column.counts)) ==
        std::vector<uint32_t>{5000, 1500, 1500, 1024, 1023, 2, 2, 1});
}

TEST_CASE("with zero_is_missing key 0 shares the id of rare keys and does not count as dropped") {
  const std::vector<uint64_t> keys = {5, 0, 0, 0, 6, 5, 0, 7, 8};
  Column column(keys, 8, 8);
  MemoryBudget budget(int64_t{1} << 28);
  const data::ManifestColumn statistics = number_column(
      {.min_count = 1, .zero_is_missing = true, .keep_keys = true}, column.task, budget);
  CHECK(values_of<uint32_t>(read_text(column.ids)) ==
        std::vector<uint32_t>{1, 0, 0, 0, 2, 1, 0, 3, 0});
  CHECK(values_of<uint32_t>(read_text(column.counts)) == std::vector<uint32_t>{4, 2, 1, 1});
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
    } catch (const TableOutOfBudget& error) {
      ++refused;
      CHECK(error.needed() > bytes);
      CHECK(error.distinct() > 0);
    }
    budget.take(bytes);
  }
  CHECK(refused > 10);
  CHECK((values_of<uint32_t>(read_text(column.ids)) ==
         oracle_column(keys, 60000, {.min_count = 2, .by_frequency = true}).ids));
}

}  // namespace
}  // namespace hlite::prep
