// `train --mllog`: what the log of a run says of its end.
#include <unistd.h>

#include <filesystem>

#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"
#include "tests/support/mllog_rules.h"

namespace hlite::test {
namespace {

std::string status_of(const std::string& log) {
  const auto lines = parse_mllog(log);
  REQUIRE_FALSE(lines.empty());
  REQUIRE(lines.back().key == "run_stop");
  return lines.back().metadata["status"];
}

}  // namespace

TEST_CASE("the log of a run on one rank and on four keeps the benchmark's rules") {
  for (const char* ranks : {"[0]", "[[0,1],[2,3]]"}) {
    INFO(ranks);
    const SmallRun run;
    REQUIRE(run.train({"--quiet", "--mllog", run / "log", "--metrics", run / "metrics", "--set",
                       "solver.benchmark=dlrm", "--set", gpu(ranks), "--set",
                       R"(solver.eval_metrics=["AUC:0.7"])"})
                .code == 0);
    const std::string log = read_text(run / "log");
    CHECK(MllogRules(log).broken() == std::vector<std::string>{});
    CHECK(status_of(log) == "success");
    std::vector<nlohmann::json> want, got;
    for (const auto& event : events_in(run / "metrics", "eval")) want.push_back(event["auc"]);
    for (const auto& line : parse_mllog(log))
      if (line.key == "eval_accuracy") got.push_back(line.value);
    CHECK(got == want);
  }
}

TEST_CASE("a run that diverges, fails or is interrupted leaves a log that says so") {
  const SmallRun run;
  const auto diverged =
      run.train({"--quiet", "--mllog", run / "diverged", "--set", "solver.benchmark=dlrm", "--set",
                 "optimizer.momentum_sgd_hparam.learning_rate=1e30"});
  INFO(diverged.err);
  REQUIRE(diverged.code == 3);
  CHECK(status_of(read_text(run / "diverged")) == "aborted");
  check_contains(read_text(run / "diverged"), {"hugectr_lite_failure"});

  std::string bytes = read_text(run / "train.bin");
  constexpr size_t kRecord = 6 * 4, kFirstKey = 3 * 4;
  for (size_t i = 0; i < 4; ++i) bytes[450 * kRecord + kFirstKey + i] = '\x7f';
  write_text(run / "broken.bin", bytes);
  const auto failed =
      run.train({"--quiet", "--mllog", run / "failed", "--set", "solver.benchmark=dlrm", "--set",
                 "layers.data.source=" + run / "broken.bin"});
  INFO(failed.err);
  REQUIRE(failed.code == 3);
  CHECK(status_of(read_text(run / "failed")) == "aborted");
  for (const auto& line : parse_mllog(read_text(run / "failed")))
    if (line.key == "hugectr_lite_failure")
      check_contains(line.value, {"broken.bin", "sample 450"});
  check_contains(read_text(run / "failed"), {"hugectr_lite_failure"});

  RunningProgram program(run.command({"--quiet", "--mllog", run / "interrupted", "--set",
                                      "solver.benchmark=dlrm_dcnv2", "--set", kEndless}),
                         "");
  const auto begun = [&] {
    return std::filesystem::exists(run / "interrupted") &&
           read_text(run / "interrupted").find("run_start") != std::string::npos;
  };
  while (program.running() && !begun()) usleep(1000);
  program.signal(SIGINT);
  const auto stopped = program.wait();
  INFO(stopped.err);
  REQUIRE(stopped.code == 5);
  CHECK(status_of(read_text(run / "interrupted")) == "aborted");
}

}  // namespace hlite::test
