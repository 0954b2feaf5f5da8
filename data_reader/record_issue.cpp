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

IssueWords words_of(IssueKind kind, int64_t column) {
  switch (kind) {
    case IssueKind::kLabel:
      return {fmt::format("label {}", column), "a value in [0, 1]"};
    case IssueKind::kRealLabel:
      return {fmt::format("label {}", column), "a finite value"};
    case IssueKind::kWeight:
      return {"sample weight", "a finite value >= 0"};
    case IssueKind::kNotFinite:
      return {fmt::format("dense {}", column), "a finite value"};
    case IssueKind::kNegative:
      return {fmt::format("dense {}", column), "an integer >= 0 (the feature is log(x + 1))"};
    case IssueKind::kKey:
      break;
  }
  raise("the words for a key depend on its table");
}

std::string describe(const RecordIssue& issue) {
  const auto& [what, expected] =
      issue.kind == IssueKind::kKey
          ? IssueWords{issue.layout->describe(issue.column),
                       expected_key(issue, std::get<int64_t>(issue.found))}
          : words_of(issue.kind, issue.column);
  const std::string found =
      std::visit([](auto value) { return fmt::format("{}", value); }, issue.found);
  return fmt::format("{}, {}: expected {}, found {}", text_of(issue.place), what, expected, found);
}

IssueSink& refusing_sink() {
  static RefusingSink sink;
  return sink;
}

}  // namespace hlite::data
