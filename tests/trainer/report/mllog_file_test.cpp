#include "hugectr_lite/trainer/report/mllog_file.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/mllog_rules.h"
#include "tests/support/small_config.h"
#include "tests/support/temporary_directory.h"

namespace hlite::trainer {
namespace {

using config::parse_train_config;
using test::parse_mllog;
using Strings = std::vector<std::string>;

const std::string kAdaGrad =
    R"(optimizer={"type":"AdaGrad","update_type":"Local","adagrad_hparam":{"learning_rate":0.004,)"
    R"("initial_accumulator":0,"epsilon":1e-8}})";

struct Run {
  Strings changes;
  Strings submission = {};
  double auc = 0.79;
  int64_t eval_samples = 333;
  std::optional<std::string> failure = {};
  bool ends = true;
  EndReason reason = EndReason::kTarget;
  std::string config = {};  // a file; empty: small_config()
  int64_t train_samples = 500;
  std::pair<int64_t, int64_t> evaluations = {50, 100};
};

// The log of a run of 200 iterations with two evaluations.
std::string log_of(const Run& run) {
  const test::TemporaryDirectory directory;
  const auto config = run.config.empty()
                          ? parse_train_config(test::small_config(), "small", run.changes)
                          : config::load_train_config(run.config, run.changes);
  {
    MllogFile log(directory / "log", *config, parse_submission(run.submission));
    log.ready({.iter = 0,
               .last_iter = 200,
               .train_samples = run.train_samples,
               .eval_samples = run.eval_samples,
               .seed = 7});
    for (const int64_t iter : {run.evaluations.first, run.evaluations.second}) {
      log.eval_begins(iter);
      log.eval(iter,
               {.auc = iter == run.evaluations.first ? 0.5 : run.auc, .loss = 0.4, .samples = 333});
    }
    if (run.failure)
      log.failed(*run.failure);
    else if (run.ends)
      log.ended({.iter = 100, .samples = 3200, .seconds = 2, .reason = run.reason});
  }
  return test::read_text(directory / "log");
}

Strings rules_broken(const std::string& log) { return test::MllogRules(log).broken(); }

Run dlrm(Strings changes = {}) {
  changes.push_back("solver.benchmark=dlrm");
  return {.changes = std::move(changes)};
}
Run closed_dlrm() {
  Run run = dlrm();
  run.config = HLITE_CONFIGS "/mlperf_dgx_a100.json";
  run.submission = {"division=closed", "org=We", "platform=1x8", "status=onprem"};
  run.auc = 0.8026;
  return run;
}
Run closed_dcnv2() {
  return {.changes = {"solver.benchmark=dlrm_dcnv2", kAdaGrad},
          .submission = {"division=closed"},
          .auc = 0.8028,
          .eval_samples = 89137319};
}

Run closed_dlrmv4() {
  Run run;
  run.config = HLITE_CONFIGS "/mlperf_dlrmv4.json";
  run.submission = {"division=closed"};
  run.auc = 0.7501;
  run.eval_samples = 2058204;
  run.train_samples = 2290835423;
  run.evaluations = {7000, 7280};
  return run;
}

// The log without the lines of a key; with its first such line twice; with other text in them.
std::string changed(const std::string& log, const std::string& key,
                    const std::function<std::string(const std::string&)>& change) {
  std::istringstream lines(log);
  std::string result;
  for (std::string line; std::getline(lines, line);)
    result +=
        line.find("\"key\": \"" + key + "\"") == std::string::npos ? line + "\n" : change(line);
  return result;
}
std::string without(const std::string& log, const std::string& key) {
  return changed(log, key, [](const std::string&) { return std::string(); });
}
std::string twice(const std::string& log, const std::string& key) {
  return changed(log, key, [](const std::string& line) { return line + "\n" + line + "\n"; });
}
std::string replaced(const std::string& log, const std::string& key, const std::string& from,
                     const std::string& to) {
  REQUIRE(log.find(from) != std::string::npos);
  return changed(log, key, [&](std::string line) {
    const size_t at = line.find(from);
    return (at == std::string::npos ? line : line.replace(at, from.size(), to)) + "\n";
  });
}

nlohmann::json value_of(const std::string& log, const std::string& key) {
  for (const auto& line : parse_mllog(log))
    if (line.key == key) return line.value;
  FAIL("no " + key);
  return {};
}

}  // namespace

TEST_CASE("logs of both benchmarks keep the rules of the open and of the closed division") {
  CHECK(rules_broken(log_of(dlrm())) == Strings{});
  CHECK(rules_broken(log_of({.changes = {"solver.benchmark=dlrm_dcnv2"}})) == Strings{});
  CHECK(rules_broken(log_of(closed_dlrm())) == Strings{});
  CHECK(rules_broken(log_of(closed_dcnv2())) == Strings{});
  CHECK(rules_broken(log_of({.changes = {"solver.benchmark=dlrmv4"}})) == Strings{});
  CHECK(rules_broken(log_of(closed_dlrmv4())) == Strings{});
}

TEST_CASE("a log that breaks a rule is seen to") {
  const std::string sgd = log_of(closed_dlrm()), adagrad = log_of(closed_dcnv2());
  // clang-format off
  for (const char* key : {
      "submission_benchmark", "submission_org", "submission_platform", "submission_division",
      "submission_status", "cache_clear", "init_start", "init_stop", "run_start", "run_stop",
      "epoch_start", "epoch_stop", "eval_start", "eval_stop", "eval_accuracy", "eval_samples",
      "train_samples", "global_batch_size", "gradient_accumulation_steps",
      "opt_base_learning_rate", "opt_learning_rate_warmup_steps", "lr_decay_start_steps",
      "sgd_opt_base_learning_rate", "sgd_opt_learning_rate_decay_steps",
      "sgd_opt_learning_rate_decay_poly_power", "weights_initialization"}) {
    // clang-format on
    INFO(key);
    CHECK_FALSE(rules_broken(without(sgd, key)).empty());
  }
  for (const char* key : {"submission_benchmark", "init_stop", "run_start", "run_stop",
                          "weights_initialization", "global_batch_size"}) {
    INFO(key);
    CHECK_FALSE(rules_broken(twice(sgd, key)).empty());
  }
  const std::string adam = log_of(closed_dlrmv4());
  for (const char* key :
       {"max_sequence_length", "opt_adam_beta_1", "opt_sparse_name", "opt_gradient_clip_norm",
        "opt_sparse_base_learning_rate", "opt_learning_rate_warmup_start_lr", "eval_every_data_pct",
        "lowest_numerical_precision_in_linear", "micro_batch_size", "expert_parallelism",
        "config_filename"}) {
    INFO(key);
    CHECK_FALSE(rules_broken(without(adam, key)).empty());
  }
  for (const char* change : {"optimizer.adam_hparam.beta1=0.9", "solver.gradient_clip_norm=2",
                             "optimizer.adam_hparam.warmup_steps=100", "solver.batchsize=16384",
                             "layers.tables.optimizer.row_wise_adagrad_hparam.learning_rate=0.1"}) {
    INFO(change);
    Run run = closed_dlrmv4();
    run.changes = {change};
    CHECK_FALSE(rules_broken(log_of(run)).empty());
  }
  Run early = closed_dlrmv4();
  early.evaluations.first = 280;
  CHECK_FALSE(rules_broken(log_of(early)).empty());
  for (const char* key :
       {"opt_name", "opt_adagrad_learning_rate_decay", "opt_adagrad_initial_accumulator_value",
        "opt_adagrad_epsilon", "opt_weight_decay", "opt_learning_rate_decay_start_step",
        "opt_learning_rate_decay_steps"}) {
    INFO(key);
    CHECK_FALSE(rules_broken(without(adagrad, key)).empty());
  }
  CHECK_FALSE(rules_broken(replaced(sgd, "eval_accuracy", "0.8026", "0.8024")).empty());
  CHECK_FALSE(rules_broken(replaced(sgd, "eval_accuracy", "epoch_num", "epoch")).empty());
  CHECK_FALSE(rules_broken(replaced(sgd, "run_stop", "success", "done")).empty());
  CHECK_FALSE(rules_broken(replaced(sgd, "submission_org", "\"We\"", "\"\"")).empty());
  CHECK_FALSE(rules_broken(replaced(adagrad, "eval_samples", "89137319", "1")).empty());
  // The division after the end of the preparation.
  std::string moved;
  const std::string division = changed(sgd, "submission_division", [&](const std::string& line) {
    moved = line + "\n";
    return std::string();
  });
  CHECK_FALSE(rules_broken(division + moved).empty());
}

TEST_CASE("a log says what the run did, in the words and epochs of its benchmark") {
  const std::string log = log_of(dlrm({"optimizer.momentum_sgd_hparam.learning_rate=0.25"}));
  CHECK(value_of(log, "seed") == 7);
  CHECK(value_of(log, "global_batch_size") == 32);
  CHECK(value_of(log, "opt_base_learning_rate") == 0.25);
  CHECK(value_of(log, "opt_learning_rate_warmup_steps") == 20);
  CHECK(value_of(log, "lr_decay_start_steps") == 120);
  CHECK(value_of(log, "train_samples") == 500);
  CHECK(value_of(log, "eval_samples") == 333);
  CHECK(value_of(log, "tracked_stats")["throughput"] == 1600);
  std::vector<double> epochs;
  Strings tensors;
  for (const auto& line : parse_mllog(log)) {
    if (line.key == "eval_accuracy") epochs.push_back(line.metadata["epoch_num"]);
    if (line.key == "weights_initialization") tensors.push_back(line.metadata["tensor"]);
  }
  CHECK((epochs == std::vector<double>{1 + 50 * 32 / 500.0, 1 + 100 * 32 / 500.0}));
  CHECK(
      (tensors == Strings{"embeddings", "bottom_mlp_dense1", "top_mlp_dense1", "top_mlp_dense2"}));

  epochs.clear();
  for (const auto& line : parse_mllog(log_of({.changes = {"solver.benchmark=dlrm_dcnv2"}})))
    if (line.key == "eval_start") epochs.push_back(line.metadata["epoch_num"]);
  CHECK((epochs == std::vector<double>{0.25, 0.5}));

  const std::string v4 = log_of(closed_dlrmv4());
  CHECK(value_of(v4, "lowest_numerical_precision_in_linear") == "bfloat16");
  CHECK(value_of(v4, "lowest_numerical_precision_in_comm") == "fp32");
  CHECK(value_of(v4, "micro_batch_size") == 128);
  CHECK(value_of(v4, "config_filename") == "mlperf_dlrmv4.json");
  for (const auto& line : parse_mllog(v4))
    if (line.key == "run_stop") CHECK(line.metadata["status"] == "success");
}

TEST_CASE("a run succeeds at its target or else the benchmark's, and is aborted otherwise") {
  const auto status = [](const Run& run) {
    const auto lines = parse_mllog(log_of(run));
    REQUIRE(lines.back().key == "run_stop");
    return lines.back().metadata["status"].get<std::string>();
  };
  Run run = dlrm();
  CHECK(status(run) == "aborted");
  run.auc = 0.8025;
  CHECK(status(run) == "success");
  run.changes.push_back(R"(solver.eval_metrics=["AUC:0.9"])");
  CHECK(status(run) == "aborted");
  run.auc = 0.9;
  CHECK(status(run) == "success");
  run.reason = EndReason::kInterrupted;  // after the evaluation at its target
  CHECK(status(run) == "aborted");
  run.ends = false;  // given up by its owner
  CHECK(status(run) == "aborted");
  run.failure = "the \"loss\" is\nnan";
  CHECK(status(run) == "aborted");
  CHECK(value_of(log_of(run), "hugectr_lite_failure") == *run.failure);
}

TEST_CASE("a benchmark's log wants a benchmark, and the closed division the benchmark's model") {
  const auto refused = [](const Run& run) {
    return test::message_of<ConfigError>([&] { log_of(run); });
  };
  test::check_contains(refused({}),
                       {"--mllog", "solver.benchmark", "dlrm_dcnv2", "is required in the config"});
  Run run = dlrm();
  run.submission = {"division=closed"};
  test::check_contains(refused(run), {"expected 3", "and 5 above", "found 1 and 2"});
}

TEST_CASE("a submission's arguments are read, and wrong ones refused by name") {
  const Submission all = parse_submission(
      {"division=closed", "org=A = B", "platform=2x8 X", "status=cloud", "cache_clear=true"});
  CHECK(all.closed);
  CHECK(all.org == "A = B");
  CHECK(all.platform == "2x8 X");
  CHECK(all.status == "cloud");
  CHECK(all.cache_clear);
  CHECK_FALSE(parse_submission({}).closed);
  for (const char* wrong :
       {"division=shut", "status=", "org", "team=x", "status=offprem", "cache_clear=1"}) {
    INFO(wrong);
    test::check_contains(
        test::message_of<ConfigError>([&] { parse_submission({std::string(wrong)}); }),
        {"--submission", "expected"});
  }
}

}  // namespace hlite::trainer
