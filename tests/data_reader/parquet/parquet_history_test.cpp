#include "data_reader/open_source.h"
#include "hugectr_lite/core/error.h"
#include "tests/data_reader/history_samples.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/parquet_writer.h"

using namespace hlite;
using namespace hlite::data;
using test::HistoryShape;
using test::KeyLists;

namespace {

template <typename Key>
test::ParquetFileText parquet_histories(const std::vector<KeyLists>& samples) {
  std::vector<float> labels, dense;
  std::vector<Key> users;
  test::ParquetColumn lists[3] = {
      {"items", std::vector<Key>()}, {"cates", std::vector<Key>()}, {"tags", std::vector<Key>()}};
  for (size_t i = 0; i < samples.size(); ++i) {
    labels.push_back(static_cast<float>(test::label_of(static_cast<int64_t>(i))));
    dense.push_back(test::norm_dense_of(static_cast<int64_t>(i), 0));
    users.push_back(static_cast<Key>(samples[i][0][0]));
    for (size_t s = 0; s < 3; ++s) {
      lists[s].lengths.push_back(std::ssize(samples[i][s + 1]));
      for (const int64_t key : samples[i][s + 1])
        std::get<std::vector<Key>>(lists[s].values).push_back(static_cast<Key>(key));
    }
  }
  return {
      .columns = {{"click", labels}, {"I0", dense}, {"user", users}, lists[0], lists[1], lists[2]},
      .rows = std::ssize(samples),
      .rows_a_group = 8};
}

std::unique_ptr<BatchSource> open_parquet(const test::TemporaryDirectory& folder,
                                          const HistoryShape& shape,
                                          const test::ParquetFileText& file) {
  test::write_parquet(folder / "a.parquet", file);
  return open_source(shape.config("Parquet"), folder / "a.parquet", Split::kTrain, 5,
                     shape.slot_rows, {.repeat = false});
}

std::string refused_parquet(const HistoryShape& shape, const test::ParquetFileText& file) {
  const test::TemporaryDirectory folder;
  return test::message_of<DataError>([&] {
    const auto source = open_parquet(folder, shape, file);
    while (source->next().size > 0) {
    }
  });
}

}  // namespace

TEST_CASE("histories of Parquet lists are those of Norm and raw files") {
  for (const int64_t max_len : {1, 2, 4, 17})
    for (const bool global : {false, true}) {
      const test::TemporaryDirectory folder;
      const HistoryShape shape{.max_len = max_len, .global_keys = global};
      const auto samples = history_samples(shape, 23);
      const auto check = [&](const test::ParquetFileText& file) {
        CHECK(gives_histories(*open_parquet(folder, shape, file), shape, samples));
      };
      check(parquet_histories<int32_t>(samples));
      check(parquet_histories<uint64_t>(samples));
      auto pages = parquet_histories<int64_t>(samples);
      pages.rows_a_page = 2;
      pages.dictionary = false;
      check(pages);
    }
  const test::TemporaryDirectory folder;
  const HistoryShape shape{.max_len = 3};
  const std::vector<KeyLists> empty(7, {{1}, {}, {}, {2, 3}});
  CHECK(gives_histories(*open_parquet(folder, shape, parquet_histories<int32_t>(empty)), shape,
                        empty));
}

TEST_CASE("lists of one history that differ in length are refused with their columns and row") {
  const HistoryShape shape{.max_len = 3};
  auto samples = history_samples(shape, 23);
  samples[17] = {{1}, {1, 2, 3, 4}, {1, 2, 3, 4, 5}, {}};
  samples[19] = {{1}, {1}, {}, {}};
  const std::string uneven = refused_parquet(shape, parquet_histories<int32_t>(samples));
  test::check_contains(
      uneven, {"a.parquet, row 17: column \"items\" and column \"cates\": expected equally "
               "many keys, as they are one history, found 4 and 5"});
  samples[16] = {{1}, {500}, {1}, {}};  // before it
  test::check_contains(
      refused_parquet(shape, parquet_histories<int32_t>(samples)),
      {"column \"items\", row 16: expected a key in [0, 499], as the table of slot "
       "1 has 500 rows, found 500"});
}

TEST_CASE("keys of a Parquet history that are not kept may be anything, but not null") {
  const HistoryShape shape{.max_len = 2};
  const std::vector<KeyLists> far(3, {{1}, {-7, 2, 3}, {1, 2, 3}, {}});
  const test::TemporaryDirectory folder;
  CHECK(gives_histories(*open_parquet(folder, shape, parquet_histories<int64_t>(far)), shape, far));
  const std::vector<KeyLists> kept(3, {{1}, {1, 2, -7}, {1, 2, 3}, {}});
  test::check_contains(refused_parquet(shape, parquet_histories<int64_t>(kept)), {"found -7"});
  auto null = parquet_histories<int32_t>(std::vector<KeyLists>(2, {{1}, {1, 2, 3}, {1, 2, 3}, {}}));
  null.columns[3].lengths[1] = -1;
  null.columns[3].values = std::vector<int32_t>{1, 2, 3};
  test::check_contains(refused_parquet(shape, null), {"expected a list, found none (null)"});
}

TEST_CASE("a Parquet column of single keys is no history") {
  const HistoryShape shape{.max_len = 1};
  auto file = parquet_histories<int32_t>(std::vector<KeyLists>(2, {{1}, {1}, {1}, {}}));
  file.columns[3].lengths.clear();
  test::check_contains(refused_parquet(shape, file),
                       {"column \"items\": expected lists of keys (max_len), found INT32"});
}
