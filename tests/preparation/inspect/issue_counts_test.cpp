#include "hugectr_lite/preparation/inspect/issue_counts.h"

#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

using data::IssueKind;

TEST_CASE("issues are counted by kind and column, and the first is remembered") {
  IssueCounts counts;
  CHECK(counts.total(IssueKind::kKey) == 0);
  CHECK_FALSE(counts.worst(IssueKind::kKey));
  const std::string path = "f.bin";
  const auto report = [&](IssueKind kind, int64_t record, int64_t column,
                          std::variant<int64_t, float> found) {
    const data::RecordPlace place{path, record, 160 * record};
    counts.report({kind, place, column, found});
  };
  report(IssueKind::kKey, 7, 2, int64_t{60});
  report(IssueKind::kKey, 8, 5, int64_t{-1});
  report(IssueKind::kKey, 9, 5, int64_t{90});
  report(IssueKind::kNotFinite, 9, 5, 0.5f);
  CHECK(counts.total(IssueKind::kKey) == 3);
  CHECK(counts.total(IssueKind::kNotFinite) == 1);
  CHECK(counts.total(IssueKind::kLabel) == 0);
  CHECK(counts.columns(IssueKind::kKey).size() == 2);
  CHECK(counts.worst(IssueKind::kKey) == 5);
  const IssueCounts::Tally& k = counts.columns(IssueKind::kKey).at(5);
  CHECK(k.count == 2);
  CHECK(k.record == 8);
  CHECK(k.found == "-1");
  CHECK(k.least == -1);
  CHECK(k.largest == 90);
  CHECK(counts.columns(IssueKind::kNotFinite).at(5).found == "0.5");
  report(IssueKind::kKey, 10, 2, int64_t{61});
  CHECK(counts.worst(IssueKind::kKey) == 2);
}

}  // namespace
}  // namespace hlite::prep
