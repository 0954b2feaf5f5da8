#include "hugectr_lite/preparation/inspect/issue_counts.h"

#include <fmt/core.h>

#include <algorithm>

namespace hlite::prep {

void IssueCounts::report(const data::RecordIssue& issue) {
  Tally& tally = columns_[static_cast<size_t>(issue.kind)][issue.column];
  if (tally.count++ == 0) {
    tally.record = issue.place.record;
    tally.found = std::visit([](auto value) { return fmt::format("{}", value); }, issue.found);
  }
  const int64_t* key = std::get_if<int64_t>(&issue.found);
  if (key == nullptr) return;
  tally.least = tally.count == 1 ? *key : std::min(tally.least, *key);
  tally.largest = tally.count == 1 ? *key : std::max(tally.largest, *key);
}

int64_t IssueCounts::total(data::IssueKind kind) const {
  int64_t n = 0;
  for (const auto& [column, tally] : columns(kind)) n += tally.count;
  return n;
}

std::optional<int64_t> IssueCounts::worst(data::IssueKind kind) const {
  const auto& all = columns(kind);
  const auto most = std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second.count < b.second.count;
  });
  return most == all.end() ? std::nullopt : std::optional(most->first);
}

}  // namespace hlite::prep
