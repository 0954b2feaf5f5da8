// The page at "/" for people: what is served, an example request, and how fast answers are.
#pragma once

#include <span>
#include <string>

#include "hugectr_lite/serve/kserve.h"

namespace hlite::serve {

struct StatusEntry {
  ModelDescription description;
  std::string error = {};  // why the model is not served, or empty
};

// HTML that needs nothing but this server: its script asks for /metrics once a second and draws
// rates and latencies. `host`: the header of the request, for the example command. `token`: whether
// requests need one.
std::string status_page(std::span<const StatusEntry> models, const std::string& host, bool token);

}  // namespace hlite::serve
