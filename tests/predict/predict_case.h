// `predict` on what `train` made of a small run, and its scores.
#pragma once

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/program.h"

namespace hlite::test {

inline ProgramResult predict(const SmallRun& run, std::vector<std::string> more) {
  more.insert(more.begin(), {HLITE_PREDICT, "--threads", "2"});
  return run_program(more, run.path());
}

inline std::vector<double> scores_in(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  CHECK(line == "score");
  std::vector<double> scores;
  while (std::getline(lines, line)) scores.push_back(std::stod(line));
  return scores;
}

inline void check_close(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= 1e-6);
}

}  // namespace hlite::test
