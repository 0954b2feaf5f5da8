// SameRows of Parquet files are prepared as the same rows of CSV files are.
#include <algorithm>
#include <filesystem>
#include <map>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/apply/preparation.h"
#include "hugectr_lite/preparation/apply/text_batches.h"
#include "hugectr_lite/preparation/csv/csv_guess.h"
#include "hugectr_lite/preparation/csv/csv_prep.h"
#include "tests/preparation/csv/csv_prep_case.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/parquet_writer.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::TemporaryDirectory;
using test::write_text;

constexpr const char* kParquetSchema = R"({
  "header": true, "missing": "NA",
  "label": {"column": "buys", "positive": "1", "negative": ["0"]},
  "dense": [{"column": "age", "transform": "standardize"}, {"column": "income", "transform": "log1p"}],
  "categorical": [{"column": "city"}, {"column": "shop"}]
})";

// SameRows [begin, end) as CSV and as Parquet: an unused index, missing values, texts
// with commas, quotes and line feeds.
struct SameRows {
  std::string csv = "day,city,age,income,shop,buys\n";
  test::ParquetFileText parquet;
  SameRows(int begin, int end) {
    std::vector<int32_t> day, buys;
    std::vector<std::string> city;
    std::vector<int64_t> age;
    std::vector<double> income;
    std::vector<uint32_t> shop;
    std::vector<bool> has_city, has_age, has_shop;
    const char* cities[] = {"Rome", "Oslo,\nN", "\"Bern\"", "Łódź"};
    for (int i = begin; i < end; ++i) {
      day.push_back(i);
      buys.push_back(i % 3 == 0);
      has_city.push_back(i % 5 != 1);
      has_age.push_back(i % 7 != 2);
      has_shop.push_back(i % 11 != 3);
      if (has_city.back()) city.emplace_back(cities[i * 7 % 4]);
      if (has_age.back()) age.push_back(20 + i * 13 % 50);
      income.push_back(i * 0.37);
      if (has_shop.back()) shop.push_back(3'000'000'000u + static_cast<uint32_t>(i * i % 97));
      std::string quoted;
      for (const char c : has_city.back() ? city.back() : "") quoted.append(c == '"' ? 2 : 1, c);
      csv += fmt::format("{},\"{}\",{},{},{},{}\n", i, quoted,
                         has_age.back() ? std::to_string(age.back()) : "", income.back(),
                         has_shop.back() ? std::to_string(shop.back()) : "NA", buys.back());
    }
    parquet.rows = end - begin;
    parquet.rows_a_group = 100;
    parquet.columns = {{.name = "day", .values = day, .date = true},
                       {.name = "city", .values = city, .valid = has_city},
                       {.name = "age", .values = age, .valid = has_age},
                       {"income", income},
                       {.name = "shop", .values = shop, .valid = has_shop},
                       {"buys", buys}};
  }
};

// What is written but the manifest, which names the inputs.
std::map<std::string, std::string> prepared_csv(const TemporaryDirectory& folder,
                                                const std::string& extension) {
  CsvPrepOptions options;
  options.schema = folder / "schema.json";
  options.train = {folder / ("a" + extension), folder / ("b" + extension)};
  options.val = {folder / ("v" + extension)};
  options.output.folder = folder / ("out" + extension);
  options.run.quiet = true;
  options.run.threads = 2;
  options.run.block_bytes = 5000;
  options.min_count = 2;
  csv_prep(options);
  auto files = files_in(options.output.folder);
  files.erase("manifest.json");
  return files;
}

const CsvGuessOptions kShops{.dense = {"shop"}};  // whole numbers that may be ids

}  // namespace

TEST_CASE("a schema is guessed from Parquet as from the same rows of CSV", "[threads]") {
  const TemporaryDirectory folder;
  SameRows rows(0, 300);
  write_text(folder / "a.csv", rows.csv);
  rows.parquet.columns.erase(rows.parquet.columns.begin());
  test::write_parquet(folder / "a.parquet", rows.parquet);
  // The CSV's column of days counts the rows, and NA is how it writes a missing shop.
  std::string from_csv = guess_schema(folder / "a.csv", {}, kShops).schema;
  const std::string missing = "[\"NA\"]";
  from_csv.replace(from_csv.find(missing), missing.size(), "[]");
  const CsvGuess guess = guess_schema(folder / "a.parquet", {}, kShops);
  CHECK(guess.schema == from_csv);
  test::check_contains(guess.schema, {"\"column\": \"buys\""});
  write_text(folder / "schema.json", guess.schema);
  CsvPrepOptions options{.schema = folder / "schema.json", .train = {folder / "a.parquet"}};
  options.output.folder = folder / "out";
  options.run.quiet = true;
  options.split.val_share = 0.3;
  options.split.group_column = "city";
  const data::Manifest manifest = csv_prep(options);
  CHECK(manifest.files.at(0).rows + manifest.files.at(1).rows == 300);
}

TEST_CASE("columns of Parquet that are no numbers or texts are left out with their reason",
          "[threads]") {
  const TemporaryDirectory folder;
  SameRows rows(0, 300);
  auto& columns = rows.parquet.columns;
  columns.erase(columns.begin());
  test::write_parquet(folder / "plain.parquet", rows.parquet);
  const std::string plain = guess_schema(folder / "plain.parquet", {}, kShops).schema;
  columns.push_back({.name = "t", .values = std::vector<int64_t>(300), .timestamp = true});
  columns.push_back({.name = "n",
                     .values = std::vector<int32_t>{},
                     .valid = std::vector<bool>(300),
                     .null_type = true});
  columns.push_back({.name = "l",
                     .values = std::vector<std::string>(300, "a"),
                     .lengths = std::vector<int64_t>(300, 1)});
  test::write_parquet(folder / "a.parquet", rows.parquet);
  const std::string path = folder / "a.parquet";
  const CsvGuess guess = guess_schema(path, {path}, kShops);
  CHECK(guess.schema == plain);
  CHECK(
      std::count(guess.summary.begin(), guess.summary.end(),
                 "  left out     t (timestamp[ns]: no number or text), n (no value in any row), l "
                 "(list of BYTE_ARRAY (String): no number or text)") == 1);
  CHECK(test::message_of<ConfigError>([&] { guess_schema(path, {}, {.label = "t"}); }) ==
        "--label: expected a column of numbers or texts, found \"t\" (timestamp[ns]: no number or "
        "text)");
  CHECK(test::message_of<ConfigError>([&] {
          guess_schema(path, {}, {.header = false});
        }).starts_with("--header: expected yes, as the columns of " + path));
  // They may be in the file that is prepared, and in one of later rows.
  write_text(folder / "schema.json", guess.schema);
  CsvPrepOptions options{.schema = folder / "schema.json", .train = {path}};
  options.output.folder = folder / "out";
  options.run.quiet = true;
  CHECK(csv_prep(options).files.at(0).rows == 300);

  columns.erase(columns.begin(), columns.begin() + 4);
  test::write_parquet(path, rows.parquet);
  test::check_contains(
      test::message_of<DataError>([&] { guess_schema(path, {}, {}); }),
      {"a.parquet: expected a column other than the label that can be a feature, found none (left "
       "out: t (timestamp[ns]: no number or text), n (no value in any row), l ("});
}

TEST_CASE("decimals of Parquet are numbers, and a column of nulls misses its values", "[threads]") {
  const TemporaryDirectory folder;
  test::ParquetFileText file{.columns = {}, .rows = 200};
  std::vector<int64_t> cents;
  std::vector<int32_t> buys, size;
  std::string csv = "price,size,buys\n";
  for (int i = 0; i < 200; ++i) {
    cents.push_back(i * 37 % 101 - 50);
    size.push_back(i % 7);
    buys.push_back(i % 2);
    csv += fmt::format("{},{},{}\n", static_cast<double>(cents.back()) / 100, size.back(),
                       buys.back());
  }
  write_text(folder / "a.csv", csv);
  file.columns = {{.name = "price", .values = cents, .digits = 12, .scale = 2},
                  {.name = "size", .values = size, .digits = 5},
                  {"buys", buys}};
  test::write_parquet(folder / "a.parquet", file);
  const CsvGuess guess = guess_schema(folder / "a.parquet", {}, {});
  CHECK(guess.schema == guess_schema(folder / "a.csv", {}, {}).schema);
  write_text(folder / "schema.json", guess.schema);
  const auto prepared = [&](const std::string& name) {
    CsvPrepOptions options{.schema = folder / "schema.json", .train = {folder / name}};
    options.output.folder = folder / ("out of " + name);
    options.run.quiet = true;
    csv_prep(options);
    return test::read_text(options.output.folder + "/train.bin");
  };
  CHECK((prepared("a.parquet") == prepared("a.csv")));

  file.columns[0] = {.name = "price",
                     .values = std::vector<int32_t>{},
                     .valid = std::vector<bool>(200),
                     .null_type = true};
  test::write_parquet(folder / "later.parquet", file);
  std::string without = "price,size,buys\n";
  for (int i = 0; i < 200; ++i) without += fmt::format(",{},{}\n", i % 7, i % 2);
  write_text(folder / "later.csv", without);
  CHECK((prepared("later.parquet") == prepared("later.csv")));
}

TEST_CASE("csv_prep gives the same ids, statistics and texts from Parquet as from CSV",
          "[threads]") {
  const bool shared = GENERATE(false, true);  // a vocabulary
  const TemporaryDirectory folder;
  std::string schema = kParquetSchema;
  if (shared)
    for (const std::string column : {"\"city\"", "\"shop\""})
      schema.replace(schema.find(column), column.size(), column + ", \"vocabulary\": \"all\"");
  write_text(folder / "schema.json", schema);
  int begin = 0;
  for (const auto& [name, end] : {std::pair{"a", 517}, {"b", 731}, {"v", 900}}) {
    const SameRows rows(begin, end);
    write_text(folder / (std::string(name) + ".csv"), rows.csv);
    test::write_parquet(folder / (std::string(name) + ".parquet"), rows.parquet);
    begin = end;
  }
  const auto from_csv = prepared_csv(folder, ".csv"),
             from_parquet = prepared_csv(folder, ".parquet");
  CHECK(from_csv.size() == (shared ? 4 : 5));  // two splits, counts, vocabularies
  CHECK((from_parquet == from_csv));

  // And rows that come later.
  config::DataConfig config;
  config.label_dim = 1;
  config.dense_dim = 2;
  config.sparse.emplace_back();
  config.sparse[0].slot_num = 2;
  config.sparse[0].hotness = {1, 1};
  ThreadPool pool(2);
  const Preparation preparation(folder / "out.parquet", Labels::kThere);
  const auto later = [&](const std::string& file) {
    TextBatches batches(preparation, folder / file, config, preparation.slot_sizes(), 64, pool);
    std::string bytes;
    while (true) {
      const data::HostBatch& batch = batches.next();
      if (batch.size == 0) return bytes;
      bytes.append(reinterpret_cast<const char*>(batch.memory.data()), batch.memory.size());
    }
  };
  CHECK((later("v.parquet") == later("v.csv")));
}

TEST_CASE("a Parquet file without a column of the schema is refused", "[threads]") {
  const TemporaryDirectory folder;
  write_text(folder / "schema.json", kParquetSchema);
  SameRows rows(0, 10);
  rows.parquet.columns[4].name = "store";
  for (const char* name : {"a.parquet", "b.parquet", "v.parquet"})
    test::write_parquet(folder / name, rows.parquet);
  CHECK(test::message_of<DataError>([&] { prepared_csv(folder, ".parquet"); }) ==
        (folder / "a.parquet") +
            ":1: expected a column \"shop\" in the header, found \"day\", \"city\", \"age\", "
            "\"income\", \"store\", \"buys\"");
}

}  // namespace hlite::prep
