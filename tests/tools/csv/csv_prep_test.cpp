#include "tools/csv/csv_prep.h"

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "tests/data_reader/log_capture.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"
#include "tests/tools/io/gzip_file.h"
#include "tests/tools/io/zstd_file.h"
#include "tests/tools/prep/stopped_runs.h"
#include "tools/csv/csv_record.h"

namespace hlite::tools {
namespace {

namespace fs = std::filesystem;
using test::check_contains;
using test::message_of;
using test::TemporaryDirectory;
using test::write_text;

constexpr const char* kSchema = R"({
  "separator": ";", "header": true, "trim": true, "missing": "NA",
  "label": {"column": "buys", "positive": "yes", "negative": ["no"]},
  "dense": [
    {"column": "age", "transform": "standardize"},
    {"column": 2, "name": "income", "transform": "log1p"},
    {"column": "raw"}],
  "categorical": [{"column": "city"}, {"column": "colour"}]
})";
constexpr const char* kTrain =
    "city;age;income;raw;colour;buys\n"
    "Rome; 20;  0; -1.5;red;yes\r\n"
    "Oslo; 40; NA; 2e3;NA;no\n"
    "\n"
    "\"Rome\";NA; 99;;blue;no\n"
    "Bern; 60; 9; 0;red;yes";

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

struct Files {
  TemporaryDirectory folder;
  CsvPrepOptions options;
  Files() {
    write_text(folder / "schema.json", kSchema);
    write_text(folder / "train.csv", kTrain);
    options.schema = folder / "schema.json";
    options.train = {folder / "train.csv"};
    options.output.folder = folder / "out";
    options.run.quiet = true;
    options.run.threads = 2;
    options.run.restart = options.run.force = true;
  }
  // Files of results, whole or in part.
  [[nodiscard]] long results() const {
    long files = 0;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder / "out", none))
      files += entry.path().filename() != ".prep" && entry.is_regular_file();
    return files;
  }
  [[nodiscard]] std::string out(const std::string& name) const {
    return test::read_text(folder / ("out/" + name));
  }
  // All results, by name.
  [[nodiscard]] std::map<std::string, std::string> all() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder / "out"))
      if (entry.is_regular_file())
        files[fs::relative(entry.path(), folder / "out")] = test::read_text(entry.path());
    return files;
  }
  // The message of the E that these schema and training file give.
  template <typename E>
  std::string error(const std::string& schema, const std::string& train) {
    write_text(folder / "schema.json", schema);
    write_text(folder / "train.csv", train);
    const std::string message = message_of<E>([&] { csv_prep(options); });
    CHECK(results() == 0);
    return message;
  }
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("csv_prep encodes by the schema") {
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

TEST_CASE("what training never saw becomes row 0; nothing is fitted on validation rows") {
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

TEST_CASE("a split whose categories training lacks is warned of, or refused") {
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

TEST_CASE("bad rows are errors with file, line and column") {
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
}

// Rows with a number, a category of few and one of many, both skewed, one of them quoted.
std::string many_rows(int first, int count) {
  std::string text = "n,few,many,y\n";
  for (int i = first; i < first + count; ++i) {
    const uint32_t draw = random::word(3, 1, static_cast<uint64_t>(i));
    text += i % 17 == 0 ? "" : fmt::format("{}", static_cast<double>(draw % 1000) / 8);
    text += fmt::format(",f{},", draw % 10 * (draw % 7));
    text += draw % 13 == 0 ? "" : fmt::format("\"m,{}\"", (draw >> 8) % (1 + draw % 3001));
    text += draw % 2 == 0 ? ",1\n" : ",0\n";
  }
  return text;
}

struct ManyFiles : Files {
  ManyFiles() {
    write_text(folder / "schema.json",
               R"({"header": true, "label": {"column": "y", "positive": ["1"]},
        "dense": [{"column": "n", "transform": "standardize"}],
        "categorical": [{"column": "few"}, {"column": "many"}]})");
    write_text(folder / "a.csv", many_rows(0, 3000));
    test::write_gzip(folder / "b.csv", many_rows(3000, 2000));
    test::write_zstd(folder / "val.csv", many_rows(5000, 1000));
    options.train = {folder / "a.csv", folder / "b.csv"};
    options.val = {folder / "val.csv"};
    options.run.block_bytes = 10000;
  }
};

TEST_CASE("the results depend neither on threads nor on blocks nor on being interrupted") {
  ManyFiles files;
  files.options.min_count = 2;
  files.options.output.shuffle = true;
  csv_prep(files.options);
  const auto expected = files.all();
  CHECK(expected.size() == 6);
  for (const int threads : {1, 3})
    for (const int64_t block : {200, 1 << 20}) {
      files.options.run.threads = threads;
      files.options.run.block_bytes = block;
      csv_prep(files.options);
      CHECK(files.all() == expected);
    }
  // Stopped at one point after the other, as by a crash.
  files.options.run.threads = 2;
  files.options.run.block_bytes = 10000;
  files.options.run.checkpoint_seconds = 0;
  for (const int stop : {1, 5, 20, 60}) {
    fs::remove_all(files.folder / "out");
    files.options.run.restart = false;
    const int runs =
        runs_until_done(files.options.run, stop, 2 * stop, [&] { csv_prep(files.options); });
    CHECK(runs >= 2);
    CHECK(files.all() == expected);
  }
}

TEST_CASE("categories are numbered and kept as their definition says") {
  for (const int64_t min_count : {1, 2, 5})
    for (const double sample : {1.0, 0.5}) {
      ManyFiles files;
      files.options.min_count = min_count;
      files.options.run.sample = sample;
      files.options.run.block_bytes = 1000;
      const data::Manifest manifest = csv_prep(files.options);
      // A vocabulary's line n is the category of id n: check it against every row that is there.
      std::vector<std::string> vocabulary[2];
      const char* names[] = {"vocabulary/00_few.txt", "vocabulary/01_many.txt"};
      for (size_t k : {0, 1}) {
        vocabulary[k].emplace_back();
        std::istringstream lines(files.out(names[k]));
        for (std::string line; std::getline(lines, line);) vocabulary[k].push_back(line);
        CHECK(static_cast<int64_t>(vocabulary[k].size()) == manifest.slot_sizes[k]);
      }
      const std::string bytes = files.out("train.bin");
      const size_t rows = bytes.size() / 16;
      if (sample == 1.0) CHECK(rows == 5000);
      std::map<std::string, int64_t> counts[2];
      std::map<std::string, uint32_t> ids[2];
      std::istringstream all(many_rows(0, 5000));
      std::string line;
      std::getline(all, line);
      std::vector<std::array<std::string, 2>> tokens;
      if (sample == 1.0) {
        while (std::getline(all, line)) {
          CsvFields fields;
          REQUIRE_FALSE(split_csv({}, line, fields).has_value());
          for (size_t k : {0, 1}) ++counts[k][std::string(fields.fields[1 + k])];
          tokens.push_back({std::string(fields.fields[1]), std::string(fields.fields[2])});
        }
        for (const auto& row : tokens)
          for (size_t k : {0, 1}) {
            const std::string& token = row[k];
            if (token.empty() || counts[k][token] < min_count) continue;
            ids[k].try_emplace(token, static_cast<uint32_t>(ids[k].size() + 1));
          }
        for (size_t r = 0; r < rows; ++r)
          for (size_t k : {0, 1}) {
            uint32_t id = 0;
            std::memcpy(&id, bytes.data() + r * 16 + 8 + k * 4, 4);
            const auto found = ids[k].find(tokens[r][k]);
            REQUIRE(id == (found == ids[k].end() ? 0 : found->second));
            if (id > 0) REQUIRE(vocabulary[k][id] == tokens[r][k]);
          }
      }
      const auto json = nlohmann::json::parse(files.out("manifest.json"));
      const auto& categorical = json["features"]["categorical"];
      CHECK(categorical[0].contains("values_from_id_1"));
      CHECK(categorical[1].contains("values_from_id_1") == (vocabulary[1].size() <= 1001));
    }
}

TEST_CASE("texts are escaped so that a line is a category") {
  Files files;
  write_text(files.folder / "schema.json",
             R"({"separator": ";", "label": {"column": 0, "positive": ["1"]},
        "categorical": [{"column": 1, "name": "a/b c"}]})");
  write_text(files.folder / "train.csv", "1;back\\slash\n0;\"car\rriage\"\n1;\"q\"\"q\"\n");
  csv_prep(files.options);
  CHECK(files.out("vocabulary/00_a_b_c.txt") == "back\\\\slash\ncar\\rriage\nq\"q\n");
}

TEST_CASE("other formats hold the same data") {
  ManyFiles files;
  files.options.output.format = OutputFormat::kNorm;
  const data::Manifest manifest = csv_prep(files.options);
  CHECK(manifest.format == "norm");
  CHECK(manifest.files[0].name == "train_list.txt");
  CHECK(manifest.files[0].rows == 5000);
  CHECK(manifest.files[1].rows == 1000);
}

TEST_CASE("a number of bad rows is tolerated") {
  Files files;
  write_text(files.folder / "train.csv", replaced(kTrain, " 40;", "forty;"));
  files.options.run.max_bad_rows = 1;
  const data::Manifest manifest = csv_prep(files.options);
  CHECK(manifest.files[0].rows == 3);
  CHECK(manifest.sources[0].bad_rows == 1);
  CHECK(files.out("vocabulary/00_city.txt") == "Rome\nBern\n");
}

TEST_CASE("fields in quotes may span lines, for any blocks and threads") {
  Files files;
  write_text(files.folder / "schema.json",
             R"({"header": true, "label": {"column": "y", "positive": ["1"], "negative": ["0"]},
        "dense": [{"column": "n"}], "categorical": [{"column": "note\nof two lines"}]})");
  const auto rows = [](int count) {
    std::string text = "\xEF\xBB\xBFy,\"note\nof two lines\",n,last\r\n";
    for (int i = 0; i < count; ++i)
      text += fmt::format("{},\"say \"\"{}\"\",\n\r\nand more\",{},\r\n", i % 2, i % 5, i);
    return text;
  };
  write_text(files.folder / "train.csv", rows(500));
  write_text(files.folder / "val.csv", rows(20));
  files.options.val = {files.folder / "val.csv"};
  for (const int threads : {1, 3})
    for (const int64_t block : {60, 1000, 1 << 20}) {
      files.options.run.threads = threads;
      files.options.run.block_bytes = block;
      const data::Manifest manifest = csv_prep(files.options);
      CHECK(manifest.files[0].rows == 500);
      CHECK(manifest.files[1].rows == 20);
      CHECK(manifest.slot_sizes == std::vector<int64_t>{6});
      CHECK(files.out("vocabulary/00_note_of_two_lines.txt")
                .starts_with("say \"0\",\\n\\r\\nand more\nsay \"1\",\\n"));
      struct {
        float label, n;
        uint32_t note;
      } row;
      const std::string bytes = files.out("train.bin");
      REQUIRE(bytes.size() == 500 * sizeof(row));
      for (size_t i = 0; i < 500; ++i) {
        std::memcpy(&row, bytes.data() + i * sizeof(row), sizeof(row));
        CHECK((row.label == static_cast<float>(i % 2) && row.n == static_cast<float>(i) &&
               row.note == i % 5 + 1));
      }
    }
  // Lines are counted, not rows: a row has three of them, the header two.
  files.options.run.block_bytes = 100;
  write_text(files.folder / "val.csv", rows(20) + "1,x,none,\r\n\"1\n\",x,1,\n1,x,2,\n");
  check_contains(message_of<DataError>([&] { csv_prep(files.options); }),
                 {"val.csv:63: column 2 (n): expected a finite number, found \"none\""});
  files.options.run.max_bad_rows = 1;
  check_contains(message_of<DataError>([&] { csv_prep(files.options); }),
                 {"val.csv:64: column 0 (label)", "(more than 1 malformed rows)"});
  files.options.run.max_bad_rows = 2;
  const data::Manifest manifest = csv_prep(files.options);
  CHECK(manifest.files[1].rows == 21);
  CHECK(manifest.sources[1].bad_rows == 2);
}

TEST_CASE("a column of weights follows the label, in every format; a label may be a number") {
  struct WeightedRow {
    float label, weight, age;
    uint32_t city;
  };
  const std::string schema = R"({"header": true,
    "label": {"column": "spent", "real": true}, "weight": {"column": "times"},
    "dense": [{"column": "age", "transform": "standardize"}], "categorical": [{"column": "city"}]})";
  Files files;
  write_text(files.folder / "schema.json", schema);
  write_text(files.folder / "train.csv",
             "age,times,city,spent\n20,0.5,Rome,-3.25\n60,3,Oslo,1e3\n,0,Rome,0\n");
  write_text(files.folder / "val.csv", "city,spent,times,age\nOslo,7,1,20\n");
  files.options.val = {files.folder / "val.csv"};
  const data::Manifest manifest = csv_prep(files.options);
  const std::string bytes = files.out("train.bin");
  REQUIRE(bytes.size() == 3 * sizeof(WeightedRow));
  WeightedRow rows[3], val;
  std::memcpy(rows, bytes.data(), bytes.size());
  const float labels[] = {-3.25f, 1000, 0}, weights[] = {0.5f, 3, 0}, ages[] = {-1, 1, 0};
  for (int i = 0; i < 3; ++i) {
    CHECK(rows[i].label == labels[i]);
    CHECK(rows[i].weight == weights[i]);
    CHECK(rows[i].age == ages[i]);
    CHECK(rows[i].city == (i == 1 ? 2u : 1u));
  }
  const std::string of_val = files.out("val.bin");
  REQUIRE(of_val.size() == sizeof(val));
  std::memcpy(&val, of_val.data(), sizeof(val));
  CHECK((val.label == 7 && val.weight == 1 && val.age == -1 && val.city == 2));
  CHECK(manifest.sample_weight);
  CHECK(manifest.real_label);
  CHECK(manifest.dense_dim == 1);
  REQUIRE(manifest.dense.size() == 1);
  CHECK(manifest.dense[0].name == "age");
  CHECK(manifest.files[0].positives == 0);
  CHECK(manifest.summary().find("label rate") == std::string::npos);
  const auto json = nlohmann::json::parse(files.out("manifest.json"));
  CHECK(json["record"]["bytes"] == 16);
  CHECK(json["record"]["weight"]["offset"] == 4);
  CHECK(json["record"]["dense"]["offset"] == 8);
  CHECK(json["features"]["dense"].size() == 1);
  const std::string path = files.folder / "again.json";
  write_text(path, manifest.to_json());
  CHECK(data::Manifest::read(path).to_json() == manifest.to_json());

  // A Norm file has the same numbers; its header counts the weight as a label.
  files.options.output.format = OutputFormat::kNorm;
  files.options.output.norm_sum = false;
  csv_prep(files.options);
  const std::string norm = files.out("train_norm/00000.norm");
  int64_t header[5];
  std::memcpy(header, norm.data(), sizeof(header));
  CHECK((header[1] == 3 && header[2] == 2 && header[3] == 1 && header[4] == 1));
  constexpr size_t kFloats = 3 * sizeof(float);
  CHECK(norm.substr(64, kFloats) == bytes.substr(0, kFloats));
}

TEST_CASE("weights and numbers to predict that are none are refused with their line") {
  const std::string schema = R"({"label": {"column": 0, "real": true}, "weight": {"column": 1},
    "categorical": [{"column": 2}]})";
  Files files;
  const auto error = [&](const std::string& row) {
    return files.error<DataError>(schema, "1,1,a\n" + row + "\n");
  };
  const std::string place = files.folder / "train.csv:2: ";
  for (const char* wrong : {"-0.5", "nan", "inf", "", "many", "1e300"}) {
    check_contains(error(fmt::format("1,{},a", wrong)),
                   {place, "column 1 (weight): expected a finite number >= 0, found",
                    fmt::format("\"{}\"", wrong)});
    if (std::string(wrong) != "-0.5")
      check_contains(error(fmt::format("{},1,a", wrong)),
                     {place, "column 0 (label): expected a finite number, found"});
  }
  const auto broken = [&](const std::string& from, const std::string& to) {
    return files.error<ConfigError>(replaced(schema, from, to), "1,1,a\n");
  };
  check_contains(broken("\"real\": true", "\"real\": true, \"positive\": [\"1\"]"),
                 {"label.positive", "as the label is a number"});
  check_contains(broken("\"weight\": {\"column\": 1}", "\"weight\": {\"column\": 0}"),
                 {"weight.column", "another column than the label's"});
  check_contains(broken("\"weight\": {\"column\": 1}", "\"weight\": {}"),
                 {"weight", "missing key \"column\""});
  files.options.run.negative_share = 0.5;
  check_contains(files.error<ConfigError>(schema, "1,1,a\n"),
                 {"--negative-share: expected 1", "is a number"});
  files.options.run.negative_share = 0;
  check_contains(files.error<ConfigError>(kSchema, kTrain),
                 {"--negative-share: expected a share above 0"});
}

// The preparation of a file without the negatives that are dropped is the same, to the byte.
TEST_CASE("a share of the negatives of training files is kept, drawn by seed, file and line") {
  const auto row = [](int64_t i) {
    const uint32_t draw = random::word(8, 0, static_cast<uint64_t>(i));
    return fmt::format("{},{},{}\n", draw % 3 == 0 ? "yes" : "no", i,
                       draw % 5 == 0 ? "" : fmt::format("c{}", draw % 11));
  };
  const std::string schema = R"({"label": {"column": 0, "positive": ["yes"]},
    "dense": [{"column": 1}], "categorical": [{"column": 2}]})";
  const auto keeps = [&](uint64_t seed, uint64_t file, int64_t i, double share) {
    const uint64_t stream = random::stream_of("share of negatives") + file;
    return row(i).starts_with("yes") ||
           random::word(seed, stream, static_cast<uint64_t>(i) + 1) < share * 0x1p32;
  };
  for (const double share : {0.1, 0.5, 1.0})
    for (const uint64_t seed : {0, 5}) {
      INFO("share " << share << ", seed " << seed);
      Files whole, less;
      std::string text[2], kept[2], val;
      for (int64_t i = 0; i < 701; ++i)
        for (const uint64_t file : {0, 1}) {
          text[file] += row(i);
          if (keeps(seed, file, i, share)) kept[file] += row(i);
        }
      for (int64_t i = 0; i < 97; ++i) val += row(i);
      for (auto* files : {&whole, &less}) {
        const bool all = files == &whole;
        write_text(files->folder / "schema.json", schema);
        for (const size_t file : {size_t{0}, size_t{1}})
          write_text(files->folder / fmt::format("{}.csv", file), all ? text[file] : kept[file]);
        write_text(files->folder / "val.csv", val);
        files->options.train = {files->folder / "0.csv", files->folder / "1.csv"};
        files->options.val = {files->folder / "val.csv"};
        files->options.output.seed = seed;
        files->options.run.negative_share = all ? share : 1;
        files->options.run.threads = all ? 3 : 1;
        files->options.run.block_bytes = all ? 500 : 1 << 20;
      }
      const data::Manifest got = csv_prep(whole.options), want = csv_prep(less.options);
      for (const char* name :
           {"train.bin", "val.bin", "key_counts.bin", "vocabulary/00_column_2.txt"})
        CHECK((whole.out(name) == less.out(name)));
      CHECK(got.negative_share == share);
      CHECK(got.files[0].positives == want.files[0].positives);
      CHECK(got.columns[0].missing == want.columns[0].missing);
      CHECK(got.files[1].rows == 97);
      if (share == 1) continue;
      // 1,402 rows of which two thirds are negatives: four deviations.
      const double negatives = 2 * 701 - static_cast<double>(got.files[0].positives);
      const double left = static_cast<double>(got.files[0].rows - got.files[0].positives);
      CHECK(std::abs(left - share * negatives) < 4 * std::sqrt(negatives * share * (1 - share)));
      CHECK(nlohmann::json::parse(whole.out("manifest.json"))["negative_share"] == share);
    }
}

TEST_CASE("UCI Adult is encoded as documented") {
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
}  // namespace hlite::tools
