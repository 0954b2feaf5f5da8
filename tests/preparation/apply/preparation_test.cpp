// What a preparation wrote of a file is what it gives of the same lines afterwards.
#include "hugectr_lite/preparation/apply/preparation.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/criteo/criteo_prep.h"
#include "hugectr_lite/preparation/csv/csv_prep.h"
#include "hugectr_lite/preparation/io/input_file.h"
#include "tests/preparation/criteo/criteo_oracle.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::check_contains;
using test::message_of;
using test::read_text;
using test::TemporaryDirectory;
using test::write_text;

// The records of a text file, a few lines at a time. `alone`: as lines that come one by one.
std::string encoded(const Preparation& preparation, const std::string& path,
                    data::UnknownValues* counts = nullptr, bool alone = false) {
  InputFile file(path, preparation.parser().text_form());
  LineBlock lines;
  std::unique_ptr<const LineParser> parser;
  const BlockParser blocks(preparation.parser().layout(), PrepOptions{});
  std::string bytes;
  ParsedRows rows;
  EncodedRows records;
  data::UnknownValues unknown(preparation.slot_sizes().size());
  while (file.next(lines, 4096)) {
    if (!parser)
      parser = alone ? preparation.lines() : preparation.parser().open(path, lines.front());
    blocks.parse(lines, 0, *parser, rows);
    REQUIRE(rows.bad.empty());
    preparation.encode(rows, records, unknown);
    bytes.append(reinterpret_cast<const char*>(records.bytes.data()), records.bytes.size());
  }
  if (counts) *counts = unknown;
  return bytes;
}

// Every line without its first field and the separator after it.
std::string without_first_column(const std::string& text, char separator) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);)
    out += line.substr(line.find(separator) + 1) + "\n";
  return out;
}

std::string with_zero_labels(std::string records, size_t record_bytes) {
  for (size_t at = 0; at < records.size(); at += record_bytes) std::memset(&records[at], 0, 4);
  return records;
}

TEST_CASE("lines of Criteo's format get the records that criteo_prep gave them, by every recipe",
          "[threads]") {
  const std::string train = awkward_rows(1, 700), val = awkward_rows(2, 211);
  const auto check = [&](auto&& choose, int64_t record_words) {
    TemporaryDirectory folder;
    write_text(folder / "a.tsv", train);
    write_text(folder / "b.tsv", val);
    write_text(folder / "bare.tsv", without_first_column(val, '\t'));
    CriteoPrepOptions options;
    options.train = {folder / "a.tsv"};
    options.val = {folder / "b.tsv"};
    options.output.folder = folder.path();
    options.run.quiet = true;
    choose(options);
    criteo_prep(options);
    const Preparation preparation(folder.path(), Labels::kThere);
    CHECK(preparation.format().record_bytes() == 4 * record_words);
    CHECK((encoded(preparation, folder / "a.tsv") == read_text(folder / "train.bin")));
    const std::string expected = read_text(folder / "val.bin");
    data::UnknownValues unknown;
    CHECK((encoded(preparation, folder / "b.tsv", &unknown) == expected));
    CHECK(unknown.rows == 211);
    // Without min_count tokens of the validation file are numbered too, and hashes know all.
    if (options.min_count == 0) CHECK(unknown.unknown == std::vector<int64_t>(26));
    CHECK((encoded(Preparation(folder.path(), Labels::kAbsent), folder / "bare.tsv") ==
           with_zero_labels(expected, static_cast<size_t>(4 * record_words))));
    CHECK(preparation.first_closed_slot() == (options.hash > 0 || options.min_count > 0 ? -1 : 0));
  };
  SECTION("ids by first appearance") {
    check([](auto& o) { o.save_vocabulary = true; }, 40);
  }
  SECTION("ids by frequency of frequent tokens") {
    check([](auto& o) { o.save_vocabulary = o.by_frequency = true, o.min_count = 3; }, 40);
  }
  SECTION("frequent tokens, few of them") {
    check([](auto& o) { o.save_vocabulary = true, o.min_count = 2, o.max_ind_range = 17; }, 40);
  }
  SECTION("hashes need no vocabulary") {
    check([](auto& o) { o.hash = 101; }, 40);
  }
  SECTION("lists of keys") {
    check(
        [](auto& o) { o.save_vocabulary = true, o.output.multi_hot = "dcnv2", o.output.seed = 5; },
        1 + 13 + 214);
  }
}

constexpr const char* kShopSchema = R"({
  "separator": ";", "header": true, "trim": true, "missing": "NA",
  "label": {"column": "buys", "positive": "yes", "negative": ["no"]},
  "dense": [{"column": "age", "transform": "standardize"},
            {"column": "income", "transform": "log1p_standardize"}, {"column": "raw"}],
  "categorical": [{"column": "city"}, {"column": "colour"}]})";
constexpr const char* kShopTrain =
    "buys;city;age;income;raw;colour\n"
    "yes;Rome; 20;  0; -1.5;red\r\n"
    "no;\"a\\b\"; 40; NA; 2e3;NA\n"
    "no;\"a\\b\";NA; 99;;blue\n"
    "yes;Bern; 60; 9; 0;red";
constexpr const char* kShopNew =
    "city;raw;age;income;colour;buys\n"
    "Bern;1;33;5;blue;no\n"
    "Paris;;NA;NA;NA;yes\n";

CsvPrepOptions csv_options(const TemporaryDirectory& folder) {
  write_text(folder / "schema.json", kShopSchema);
  write_text(folder / "train.csv", kShopTrain);
  CsvPrepOptions options;
  options.schema = folder / "schema.json";
  options.train = {folder / "train.csv"};
  options.output.folder = folder / "out";
  options.run.quiet = true;
  return options;
}

TEST_CASE("a manifest whose statistics are not of the schema's columns is refused", "[threads]") {
  const TemporaryDirectory folder;
  csv_prep(csv_options(folder));
  auto manifest = nlohmann::ordered_json::parse(read_text(folder / "out/manifest.json"));
  for (const bool more : {false, true}) {
    auto& dense = manifest["features"]["dense"];
    if (more)
      dense.insert(dense.end(), 2, dense[0]);
    else
      dense.erase(0);
    write_text(folder / "out/manifest.json", manifest.dump());
    check_contains(message_of<DataError>([&] { Preparation(folder / "out", Labels::kThere); }),
                   {"manifest.json: features.dense: expected 3 columns, found " +
                    std::to_string(dense.size())});
  }
}

TEST_CASE("lines of CSV files get the records that csv_prep gave them", "[threads]") {
  const TemporaryDirectory folder;
  csv_prep(csv_options(folder));
  const Preparation preparation(folder / "out", Labels::kThere);
  CHECK((encoded(preparation, folder / "train.csv") == read_text(folder / "out/train.bin")));
  CHECK(preparation.slot_sizes() == std::vector<int64_t>{4, 3});
  CHECK(preparation.first_closed_slot() == -1);

  // Other columns' order; a category that training did not have; everything missing.
  write_text(folder / "new.csv", kShopNew);
  data::UnknownValues unknown;
  const std::string bytes = encoded(preparation, folder / "new.csv", &unknown);
  CHECK(unknown.rows == 2);
  CHECK(unknown.unknown == std::vector<int64_t>{1, 0});  // Paris
  CHECK(unknown.missing == std::vector<int64_t>{0, 1});
  struct Row {
    float label, age, income, raw;
    uint32_t city, colour;
  } rows[2];
  REQUIRE(bytes.size() == sizeof(rows));
  std::memcpy(rows, bytes.data(), sizeof(rows));
  CHECK(rows[0].label == 0);
  CHECK(rows[0].raw == 1);
  CHECK(rows[0].age == Approx(-7 / std::sqrt(800.0 / 3)));
  CHECK(rows[0].city == 3);
  CHECK(rows[0].colour == 2);
  CHECK(rows[1].label == 1);
  CHECK(rows[1].age == 0);
  CHECK(rows[1].income == 0);
  CHECK(rows[1].city == 0);
  CHECK(rows[1].colour == 0);

  // Without a label, with a header and without one.
  write_text(folder / "bare.csv", without_first_column(kShopTrain, ';'));
  CHECK((encoded(Preparation(folder / "out", Labels::kAbsent), folder / "bare.csv") ==
         with_zero_labels(read_text(folder / "out/train.bin"), sizeof(Row))));
}

TEST_CASE("lines without the header have the columns in the training file's order", "[threads]") {
  const TemporaryDirectory folder;
  const CsvPrepOptions options = csv_options(folder);
  csv_prep(options);
  const std::string expected = read_text(folder / "out/train.bin");
  const std::string rows = std::string(kShopTrain).substr(std::string(kShopTrain).find('\n') + 1);
  write_text(folder / "rows.csv", rows);
  CHECK((encoded(Preparation(folder / "out", Labels::kThere), folder / "rows.csv", nullptr, true) ==
         expected));
  write_text(folder / "bare.csv", without_first_column(rows, ';'));
  CHECK((encoded(Preparation(folder / "out", Labels::kAbsent), folder / "bare.csv", nullptr,
                 true) == with_zero_labels(expected, 4 * 6)));
  // A file says by its first line which it is.
  CHECK((encoded(Preparation(folder / "out", Labels::kThere), folder / "rows.csv") == expected));
  CHECK((encoded(Preparation(folder / "out", Labels::kAbsent), folder / "bare.csv") ==
         with_zero_labels(expected, 4 * 6)));
  CHECK((encoded(Preparation(folder / "out", Labels::kAbsent), folder / "rows.csv") ==
         with_zero_labels(expected, 4 * 6)));
  // Manifests of before do not have the names.
  auto manifest = nlohmann::ordered_json::parse(read_text(folder / "out/manifest.json"));
  manifest["features"].erase("header");
  write_text(folder / "out/manifest.json", manifest.dump());
  check_contains(message_of<DataError>([&] {
                   static_cast<void>(Preparation(folder / "out", Labels::kThere).lines());
                 }),
                 {"out/manifest.json: features.header: expected the names of the columns"});
}

// What is wrong with a line, or "".
std::string problem_of(const Preparation& preparation, const std::string& line) {
  BlockParser blocks(preparation.parser().layout(), PrepOptions{});
  LineBlock block;
  block.bytes.assign(line.begin(), line.end());
  block.bytes.push_back('\n');
  block.size = block.bytes.size();
  block.lines = 1;
  ParsedRows rows;
  blocks.parse(block, 0, *preparation.lines(), rows);
  return rows.bad.empty() ? "" : rows.bad.front().reason;
}

TEST_CASE(
    "lines have at most the columns of the training file, its label and weight among them or "
    "not",
    "[threads]") {
  const TemporaryDirectory folder;
  CsvPrepOptions options = csv_options(folder);
  options.run.force = true;
  const std::string with_header = R"({"header": true, "label": {"column": "y", "positive": "1"},
      "weight": {"column": "w"}, "dense": [{"column": "n"}],
      "categorical": [{"column": "c"}, {"column": "d"}]})";
  const std::string without = R"({"label": {"column": 1, "positive": "1"}, "weight": {"column": 3},
      "dense": [{"column": 0, "name": "n"}],
      "categorical": [{"column": 2, "name": "c"}, {"column": 4, "name": "d"}]})";
  const std::string rows = "1,1,a,2,x,unused\n2,0,b,1,y,unused\n";
  for (const bool header : {true, false}) {
    INFO("header " << header);
    write_text(folder / "schema.json", header ? with_header : without);
    write_text(folder / "train.csv", header ? "n,y,c,w,d,e\n" + rows : rows);
    csv_prep(options);
    const Preparation absent(folder / "out", Labels::kAbsent),
        there(folder / "out", Labels::kThere);
    for (const char* line : {"1,a,x", "1,a,x,unused", "1,1,a,2,x,unused", "1,,a,,x,"})
      CHECK(problem_of(absent, line).empty());
    write_text(folder / "all.csv", rows);
    write_text(folder / "bare.csv", "1,a,x\n2,b,y\n");
    CHECK((encoded(absent, folder / "all.csv", nullptr, true) ==
           encoded(absent, folder / "bare.csv", nullptr, true)));
    CHECK(
        problem_of(absent, "1,a,x,unused,more") ==
        "expected at most 6 columns as in the training file, or 4 without label and weight, found "
        "5");
    CHECK(
        problem_of(absent, rows.substr(0, 16) + rows.substr(17, 16)) ==
        "expected at most 6 columns as in the training file, or 4 without label and weight, found "
        "11: are these several rows? Each is a line (curl sends them by --data-binary)");
    CHECK(problem_of(absent, "1,a") == "expected at least 3 columns (as the schema says), found 2");
    CHECK(problem_of(there, "1,1,a,2,x,unused").empty());
    CHECK(problem_of(there, "1,1,a,2,x,unused,more") ==
          "expected at most 6 columns as in the training file, found 7");
    for (const char* line : {"n,c,d", "n,c,d,e", "n,label,c,weight,d,e"})
      CHECK(problem_of(absent, line) ==
            "expected a row, found the names of the columns: leave that line out");
  }
}

TEST_CASE("columns of one vocabulary get the ids that csv_prep gave them", "[threads]") {
  const TemporaryDirectory folder;
  CsvPrepOptions options = csv_options(folder);
  std::string schema = kShopSchema;
  const std::string alone = R"([{"column": "city"}, {"column": "colour"}])";
  schema.replace(
      schema.find(alone), alone.size(),
      R"([{"column": "city", "vocabulary": "w"}, {"column": "colour", "vocabulary": "w"}])");
  write_text(folder / "schema.json", schema);
  write_text(folder / "train.csv",
             "buys;city;age;income;raw;colour\n"
             "yes;red;1;2;3;blue\nno;blue;1;2;3;NA\nno;red;1;2;3;green\n");
  for (const char* lists : {"", "3,2"}) {
    options.output.multi_hot = lists;
    options.run.force = true;
    CHECK(csv_prep(options).slot_sizes == std::vector<int64_t>{4, 4});
    const Preparation preparation(folder / "out", Labels::kThere);
    CHECK((encoded(preparation, folder / "train.csv") == read_text(folder / "out/train.bin")));
    write_text(folder / "new.csv",
               "city;raw;age;income;colour;buys\ngreen;1;1;1;red;no\n"
               "pink;1;1;1;;no\n");
    data::UnknownValues unknown;
    const std::string bytes = encoded(preparation, folder / "new.csv", &unknown);
    CHECK(unknown.unknown == std::vector<int64_t>{1, 0});
    CHECK(unknown.missing == std::vector<int64_t>{0, 1});
    const size_t record = bytes.size() / 2, second = *lists ? 28 : 20;
    uint32_t city = 0, colour = 0;
    std::memcpy(&city, bytes.data() + 16, 4);
    std::memcpy(&colour, bytes.data() + second, 4);
    CHECK(record == (*lists ? 36 : 24));
    CHECK(city == 3);    // as in the column of colours
    CHECK(colour == 1);  // as in the column of cities
  }
}

TEST_CASE("fields that span lines get the records that csv_prep gave them", "[threads]") {
  const TemporaryDirectory folder;
  CsvPrepOptions options = csv_options(folder);
  std::string text = "buys;city;age;income;raw;colour\n";
  for (int i = 0; i < 300; ++i)
    text += fmt::format("yes;\"city\n{};\"\"\n\r\n\"; 20;0;1; \"red\\n\n\"\r\n", i % 7);
  write_text(folder / "train.csv", text);
  CHECK(csv_prep(options).slot_sizes == std::vector<int64_t>{8, 2});
  CHECK((encoded(Preparation(folder / "out", Labels::kThere), folder / "train.csv") ==
         read_text(folder / "out/train.bin")));
}

TEST_CASE("columns after a label that is not there move up", "[threads]") {
  const TemporaryDirectory folder;
  CsvPrepOptions options = csv_options(folder);
  write_text(folder / "schema.json", R"({"label": {"column": 1, "positive": "1"},
      "dense": [{"column": 0}], "categorical": [{"column": 2}]})");
  write_text(folder / "train.csv", "0.5,1,x\n2,0,y\n");
  csv_prep(options);
  write_text(folder / "bare.csv", "0.5,x\n2,y\n");
  CHECK((encoded(Preparation(folder / "out", Labels::kAbsent), folder / "bare.csv") ==
         with_zero_labels(read_text(folder / "out/train.bin"), 12)));
}

TEST_CASE("a preparation that is not there, or another's, is an error that says what",
          "[threads]") {
  const TemporaryDirectory folder;
  CHECK_THROWS_AS(Preparation(folder.path(), Labels::kThere), ConfigError);
  csv_prep(csv_options(folder));
  const auto rejection = [&] {
    return message_of<DataError>([&] { Preparation(folder / "out", Labels::kThere); });
  };
  const std::string vocabulary = folder / "out/vocabulary/00_city.txt";
  const std::string text = read_text(vocabulary);
  write_text(vocabulary, "Rom\n" + text.substr(5));
  check_contains(rejection(), {"00_city.txt", "checksum"});
  write_text(vocabulary, text + "Oslo\n");
  check_contains(rejection(), {"00_city.txt"});
  std::filesystem::remove(vocabulary);
  check_contains(rejection(), {"00_city.txt", "No such file"});

  write_text(folder / "a.tsv", awkward_rows(1, 30));
  CriteoPrepOptions criteo;
  criteo.train = {folder / "a.tsv"};
  criteo.output.folder = folder / "out";
  criteo.run.quiet = criteo.run.force = true;
  criteo_prep(criteo);
  check_contains(rejection(), {"manifest.json", "--save-vocabulary"});
  criteo.hash = 5;
  criteo.save_vocabulary = true;
  check_contains(message_of<ConfigError>([&] { criteo_prep(criteo); }),
                 {"--save-vocabulary", "--hash"});
}

TEST_CASE("lines without a label lack the weight, too, which is 1", "[threads]") {
  TemporaryDirectory folder;
  write_text(folder / "schema.json",
             R"({"label": {"column": 2, "real": true}, "weight": {"column": 0},
      "dense": [{"column": 3, "transform": "standardize"}], "categorical": [{"column": 1}]})");
  write_text(folder / "train.csv", "0.5,a,7.5,1\n3,b,-2,3\n0,a,0,8\n");
  write_text(folder / "bare.csv", "a,1\nb,3\na,8\n");
  CsvPrepOptions options{.schema = folder / "schema.json", .train = {folder / "train.csv"}};
  options.output.folder = folder / "out";
  options.run.quiet = true;
  csv_prep(options);
  const std::string records = read_text(folder / "out/train.bin");
  const Preparation there(folder / "out", Labels::kThere);
  CHECK(there.format().sample_weight);
  CHECK(there.format().real_label);
  CHECK(there.format().record_bytes() == 16);
  CHECK((encoded(there, folder / "train.csv") == records));
  const Preparation absent(folder / "out", Labels::kAbsent);
  std::string expected = with_zero_labels(records, 16);
  const float one = 1;
  for (size_t at = 4; at < expected.size(); at += 16) std::memcpy(&expected[at], &one, 4);
  CHECK((encoded(absent, folder / "bare.csv") == expected));
  // Features and weight must be those of the config.
  config::DataConfig config;
  config.label_dim = config.dense_dim = 1;
  config.sparse.resize(1);
  config.sparse[0].slot_num = 1;
  config.sparse[0].hotness = {1};
  check_contains(message_of<DataError>([&] { there.check_fits(config, "place"); }),
                 {"place: expected 0 sample weights as in the config, found 1"});
  config.sample_weight = true;
  there.check_fits(config, "place");
}

}  // namespace
}  // namespace hlite::prep
