#include "data_reader/record_issue.h"

#include "hugectr_lite/core/error.h"
#include "tests/data_reader/issue_log.h"
#include "tests/support/catch.h"

using namespace hlite;
using namespace hlite::data;

namespace {
const std::string kIssuePath = "a/b.bin";
const RecordPlace kIssueRecord{.path = kIssuePath, .record = 12, .byte = 1920};
const KeyLayout kIssueLayout({1, 3});

RecordIssue key_issue(int64_t column, int64_t found, int64_t first, int64_t last) {
  return {.kind = IssueKind::kKey,
          .place = kIssueRecord,
          .column = column,
          .found = found,
          .layout = &kIssueLayout,
          .first_key = first,
          .last_key = last};
}
}  // namespace

TEST_CASE("a place names file, record and byte") {
  CHECK(text_of(kIssueRecord) == "a/b.bin: record 12 (byte 1920)");
  const RecordPlace sample{.path = kIssuePath, .record = 0, .byte = 0, .called = "sample"};
  CHECK(text_of(sample) == "a/b.bin: sample 0 (byte 0)");
}

TEST_CASE("an issue of each kind says what was expected and what was found") {
  const std::string where = "a/b.bin: record 12 (byte 1920), ";
  CHECK(describe(
            {.kind = IssueKind::kLabel, .place = kIssueRecord, .column = 0, .found = int64_t{2}}) ==
        where + "label 0: expected a value in [0, 1], found 2");
  CHECK(describe({.kind = IssueKind::kLabel, .place = kIssueRecord, .column = 1, .found = -0.5f}) ==
        where + "label 1: expected a value in [0, 1], found -0.5");
  CHECK(
      describe({.kind = IssueKind::kRealLabel, .place = kIssueRecord, .column = 1, .found = NAN}) ==
      where + "label 1: expected a finite value, found nan");
  CHECK(
      describe({.kind = IssueKind::kWeight, .place = kIssueRecord, .column = 2, .found = -0.5f}) ==
      where + "sample weight: expected a finite value >= 0, found -0.5");
  CHECK(
      describe({.kind = IssueKind::kNotFinite, .place = kIssueRecord, .column = 7, .found = NAN}) ==
      where + "dense 7: expected a finite value, found nan");
  CHECK(describe({.kind = IssueKind::kNegative,
                  .place = kIssueRecord,
                  .column = 3,
                  .found = int64_t{-4}}) ==
        where + "dense 3: expected an integer >= 0 (the feature is log(x + 1)), found -4");
}

TEST_CASE("an issue of a key names its slot, and the rows of its table as the file counts them") {
  const std::string where = "a/b.bin: record 12 (byte 1920), ";
  CHECK(describe(key_issue(0, 50, 0, 49)) ==
        where + "key of slot 0: expected less than 50, the rows of its table, found 50");
  CHECK(describe(key_issue(3, 9, 0, 0)) ==
        where + "key 2 of slot 1: expected less than 1, the rows of its table, found 9");
  // Keys that count on from the tables before, and one below 0, which a signed file can hold.
  CHECK(describe(key_issue(1, 5, 10, 19)) ==
        where + "key 0 of slot 1: expected 10 to 19, the rows of its table among all, found 5");
  CHECK(describe(key_issue(0, -1, 0, 9)) ==
        where + "key of slot 0: expected 0 to 9, the rows of its table among all, found -1");
}

TEST_CASE("the refusing sink throws a DataError with the description, another one goes on") {
  const RecordIssue issue = key_issue(0, 50, 0, 49);
  try {
    refusing_sink().report(issue);
    FAIL("nothing was thrown");
  } catch (const DataError& error) {
    CHECK(error.what() == describe(issue));
    CHECK(error.exit_code() == kExitData);
  }
  test::IssueLog log;
  log.report(issue);
  log.report(issue);
  CHECK(log.lines == std::vector<std::string>(2, describe(issue)));
}
