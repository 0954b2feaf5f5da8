// csv_prep splits training files itself: every row is in exactly one split, groups stay together,
// and later rows are in later splits.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/csv/csv_prep.h"
#include "hugectr_lite/preparation/csv/key_order.h"
#include "hugectr_lite/preparation/csv/time_key.h"
#include "tests/preparation/engine/stopped_runs.h"
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

constexpr const char* kSplitSchema =
    R"({"header": true, "label": {"column": "y", "positive": ["1"]},
  "dense": [{"column": "row"}, {"column": "time"}], "categorical": [{"column": "user"}]})";

struct TimedRow {
  float label, row, time;
  uint32_t user;
};

// Rows first, first + 1, ..., of users in no order and times in none, some of them equal.
std::string timed_rows(int first, int count) {
  std::string text = "row,time,user,y\n";
  for (int i = first; i < first + count; ++i)
    text += fmt::format("{},{},u{},{}\n", i, i * 7919 % 1009 / 2, i * 31 % 97, i % 2);
  return text;
}

struct SplitFolder {
  TemporaryDirectory folder;
  CsvPrepOptions options;
  explicit SplitFolder(const std::vector<int>& counts) {
    write_text(folder / "schema.json", kSplitSchema);
    options.schema = folder / "schema.json";
    int first = 0;
    for (const int count : counts) {
      options.train.push_back(folder / fmt::format("{}.csv", options.train.size()));
      write_text(options.train.back(), timed_rows(first, count));
      first += count;
    }
    options.output.folder = folder / "out";
    options.run.quiet = true;
    options.run.threads = 2;
  }
  [[nodiscard]] std::vector<TimedRow> split(const std::string& name,
                                            const std::string& out = "out") const {
    const std::string path = folder / (out + "/" + name + ".bin");
    if (!fs::exists(path)) return {};
    const std::string bytes = test::read_text(path);
    REQUIRE(bytes.size() % sizeof(TimedRow) == 0);
    std::vector<TimedRow> found(bytes.size() / sizeof(TimedRow));
    std::memcpy(found.data(), bytes.data(), bytes.size());
    return found;
  }
  [[nodiscard]] std::vector<TimedRow> all(const std::string& out = "out") const {
    std::vector<TimedRow> found;
    for (const char* name : {"train", "val", "test"})
      for (const TimedRow& row : split(name, out)) found.push_back(row);
    return found;
  }
};

// Rows 0 to n - 1, each once.
void check_complete(const std::vector<TimedRow>& found, int n) {
  std::vector<float> numbers;
  for (const TimedRow& row : found) numbers.push_back(row.row);
  std::sort(numbers.begin(), numbers.end());
  REQUIRE(static_cast<int>(numbers.size()) == n);
  for (int i = 0; i < n; ++i) CHECK(numbers[static_cast<size_t>(i)] == static_cast<float>(i));
}

std::set<float> rows_in(const std::vector<TimedRow>& found) {
  std::set<float> numbers;
  for (const TimedRow& row : found) numbers.insert(row.row);
  return numbers;
}

// User of a row: row 0 of the table stands for those that training lacks.
int user_of(const TimedRow& row) { return static_cast<int>(row.row) * 31 % 97; }

std::set<int> users_in(const std::vector<TimedRow>& found) {
  std::set<int> users;
  for (const TimedRow& row : found) users.insert(user_of(row));
  return users;
}

bool disjoint(const std::set<int>& a, const std::set<int>& b) {
  return std::none_of(a.begin(), a.end(), [&](int x) { return b.contains(x); });
}

}  // namespace

TEST_CASE("shares of the rows are drawn: no row is lost, none is twice, for any blocks and seeds",
          "[threads]") {
  SplitFolder files({1201, 797});
  files.options.split.val_share = 0.2;
  files.options.split.test_share = 0.1;
  csv_prep(files.options);
  check_complete(files.all(), 1998);
  const auto val = rows_in(files.split("val")), test = rows_in(files.split("test"));
  // Binomial: means 400 and 200, deviations 18 and 14.
  CHECK(std::abs(static_cast<double>(val.size()) - 400) < 90);
  CHECK(std::abs(static_cast<double>(test.size()) - 200) < 70);
  files.options.run.force = true;
  for (const int threads : {1, 3})
    for (const int64_t block : {300, 1 << 20}) {
      files.options.run.threads = threads;
      files.options.run.block_bytes = block;
      csv_prep(files.options);
      CHECK(rows_in(files.split("val")) == val);
      CHECK(rows_in(files.split("test")) == test);
    }
  files.options.output.seed = 7;
  const data::Manifest manifest = csv_prep(files.options);
  CHECK(rows_in(files.split("val")) != val);
  check_complete(files.all(), 1998);
  // Statistics and ids are those of training rows alone.
  CHECK(manifest.sources.size() == 6);
  const auto json = nlohmann::json::parse(test::read_text(files.folder / "out/manifest.json"));
  CHECK(json["options"]["split"] == nlohmann::json({{"by", "line"}, {"val", 0.2}, {"test", 0.1}}));
  int64_t counted = 0;
  for (const auto& column : manifest.columns) counted += column.rows;
  CHECK(counted == static_cast<int64_t>(users_in(files.split("train")).size()) + 1);
}

TEST_CASE("later rows are in later splits, and rows of one time together", "[threads]") {
  for (const auto& [val, test] : std::vector<std::pair<double, double>>{
           {0.1, 0}, {0.25, 0.25}, {0.001, 0.001}, {0.9, 0.05}}) {
    INFO(val << " " << test);
    SplitFolder files({1500, 509});
    files.options.split.val_share = val;
    files.options.split.test_share = test;
    files.options.split.time_column = "time";
    csv_prep(files.options);
    check_complete(files.all(), 2009);
    float last = -1;
    size_t found = 0;
    for (const char* name : {"train", "val", "test"}) {
      const auto rows = files.split(name);
      found += rows.size();
      if (rows.empty()) continue;
      const auto [least, most] =
          std::minmax_element(rows.begin(), rows.end(),
                              [](const TimedRow& a, const TimedRow& b) { return a.time < b.time; });
      CHECK(last < least->time);
      last = most->time;
    }
    // A time has 4 rows at most, and a split one time at least.
    CHECK(std::abs(static_cast<double>(files.split("val").size() + files.split("test").size()) -
                   (val + test) * 2009) <= 6);
  }
}

TEST_CASE("dates and times are in the order of the calendar") {
  const auto key = [](const char* text) { return time_key(text, TimeForm::kDate).value(); };
  const char* const ordered[] = {"0001-01-01",       "1969-12-31 23:59:59", "1969-12-31T23:59:59.5",
                                 "1970-01-01",       "2024-02-29",          "2024-02-29T00:00:01Z",
                                 "2024-02-29 09:30", "2024-03-01",          "9999-12-31 24:00"};
  for (size_t i = 1; i < std::size(ordered); ++i) {
    INFO(ordered[i]);
    CHECK(key(ordered[i - 1]) < key(ordered[i]));
  }
  CHECK(key("2024-02-29") == key("2024-02-29 00:00:00.000"));
  for (const char* text :
       {"", "2023-02-29", "2024-13-01", "01/02/2024", "2024-1-1", "2024-01-01x", "2024-01-01 25:00",
        "2024-01-01 10:60", "2024-01-01 10:00:61", "2024-01-01 10", "2024-01-01T10:00+01:00"}) {
    INFO(text);
    CHECK_FALSE(time_key(text, TimeForm::kDate));
  }
  const double numbers[] = {-1e300, -2.5, -1, -1e-300, 0, 1e-300, 1, 1700000000, 1e300};
  for (size_t i = 1; i < std::size(numbers); ++i)
    CHECK(time_key(fmt::format("{}", numbers[i - 1]), TimeForm::kNumber) <
          time_key(fmt::format("{}", numbers[i]), TimeForm::kNumber));
  CHECK(time_key("-0", TimeForm::kNumber) == time_key("0", TimeForm::kNumber));
  for (const char* text : {"", "nan", "inf", "1x"}) CHECK_FALSE(time_key(text, TimeForm::kNumber));
  CHECK(time_form("20240229") == TimeForm::kNumber);
  CHECK(time_form("2024-02-29") == TimeForm::kDate);
  CHECK_FALSE(time_form("yesterday"));
}

TEST_CASE("the last keys of a file are found as by sorting") {
  const TemporaryDirectory folder;
  for (const size_t n : {size_t{2}, size_t{3}, size_t{97}, size_t{5003}})
    for (const uint64_t values : {uint64_t{1}, uint64_t{2}, uint64_t{7}, uint64_t{1} << 62}) {
      std::vector<uint64_t> keys(n);
      for (size_t i = 0; i < n; ++i) keys[i] = (i + 1) * 0x9E3779B97F4A7C15u % values << 2;
      write_text(folder / "keys",
                 std::string(reinterpret_cast<const char*>(keys.data()), n * sizeof(uint64_t)));
      const KeyOrder order(folder / "keys");
      CHECK(order.rows() == static_cast<int64_t>(n));
      const std::set<uint64_t> distinct(keys.begin(), keys.end());
      for (const double share : {1e-9, 0.1, 0.5, 0.77, 0.999}) {
        INFO(n << " " << values << " " << share);
        const KeyOrder::Cut cut = order.last_rows(share);
        const auto rows_from = [&](uint64_t from) {
          return std::count_if(keys.begin(), keys.end(), [&](uint64_t k) { return k >= from; });
        };
        CHECK(cut.rows == (distinct.size() < 2 ? 0 : rows_from(cut.from)));
        if (distinct.size() < 2) continue;
        CHECK((cut.rows > 0 && cut.rows < static_cast<int64_t>(n)));
        double best = 1e300;
        for (auto from = std::next(distinct.begin()); from != distinct.end(); ++from)
          best = std::min(best, std::abs(static_cast<double>(rows_from(*from)) -
                                         share * static_cast<double>(n)));
        // The number of rows that is asked for is rounded first.
        CHECK(std::abs(static_cast<double>(cut.rows) - share * static_cast<double>(n)) <= best + 1);
        if (rows_from(*std::next(distinct.begin())) == cut.rows) continue;
        const KeyOrder::Cut more = order.one_key_more(cut);
        CHECK(more.rows == rows_from(more.from));
        CHECK(*std::prev(distinct.lower_bound(cut.from)) == more.from);
      }
    }
}

TEST_CASE("a group is never on both sides", "[threads]") {
  SplitFolder files({1000, 997});
  files.options.split.group_column = "user";
  files.options.split.val_share = 0.2;
  files.options.split.test_share = 0.2;
  csv_prep(files.options);
  check_complete(files.all(), 1997);
  const auto train = users_in(files.split("train")), val = users_in(files.split("val")),
             test = users_in(files.split("test"));
  CHECK((disjoint(train, val) && disjoint(train, test) && disjoint(val, test)));
  CHECK(train.size() + val.size() + test.size() == 97);
  for (const auto& users : {train, val, test}) CHECK(users.size() > 5);
  for (const TimedRow& row : files.split("val")) CHECK(row.user == 0);  // training has none of them
  // The same groups in another order of files.
  files.options.run.force = true;
  std::swap(files.options.train[0], files.options.train[1]);
  csv_prep(files.options);
  CHECK(users_in(files.split("val")) == val);
}

TEST_CASE("folds: every row is a validation row once", "[threads]") {
  for (const bool groups : {false, true}) {
    SplitFolder files({101, 102});
    files.options.split.folds = 5;
    if (groups) files.options.split.group_column = "user";
    files.options.output.config_of = "dcnv2";
    const auto manifests = csv_prep_folds(files.options);
    REQUIRE(manifests.size() == 5);
    std::vector<TimedRow> validated;
    for (int fold = 0; fold < 5; ++fold) {
      const std::string out = fmt::format("out/fold_{}", fold);
      check_complete(files.all(out), 203);
      const auto val = files.split("val", out), train = files.split("train", out);
      validated.insert(validated.end(), val.begin(), val.end());
      if (groups)
        CHECK(disjoint(users_in(val), users_in(train)));
      else
        CHECK((val.size() >= 38 && val.size() <= 43));
    }
    check_complete(validated, 203);
    // The same command has nothing to do; another one does not replace the results.
    const auto written = fs::last_write_time(files.folder / "out/fold_4/manifest.json");
    CHECK(csv_prep_folds(files.options).size() == 5);
    CHECK(fs::last_write_time(files.folder / "out/fold_4/manifest.json") == written);
    ++files.options.output.seed;
    check_contains(message_of<ConfigError>([&] { csv_prep_folds(files.options); }),
                   {"out/fold_0: expected no files of an earlier run"});
  }
}

TEST_CASE("folds that a stopped run has finished stay", "[threads]") {
  SplitFolder files({203});
  files.options.split.folds = 3;
  csv_prep_folds(files.options);
  std::vector<std::string> expected;
  for (int fold = 0; fold < 3; ++fold)
    expected.push_back(test::read_text(files.folder / fmt::format("out/fold_{}/train.bin", fold)));
  fs::remove_all(files.folder / "out");
  files.options.run.checkpoint_seconds = 0;
  CHECK(runs_until_done(files.options.run, 5, 40, [&] { csv_prep_folds(files.options); }) >= 2);
  for (int fold = 0; fold < 3; ++fold)
    CHECK(test::read_text(files.folder / fmt::format("out/fold_{}/train.bin", fold)) ==
          expected[static_cast<size_t>(fold)]);
}

TEST_CASE("a tenth of the rows is split off where there are many", "[threads]") {
  for (const int n : {999, 1000}) {
    SplitFolder files({n});
    files.options.split.default_share = true;
    csv_prep(files.options);
    check_complete(files.all(), n);
    CHECK(files.split("val").empty() == (n < 1000));
  }
}

TEST_CASE("splits that cannot be are refused with the numbers", "[threads]") {
  SplitFolder files({3});
  const auto refused = [&](const SplitOptions& split) {
    files.options.split = split;
    try {
      split.folds > 0 ? static_cast<void>(csv_prep_folds(files.options))
                      : static_cast<void>(csv_prep(files.options));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  check_contains(refused({.folds = 5}),
                 {"--folds 5: expected at least one row in every fold, found 3 rows"});
  check_contains(refused({.folds = 1}), {"--folds: expected 2 to 1000 folds, found 1"});
  check_contains(refused({.val_share = 0.1, .folds = 3}), {"--folds: expected no --val-share"});
  check_contains(refused({.time_column = "time", .folds = 3}), {"--folds", "--split-time"});
  check_contains(refused({.val_share = 0.6, .test_share = 0.4}), {"less than 1", "found 1"});
  check_contains(refused({.val_share = 1e-9}),
                 {"--val-share 1e-09: expected at least one row in val, found none of 3 rows"});
  check_contains(refused({.val_share = 0.0, .time_column = "time"}), {"above 0, found 0"});
  check_contains(refused({.time_column = "time", .group_column = "user"}), {"found both"});
  check_contains(refused({.time_column = "user"}),
                 {"--split-time user: expected numbers, or dates", "found \"u0\""});
  check_contains(refused({.time_column = "day"}), {"0.csv:1: expected a column \"day\""});
  check_contains(refused({.val_share = 0.5, .group_column = "9"}),
                 {"--split-group 9: expected that column", "found none in 3 rows"});
  files.options.val = {files.options.train[0]};
  files.options.val[0] = files.folder / "val.csv";
  check_contains(refused({.val_share = 0.5}), {"--val: expected no files", "val.csv"});
  files.options.val.clear();
  // A text among times.
  write_text(files.options.train[0],
             "row,time,user,y\n0,2024-01-01,a,1\n1,02/01/2024,a,0\n2,2024-01-03,a,1\n");
  write_text(files.options.schema, R"({"header": true, "label": {"column": "y", "positive": ["1"]},
    "categorical": [{"column": "user"}]})");
  check_contains(refused({.time_column = "time"}),
                 {"0.csv:3: column 1 (time): expected a date such as 2024-05-31", "02/01/2024"});
  files.options.run.max_bad_rows = 1;
  files.options.run.restart = true;
  CHECK(refused({.time_column = "time"}) == "nothing");
}

}  // namespace hlite::prep
