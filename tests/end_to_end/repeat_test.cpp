// The same bits: run twice, resumed, interrupted and resumed.
#include <filesystem>

#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

// Weights and optimizer states of a checkpoint, byte by byte.
std::string state_of(const std::string& checkpoint) {
  return read_text(checkpoint + "/weights.safetensors") +
         read_text(checkpoint + "/optimizer.safetensors");
}

}  // namespace

TEST_CASE("two runs of one config give the same bits") {
  const SmallRun run;
  for (const char* name : {"a", "b"}) {
    REQUIRE(run.train({"--save", run / name, "--threads", "2", "--metrics",
                       run / (std::string(name) + ".jsonl")})
                .code == 0);
  }
  CHECK(state_of(run / "a") == state_of(run / "b"));
  REQUIRE(run.train({"--save", run / "c", "--threads", "2", "--set", "solver.seed=8"}).code == 0);
  CHECK(state_of(run / "a") != state_of(run / "c"));
}

TEST_CASE("200 iterations equal 100, a checkpoint, and 100 more") {
  const SmallRun run;
  REQUIRE(run.train({"--save", run / "whole"}).code == 0);
  REQUIRE(run.train({"--save", run / "half", "--set", "solver.max_iter=100"}).code == 0);
  const auto rest = run.train({"--resume", run / "half", "--save", run / "rest"});
  REQUIRE(rest.code == 0);
  CHECK(state_of(run / "whole") == state_of(run / "rest"));
  CHECK(state_of(run / "whole") != state_of(run / "half"));
}

TEST_CASE("a run does not depend on who reads its messages") {
  const SmallRun run;
  REQUIRE(run.train({"--save", run / "read"}).code == 0);
  // Closed descriptors would be given to the run's files; a closed pipe would end it.
  for (const char* shell : {"exec \"$@\" <&- >&- 2>&-", "set -o pipefail; \"$@\" 2>&1 | true"}) {
    INFO(shell);
    auto command = run.command({"--save", run / "unread", "--metrics", run / "m.jsonl"});
    command.insert(command.begin(), {"/bin/bash", "-c", shell, "bash"});
    CHECK(run_program(command).code == 0);
    CHECK(state_of(run / "unread") == state_of(run / "read"));
    CHECK(read_text(run / "m.jsonl").find("training") == std::string::npos);
    std::filesystem::remove_all(run / "unread");
  }
}

TEST_CASE("running statistics are part of a checkpoint, and of exported weights") {
  const SmallRun run;
  write_text(run / "config.json", small_config_with_batch_norm());
  REQUIRE(run.train({"--save", run / "whole", "--export", run / "w"}).code == 0);
  REQUIRE(run.train({"--save", run / "half", "--set", "solver.max_iter=100"}).code == 0);
  REQUIRE(run.train({"--resume", run / "half", "--save", run / "rest"}).code == 0);
  CHECK(state_of(run / "whole") == state_of(run / "rest"));
  CHECK(read_text(run / "w") == read_text(run / "whole/weights.safetensors"));
  check_contains(read_text(run / "w"), {"\"bn.running_mean\""});
  // An evaluation alone, of what --init has.
  const auto auc_of = [&](const std::string& file) {
    const std::string text = read_text(file);
    const size_t at = text.rfind("\"auc\":");
    REQUIRE(at != std::string::npos);
    return text.substr(at, text.find(',', at) - at);
  };
  const auto evaluate = [&](const std::string& name, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--metrics", run / name});
    REQUIRE(run.train(arguments).code == 0);
    return auc_of(run / name);
  };
  const std::string before = evaluate("a", {});
  CHECK(evaluate("b", {"--init", run / "w", "--set", "solver.max_iter=1", "--set",
                       "solver.eval_interval=1", "--set",
                       "optimizer.momentum_sgd_hparam.learning_rate=0", "--set",
                       "layers.emb.optimizer.adam_hparam.learning_rate=0", "--set",
                       "layers.bn.bn_param.factor=0", "--set", "layers.nd.bn_param.factor=0"}) ==
        before);
}

TEST_CASE("an interrupted run saves, exits with 5, and goes on to the same bits") {
  const SmallRun run;
  const auto arguments = [](const std::string& iterations, std::vector<std::string> more) {
    more.insert(more.end(), {"--set", iterations, "--set", "solver.eval_interval=0"});
    return more;
  };
  for (const int signal : {SIGINT, SIGTERM}) {
    RunningProgram first(
        run.command(arguments(kEndless, {"--save", run / "part", "--metrics", run / "m.jsonl"})),
        "");
    first.await_text(run / "m.jsonl");
    first.signal(signal);
    const auto stopped = first.wait();
    INFO(stopped.err);
    REQUIRE(stopped.code == 5);
    check_contains(stopped.err, {"saved"});
    check_contains(read_text(run / "m.jsonl"), {R"("reason":"interrupted")"});
    const std::string to_end = iterations_after(run / "part", 100);
    REQUIRE(run.train(arguments(to_end, {"--save", run / "whole"})).code == 0);
    CHECK(state_of(run / "part") != state_of(run / "whole"));
    REQUIRE(run.train(arguments(to_end, {"--resume", run / "part", "--save", run / "rest"})).code ==
            0);
    CHECK(state_of(run / "rest") == state_of(run / "whole"));
    std::filesystem::remove(run / "m.jsonl");
  }
}

TEST_CASE("a place that holds something else is refused before training, and kept") {
  const SmallRun run;
  std::filesystem::create_directory(run / "photos");
  write_text(run / "photos/cat", "meow");
  const auto result = run.train({"--save", run / "photos", "--metrics", run / "m.jsonl"});
  INFO(result.err);
  CHECK(result.code == 3);
  check_contains(result.err, {"photos"});
  CHECK(result.err.find("training ") == std::string::npos);
  CHECK(read_text(run / "photos/cat") == "meow");
}

TEST_CASE("a checkpoint of another run is refused") {
  const SmallRun run;
  REQUIRE(run.train({"--save", run / "a", "--set", "solver.max_iter=10"}).code == 0);
  const auto other_seed = run.train({"--resume", run / "a", "--set", "solver.seed=99"});
  CHECK(other_seed.code == 2);
  check_contains(other_seed.err, {"solver.seed: expected 7"});
  const auto other_batch = run.train({"--resume", run / "a", "--set", "solver.batchsize=64"});
  CHECK(other_batch.code == 2);
  check_contains(other_batch.err, {"solver.batchsize: expected 32"});
  const auto other_model =
      run.train({"--resume", run / "a", "--set", "layers.t1.fc_param.num_output=8"});
  CHECK(other_model.code == 2);
  check_contains(other_model.err, {"fc_param.num_output: expected 16"});
  const auto nothing = run.train({"--resume", run / "nowhere"});
  CHECK(nothing.code == 3);
  check_contains(nothing.err, {"nowhere"});
}

}  // namespace hlite::test
