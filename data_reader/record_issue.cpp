#include "data_reader/record_issue.h"

#include "hugectr_lite/core/error.h"

namespace hlite::data {
namespace {

class RefusingSink final : public IssueSink {
 public:
  void report(const RecordIssue& issue) override { raise<DataError>("{}", describe(issue)); }
};

std::string expected_key(const RecordIssue& issue, int64_t found) {
  if (issue.first_key == 0 && found >= 0)
    return fmt::format("less than {}, the rows of its table", issue.last_key + 1);
  return fmt::format("{} to {}, the rows of its table among all", issue.first_key, issue.last_key);
}

}  // namespace

std::string text_of(const RecordPlace& place) {
  return fmt::format("{}: {} {} (byte {})", place.path, place.called, place.record, place.byte);
}

std::string describe(const RecordIssue& issue) {
  std::string what, expected;
  switch (issue.kind) {
    case IssueKind::kLabel:
      what = fmt::format("label {}", issue.column);
      expected = "a value in [0, 1]";
      break;
    case IssueKind::kNotFinite:
      what = fmt::format("dense {}", issue.column);
      expected = "a finite value";
      break;
    case IssueKind::kNegative:
      what = fmt::format("dense {}", issue.column);
      expected = "an integer >= 0 (the feature is log(x + 1))";
      break;
    case IssueKind::kKey:
      what = issue.layout->describe(issue.column);
      expected = expected_key(issue, std::get<int64_t>(issue.found));
      break;
  }
  const std::string found =
      std::visit([](auto value) { return fmt::format("{}", value); }, issue.found);
  return fmt::format("{}, {}: expected {}, found {}", text_of(issue.place), what, expected, found);
}

IssueSink& refusing_sink() {
  static RefusingSink sink;
  return sink;
}

}  // namespace hlite::data
