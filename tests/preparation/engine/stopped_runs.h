// A preparation that is stopped again and again, as by a crash.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/engine/prep_options.h"
#include "tests/support/catch.h"

namespace hlite::prep {

// Calls prepare(), which uses `run`, until it ends by itself. Its points are counted over all
// calls; every `stop`-th one up to the `last` throws. Returns the number of calls.
template <typename Prepare>
int runs_until_done(PrepOptions& run, int stop, int last, Prepare&& prepare) {
  std::atomic<int> points{0};
  run.at_point = [&points, stop, last](std::string_view) {
    const int point = ++points;
    if (point % stop == 0 && point <= last) throw Error("stopped");
  };
  for (int runs = 1;; ++runs) {
    try {
      prepare();
      run.at_point = {};
      return runs;
    } catch (const Error& error) {
      REQUIRE(std::string(error.what()) == "stopped");
    }
  }
}

}  // namespace hlite::prep
