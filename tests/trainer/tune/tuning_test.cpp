#include "hugectr_lite/trainer/tune/tuning.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <thread>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/run/metric_watch.h"
#include "hugectr_lite/trainer/run/session.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using trainer::Options;
using trainer::Trial;
using trainer::Tuning;

// The best evaluation of a run.
struct Best : trainer::RunRecord {
  explicit Best(const config::TrainConfig& config) : watch(config.solver.evaluation) {}
  void eval(int64_t iter, const trainer::EvalResult& result) override { watch.see(result, iter); }
  trainer::MetricWatch watch;
};

checkpoint::BestMetric best_of(const config::TrainConfig& config, Options options) {
  options.quiet = true;
  const auto best = std::make_shared<Best>(config);
  options.record = best;
  CHECK(trainer::run_training(config, options) == kExitDone);
  return best->watch.early_stop();
}

// A config with evaluations that stop it early, next to its data.
std::string early_config() {
  std::string text = small_config();
  const std::string interval = "\"eval_interval\": 50";
  return text.replace(
      text.find(interval), interval.size(),
      R"("eval_interval": 8, "early_stop": {"monitor": "AverageLoss", "patience": 4, "min_delta": 1e-4})");
}

Tuning tuned(const SmallRun& run, const std::vector<std::string>& changes, int64_t trials,
             std::vector<std::string>* lines = nullptr, const std::string& init = "") {
  const auto config = config::load_train_config(run / "config.json", changes);
  Options options{.config = run / "config.json", .init = init};
  options.tune = trials;
  return tune(*config, options, [&](const std::string& line) {
    if (lines) lines->push_back(line);
  });
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("the config that --tune finds trains to the number that it says") {
  const SmallRun run;
  write_text(run / "config.json", early_config());
  const auto files = files_in(run.path());
  for (const std::vector<std::string>& changes :
       {std::vector<std::string>{},
        {gpu("[[0,1]]")},
        {R"(solver.early_stop={"patience":3})"},
        {R"(solver.lr_plateau={"monitor":"AverageLoss","patience":1})"}}) {
    INFO((changes.empty() ? "as it is" : changes[0]));
    const Tuning tuning = tuned(run, changes, 7);
    CHECK(files_in(run.path()) == files);
    CHECK_FALSE(tuning.interrupted);
    REQUIRE(tuning.trials.size() == 9);  // seven, two of which are trained again for longer
    REQUIRE(tuning.best);
    const Trial& best = tuning.trials[*tuning.best];
    const bool rises = tuning.metric == "AUC";
    for (const Trial& trial : tuning.trials)
      CHECK((rises ? trial.value <= best.value : trial.value >= best.value));
    CHECK(tuning.trials[0].changes == "the config itself");
    // Those that are trained again are the best two of the short ones.
    std::vector<Trial> others(tuning.trials.begin() + 2, tuning.trials.begin() + 7);
    std::stable_sort(others.begin(), others.end(), [&](const Trial& a, const Trial& b) {
      return rises ? a.value > b.value : a.value < b.value;
    });
    const auto setting = [](const Trial& trial) {
      return trial.changes.substr(trial.changes.find(", "));
    };
    CHECK(setting(tuning.trials[7]) == setting(others[0]));
    CHECK(setting(tuning.trials[8]) == setting(others[1]));
    CHECK(tuning.trials[7].changes != others[0].changes);

    write_text(run / "found.json", tuning.config);
    const auto config = config::load_train_config(run / "found.json", {});
    const checkpoint::BestMetric again = best_of(*config, {.config = run / "found.json"});
    CHECK(again.value == best.value);
    CHECK(again.iteration == best.best_iteration);
    std::filesystem::remove(run / "found.json");
  }
}

TEST_CASE("tuning finds more than a config that is far from good has") {
  const SmallRun run;
  write_text(run / "config.json", early_config());
  // Rates far above what is good.
  const Tuning tuning =
      tuned(run,
            {"solver.max_iter=128", "optimizer.momentum_sgd_hparam.learning_rate=0.3",
             "layers.emb.optimizer.adam_hparam.learning_rate=0.3"},
            16);
  REQUIRE(tuning.best);
  CHECK(*tuning.best > 1);
  CHECK(tuning.trials[*tuning.best].value < tuning.trials[0].value - 0.01);
}

TEST_CASE("tuning gives a config what repeats its result") {
  const SmallRun run;
  // Neither early_stop nor a seed; with first weights, and with snapshots and a test, of which trials
  // have no use.
  const std::vector<std::string> changes = {"solver.seed=0",
                                            "solver.max_iter=64",
                                            "solver.eval_interval=8",
                                            "solver.snapshot=16",
                                            "solver.snapshot_prefix=" + (run / "snapshot_"),
                                            "layers.data.test_source=eval.bin"};
  {
    const auto config = config::load_train_config(run / "config.json", {"solver.max_iter=20"});
    CHECK(trainer::run_training(
              *config, {.export_path = run / "first.safetensors", .quiet = true}) == kExitDone);
  }
  const auto files = files_in(run.path());
  std::vector<std::string> lines;
  const Tuning tuning = tuned(run, changes, 2, &lines, run / "first.safetensors");
  CHECK(files_in(run.path()) == files);
  CHECK(tuning.metric == "AverageLoss");
  CHECK(lines.size() == 2);
  CHECK(lines[0].find("trial 1 of 2: AverageLoss 0.") == 0);
  REQUIRE(tuning.best);
  write_text(run / "found.json", tuning.config);
  const auto config = config::load_train_config(run / "found.json", {});
  CHECK(config->solver.seed != 0);
  CHECK(config->solver.snapshot == 16);
  CHECK(config->data.test_source == "eval.bin");
  REQUIRE(config->solver.evaluation.early_stop);
  const checkpoint::BestMetric again =
      best_of(*config, {.config = run / "found.json", .init = run / "first.safetensors"});
  CHECK(again.value == tuning.trials[*tuning.best].value);
}

TEST_CASE("a trial that diverges is the worst, and the config itself must not") {
  const SmallRun run;
  write_text(run / "config.json", early_config());
  CHECK_THROWS_AS(tuned(run, {"optimizer.momentum_sgd_hparam.learning_rate=1e30"}, 4), DataError);
  // Four times this rate is beyond what training stands, and it itself is not.
  std::vector<std::string> lines;
  const Tuning tuning = tuned(run, {"optimizer.momentum_sgd_hparam.learning_rate=8"}, 16, &lines);
  REQUIRE(tuning.best);
  CHECK(std::isfinite(tuning.trials[*tuning.best].value));
}

TEST_CASE("tuning says what it needs") {
  const SmallRun run;
  CHECK(message_of<ConfigError>([&] { tuned(run, {"solver.eval_interval=0"}, 4); }) ==
        run /
            "config.json:1: solver: expected \"eval_every_epochs\" or \"eval_interval\", and an "
            "\"eval_source\", as --tune is given");
}

TEST_CASE("train --tune writes a config next to its own, and trains it where asked to") {
  const SmallRun run;
  write_text(run / "config.json", early_config());
  const ProgramResult result =
      run.train({"--tune", "5", "--set", "solver.max_iter=64", "--threads", "2"});
  CHECK(result.code == kExitDone);
  check_contains(result.err, {"trial 7 of 7"});
  CHECK(std::filesystem::exists(run / "config.tuned.json"));
  const auto config = config::load_train_config(run / "config.tuned.json", {});
  CHECK(config->solver.max_iter == 64);
  CHECK(read_text(run / "config.tuned.json")
            .find("// train --tune: the best by AverageLoss of eval_source of 7 trials") == 0);

  const ProgramResult saved =
      run.train({"--tune", "3", "--set", "solver.max_iter=64", "--save", run / "model"});
  CHECK(saved.code == kExitDone);
  CHECK(std::filesystem::exists(run / "model/manifest.json"));
  check_contains(saved.err, {"Restored the best weights"});

  CHECK(run.train({"--tune", "1"}).code == kExitConfig);
  CHECK(run.train({"--tune", "4", "--resume", run / "model"}).code == kExitConfig);
}

TEST_CASE("a tuning that is interrupted keeps the best so far and nothing else") {
  const SmallRun run;
  write_text(run / "config.json", early_config());
  const auto files = files_in(run.path());
  {
    // In the first trial, which would not end.
    RunningProgram program(run.command({"--tune", "4", "--set", kEndless, "--set",
                                        "solver.early_stop.patience=1000000000"}),
                           run.path());
    const std::string process = fmt::format("/proc/{}/", program.id());
    const auto catches_sigint = [&] {
      if (read_text(process + "comm") != "train\n") return false;  // still this program, which does
      const std::string text = read_text(process + "status");
      const size_t at = text.find("SigCgt:");
      return at != std::string::npos &&
             (std::stoull(text.substr(at + 7), nullptr, 16) >> (SIGINT - 1) & 1) != 0;
    };
    while (program.running() && !catches_sigint()) std::this_thread::yield();
    program.signal(SIGINT);
    CHECK(program.wait().code == kExitInterrupted);
    CHECK(files_in(run.path()) == files);
  }
  // Later: a thousand trials take many times as long as it takes to see that the first one has ended.
  RunningProgram program(run.command({"--tune", "1000", "--set", "solver.max_iter=64"}),
                         run.path());
  while (program.running() && program.error_so_far().find("trial 1 of 1002") == std::string::npos)
    std::this_thread::yield();
  program.signal(SIGINT);
  CHECK(program.wait().code == kExitInterrupted);
  auto with_result = files;
  with_result.insert(with_result.begin() + 1, "config.tuned.json");
  CHECK(files_in(run.path()) == with_result);
  CHECK_NOTHROW(config::load_train_config(run / "config.tuned.json", {}));
}

}  // namespace hlite::test
