#include "data_reader/unknown_values.h"

#include "hugectr_lite/core/error.h"
#include "tests/data_reader/log_capture.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::data {
namespace {

using test::check_contains;
using test::message_of;

// Statistics of 1000 training rows.
std::vector<ManifestColumn> training_columns() {
  return {{.name = "user", .missing = 10, .out_of_vocabulary = 30},
          {.name = "item", .missing = 500, .out_of_vocabulary = 0}};
}

UnknownValues counted(int64_t rows, std::vector<int64_t> missing, std::vector<int64_t> unknown) {
  UnknownValues counts(2);
  counts.rows = rows;
  counts.missing = std::move(missing);
  counts.unknown = std::move(unknown);
  return counts;
}

std::string report_of(const UnknownValues& counts, double max_unknown = 1) {
  const test::LogCapture log;
  report_unknown(counts, "new.csv", training_columns(), 1000, max_unknown);
  return log.text();
}

TEST_CASE("shares as in training are reported without a warning") {
  const std::string text = report_of(counted(200, {2, 100}, {6, 0}));
  check_contains(text, {"new.csv", "1.5 % unknown (1.5 % in training)", "25.5 % missing (25.5 %)"});
  CHECK(text.find("warning") == std::string::npos);
}

TEST_CASE("a warning names a column whose values are all unknown or all missing") {
  const std::string unknown = report_of(counted(200, {0, 100}, {200, 0}));
  check_contains(unknown, {"warning", "user 100.0 % (3.0 % in training)"});
  CHECK(unknown.find("item") == std::string::npos);
  const std::string missing = report_of(counted(200, {200, 100}, {0, 0}));
  check_contains(missing, {"warning", "missing: user 100.0 % (1.0 % in training)"});
}

TEST_CASE("more unknown values than allowed are an error") {
  CHECK_NOTHROW(report_of(counted(200, {0, 0}, {100, 0}), 0.5));
  check_contains(message_of<DataError>([] {
                   report_of(counted(200, {0, 0}, {101, 0}), 0.5);
                 }),
                 {"new.csv: column user: expected at most 50.0 %", "found 50.5 % of 200 rows"});
}

TEST_CASE("counts of parts add up, and nothing is reported for zero rows") {
  UnknownValues all;
  all.add(counted(100, {1, 2}, {3, 4}));
  all.add(counted(100, {1, 98}, {3, 0}));
  CHECK(all.rows == 200);
  CHECK(all.missing == std::vector<int64_t>{2, 100});
  CHECK(all.unknown == std::vector<int64_t>{6, 4});
  CHECK(report_of(UnknownValues(2)).empty());
}

}  // namespace
}  // namespace hlite::data
