// Labels, weights and shares of negatives in csv_prep.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "tests/preparation/csv/csv_prep_case.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::prep {
namespace {

using test::check_contains;
using test::write_text;

TEST_CASE("labels of a list come one after the other, before the weight", "[threads]") {
  struct Row {
    float label, second, third, weight, age;
    uint32_t city;
  };
  Files files;
  write_text(files.folder / "schema.json", R"({"header": true,
    "label": [{"column": "spent", "positive": [">50"]},
              {"column": "clicked", "positive": ["1"], "negative": ["0"]},
              {"column": "liked", "positive": ["yes", "y"]}],
    "weight": {"column": "times"},
    "dense": [{"column": "age"}], "categorical": [{"column": "city"}]})");
  write_text(files.folder / "train.csv",
             "age,times,liked,city,spent,clicked\n20,0.5,y,Rome,<=50,1.0\n60,3,no,Oslo,>50,0\n");
  const data::Manifest manifest = csv_prep(files.options);
  CHECK(manifest.label_dim == 3);
  CHECK(manifest.dense_dim == 1);
  CHECK(manifest.files[0].positives == 1);
  CHECK(manifest.rules[2].name == "label 3");
  CHECK(data::Manifest::read(files.options.output.folder + "/manifest.json").record_bytes() ==
        sizeof(Row));
  const std::string bytes = files.out("train.bin");
  REQUIRE(bytes.size() == 2 * sizeof(Row));
  Row rows[2];
  std::memcpy(rows, bytes.data(), bytes.size());
  CHECK((rows[0].label == 0 && rows[0].second == 1 && rows[0].third == 1));
  CHECK((rows[1].label == 1 && rows[1].second == 0 && rows[1].third == 0));
  CHECK((rows[0].weight == 0.5f && rows[0].age == 20 && rows[1].weight == 3 && rows[1].age == 60));

  const auto refused = [&](const char* row) {
    write_text(files.folder / "train.csv",
               std::string("age,times,liked,city,spent,clicked\n") + row);
    files.options.output.folder = files.folder / "refused";
    return test::message_of<DataError>([&] { csv_prep(files.options); });
  };
  check_contains(refused("20,1,,Rome,>50,0\n"), {"column 2 (label): expected a value, found \"\""});
  check_contains(refused("20,1,y,Rome,>50,2\n"),
                 {"column 5 (label): expected a value the schema names"});
}

TEST_CASE("a column of weights follows the label, in every format; a label may be a number",
          "[threads]") {
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
  // Of 1000 three times, and of -3.25 half a time.
  REQUIRE(manifest.files[0].labels);
  const double mean = (3 * 1000 - 0.5 * 3.25) / 3.5;
  CHECK(manifest.files[0].labels->mean == Approx(mean).epsilon(1e-12));
  CHECK(manifest.files[0].labels->deviation ==
        Approx(std::sqrt((3e6 + 0.5 * 3.25 * 3.25) / 3.5 - mean * mean)).epsilon(1e-12));
  CHECK((manifest.files[1].labels->mean == 7 && manifest.files[1].labels->deviation == 0));
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

TEST_CASE("weights and numbers to predict that are none are refused with their line", "[threads]") {
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
TEST_CASE("a share of the negatives of training files is kept, drawn by seed, file and line",
          "[threads]") {
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

}  // namespace
}  // namespace hlite::prep
