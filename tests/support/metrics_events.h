// The events of a run's metrics file, one JSON object a line.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace hlite::test {

// Returns the events of a kind ("eval"), or all of them.
inline std::vector<nlohmann::json> events_in(const std::string& metrics,
                                             const std::string& kind = "") {
  std::vector<nlohmann::json> events;
  std::istringstream lines(read_text(metrics));
  for (std::string line; std::getline(lines, line);)
    if (auto event = nlohmann::json::parse(line); kind.empty() || event["event"] == kind)
      events.push_back(std::move(event));
  return events;
}

// Returns the last event of a kind; null if there is none.
inline nlohmann::json last_event(const std::string& metrics, const std::string& kind) {
  const auto events = events_in(metrics, kind);
  return events.empty() ? nlohmann::json() : events.back();
}

}  // namespace hlite::test
