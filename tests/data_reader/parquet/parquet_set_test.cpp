#include "data_reader/parquet/parquet_set.h"

#include "hugectr_lite/core/error.h"
#include "tests/data_reader/parquet/parquet_samples.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::data::parquet;
using test::check_contains;
using test::message_of;
using test::NormShape;
using test::parquet_config;
using test::write_parquet_files;

namespace {

constexpr const char* kColumns = R"("labels": [{"col_name": "click", "index": 0}],
  "conts": [{"col_name": "I0", "index": 1}, {"col_name": "I1", "index": 2}, {"col_name": "I2", "index": 3}],
  "cats": [{"col_name": "C0", "index": 4}, {"col_name": "C1", "index": 5}, {"col_name": "C2", "index": 6}])";

std::string stats(const std::string& files) {
  return "{\"file_stats\": [" + files + "],\n " + kColumns + "}";
}

std::string refused(const config::DataConfig& config, const std::string& path) {
  return message_of<DataError>([&] { ParquetSet(config, path); });
}

}  // namespace

TEST_CASE("a Parquet source is a file, a list, a folder or its _metadata.json") {
  const test::TemporaryDirectory folder;
  const NormShape shape;
  const std::string list = write_parquet_files(folder, shape, {10, 3, 5}, 4);
  config::DataConfig config = parquet_config(shape);
  CHECK(ParquetSet(config, list).rows() == 18);
  CHECK(ParquetSet(config, folder / "part1.parquet").rows() == 3);
  const ParquetSet all(config, folder.path());
  CHECK(all.files() == 3);
  CHECK(all.groups().size() == 3 + 1 + 2);
  CHECK(all.groups()[3].first_row == 10);
  CHECK(all.group_of(9) == 2);
  CHECK(all.group_of(10) == 3);
  CHECK(all.group_of(17) == 5);
  CHECK(all.columns() == 7);
  CHECK(all.column_of(2, 4) == 4);

  // Without "columns": as HugeCTR has it. The files are those that it names, in its order.
  config.columns.reset();
  test::write_text(
      folder / "_metadata.json",
      stats(
          R"({"file_name": "part2.parquet", "num_rows": 5}, {"file_name": "part0.parquet", "num_rows": 10})"));
  for (const std::string& path : {folder.path(), folder / "_metadata.json"}) {
    const ParquetSet named(config, path);
    CHECK(named.rows() == 15);
    CHECK(named.file(0).path() == folder / "part2.parquet");
  }
  CHECK(ParquetSet(config, list).rows() == 18);
  test::write_text(folder / "_metadata.json", std::string("{") + kColumns + "}");
  CHECK(ParquetSet(config, folder.path()).rows() == 18);
}

TEST_CASE("columns may come in another order in each file") {
  const test::TemporaryDirectory folder;
  const NormShape shape;
  write_parquet_files(folder, shape, {4}, 4);
  auto file = test::parquet_samples(shape, 4, 8);
  std::swap(file.columns[0], file.columns[6]);
  // Those that are not used may be of any type.
  file.columns.insert(file.columns.begin(), {"unused", std::vector<std::string>(4, "text")});
  file.columns.push_back({.name = "t", .values = std::vector<int64_t>(4), .timestamp = true});
  file.columns.push_back({.name = "n",
                          .values = std::vector<int32_t>{},
                          .valid = std::vector<bool>(4),
                          .null_type = true});
  test::write_parquet(folder / "part1.parquet", file);
  const ParquetSet set(parquet_config(shape), folder.path());
  CHECK(set.column_of(0, 0) == 0);
  CHECK(set.column_of(1, 0) == 7);
  CHECK(set.column_of(1, 6) == 1);
}

TEST_CASE("Parquet files whose columns are not the config's are refused with file and column") {
  const test::TemporaryDirectory folder;
  const NormShape shape;
  const std::string list = write_parquet_files(folder, shape, {4, 4}, 4);
  config::DataConfig config = parquet_config(shape);
  const std::string part1 = folder / "part1.parquet";
  const auto with = [&](size_t column, test::ParquetColumn by) {
    auto file = test::parquet_samples(shape, 4, 8);
    file.columns[column] = std::move(by);
    test::write_parquet(part1, file);
    return refused(config, list);
  };
  CHECK(with(2, {"other", std::vector<float>(4)}) ==
        part1 +
            ": expected a column \"I1\", as layers[0].columns says, found \"click\", \"I0\", "
            "\"other\", \"I2\", "
            "\"C0\", \"C1\", \"C2\"");
  CHECK(with(2, {"I1", std::vector<std::string>(4)}) ==
        part1 + ": column \"I1\": expected numbers, found BYTE_ARRAY (String)");
  CHECK(with(2, {.name = "I1", .values = std::vector<float>(4), .lengths = {1, 1, 1, 1}}) ==
        part1 + ": column \"I1\": expected numbers, found list of FLOAT");
  CHECK(with(0, {.name = "click", .values = std::vector<int32_t>(4), .date = true}) ==
        part1 + ": column \"click\": expected numbers, found INT32 (Date)");
  CHECK(with(5, {"C1", std::vector<double>(4)}) ==
        part1 + ": column \"C1\": expected integers or lists of them, found DOUBLE");
  write_parquet_files(folder, shape, {4, 4}, 4);
  config.sparse[0].hotness = {1, 2, 1};
  CHECK(ParquetSet(config, list).rows() == 8);  // one key where two fit
  config.sparse[0].is_fixed_length = true;
  CHECK(
      refused(config, list) ==
      (folder / "part0.parquet") +
          ": column \"C1\": expected lists of 2 keys (nnz_per_slot, is_fixed_length), found INT64");
}

TEST_CASE("a _metadata.json that is not of its files is refused") {
  const test::TemporaryDirectory folder;
  const NormShape shape;
  write_parquet_files(folder, shape, {4}, 4);
  config::DataConfig config = parquet_config(shape);
  config.columns.reset();
  const std::string file = folder / "part0.parquet", metadata = folder / "_metadata.json";
  check_contains(refused(config, file),
                 {file + ": expected a _metadata.json in its folder, or \"columns\" in layers[0]",
                  "The file has the columns \"click\", \"I0\""});
  test::write_text(metadata, stats(R"({"file_name": "part0.parquet", "num_rows": 5})"));
  CHECK(refused(config, file) == file + ": expected 5 rows, as " + metadata + " says, found 4");
  test::write_text(metadata, stats(R"({"file_name": "part9.parquet", "num_rows": 5})"));
  check_contains(refused(config, folder.path()), {"part9.parquet: cannot open"});
  test::write_text(metadata, "{\"file_stats\": [],\n \"labels\": [{\"col_name\": 3}]}");
  check_contains(refused(config, file), {metadata + ":2"});
  test::write_text(metadata, "{");
  check_contains(refused(config, file), {metadata + ":1"});

  std::string other = std::string("{") + kColumns + "}";
  other.replace(other.find("\"index\": 5"), 10, "\"index\": 9");
  test::write_text(metadata, other);
  CHECK(refused(config, file) ==
        file + ": column \"C1\": expected it at index 9, as " + metadata + " says, found it at 5");
  test::write_text(metadata, std::string("{") + kColumns + "}");
  CHECK(ParquetSet(config, file).rows() == 4);
  config.dense_dim = 4;
  CHECK(refused(config, file) ==
        metadata + ": expected 4 columns in \"conts\" (layers[0].dense.dense_dim), found 3");
  const test::TemporaryDirectory empty;
  CHECK(refused(config, empty.path()) ==
        empty.path() +
            ": expected files *.parquet, or a _metadata.json that names some, found none");
}
