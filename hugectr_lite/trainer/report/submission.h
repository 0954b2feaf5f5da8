// The entries of a benchmark's log other than its numbers: submitter, system, rules.
#pragma once

#include <string>
#include <vector>

namespace hlite::trainer {

struct Submission {
  bool closed = false;  // division; else open, which asks for no fixed hyper-parameters
  // True if the pages of the data that the system held were dropped before the run.
  bool cache_clear = false;
  std::string org = "unnamed", platform = {}, status = "research";
};

// From arguments KEY=VALUE, KEY one of division, org, platform, status, cache_clear. Throws
// ConfigError for another key, an empty value, a division or status that the rules do not know.
Submission parse_submission(const std::vector<std::string>& arguments);

}  // namespace hlite::trainer
