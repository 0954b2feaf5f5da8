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

// The number after `name` in the last line that has it.
inline double number_after(const std::string& text, const std::string& name) {
  const size_t at = text.rfind(name);
  INFO(text);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + name.size()));
}

// Mean cross-entropy of the scores, by the labels of the records.
inline double log_loss(const std::vector<double>& scores, const std::string& records) {
  const size_t record = records.size() / scores.size();
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i)
    sum -= std::log(records[i * record] != 0 ? scores[i] : 1 - scores[i]);
  return sum / static_cast<double>(scores.size());
}

}  // namespace hlite::test
