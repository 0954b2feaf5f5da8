#include "hugectr_lite/preparation/engine/split_writer.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/engine/row_shuffle.h"
#include "tests/preparation/engine/written_split.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/file_size_limit.h"

namespace hlite::prep {
namespace {

using test::GeneratedRows;
using test::hash_of;
using test::kSizes;
using test::make_rows;
using test::put;
using test::read_text;
using test::TemporaryDirectory;
using test::written;

std::vector<int64_t> in_order(int64_t rows) {
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

TEST_CASE("training rows are shuffled by the seed, others stay as they are", "[threads]") {
  const GeneratedRows rows = make_rows(3001, false);
  std::vector<int64_t> order = in_order(3001);
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return shuffle_key(11, a) < shuffle_key(11, b); });
  std::string expected, plain;
  for (int64_t i = 0; i < 3001; ++i) {
    for (const uint32_t word : rows.words(order[static_cast<size_t>(i)])) put(expected, word);
    for (const uint32_t word : rows.words(i)) put(plain, word);
  }
  const OutputOptions options{.shuffle = true, .seed = 11};
  for (const int64_t memory : {int64_t{1} << 24, int64_t{60000}})
    for (const int threads : {1, 4}) {
      const auto train = written(rows, options, threads, memory);
      CHECK(read_text(train->folder / "train.bin") == expected);
      const auto val = written(rows, options, threads, memory, "val");
      CHECK(read_text(val->folder / "val.bin") == plain);
    }
}

TEST_CASE("progress is reported and may stop the work; no file remains", "[threads]") {
  const GeneratedRows rows = make_rows(1000, false);
  TemporaryDirectory folder;
  ThreadPool pool(2);
  OutputOptions options;
  options.folder = folder.path();
  int64_t last = 0;
  SplitResources resources{.memory_bytes = 10000, .scratch = folder.path(), .progress = {}};
  resources.progress = [&](int64_t done, int64_t all) {
    CHECK(done >= last);
    CHECK(all == 1000);
    last = done;
  };
  write_split(rows, "train", kSizes, options, resources, pool);
  CHECK(last == 1000);
  resources.progress = [](int64_t done, int64_t) {
    if (done > 500) throw Error("stop");
  };
  CHECK(test::message_of<Error>(
            [&] { write_split(rows, "train", kSizes, options, resources, pool); }) == "stop");
  CHECK(folder.entries() == 0);
}

// Rows that cannot be read from some row on.
class FailingRows final : public RowSource {
 public:
  explicit FailingRows(const GeneratedRows& rows) : rows_(rows) {}
  [[nodiscard]] const RowShape& shape() const override { return rows_.shape(); }
  [[nodiscard]] int64_t rows() const override { return rows_.rows(); }
  void read(int64_t first, int64_t count, uint32_t* out) const override {
    if (first + count > 700) throw FileError("row 700 is gone");
    rows_.read(first, count, out);
  }

 private:
  const GeneratedRows& rows_;
};

TEST_CASE("a full disk or an unreadable source is an error; no file stays", "[threads]") {
  const GeneratedRows rows = make_rows(100000, false);
  for (const bool shuffle : {false, true})
    for (const auto format : {OutputFormat::kRaw, OutputFormat::kNorm}) {
      TemporaryDirectory folder;
      ThreadPool pool(3);
      OutputOptions options{.format = format, .shuffle = shuffle};
      options.folder = folder.path();
      const SplitResources resources{
          .memory_bytes = 1 << 22, .scratch = folder.path(), .progress = {}};
      const std::string message = test::message_of<FileError>([&] {
        const test::FileSizeLimit limit(200000);
        write_split(rows, "train", kSizes, options, resources, pool);
      });
      test::check_contains(message, {folder.path(), "cannot write", "File too large"});
      const FailingRows failing(rows);
      CHECK(test::message_of<FileError>([&] {
              write_split(failing, "train", kSizes, options, resources, pool);
            }) == "row 700 is gone");
      for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
        CHECK(entry.is_directory());
    }
}

TEST_CASE("publish replaces a data set as a whole") {
  const GeneratedRows rows = make_rows(10, false);
  TemporaryDirectory folder;
  ThreadPool pool(1);
  OutputOptions options;
  options.folder = folder.path();
  test::write_text(folder / "manifest.json", "old");
  data::Manifest manifest;
  manifest.tool = "test";
  manifest.slot_sizes = kSizes;
  describe_output(options, rows.shape(), manifest);
  std::vector<WrittenSplit> splits;
  splits.push_back(write_split(rows, "train", kSizes, options, {}, pool));
  splits.push_back(write_split(rows, "val", kSizes, options, {}, pool));
  publish(folder.path(), manifest, splits);
  CHECK(folder.entries() == 3);
  const data::Manifest read = data::Manifest::read(folder / "manifest.json");
  REQUIRE(read.files.size() == 2);
  CHECK(read.files[1].name == "val.bin");
  CHECK(read.files[1].xxh3 == hash_of(read_text(folder / "val.bin")));
}

}  // namespace
}  // namespace hlite::prep
