#include "hugectr_lite/preparation/csv/csv_prep.h"

#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/error.h"
#include "tests/data_reader/log_capture.h"
#include "tests/preparation/csv/csv_prep_case.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

namespace fs = std::filesystem;
using test::check_contains;
using test::message_of;
using test::TemporaryDirectory;
using test::write_text;

struct Row {
  float label, age, income, raw;
  uint32_t city, colour;
};

std::vector<Row> rows_of(const std::string& path) {
  const std::string bytes = test::read_text(path);
  REQUIRE(bytes.size() % sizeof(Row) == 0);
  std::vector<Row> rows(bytes.size() / sizeof(Row));
  std::memcpy(rows.data(), bytes.data(), bytes.size());
  return rows;
}

TEST_CASE("csv_prep encodes by the schema", "[threads]") {
  Files files;
  const data::Manifest manifest = csv_prep(files.options);
  const auto rows = rows_of(files.folder / "out/train.bin");
  REQUIRE(rows.size() == 4);
  // Ages 20, 40, 60: mean 40, deviation sqrt(800 / 3); a missing one becomes the mean.
  const float step = static_cast<float>(20 / std::sqrt(800.0 / 3));
  CHECK(rows[0].age == Approx(-step));
  CHECK(rows[1].age == 0);
  CHECK(rows[2].age == 0);
  CHECK(rows[3].age == Approx(step));
  CHECK(rows[0].income == 0);
  CHECK(rows[1].income == 0);  // missing
  CHECK(rows[2].income == Approx(std::log(100.0)));
  CHECK(rows[0].raw == -1.5f);
  CHECK(rows[1].raw == 2000.0f);
  CHECK(rows[2].raw == 0.0f);  // empty
  const float labels[] = {1, 0, 0, 1};
  const uint32_t cities[] = {1, 2, 1, 3}, colours[] = {1, 0, 2, 1};
  for (size_t i = 0; i < 4; ++i) {
    CHECK(rows[i].label == labels[i]);
    CHECK(rows[i].city == cities[i]);
    CHECK(rows[i].colour == colours[i]);
  }
  CHECK(manifest.slot_sizes == std::vector<int64_t>{4, 3});

  const auto json = nlohmann::json::parse(files.out("manifest.json"));
  CHECK(json["float_label_dense"] == true);
  CHECK(json["dense_dim"] == 3);
  CHECK(json["record"]["bytes"] == 24);
  CHECK(json["files"]["train"]["label_rate"] == 0.5);
  CHECK(json["features"]["dense"][0]["mean"] == 40.0);
  CHECK(json["features"]["categorical"][0]["values_from_id_1"] ==
        std::vector<std::string>{"Rome", "Oslo", "Bern"});
  CHECK(json["features"]["categorical"][0]["vocabulary"] == "vocabulary/00_city.txt");
  CHECK(files.out("vocabulary/00_city.txt") == "Rome\nOslo\nBern\n");
  CHECK(files.out("vocabulary/01_colour.txt") == "red\nblue\n");
  CHECK(manifest.columns[0].name == "city");
  CHECK(manifest.columns[0].missing == 0);
  CHECK(manifest.columns[1].missing == 1);
  CHECK(manifest.columns[1].distinct == 3);  // the missing one among them
  CHECK(files.results() == 3);               // train.bin, key_counts.bin, manifest.json
  CHECK_FALSE(fs::exists(files.folder / "out/.prep"));
}

TEST_CASE("what training never saw becomes row 0; nothing is fitted on validation rows",
          "[threads]") {
  Files files;
  write_text(files.folder / "val.csv",
             "age;city;raw;income;buys;colour\n"  // in another order, found by name
             "1000;Paris;1;3;no;red\n"
             "40;Bern;2;3;yes;green\n");
  const std::string by_name =
      replaced(kSchema, "\"column\": 2, \"name\"", "\"column\": \"income\", \"name\"");
  write_text(files.folder / "schema.json", by_name);
  files.options.val = {files.folder / "val.csv"};
  const data::Manifest manifest = csv_prep(files.options);
  const auto rows = rows_of(files.folder / "out/val.bin");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].city == 0);
  CHECK(rows[0].colour == 1);
  CHECK(rows[0].age == Approx((1000 - 40) / std::sqrt(800.0 / 3)));
  CHECK(rows[1].city == 3);
  CHECK(rows[1].colour == 0);
  CHECK(rows[1].age == 0);
  CHECK(rows[1].raw == 2);
  CHECK(manifest.slot_sizes == std::vector<int64_t>{4, 3});
}

TEST_CASE("a split whose categories training lacks is warned of, or refused", "[threads]") {
  Files files;
  write_text(files.folder / "val.csv",
             "city;age;income;raw;colour;buys\n"
             "rome;1;2;3;RED;no\nOSLO;1;2;3;;yes\nbern;1;2;3;blue;yes\nRome ;1;2;3;NA;no\n");
  files.options.val = {files.folder / "val.csv"};
  files.options.run.quiet = false;
  const test::LogCapture log;
  const data::Manifest manifest = csv_prep(files.options);
  REQUIRE(manifest.columns[0].splits.size() == 1);
  CHECK(manifest.columns[0].splits[0].unknown == 3);
  CHECK(manifest.columns[1].splits[0].unknown == 1);
  CHECK(manifest.columns[1].splits[0].missing == 2);
  CHECK(nlohmann::json::parse(files.out("manifest.json"))["columns"][0]["splits"]["val"] ==
        nlohmann::json({{"missing", 0}, {"unknown", 3}}));
  check_contains(log.text(),
                 {"val: of all categories 50.0 % unknown (0.0 % in training), 25.0 % missing",
                  "many categories are unknown: city 75.0 % (0.0 % in training)"});
  // Refused before anything is written; the run goes on under a higher limit.
  std::filesystem::remove_all(files.folder / "out");
  files.options.run.max_unknown = 0.7;
  files.options.run.restart = files.options.run.force = false;
  check_contains(message_of<DataError>([&] { csv_prep(files.options); }),
                 {"val: column city: expected at most 70.0 %", "found 75.0 % of 4 rows"});
  CHECK(files.results() == 0);
  files.options.run.max_unknown = 0.8;
  CHECK(csv_prep(files.options).files.size() == 2);
}

TEST_CASE("bad rows are errors with file, line and column", "[threads]") {
  Files files;
  const auto error = [&](const std::string& from, const std::string& to) {
    return files.error<DataError>(kSchema, replaced(kTrain, from, to));
  };
  check_contains(error(" 40;", "forty;"),
                 {files.folder / "train.csv:3: column 1 (age): expected a finite number, found "
                                 "\"forty\""});
  check_contains(error(" 40;", "inf;"), {"train.csv:3", "finite", "\"inf\""});
  check_contains(error(" 99;", "-1;"), {"train.csv:5: column 2 (income)", "above -1"});
  check_contains(error("red;yes\r", "red;maybe"), {"train.csv:2: column 5 (label)", "\"maybe\""});
  check_contains(error("red;yes\r", "red;"), {"train.csv:2: column 5 (label)", "\"\""});
  check_contains(error("NA;no", "NA;no;more"), {"train.csv:3: expected 6 columns", "found 7"});
  check_contains(error("\"Rome\"", "\"Rome"),
                 {"train.csv:5: expected a closing quote before the end of the file", "\"Rome;NA"});
  check_contains(error("income;", "incoming;colours;"), {"train.csv:2: expected 7 columns"});
  check_contains(
      error("age;", "aged;"),
      {"train.csv:1: expected a column \"age\" in the header, found \"city\", \"aged\", "});
  check_contains(files.error<DataError>(kSchema, "city;age;income;raw;colour;buys\n"),
                 {"train.csv: expected at least one row"});
}

TEST_CASE("bad schemas are errors with file, line and JSON path") {
  Files files;
  const auto error = [&](const std::string& from, const std::string& to) {
    return files.error<ConfigError>(replaced(kSchema, from, to), kTrain);
  };
  check_contains(error("\"trim\"", "\"trimm\""), {"schema.json:2", "trimm"});
  check_contains(error("log1p", "log2p"), {"schema.json:6", "dense[1].transform", "log2p"});
  check_contains(error("\"header\": true", "\"header\": false"),
                 {"label.column", "\"header\": true", "\"buys\""});
  check_contains(error("\"column\": 2", "\"column\": -2"), {"dense[1].column", "-2"});
  check_contains(error("\"separator\": \";\"", "\"separator\": \";;\""), {"separator", ";;"});
  check_contains(error("[\"no\"]", "[\"yes\"]"), {"label", "both positive and negative"});
  check_contains(error("\"positive\": \"yes\"", "\"positive\": []"),
                 {"label.positive", "at least one", "an empty list"});
  check_contains(error("\"column\": 2", "\"column\": \"buys\""),
                 {"dense[1].column: expected another column than the label's, found \"buys\""});
  check_contains(
      files.error<ConfigError>("{\"label\": {\"column\": 0, \"positive\": [\"1\"]}}", kTrain),
      {"at least one dense or categorical column"});
  check_contains(files.error<ConfigError>("{", kTrain), {"schema.json:1"});
  files.options.train = {"-"};
  check_contains(files.error<ConfigError>(kSchema, kTrain), {"standard input"});
  REQUIRE(mkfifo((files.folder / "fifo").c_str(), 0600) == 0);
  files.options.train = {files.folder / "fifo"};
  check_contains(files.error<ConfigError>(kSchema, kTrain),
                 {"fifo (a pipe or device), which cannot be read twice"});
}

TEST_CASE("numbers beyond float32 are refused with their place, and all others have a deviation",
          "[threads]") {
  Files files;
  const auto error = [&](const std::string& from, const std::string& to) {
    return files.error<DataError>(kSchema, replaced(kTrain, from, to));
  };
  check_contains(error(" 40;", "1.7976931348623157e308;"),
                 {"train.csv:3: column 1 (age)", "between -3.403e+38 and 3.403e+38",
                  "\"1.7976931348623157e308\""});
  check_contains(error("2e3", "-3.5e38"), {"train.csv:3: column 3 (raw)", "\"-3.5e38\""});
  // Its logarithm is small.
  write_text(files.folder / "train.csv",
             replaced(replaced(kTrain, " 40;", "-3.4e38;"), " 99;", "1.7976931348623157e308;"));
  csv_prep(files.options);
  const auto json = nlohmann::json::parse(files.out("manifest.json"));
  CHECK(json["features"]["dense"][0]["deviation"].get<double>() == Approx(1.603e38).epsilon(1e-3));
}

TEST_CASE("quotes in comments are no quotes", "[threads]") {
  Files files;
  std::string schema = kSchema;
  schema.insert(schema.find("\"missing\""), "\"comment\": [\"#\"], ");
  write_text(files.folder / "schema.json", schema);
  write_text(
      files.folder / "train.csv",
      replaced(replaced(kTrain, "Oslo;", "# by a tool; \"v2\nOslo;"), "Bern;", "# end; \"\nBern;"));
  CHECK(csv_prep(files.options).rows_of("train") == 4);
}

TEST_CASE("a number of bad rows is tolerated", "[threads]") {
  Files files;
  write_text(files.folder / "train.csv", replaced(kTrain, " 40;", "forty;"));
  files.options.run.max_bad_rows = 1;
  const data::Manifest manifest = csv_prep(files.options);
  CHECK(manifest.files[0].rows == 3);
  CHECK(manifest.sources[0].bad_rows == 1);
  CHECK(files.out("vocabulary/00_city.txt") == "Rome\nBern\n");
}

TEST_CASE("UCI Adult is encoded as documented", "[threads]") {
  TemporaryDirectory folder;
  const std::string root = HLITE_SOURCE_DIR;
  CsvPrepOptions options;
  options.schema = root + "/configs/adult_schema.json";
  options.train = {root + "/tests/data/adult/adult.data.gz"};
  options.val = {root + "/tests/data/adult/adult.test.gz"};
  options.output.folder = folder.path();
  options.run.quiet = true;
  const data::Manifest manifest = csv_prep(options);
  REQUIRE(manifest.files.size() == 2);
  CHECK(manifest.files[0].rows == 32561);
  CHECK(manifest.files[0].positives == 7841);
  CHECK(manifest.files[1].rows == 16281);
  CHECK(manifest.files[1].positives == 3846);
  // Published cardinalities without "?", and row 0.
  CHECK(manifest.slot_sizes == std::vector<int64_t>{9, 17, 8, 15, 7, 6, 3, 42});
}

}  // namespace
}  // namespace hlite::prep
