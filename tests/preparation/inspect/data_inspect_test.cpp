// The program: exit codes and what it prints.
#include <nlohmann/json.hpp>

#include "hugectr_lite/preparation/csv/csv_guess.h"
#include "tests/preparation/inspect/small_data.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/program.h"

namespace hlite::prep {
namespace {

using test::run_program;
using test::SmallData;
using test::TemporaryDirectory;
using test::write_text;

test::ProgramResult inspect(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), HLITE_DATA_INSPECT);
  return run_program(arguments);
}

void write_data(const TemporaryDirectory& folder) {
  write_text(folder / "config.json", test::small_data_config());
  write_text(folder / "train.bin", SmallData().raw());
  write_text(folder / "eval.bin", SmallData{.samples = 200, .seed = 2}.raw());
}

TEST_CASE("data_inspect: help, wrong usage and files that are not there") {
  const TemporaryDirectory folder;
  const auto help = inspect({"--help"});
  CHECK(help.code == 0);
  test::check_contains(help.out, {"Examples:", "--config", "--rows"});
  CHECK(inspect({}).code == 2);
  CHECK(inspect({"--nonsense"}).code == 2);
  CHECK(inspect({"--rows", "few", "x"}).code == 2);
  CHECK(inspect({"--config", folder / "none.json"}).code == 2);
  CHECK(inspect({folder / "none"}).code == 3);
}

TEST_CASE("both files of a fitting config: exit code 0, statistics and skew") {
  const TemporaryDirectory folder;
  write_data(folder);
  const auto run = inspect({"--config", folder / "config.json"});
  CHECK(run.code == 0);
  test::check_contains(
      run.out, {"raw records of 32 (1 label + 3 dense + 4 keys", "600 samples", "200 samples",
                "label: 0.", "dense 2", "slot 3", "skew over all", "a batch of 32 looks up",
                "fit as source: file and config fit", "fit as eval_source: file and config fit"});
}

TEST_CASE("a misfit is exit code 3, with the fault and advice") {
  const TemporaryDirectory folder;
  write_data(folder);
  write_text(folder / "eval.bin", SmallData{.sizes = {50, 7}}.raw());
  const auto run = inspect({"--config", folder / "config.json"});
  CHECK(run.code == 3);
  test::check_contains(run.out, {"do NOT fit", "label_values", "label 0: ", "the first is "});
  test::check_contains(run.err, {"data_inspect: 1 of 2 files do not fit"});
  CHECK(inspect({"--config", folder / "config.json", "--set", "layers.data.eval_source=train.bin",
                 folder / "train.bin", "--as", "train"})
            .code == 0);
}

TEST_CASE("the report as JSON") {
  const TemporaryDirectory folder;
  write_data(folder);
  const auto run = inspect({folder / "train.bin", "--config", folder / "config.json", "--json",
                            "--batch", "100", "--rows", "300"});
  REQUIRE(run.code == 0);
  const auto json = nlohmann::json::parse(run.out);
  REQUIRE(json.size() == 1);
  CHECK(json[0]["rows_in_file"] == 600);
  CHECK(json[0]["rows"].get<int>() <= 300);
  CHECK(json[0]["rows"].get<int>() > 200);
  CHECK(json[0]["keys"].size() == 4);
  CHECK(json[0]["keys"][2]["rows_of_table"] == 300);
  CHECK(json[0]["skew"]["batch"] == 100);
  CHECK(json[0]["fit"]["fits"] == true);
}

TEST_CASE("numbers that are too large are refused") {
  const TemporaryDirectory folder;
  write_data(folder);
  for (const char* option : {"--rows", "--batch"}) {
    const auto refused = inspect({folder / "train.bin", option, "99999999999999999999"});
    CHECK(refused.code == 2);
    test::check_contains(refused.err, {option, "expected", "found \"99999999999999999999\""});
  }
}

TEST_CASE("text, compressed text, Norm and other files are described") {
  const TemporaryDirectory folder;
  const auto text_of = [&](const std::string& name, const std::string& bytes) {
    write_text(folder / name, bytes);
    const auto run = inspect({folder / name});
    CHECK(run.code == 0);
    return run.out;
  };
  test::check_contains(text_of("day_0", SmallData().criteo_text()),
                       {"Criteo TSV", "all 600 rows", "I13", "C26", "likely"});
  test::check_contains(text_of("day_1", SmallData().criteo_text() + "bad line\n"),
                       {"1 lines are not of the format", "day_1:601"});
  test::check_contains(text_of("a.csv", "click,age,city\n1,20.5,Rome\n0,31.5,Oslo\n"),
                       {"CSV", "label \"click\"", "city"});
  test::check_contains(text_of("words.txt", "some words\nwithout columns, or so\n"),
                       {"words.txt: text file\n"});
  test::check_contains(text_of("one.txt", "one\ntwo\n"),
                       {"one.txt: text file\n", "expected rows of two or more columns"});
  test::check_contains(
      text_of("lines.csv", "click,note,city\n1,\"two\nlines, quoted\",Rome\n0,\"a\n\n\",Oslo\n"),
      {"CSV: label \"click\", 0 columns of numbers, 2 of tokens", "all 2 rows"});
  test::check_contains(text_of("part.norm", SmallData().norm()),
                       {"Norm data", "600 samples", "with checksums", "slot 3"});
  test::check_contains(text_of("list.txt", "1\npart.norm\n"), {"Norm data", "600 samples"});
  test::check_contains(text_of("cut.norm", SmallData().norm().substr(0, 5000)), {"damaged"});
  test::check_contains(text_of("x.json", "{\"a\": 1}"), {"JSON"});
  test::check_contains(text_of("train.bin", SmallData().raw()),
                       {"19200 bytes of binary data", "--config says what its records hold"});
  test::check_contains(text_of("empty", ""), {"empty file"});
}

TEST_CASE("a table is what csv_prep takes it for") {
  const TemporaryDirectory folder;
  const auto shown = [&](const std::string& text) {
    write_text(folder / "a.csv", text);
    return inspect({folder / "a.csv"}).out;
  };
  std::string rows = "# of a shop\nid;Click;price;city;member\n";
  std::string unlabelled = "u1,2,3\n";
  for (int i = 0; i < 150; ++i) {
    rows += fmt::format("{};{};{};{};{}\n", i, i % 3 == 0 ? "yes" : "no", i * 0.25,
                        i % 5 == 0   ? "NA"
                        : i % 2 == 0 ? "Rome"
                                     : "Oslo",
                        i % 2);
    unlabelled += fmt::format("u{},{},{}\n", i % 50, i % 7, i * i % 101);
  }
  rows.erase(0, rows.find('\n') + 1);
  rows += "# the end\n\n";
  const std::string table = shown(rows);
  const CsvGuess guess = guess_schema(folder / "a.csv", {}, {});
  std::string summary;
  for (const std::string& line : guess.summary) {
    const size_t path = line.starts_with(folder / "a.csv") ? (folder / "a.csv").size() + 2 : 0;
    test::check_contains(table, {line.substr(path)});
    summary += line + "\n";
  }
  test::check_contains(summary, {"Click: 1 is \"yes\"", "id (counts the rows)", "comments"});
  // The label by its texts, and statistics of the features.
  test::check_contains(table, {"CSV: label \"Click\", 1 columns of numbers, 2 of tokens",
                               "statistics of all 150 rows", "label: 0.33333 are 1\n", "0.2000"});
  CHECK(table.find("not of the format") == std::string::npos);

  const std::string none = shown(unlabelled);
  test::check_contains(none, {"CSV: 1 columns of numbers, 2 of tokens", "3 columns, no header",
                              "label        none, as no column has two values",
                              "the first line is taken for a row", "--header yes", "all 151 rows"});
}

}  // namespace
}  // namespace hlite::prep
