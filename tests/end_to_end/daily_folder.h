// Runs in a folder of their own, of the small model without evaluations: for data that come day
// after day.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/end_to_end/golden_run.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/metrics_events.h"

namespace hlite::test {

using Changes = std::vector<std::string>;

// The small config without evaluations, in the order of the file, with `length` ("", or a member
// with its comma) in the place of max_iter.
inline std::string daily_config_text(const std::string& length) {
  std::string text = small_config();
  const auto replace = [&](const std::string& what, const std::string& by) {
    REQUIRE(text.find(what) != std::string::npos);
    text.replace(text.find(what), what.size(), by);
  };
  replace(R"("max_iter": 200, )", length);
  replace(R"("eval_batches": 10, "eval_interval": 50,)", "");
  replace(R"(, "eval_source": "eval.bin")", "");
  replace(R"("shuffle": true)", R"("shuffle": false)");
  return text;
}

class DailyFolder {
 public:
  [[nodiscard]] std::string operator/(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] Changes command(Changes changes, const Changes& arguments) const {
    Changes command = {HLITE_TRAIN, "--config", folder_ / "config.json", "--threads", "2",
                       "--device",  "cpu"};
    for (const std::string& change : changes) command.insert(command.end(), {"--set", change});
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }
  [[nodiscard]] ProgramResult run(const Changes& changes, const Changes& arguments) const {
    return run_program(command(changes, arguments), folder_.path());
  }
  void train(const Changes& changes, const Changes& arguments) const {
    REQUIRE(run(changes, arguments).code == 0);
  }
  [[nodiscard]] std::string message(const Changes& changes, const Changes& arguments) const {
    const ProgramResult result = run(changes, arguments);
    CHECK(result.code == kExitData);
    return result.err;
  }
  [[nodiscard]] std::vector<nlohmann::json> events(
      const std::string& kind, const std::string& metrics = "metrics.jsonl") const {
    return events_in(folder_ / metrics, kind);
  }

 private:
  TemporaryDirectory folder_;
};

inline Changes daily_topologies() { return {gpu("[0]"), gpu("[[0,1]]"), gpu("[[0,1],[2,3]]")}; }

}  // namespace hlite::test
