// Small preparations by csv_prep for the tests: their schema, rows, options and results.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "hugectr_lite/core/random.h"
#include "hugectr_lite/preparation/csv/csv_prep.h"
#include "tests/preparation/io/gzip_file.h"
#include "tests/preparation/io/zstd_file.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {

inline constexpr const char* kSchema = R"({
  "separator": ";", "header": true, "trim": true, "missing": "NA",
  "label": {"column": "buys", "positive": "yes", "negative": ["no"]},
  "dense": [
    {"column": "age", "transform": "standardize"},
    {"column": 2, "name": "income", "transform": "log1p"},
    {"column": "raw"}],
  "categorical": [{"column": "city"}, {"column": "colour"}]
})";
inline constexpr const char* kTrain =
    "city;age;income;raw;colour;buys\n"
    "Rome; 20;  0; -1.5;red;yes\r\n"
    "Oslo; 40; NA; 2e3;NA;no\n"
    "\n"
    "\"Rome\";NA; 99;;blue;no\n"
    "Bern; 60; 9; 0;red;yes";

// Files in a folder and below it, by name; without .complete.
inline std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename() != ".complete")
      files[std::filesystem::relative(entry.path(), folder)] = test::read_text(entry.path());
  return files;
}

struct Files {
  test::TemporaryDirectory folder;
  CsvPrepOptions options;
  Files() {
    test::write_text(folder / "schema.json", kSchema);
    test::write_text(folder / "train.csv", kTrain);
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
    for (const auto& entry : std::filesystem::directory_iterator(folder / "out", none))
      files += !entry.path().filename().string().starts_with(".") && entry.is_regular_file();
    return files;
  }
  [[nodiscard]] std::string out(const std::string& name) const {
    return test::read_text(folder / ("out/" + name));
  }
  // All results, by name.
  [[nodiscard]] std::map<std::string, std::string> all() const { return files_in(folder / "out"); }
  // The message of the E that these schema and training file give.
  template <typename E>
  std::string error(const std::string& schema, const std::string& train) {
    test::write_text(folder / "schema.json", schema);
    test::write_text(folder / "train.csv", train);
    const std::string message = test::message_of<E>([&] { csv_prep(options); });
    CHECK(results() == 0);
    return message;
  }
};

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// Rows with a number, a category of few and one of many, both skewed, one of them quoted.
inline std::string many_rows(int first, int count) {
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
    test::write_text(folder / "schema.json",
                     R"({"header": true, "label": {"column": "y", "positive": ["1"]},
        "dense": [{"column": "n", "transform": "standardize"}],
        "categorical": [{"column": "few"}, {"column": "many"}]})");
    test::write_text(folder / "a.csv", many_rows(0, 3000));
    test::write_gzip(folder / "b.csv", many_rows(3000, 2000));
    test::write_zstd(folder / "val.csv", many_rows(5000, 1000));
    options.train = {folder / "a.csv", folder / "b.csv"};
    options.val = {folder / "val.csv"};
    options.run.block_bytes = 10000;
  }
};

}  // namespace hlite::prep
