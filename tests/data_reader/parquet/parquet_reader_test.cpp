#include "data_reader/parquet/parquet_reader.h"

#include <filesystem>

#include "data_reader/cached_source.h"
#include "hugectr_lite/core/error.h"
#include "tests/data_reader/parquet/parquet_samples.h"
#include "tests/data_reader/source_checks.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::data;
using test::check_contains;
using test::message_of;
using test::next_is;
using test::NormShape;
using test::parquet_config;
using test::total;
using test::write_parquet_files;

namespace {

std::unique_ptr<BatchSource> open_parquet(const NormShape& shape, const std::string& path,
                                          int64_t batch, const SourceOptions& options = {},
                                          int64_t threads = 2) {
  config::DataConfig config = parquet_config(shape);
  config.num_workers = threads;
  return open_source(config, path, Split::kTrain, batch, shape.slot_rows, options);
}

}  // namespace

TEST_CASE("Parquet files are one sequence of batches, however cut into files and row groups",
          "[threads]") {
  const test::TemporaryDirectory folder;
  for (const std::vector<int64_t>& files :
       {std::vector<int64_t>{1}, {7}, {3, 5, 1, 20}, {0, 40, 0, 9, 0}, {131, 1, 300}}) {
    for (const int64_t group : {1, 13, 1000}) {
      const NormShape shape{.hotness = {2, 1, 5}};
      if (group == 1 && total(files) > 100) continue;
      const std::string list = write_parquet_files(folder, shape, files, group);
      const int64_t n = total(files);
      for (const int64_t batch : {1, 7, 64, 1000}) {
        if (batch == 1 && n > 100) continue;
        const auto source = open_parquet(shape, list, batch, {}, batch == 7 ? 3 : 1);
        INFO("batch " << batch << ", files " << files.size() << ", row groups of " << group);
        test::check_epochs(*source, shape, n, batch);
      }
    }
  }
}

TEST_CASE("a Parquet file that is cut short while it is read is an error with its name",
          "[threads]") {
  const test::TemporaryDirectory folder;
  const NormShape shape{.hotness = {2, 1, 5}};
  const auto source =
      open_parquet(shape, write_parquet_files(folder, shape, {3000}, 10), 10, {}, 1);
  CHECK(next_is(*source, shape, 0, 10));
  std::string path;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().extension() == ".parquet") path = entry.path();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  const std::string message = message_of<DataError>([&] {
    for (int b = 1; b < 300; ++b) source->next();
  });
  check_contains(message, {path, "the file has changed: it had "});
}

TEST_CASE("a Parquet reader goes on anywhere, and ends when it does not repeat", "[threads]") {
  const test::TemporaryDirectory folder;
  const NormShape shape{.hotness = {2, 1, 5}};
  const std::string list = write_parquet_files(folder, shape, {30, 0, 11, 60}, 17);
  test::check_starts_and_ends(shape, 101, 8, 3, [&](const SourceOptions& options) {
    return open_parquet(shape, list, 8, options, 3);
  });
}

TEST_CASE("shards of Parquet batches are the whole", "[threads]") {
  const test::TemporaryDirectory folder;
  const NormShape shape;
  const std::string list = write_parquet_files(folder, shape, {17, 33}, 5);
  // The last batch has 2 samples, none of them the third shard's.
  test::check_shards(shape, 50, 12, [&](const SourceOptions& options) {
    return open_parquet(shape, list, 12, options);
  });
  // A shard that never has a row.
  const std::string one = write_parquet_files(folder, shape, {2}, 1);
  const auto source = open_parquet(shape, one, 12, {.shard = {2, 3}});
  for (int64_t p = 0; p < 5; ++p) CHECK(source->next().size == 0);
}

TEST_CASE("how many samples of Parquet files are used", "[threads]") {
  const test::TemporaryDirectory folder;
  const NormShape shape;
  const std::string list = write_parquet_files(folder, shape, {10, 10}, 4);
  const auto first = open_parquet(shape, list, 4, {.max_samples = 13});
  CHECK(first->samples() == 13);
  for (int64_t p = 0; p < 9; ++p) CHECK(next_is(*first, shape, p % 4 * 4, p % 4 == 3 ? 1 : 4));
  config::DataConfig config = parquet_config(shape);
  config.num_samples = 15;
  config.eval_num_samples = 21;
  CHECK(open_source(config, list, Split::kTrain, 4, shape.slot_rows)->samples() == 15);
  CHECK(message_of<DataError>([&] {
          open_source(config, list, Split::kEval, 4, shape.slot_rows);
        }) == list + ": expected 21 samples (eval_num_samples), found 20 in its files");
  write_parquet_files(folder, shape, {0, 0}, 4);
  CHECK(message_of<DataError>([&] { open_parquet(shape, list, 4); }) ==
        list + ": expected at least one row, found none in 2 files");
}

TEST_CASE("an error in a Parquet file comes after the batches before it, and stays", "[threads]") {
  const test::TemporaryDirectory folder;
  const NormShape shape;
  for (const int64_t group : {6, 100}) {
    const std::string list = write_parquet_files(folder, shape, {20, 20}, group);
    test::ParquetFileText file = test::parquet_samples(shape, 20, 40);
    file.rows_a_group = group;
    std::get<std::vector<int64_t>>(file.columns[5].values)[13] = 50;  // C1 of sample 33
    std::get<std::vector<float>>(file.columns[1].values)[17] = NAN;   // I0 of sample 37: later
    test::write_parquet(folder / "part1.parquet", file);
    const std::string says =
        (folder / "part1.parquet") + ": row group " + (group == 6 ? "2" : "0") +
        ", column \"C1\", row 13: expected a key in [0, 49], as the table of slot 1 has 50 rows, "
        "found 50";
    for (const int64_t threads : {1, 3}) {
      const auto source = open_parquet(shape, list, 10, {}, threads);
      bool exact = true;
      for (int64_t p = 0; p < 3; ++p) exact &= next_is(*source, shape, 10 * p, 10);
      CHECK(exact);
      CHECK(message_of<DataError>([&] { source->next(); }) == says);
      CHECK(message_of<DataError>([&] { source->next(); }) == says);
      CHECK(source->position() == 3);
      // Another shard's rows are its own business.
      const auto first_half = open_parquet(shape, list, 10, {.shard = {0, 5}}, threads);
      for (int64_t p = 0; p < 8; ++p) CHECK(next_is(*first_half, shape, p % 4 * 10, 2));
    }
  }
}

TEST_CASE("damaged Parquet files are refused with file, row group and column", "[threads]") {
  const test::TemporaryDirectory folder;
  const NormShape shape;
  const auto refused = [&](const std::string& path) {
    return message_of<DataError>([&] {
      const auto source = open_parquet(shape, path, 10);
      for (int i = 0; i < 10; ++i) source->next();
    });
  };
  const std::string path = folder / "x.parquet";
  test::ParquetFileText file = test::parquet_samples(shape, 0, 40);
  file.rows_a_group = 10;
  file.checksums = true;
  file.dictionary = false;
  test::write_parquet(path, file);
  const std::string good = test::read_text(path);

  test::write_text(path, good.substr(0, good.size() - 20));
  check_contains(refused(path), {path + ": "});
  test::write_text(path, "PAR1");
  check_contains(refused(path), {path + ": "});
  test::write_text(path, "");
  check_contains(refused(path), {path + ": "});
  std::string bad = good;
  bad.replace(bad.size() - 8, 4, "\xff\xff\xff\x7f");  // length of the footer
  test::write_text(path, bad);
  check_contains(refused(path), {path + ": "});
  std::filesystem::remove(path);
  check_contains(refused(path), {path + ": cannot open: "});

  // A byte of a page: where the last value of the third row group's column I1 lies.
  const float value = test::norm_dense_of(29, 1);
  std::string bytes;
  test::put(bytes, value);
  std::string before;
  test::put(before, test::norm_dense_of(28, 1));
  const size_t at = good.find(before + bytes);
  REQUIRE(at != std::string::npos);
  bad = good;
  bad[at + 5] = static_cast<char>(bad[at + 5] ^ 0x10);
  test::write_text(path, bad);
  check_contains(refused(path), {path + ": row group 2, column \"I1\": ", "CRC"});

  // Shorter than its footer says: the pages in the middle are missing.
  test::write_text(path, good.substr(0, at / 2) + good.substr(at));
  check_contains(refused(path), {path + ": row group "});
}

TEST_CASE("replaced keys of Parquet files are counted as their batches are handed out",
          "[threads]") {
  const test::TemporaryDirectory folder;
  const NormShape shape{.slot_rows = {10, 50, 100}};
  const std::string list = write_parquet_files(folder, shape, {40}, 7);
  config::DataConfig config = parquet_config(shape);
  config.key_policy = {config::KeyPolicy::kClamp, 0};
  const std::vector<int64_t> smaller{10, 25, 100};
  int64_t expected = 0;
  const auto source = open_source(config, list, Split::kTrain, 16, smaller);
  CHECK(source->replaced_keys() == 0);
  for (int64_t p = 0; p < 3; ++p) {
    const HostBatch& b = source->next();
    for (int64_t i = 0; i < b.size; ++i) {
      const uint32_t key = test::key_of(p * 16 + i, 1, 50);
      expected += key >= 25;
      CHECK(b.keys(i, 1) == std::min(key, 24u));
    }
    CHECK(source->replaced_keys() == expected);
  }
  CHECK(expected > 0);
}

TEST_CASE("Parquet sets are cached and shuffled like others", "[threads]") {
  const test::TemporaryDirectory folder;
  const NormShape shape{.hotness = {1, 2, 1}};
  const std::string list = write_parquet_files(folder, shape, {50}, 9);
  config::DataConfig config = parquet_config(shape);
  config.cache_eval_data = 10;
  const auto cached = open_evaluation_source(config, list, 8, shape.slot_rows, 50, 8);
  for (int64_t p = 0; p < 14; ++p) CHECK(next_is(*cached, shape, p % 7 * 8, p % 7 == 6 ? 2 : 8));

  const auto shuffled = open_parquet(shape, list, 8, {.seed = 3, .shuffle_samples = true});
  std::vector<int> seen(50);
  for (int64_t p = 0; p < 7; ++p) {
    const HostBatch& b = shuffled->next();
    for (int64_t row = 0; row < b.size; ++row)
      for (int64_t i = 0; i < 50; ++i)
        seen[static_cast<size_t>(i)] += test::is_norm_sample(shape, b, row, i);
  }
  CHECK(*std::min_element(seen.begin(), seen.end()) == 1);
}
