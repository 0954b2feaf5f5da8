#include "data_reader/norm_reader.h"

#include <fmt/format.h>

#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "tests/data_reader/norm_file.h"
#include "tests/data_reader/source_checks.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::data;
using test::check_contains;
using test::message_of;
using test::next_is;
using test::NormShape;
using test::total;
using test::write_norm_files;

namespace {
std::unique_ptr<BatchSource> open(const NormShape& shape, const std::string& list, int64_t batch,
                                  const SourceOptions& options = {}) {
  return open_source(shape.config(), list, Split::kTrain, batch, shape.slot_rows, options);
}

}  // namespace

TEST_CASE("Norm files are one sequence of batches, whatever their sizes", "[threads]") {
  const test::TemporaryDirectory folder;
  for (const std::vector<int64_t>& files :
       {std::vector<int64_t>{1}, {7}, {64}, {3, 5, 1, 1, 20}, {0, 4, 0, 0, 9, 0}, {500, 1, 300}}) {
    for (const bool sum : {false, true}) {
      const NormShape shape{.hotness = {2, 1, 5}, .sum = sum};
      const std::string list = write_norm_files(folder, shape, files);
      const int64_t n = total(files);
      for (const int64_t batch : {1, 7, 64, 1000}) {
        const auto source = open(shape, list, batch);
        INFO("batch " << batch << ", files " << files.size() << ", sum " << sum);
        test::check_epochs(*source, shape, n, batch);
      }
    }
  }
}

TEST_CASE("a Norm reader goes on anywhere, and ends when it does not repeat", "[threads]") {
  const test::TemporaryDirectory folder;
  const NormShape shape{.hotness = {2, 1, 5}};
  const std::string list = write_norm_files(folder, shape, {30, 0, 11, 60});
  test::check_starts_and_ends(shape, 101, 8, 1, [&](const SourceOptions& options) {
    return open(shape, list, 8, options);
  });
}

TEST_CASE("a Norm file that is cut short while it is read is an error with its place",
          "[threads]") {
  const test::TemporaryDirectory folder;
  const NormShape shape{.hotness = {2, 1, 5}};
  const int64_t n = 200'000;
  const auto source = open(shape, write_norm_files(folder, shape, {n}), 50);
  CHECK(next_is(*source, shape, 0, 50));
  const std::string path = folder / "part0.norm";
  const auto bytes = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, bytes - 5);
  const std::string message = message_of<FileError>([&] {
    for (int64_t first = 50; first < n; first += 50)
      if (!next_is(*source, shape, first, 50)) FAIL("another batch at " << first);
  });
  check_contains(message, {path + ": cannot read ", " bytes at offset ",
                           fmt::format("the file ends at {} (it had {}", bytes - 5, bytes)});
}

TEST_CASE("shards of Norm batches are the whole", "[threads]") {
  const test::TemporaryDirectory folder;
  const NormShape shape{.sum = true};
  const std::string list = write_norm_files(folder, shape, {17, 33});
  test::check_shards(shape, 50, 12,
                     [&](const SourceOptions& options) { return open(shape, list, 12, options); });
}

TEST_CASE("how many samples of Norm files are used") {
  const test::TemporaryDirectory folder;
  const NormShape shape;
  const std::string list = write_norm_files(folder, shape, {10, 10});
  CHECK(open(shape, list, 4, {.max_samples = 13})->samples() == 13);
  config::DataConfig config = shape.config();
  config.num_samples = 15;
  config.eval_num_samples = 21;
  CHECK(open_source(config, list, Split::kTrain, 4, shape.slot_rows)->samples() == 15);
  CHECK(message_of<DataError>([&] {
          open_source(config, list, Split::kEval, 4, shape.slot_rows);
        }) == list + ": expected 21 samples (eval_num_samples), found 20 in its files");
  write_norm_files(folder, shape, {0, 0});
  CHECK(message_of<DataError>([&] { open(shape, list, 4); }) ==
        list + ": expected at least one sample, found none in 2 files");
}

TEST_CASE("Norm files that do not fit the config are refused at once") {
  const test::TemporaryDirectory folder;
  const NormShape shape{.sum = true};
  const std::string list = write_norm_files(folder, shape, {5, 5});
  const std::string file = folder / "part0.norm: header: ";
  const auto refused = [&](NormShape other) {
    return message_of<DataError>([&] { open(other, list, 4); });
  };
  NormShape other = shape;
  other.sum = false;
  CHECK(refused(other) == file +
                              "expected no checksums, as layers[0].check is \"None\", found "
                              "some (error_check 1)");
  other = shape;
  other.dense = 4;
  CHECK(refused(other) == file + "expected dense_dim 4 (layers[0].dense.dense_dim), found 3");
  other = shape;
  other.slot_rows = {1, 2};
  other.hotness = {1, 1};
  CHECK(refused(other) == file + "expected slot_num 2 (layers[0].sparse), found 3");
  test::write_text(folder / "part1.norm", "x");
  check_contains(refused(shape), {"part1.norm: expected a Norm header of 64 bytes"});
  std::filesystem::remove(folder / "part1.norm");
  check_contains(refused(shape), {"part1.norm: cannot open"});
}

TEST_CASE("an error in a Norm file comes after the batches before it, and stays", "[threads]") {
  const test::TemporaryDirectory folder;
  for (const bool sum : {false, true}) {
    const NormShape shape{.hotness = {2, 1, 5}, .sum = sum};
    const std::string list = write_norm_files(folder, shape, {20, 20});
    const std::string name = folder / "part1.norm";
    const std::string good = test::norm_text(shape, 20, 40);
    const std::string head = test::norm_header(shape, 20);
    std::string before;  // sample 33
    for (int64_t i = 20; i < 33; ++i) before += test::norm_sample(shape, i);
    const auto at = std::to_string(head.size() + before.size());

    std::string broken = good;
    broken[head.size() + before.size() + (sum ? 4 : 0) + 3] = '\x7f';  // the label's exponent
    struct Row {
      std::string text, says;
      int64_t good_batches;
    };
    const std::vector<Row> rows = {
        {broken, name + ": record 13 (byte " + at + ")", 3},
        {good + "x",
         name + ": expected the end of the file after the 20 records of its header, "
                "found 1 bytes more",
         3},
        {good.substr(0, good.size() - 1), name + ": record 19 (byte ", 3}};
    for (const Row& row : rows) {
      test::write_text(name, row.text);
      const auto source = open(shape, list, 10);
      bool exact = true;
      for (int64_t p = 0; p < row.good_batches; ++p) exact &= next_is(*source, shape, 10 * p, 10);
      CHECK(exact);
      check_contains(message_of<DataError>([&] { source->next(); }), {row.says});
      check_contains(message_of<DataError>([&] { source->next(); }), {row.says});
      CHECK(source->position() == row.good_batches);
      // Resumed after it, the damage is found when it is reached again.
      const auto resumed = open(shape, list, 10, {.start_batch = 4});
      for (int64_t p = 4; p < 4 + row.good_batches; ++p)
        CHECK(next_is(*resumed, shape, 10 * (p % 4), 10));
      check_contains(message_of<DataError>([&] { resumed->next(); }), {row.says});
    }
  }
}

TEST_CASE("replaced keys of Norm files are counted as their batches are handed out", "[threads]") {
  const test::TemporaryDirectory folder;
  const NormShape shape{.slot_rows = {10, 50, 100}};
  const std::string list = write_norm_files(folder, shape, {40});
  config::DataConfig config = shape.config();
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
