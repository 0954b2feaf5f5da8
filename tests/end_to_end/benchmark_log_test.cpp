// `train --mllog`: what the log of a run says of its end.
#include <unistd.h>

#include <filesystem>

#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/mllog_rules.h"

namespace hlite::test {
namespace {

std::string status_of(const std::string& log) {
  const auto lines = parse_mllog(log);
  REQUIRE_FALSE(lines.empty());
  REQUIRE(lines.back().key == "run_stop");
  return lines.back().metadata["status"];
}

// docker/run_trials.sh on the host, with the files of `run` as its data.
ProgramResult run_trials(const SmallRun& run, const std::vector<std::string>& variables) {
  std::vector<std::string> command = {"/usr/bin/env",
                                      "ENGINE=none",
                                      "CLEAR_CACHES=0",
                                      "CONFIG=" + run / "config.json",
                                      "TRAIN_FILE=train.bin",
                                      "EVAL_FILE=eval.bin",
                                      "DATADIR=" + run.path(),
                                      "LOGDIR=" + run / "results",
                                      std::string("TRAIN=") + HLITE_TRAIN};
  command.insert(command.end(), variables.begin(), variables.end());
  command.emplace_back(HLITE_DOCKER "/run_trials.sh");
  return run_program(command);
}

}  // namespace

TEST_CASE("the scripts of a benchmark run each trial with its own seed, and hand on what fails") {
  const SmallRun run;
  const auto trials = run_trials(run, {"NEXP=2", "AUC_THRESHOLD=0.55", "SUBMITTER=We"});
  INFO(trials.err);
  REQUIRE(trials.code == 0);
  std::vector<nlohmann::json> seeds;
  for (const char* name : {"results/result_0.txt", "results/result_1.txt"}) {
    const std::string log = read_text(run / name);
    CHECK(MllogRules(log).broken() == std::vector<std::string>{});
    CHECK(status_of(log) == "success");
    for (const auto& line : parse_mllog(log))
      if (line.key == "seed") seeds.push_back(line.value);
  }
  REQUIRE(seeds.size() == 2);
  CHECK(seeds[0] != seeds[1]);
  check_contains(trials.out, {"RESULT,DLRM,", "exit 0"});

  const auto diverged =
      run_trials(run, {"TRAIN_ARGS=--set optimizer.momentum_sgd_hparam.learning_rate=1e30"});
  CHECK(diverged.code == 3);
  check_contains(diverged.out, {"exit 3"});
  const auto missing = run_trials(run, {"TRAIN_FILE=no.bin"});
  CHECK(missing.code == 2);
  check_contains(missing.err, {"no.bin", "is DATADIR mounted?"});
  const auto engine = run_trials(run, {"ENGINE=lxc"});
  CHECK(engine.code == 2);
  check_contains(engine.err, {"expected docker, podman, apptainer or none, found lxc"});
  const auto dry = run_trials(run, {"ENGINE=docker", "CONT=image:1", "DRY_RUN=1", "GPUS=all"});
  CHECK(dry.code == 0);
  check_contains(dry.out, {"docker run --rm --init", "--gpus all", "image:1 run_and_time.sh"});
}

TEST_CASE("the log of a run on one rank and on four keeps the benchmark's rules") {
  for (const char* ranks : {"[0]", "[[0,1],[2,3]]"}) {
    INFO(ranks);
    const SmallRun run;
    const auto result = run.train({"--quiet", "--mllog", run / "log", "--metrics", run / "metrics",
                                   "--set", "solver.benchmark=dlrm", "--set", gpu(ranks), "--set",
                                   R"(solver.eval_metrics=["AUC:0.7"])"});
    INFO(result.err);
    REQUIRE(result.code == 0);
    const std::string log = read_text(run / "log");
    CHECK(MllogRules(log).broken() == std::vector<std::string>{});
    CHECK(status_of(log) == "success");
    std::vector<nlohmann::json> want, got;
    std::istringstream metrics(read_text(run / "metrics"));
    for (std::string line; std::getline(metrics, line);)
      if (const auto event = nlohmann::json::parse(line); event["event"] == "eval")
        want.push_back(event["auc"]);
    for (const auto& line : parse_mllog(log))
      if (line.key == "eval_accuracy") got.push_back(line.value);
    CHECK(got == want);
  }
}

TEST_CASE("a run that diverges or is interrupted leaves a log that says so") {
  const SmallRun run;
  const auto diverged =
      run.train({"--quiet", "--mllog", run / "diverged", "--set", "solver.benchmark=dlrm", "--set",
                 "optimizer.momentum_sgd_hparam.learning_rate=1e30"});
  INFO(diverged.err);
  REQUIRE(diverged.code == 3);
  CHECK(status_of(read_text(run / "diverged")) == "aborted");
  CHECK(read_text(run / "diverged").find("hugectr_lite_failure") != std::string::npos);

  RunningProgram program(
      run.command({"--quiet", "--mllog", run / "interrupted", "--set",
                   "solver.benchmark=dlrm_dcnv2", "--set", "solver.max_iter=100000"}),
      "");
  const auto begun = [&] {
    return std::filesystem::exists(run / "interrupted") &&
           read_text(run / "interrupted").find("run_start") != std::string::npos;
  };
  while (!begun()) usleep(1000);
  program.signal(SIGINT);
  const auto stopped = program.wait();
  INFO(stopped.err);
  REQUIRE(stopped.code == 5);
  CHECK(status_of(read_text(run / "interrupted")) == "aborted");
}

}  // namespace hlite::test
