// csv_prep's results as functions of the rows alone: not of threads, blocks, formats or crashes.
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/csv/csv_record.h"
#include "tests/preparation/csv/csv_prep_case.h"
#include "tests/preparation/engine/stopped_runs.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::prep {
namespace {

namespace fs = std::filesystem;
using test::check_contains;
using test::message_of;
using test::write_text;

TEST_CASE("the results depend neither on threads nor on blocks nor on being interrupted",
          "[threads]") {
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

TEST_CASE("categories are numbered and kept as their definition says", "[threads]") {
  for (const int64_t min_count : {1, 2, 5}) {
    ManyFiles files;
    files.options.min_count = min_count;
    files.options.run.block_bytes = 1000;
    const data::Manifest manifest = csv_prep(files.options);
    std::vector<std::array<std::string, 2>> tokens;
    std::map<std::string, int64_t> counts[2];
    std::istringstream lines(many_rows(0, 5000));
    std::string line;
    std::getline(lines, line);  // header
    while (std::getline(lines, line)) {
      CsvFields fields;
      REQUIRE_FALSE(split_csv({}, line, fields).has_value());
      tokens.push_back({std::string(fields.fields[1]), std::string(fields.fields[2])});
      for (size_t k : {0, 1}) ++counts[k][tokens.back()[k]];
    }
    std::map<std::string, uint32_t> ids[2];
    std::string vocabulary[2];  // line n is the category of id n
    for (const auto& row : tokens)
      for (size_t k : {0, 1})
        if (!row[k].empty() && counts[k][row[k]] >= min_count &&
            ids[k].try_emplace(row[k], static_cast<uint32_t>(ids[k].size() + 1)).second)
          vocabulary[k] += row[k] + "\n";
    const std::string bytes = files.out("train.bin");
    REQUIRE(bytes.size() == 16 * tokens.size());
    const auto json = nlohmann::json::parse(files.out("manifest.json"));
    for (size_t k : {0, 1}) {
      CHECK(files.out(k == 0 ? "vocabulary/00_few.txt" : "vocabulary/01_many.txt") ==
            vocabulary[k]);
      CHECK(manifest.slot_sizes[k] == std::ssize(ids[k]) + 1);
      for (size_t r = 0; r < tokens.size(); ++r) {
        uint32_t id = 0;
        std::memcpy(&id, bytes.data() + r * 16 + 8 + k * 4, 4);
        const auto found = ids[k].find(tokens[r][k]);
        REQUIRE(id == (found == ids[k].end() ? 0 : found->second));
      }
      CHECK(json["features"]["categorical"][k].contains("values_from_id_1") ==
            (ids[k].size() <= 1000));
    }
  }
}

TEST_CASE("texts are escaped so that a line is a category", "[threads]") {
  Files files;
  write_text(files.folder / "schema.json",
             R"({"separator": ";", "label": {"column": 0, "positive": ["1"]},
        "categorical": [{"column": 1, "name": "a/b c"}]})");
  write_text(files.folder / "train.csv", "1;back\\slash\n0;\"car\rriage\"\n1;\"q\"\"q\"\n");
  csv_prep(files.options);
  CHECK(files.out("vocabulary/00_a_b_c.txt") == "back\\\\slash\ncar\\rriage\nq\"q\n");
}

TEST_CASE("other formats hold the same data", "[threads]") {
  ManyFiles files;
  files.options.output.format = OutputFormat::kNorm;
  const data::Manifest manifest = csv_prep(files.options);
  CHECK(manifest.format == "norm");
  CHECK(manifest.files[0].name == "train_list.txt");
  CHECK(manifest.files[0].rows == 5000);
  CHECK(manifest.files[1].rows == 1000);
}

TEST_CASE("fields in quotes may span lines, for any blocks and threads", "[threads]") {
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

}  // namespace
}  // namespace hlite::prep
