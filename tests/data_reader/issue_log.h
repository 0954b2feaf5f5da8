// An IssueSink that records what it receives, and lets the decoder go on.
#pragma once

#include <string>
#include <vector>

#include "data_reader/record_issue.h"

namespace hlite::test {

struct IssueLog final : data::IssueSink {
  void report(const data::RecordIssue& issue) override { lines.push_back(describe(issue)); }
  std::vector<std::string> lines;
};

}  // namespace hlite::test
