// Counts of what a decoder finds wrong with values.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "data_reader/record_issue.h"

namespace hlite::prep {

class IssueCounts final : public data::IssueSink {
 public:
  struct Tally {
    int64_t count = 0;
    int64_t record = 0;              // of the first
    std::string found;               // the first
    int64_t least = 0, largest = 0;  // of the keys
  };
  void report(const data::RecordIssue& issue) override;

  // The columns of these issues that have any.
  [[nodiscard]] const std::map<int64_t, Tally>& columns(data::IssueKind kind) const {
    return columns_[static_cast<size_t>(kind)];
  }
  [[nodiscard]] int64_t total(data::IssueKind kind) const;
  // The column with the most, the first of several.
  [[nodiscard]] std::optional<int64_t> worst(data::IssueKind kind) const;

 private:
  std::array<std::map<int64_t, Tally>, data::kIssueKinds> columns_;
};

}  // namespace hlite::prep
