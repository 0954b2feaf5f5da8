// What columns become, by the words of a schema.
#include "hugectr_lite/preparation/csv/column_transform.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/preparation/apply/preparation.h"
#include "hugectr_lite/preparation/csv/csv_prep.h"
#include "tests/preparation/csv/csv_prep_case.h"
#include "tests/preparation/engine/stopped_runs.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::check_contains;
using test::message_of;
using test::TemporaryDirectory;
using test::write_text;

// Training lines "label,a,b", of a schema's blocks.
struct Prepared : Files {
  Prepared(const std::string& dense, const std::string& categorical, const std::string& lines,
           const std::string& top = "") {
    write_text(folder / "schema.json", R"({"label": {"column": 0, "positive": "1"}, )" + top +
                                           R"("dense": [)" + dense + R"(], "categorical": [)" +
                                           categorical + "]}");
    write_text(folder / "train.csv", lines);
    options.run.restart = false;
  }
  [[nodiscard]] std::string refused() const {
    return message_of<ConfigError>([&] { csv_prep(options); });
  }
  [[nodiscard]] std::string bad_row() const {
    return message_of<DataError>([&] { csv_prep(options); });
  }
  // The words of a split's records.
  [[nodiscard]] std::vector<std::vector<uint32_t>> rows(size_t words,
                                                        const char* split = "train") const {
    const std::string bytes = test::read_text(folder / "out/" + split + ".bin");
    std::vector<std::vector<uint32_t>> rows;
    for (size_t at = 0; at < bytes.size(); at += 4 * words) {
      rows.emplace_back(words);
      std::memcpy(rows.back().data(), bytes.data() + at, 4 * words);
    }
    return rows;
  }
  // The dense value of each row.
  [[nodiscard]] std::vector<float> numbers(size_t words, size_t at = 1) const {
    std::vector<float> numbers;
    for (const auto& row : rows(words)) numbers.push_back(std::bit_cast<float>(row[at]));
    return numbers;
  }
  // The category of each row, "" where it has none.
  [[nodiscard]] std::vector<std::string> tokens(size_t words, size_t slot = 0,
                                                const char* split = "train") const {
    const auto manifest = nlohmann::json::parse(test::read_text(folder / "out/manifest.json"));
    const auto known = manifest["features"]["categorical"][slot]["values_from_id_1"]
                           .get<std::vector<std::string>>();
    const size_t dense = manifest["features"]["dense"].size();
    std::vector<std::string> tokens;
    for (const auto& row : rows(words, split)) {
      const uint32_t id = row[1 + dense + slot];
      tokens.push_back(id == 0 ? "" : known.at(id - 1));
    }
    return tokens;
  }
};

using Texts = std::vector<std::string>;
using Numbers = std::vector<float>;

TEST_CASE("a number that stands for no value does so in every spelling") {
  const Prepared prepared(R"({"column": 1, "missing": "-999.0"})",
                          R"({"column": 2, "missing": ["-1", "x"]})",
                          "1,5,-1.0\n0,-999,7\n1,-9.99e2,-1\n0,-999.0,7.0\n1,-998,x\n0,1,8\n");
  csv_prep(prepared.options);
  CHECK(prepared.numbers(3) == Numbers{5, 0, 0, 0, -998, 1});
  CHECK(prepared.tokens(3) == Texts{"", "7", "", "7", "", "8"});
}

TEST_CASE("several texts may stand for no value, for all columns or for one", "[threads]") {
  const Prepared prepared(R"({"column": 1, "missing": ["-1", "none"]})", R"({"column": 2})",
                          "1,5,x\n0,?,NA\n1,-1,-1\n0,none,?\n1,,\n0,7,none\n",
                          R"("missing": ["?", "NA"], )");
  const data::Manifest manifest = csv_prep(prepared.options);
  CHECK(prepared.numbers(3) == Numbers{5, 0, 0, 0, 0, 7});
  CHECK(prepared.tokens(3) == Texts{"x", "", "-1", "", "", "none"});
  CHECK(manifest.columns[0].missing == 3);
  CHECK(manifest.dense[0].value == R"(missing "-1" "none" none)");
  CHECK(manifest.rules[1].value == R"("?" "NA")");
}

TEST_CASE("numbers are clipped before anything else is done to them", "[threads]") {
  const std::string lines = "1,-5,x\n0,0.5,x\n1,,x\n0,3e9,x\n";
  const Prepared plain(R"({"column": 1, "clip": [0, 99]})", R"({"column": 2})", lines);
  csv_prep(plain.options);
  CHECK(plain.numbers(3) == Numbers{0, 0.5f, 0, 99});
  // Without the clip the logarithm of the first would be an error.
  const Prepared logarithms(R"({"column": 1, "clip": [0, 99], "transform": "log1p"})",
                            R"({"column": 2})", lines);
  const data::Manifest manifest = csv_prep(logarithms.options);
  CHECK(logarithms.numbers(3) ==
        Numbers{0, static_cast<float>(std::log1p(0.5)), 0, static_cast<float>(std::log1p(99.0))});
  CHECK(manifest.dense[0].value == "clip 0 99 log1p");

  const auto refused = [&](const std::string& block) {
    return Prepared("{\"column\": 1, " + block + "}", R"({"column": 2})", lines).refused();
  };
  check_contains(refused(R"("clip": [3, 3])"),
                 {"dense[0].clip[1]: expected a number above 3, the lowest one, found 3"});
  check_contains(refused(R"("clip": [1])"), {"dense[0].clip", "two numbers", "a list of 1"});
  check_contains(refused(R"("clip": "all")"), {"dense[0].clip", "\"all\""});
  check_contains(refused(R"("clipp": [0, 1])"), {"dense[0]", "clipp"});
  check_contains(refused(R"("missing": 3)"), {"dense[0].missing", "found 3"});
}

TEST_CASE("a number falls into the bucket that begins at or below it", "[threads]") {
  const Prepared prepared(
      "", R"({"column": 1, "buckets": [0, 10, 100], "missing": "?", "clip": [-50, 1000]})",
      "1,-1e-9,x\n0,-0.0,x\n1,9.999,x\n0,10,x\n1,100,x\n0,1e9,x\n1,?,x\n0,,x\n1,0,x\n");
  const data::Manifest manifest = csv_prep(prepared.options);
  CHECK(prepared.tokens(2) == Texts{"[-inf, 0)", "[0, 10)", "[0, 10)", "[10, 100)", "[100, inf)",
                                    "[100, inf)", "", "", "[0, 10)"});
  CHECK(manifest.rules.back().name == "category column 1");
  CHECK(manifest.rules.back().value == "missing \"?\" clip -50 1000 buckets 0 10 100");

  const auto refused = [&](const std::string& block) {
    return Prepared("", "{\"column\": 1, " + block + "}", "1,2\n").refused();
  };
  check_contains(refused(R"("buckets": [1, 5, 5])"),
                 {"categorical[0].buckets[2]: expected ascending edges, found 5 after 5"});
  check_contains(refused(R"("buckets": [])"), {"categorical[0].buckets", "at least one edge"});
  check_contains(refused(R"("buckets": [1], "quantiles": 3)"), {"quantiles", "found both"});
  check_contains(refused(R"("quantiles": 1)"), {"categorical[0].quantiles", "found 1"});
  check_contains(refused(R"("buckets": [1], "date": {"parts": ["hour"], "format": "%H"})"),
                 {"categorical[0].date"});
  check_contains(Prepared("", R"({"column": 1, "buckets": [1]})", "1,2\n0,two\n").bad_row(),
                 {"train.csv:2: column 1 (column 1): expected a finite number, found \"two\""});
}

std::string skewed_lines(int rows, int seed) {
  std::string lines;
  for (int i = 0; i < rows; ++i) {
    const uint32_t draw = random::word(static_cast<uint64_t>(seed), 9, static_cast<uint64_t>(i));
    const double x = std::floor(std::exp(static_cast<double>(draw % 1000) / 100) - 30) / 4;
    lines += fmt::format("{},{},{}\n", draw % 2, draw % 17 == 0 ? "" : fmt::format("{}", x),
                         (draw >> 10) % 7);
  }
  return lines;
}

TEST_CASE("quantiles are those of the sorted training numbers, however the run goes", "[threads]") {
  const std::string train = skewed_lines(4001, 1);
  Prepared prepared("", R"({"column": 1, "quantiles": 7}, {"column": 2},
                           {"column": 1, "name": "b", "quantiles": 100})",
                    train);
  write_text(prepared.folder / "val.csv", "1,-1e30,1\n0,1e30,2\n1,,3\n" + skewed_lines(500, 2));
  prepared.options.val = {prepared.folder / "val.csv"};
  prepared.options.min_count = 2;
  csv_prep(prepared.options);
  std::vector<double> numbers;
  std::vector<std::string> fields;
  std::istringstream lines(train);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(',') + 1;
    fields.push_back(line.substr(first, line.find(',', first) - first));
    if (!fields.back().empty()) numbers.push_back(std::stod(fields.back()));
  }
  std::sort(numbers.begin(), numbers.end());
  const auto manifest =
      nlohmann::json::parse(test::read_text(prepared.folder / "out/manifest.json"));
  for (const auto& [slot, quantiles] : {std::pair<size_t, size_t>{0, 7}, {2, 100}}) {
    std::set<double> expected;
    for (size_t j = 1; j < quantiles; ++j) expected.insert(numbers[j * numbers.size() / quantiles]);
    const auto edges =
        manifest["features"]["categorical"][slot]["edges"].get<std::vector<double>>();
    CHECK(edges == std::vector<double>(expected.begin(), expected.end()));
    const Buckets buckets(edges);
    std::map<std::string, int> counts;
    for (const std::string& field : fields)
      if (!field.empty()) ++counts[buckets.token(std::stod(field))];
    const Texts tokens = prepared.tokens(4, slot);
    for (size_t i = 0; i < fields.size(); ++i) {
      const std::string token = fields[i].empty() ? "" : buckets.token(std::stod(fields[i]));
      CHECK(tokens[i] == (counts[token] >= 2 ? token : ""));
    }
  }
  const Texts val = prepared.tokens(4, 0, "val");
  CHECK(val[0].starts_with("[-inf, "));
  CHECK(val[1].ends_with(", inf)"));
  CHECK(val[2].empty());

  // The same of lines that come later.
  const auto expected = prepared.all();
  prepared.options.run.checkpoint_seconds = 0;
  prepared.options.run.block_bytes = 5000;
  for (const int stop : {1, 3, 7}) {
    std::filesystem::remove_all(prepared.folder / "out");
    const int runs =
        runs_until_done(prepared.options.run, stop, 12 * stop, [&] { csv_prep(prepared.options); });
    CHECK(runs >= 2);
    CHECK((prepared.all() == expected));
  }
  // A preparation that continues it keeps the edges.
  CsvPrepOptions next = prepared.options;
  write_text(prepared.folder / "next.csv", skewed_lines(900, 3));
  next.train = {prepared.folder / "next.csv"};
  next.val.clear();
  next.continue_from = prepared.folder / "out";
  next.output.folder = prepared.folder / "next";
  csv_prep(next);
  const auto after = nlohmann::json::parse(test::read_text(prepared.folder / "next/manifest.json"));
  CHECK(after["features"]["categorical"][0]["edges"] ==
        manifest["features"]["categorical"][0]["edges"]);
  CHECK(after["continues"].size() == 1);
}

TEST_CASE("a column of quantiles without a number has one bucket", "[threads]") {
  const Prepared prepared("", R"({"column": 1, "quantiles": 3})", "1,\n0,\n");
  CHECK(csv_prep(prepared.options).slot_sizes == std::vector<int64_t>{1});
}

TEST_CASE("numbers and their ordered bits go back and forth") {
  const double values[] = {-INFINITY, -3e300, -1, -5e-324, 0, 5e-324, 2, 3e300, INFINITY};
  for (size_t i = 0; i < std::size(values); ++i) {
    CHECK(number_of_bits(ordered_bits(values[i])) == values[i]);
    if (i > 0) CHECK(ordered_bits(values[i]) > ordered_bits(values[i - 1]));
  }
  CHECK(ordered_bits(-0.0) == ordered_bits(0.0));
  CHECK(ordered_bits(NAN) == 0);
  CHECK(std::isnan(number_of_bits(0)));
}

TEST_CASE("parts of a date are categories, a slot each", "[threads]") {
  const Prepared prepared("", R"({"column": 1, "name": "seen",
              "date": {"format": "%Y-%m-%d %H:%M:%S",
                       "parts": ["hour", "weekday", "month", "day", "year", "quarter", "minute"]}})",
                          "1,2024-02-29 23:05:59,x\n0,,x\n1,1969-12-31 0:00:00,x\n");
  const data::Manifest manifest = csv_prep(prepared.options);
  const char* names[] = {"hour", "weekday", "month", "day", "year", "quarter", "minute"};
  const char* first[] = {"23", "4", "2", "29", "2024", "1", "5"};
  const char* last[] = {"0", "3", "12", "31", "1969", "4", "0"};
  for (size_t slot = 0; slot < 7; ++slot) {
    CHECK(manifest.columns[slot].name == "seen " + std::string(names[slot]));
    CHECK(prepared.tokens(8, slot) == Texts{first[slot], "", last[slot]});
  }
  CHECK(manifest.rules.back().value == "minute of date \"%Y-%m-%d %H:%M:%S\"");
  CHECK(std::filesystem::exists(prepared.folder / "out/vocabulary/01_seen_weekday.txt"));
}

TEST_CASE("the age of a date is a number of days or hours", "[threads]") {
  const std::string lines =
      "1,2024-03-01,\"1 Jan 2024, 12:00\"\n0,2023-12-31,\"31 Dec 2023, 6:00\"\n1,,\n0,?,1 Jan "
      "2024, 0:0\n";
  const std::string good = lines.substr(0, lines.rfind("0,?"));
  const Prepared days(R"({"column": 1, "date": {"format": "%Y-%m-%d", "age": "days",
                          "since": "2024-01-01"}})",
                      R"({"column": 1, "date": {"format": "%Y-%m-%d", "age": "days",
                          "since": "2024-01-01"}, "buckets": [0]})",
                      good);
  const data::Manifest manifest = csv_prep(days.options);
  CHECK(days.numbers(3) == Numbers{60, -1, 0});
  CHECK(days.tokens(3) == Texts{"[0, inf)", "[-inf, 0)", ""});
  CHECK(manifest.dense[0].value == "days of date \"%Y-%m-%d\" since 1704067200 none");

  const Prepared hours(R"({"column": 2, "clip": [-1e6, 1000],
       "date": {"format": "%d %b %Y, %H:%M", "age": "hours",
                "since": {"column": 1, "name": "first", "format": "%Y-%m-%d"}}})",
                       R"({"column": 1})", good);
  csv_prep(hours.options);
  CHECK(hours.numbers(3) == Numbers{-60 * 24 + 12, 6, 0});
  // No age where either date is missing: 0 would be the year 1970.
  const Prepared either(R"({"column": 1, "date": {"format": "%Y", "age": "days",
       "since": {"column": 2, "name": "first", "format": "%Y"}}})",
                        R"({"column": 1})", "1,1971,1970\n0,,1970\n1,1971,\n0,,\n");
  CHECK(csv_prep(either.options).columns.size() == 1);
  CHECK(either.numbers(3) == Numbers{365, 0, 0, 0});
  const auto refused = [&](const std::string& date) {
    return Prepared("{\"column\": 1, \"date\": {" + date + "}}", R"({"column": 2})", good)
        .refused();
  };
  check_contains(refused(R"("format": "%Y-%Q", "age": "days", "since": "2024-01")"),
                 {"dense[0].date.format", "found \"%Q\" in \"%Y-%Q\""});
  check_contains(refused(R"("format": "%Y-%m-%d", "age": "days", "since": "1.1.2024")"),
                 {"dense[0].date.since", "a date as \"%Y-%m-%d\"", "\"1.1.2024\""});
  check_contains(refused(R"("format": "%m-%d", "age": "days", "since": "01-01")"),
                 {"dense[0].date.format", "%Y for an age"});
  check_contains(refused(R"("format": "%Y", "age": "years", "since": "2024")"),
                 {"dense[0].date.age", "\"years\""});
  check_contains(refused(R"("format": "%Y", "age": "days")"), {"dense[0].date", "since"});
  check_contains(refused(R"("format": "%Y", "parts": ["year"])"), {"dense[0].date", "parts"});
  const auto parts = [&](const std::string& date) {
    return Prepared("", "{\"column\": 1, \"date\": {" + date + "}}", good).refused();
  };
  check_contains(parts(R"("format": "%Y", "parts": ["hour"])"),
                 {"categorical[0].date.format: expected a format with %H for the part hour"});
  check_contains(parts(R"("format": "%Y", "parts": ["century"])"),
                 {"categorical[0].date.parts", "year, quarter, month", "found \"century\""});
  check_contains(parts(R"("format": "%Y", "parts": [])"), {"categorical[0].date.parts"});
}

TEST_CASE("a date that does not follow its format is an error or missing, as the schema says",
          "[threads]") {
  const std::string lines = "1,2024-02-30\n0,2024-02-29\n1,soon\n";
  const Prepared strict(
      "", R"({"column": 1, "name": "due", "date": {"format": "%Y-%m-%d", "parts": ["day"]}})",
      lines);
  check_contains(strict.bad_row(), {"train.csv:1: column 1 (due): expected a date as "
                                    "\"%Y-%m-%d\", found \"2024-02-30\""});
  const Prepared lenient("", R"({"column": 1, "date": {"format": "%Y-%m-%d", "parts": ["day"],
                                                       "malformed": "missing"}})",
                         lines);
  CHECK(csv_prep(lenient.options).columns[0].missing == 2);
  CHECK(lenient.tokens(2) == Texts{"", "29", ""});
}

TEST_CASE("a cross has the pairs of its columns' categories", "[threads]") {
  const Prepared prepared(
      "", R"({"column": 1, "name": "a"}, {"column": 2, "name": "b"}, {"cross": ["a", "b"]},
             {"name": "c", "cross": ["b", {"column": 3, "buckets": [10]}, "a"]},
             {"cross": ["a", "b"], "name": "h", "hash": 3})",
      "1,x,y,5\n0,x&,y,50\n1,x,&y,5\n0,,y,5\n1,x\\,y,?\n0,x,y,11\n", R"("missing": "?", )");
  const data::Manifest manifest = csv_prep(prepared.options);
  CHECK(manifest.columns[2].name == "a x b");
  CHECK(prepared.tokens(6, 2) == Texts{"x&y", "x\\&&y", "x&\\&y", "", "x\\\\&y", "x&y"});
  CHECK(prepared.tokens(6, 3) ==
        Texts{"y&[-inf, 10)&x", "y&[10, inf)&x\\&", "\\&y&[-inf, 10)&x", "", "", "y&[10, inf)&x"});
  const Texts hashed = prepared.tokens(6, 4);
  for (const std::string& token : hashed)
    CHECK((token.empty() || token == "#0" || token == "#1" || token == "#2"));
  CHECK(hashed[0] == hashed[5]);
  CHECK(hashed[3].empty());
  CHECK(manifest.rules.back().value == "cross (a) (b) hash 3");
}

TEST_CASE("crosses that cannot be, or have too many pairs, are refused by name", "[threads]") {
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += fmt::format("{},{},{}\n", i % 2, i % 12, i % 5);
  const auto refused = [&](const std::string& cross) {
    return Prepared("",
                    R"({"column": 1, "name": "a"}, {"column": 2, "name": "q", "quantiles": 2},
                           {"cross": ["a", {"column": 2}], "name": "x"}, {"cross": )" +
                        cross + "}",
                    lines)
        .refused();
  };
  check_contains(refused(R"(["a", "b"])"),
                 {"categorical[3].cross[1]", "before it (\"a\", \"q\", \"x\")", "found \"b\""});
  check_contains(refused(R"(["a", "q"])"), {"cross[1]", "found quantiles: take buckets"});
  check_contains(refused(R"(["a", "x"])"), {"cross[1]", "no cross"});
  check_contains(refused(R"(["a"])"), {"categorical[3].cross", "two or three"});
  check_contains(refused(R"(["a", {"column": 0}])"), {"cross[1]", "label"});
  check_contains(refused(R"(["a", {"column": 2}], "hash": 0)"), {"categorical[3].hash", "found 0"});
  const auto limited = [&](const char* limit) {
    return Prepared("",
                    std::string(R"({"column": 1, "name": "a"}, {"column": 2, "name": "b"},
                           {"cross": ["a", "b"], "limit": )") +
                        limit + "}",
                    lines);
  };
  check_contains(limited("59").bad_row(),
                 {"column a x b: expected a cross of at most 59 categories, found 60",
                  "--min-count", "\"hash\": 59"});
  CHECK(csv_prep(limited("60").options).slot_sizes == std::vector<int64_t>{13, 6, 61});
  Prepared frequent = limited("59");
  frequent.options.min_count = 2;
  CHECK(csv_prep(frequent.options).slot_sizes == std::vector<int64_t>{13, 6, 1});
}

}  // namespace
}  // namespace hlite::prep
