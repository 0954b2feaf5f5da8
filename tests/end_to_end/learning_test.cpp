// The way from data to a model: on real data with a known result, and on generated data with a
// known best one.
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"
#include "tests/support/program.h"

namespace hlite::test {
namespace {}  // namespace

TEST_CASE("UCI Adult: csv_prep and train reach a test AUC of 0.900", "[release-only]") {
  const TemporaryDirectory folder;
  const std::string adult = std::string(HLITE_TEST_DATA) + "/adult/",
                    configs = std::string(HLITE_CONFIGS) + "/";
  REQUIRE(run_program({HLITE_CSV_PREP, "--schema", configs + "adult_schema.json", "--train",
                       adult + "adult.data.gz", "--val", adult + "adult.test.gz", "--out",
                       folder.path()})
              .code == 0);
  REQUIRE(run_program({HLITE_TRAIN, "--config", configs + "adult.json", "--set",
                       "layers.data.source=" + (folder / "train.bin"), "--set",
                       "layers.data.eval_source=" + (folder / "val.bin"), "--metrics",
                       folder / "m.jsonl"})
              .code == 0);
  const nlohmann::json last = last_event(folder / "m.jsonl", "eval");
  REQUIRE(last["samples"] == 16281);
  // A logistic regression reaches 0.9021, the best small network seen before 0.9046.
  CHECK(last["auc"].get<double>() >= 0.900);
  CHECK(last["loss"].get<double>() <= 0.33);
}

TEST_CASE("generated click data: one pass of a DLRM comes within 0.01 of the best possible AUC",
          "[release-only]") {
  const TemporaryDirectory folder;
  constexpr int64_t kRows = 150000, kTestRows = 50000, kBatch = 512, kIterations = kRows / kBatch;
  // Few categories, so that few rows show them all.
  const auto synth = run_program(
      {HLITE_CRITEO_SYNTH, "--format", "raw", "--train", std::to_string(kRows), "--test",
       std::to_string(kTestRows), "--cards",
       "12,12,12,12,12,12,12,12,12,12,12,12,12,4,4,4,4,4,4,4,4,4,4,4,4,4", "--out", folder / "s"});
  REQUIRE(synth.code == 0);
  const double best =
      nlohmann::json::parse(read_text(folder / "s.meta.json"))["test"]["bayes_auc"].get<double>();
  check_contains(synth.out, {"Bayes AUC 0.8"});

  std::vector<std::string> settings;
  const auto set = [&](const std::string& path, const std::string& value) {
    settings.insert(settings.end(), {"--set", path + "=" + value});
  };
  const auto number = [](int64_t n) { return std::to_string(n); };
  set("layers.data.source", folder / "s.train.bin");
  set("layers.data.eval_source", folder / "s.test.bin");
  set("layers.data.num_samples", number(kRows));
  set("layers.data.eval_num_samples", number(kTestRows));
  set("layers.data.slot_size_array", folder / "s.manifest.json");
  set("layers.embedding.sparse_embedding_hparam.slot_size_array", folder / "s.manifest.json");
  set("solver.batchsize", number(kBatch));
  set("solver.max_iter", number(kIterations));
  set("solver.eval_interval", number(kIterations));
  set("solver.eval_batches", "7");
  for (const std::string optimizer : {"optimizer", "layers.embedding.optimizer"}) {
    set(optimizer + ".adam_hparam.decay_start", number(kIterations * 4 / 10));
    set(optimizer + ".adam_hparam.decay_steps", number(kIterations * 6 / 10));
  }
  const std::string config = std::string(HLITE_CONFIGS) + "/demo.json";
  const auto with_settings = [&](std::vector<std::string> command) {
    command.insert(command.end(), settings.begin(), settings.end());
    return run_program(command);
  };
  CHECK(with_settings({HLITE_DATA_INSPECT, "--config", config}).code == 0);
  REQUIRE(with_settings({HLITE_TRAIN, "--config", config, "--metrics", folder / "m.jsonl"}).code ==
          0);
  const nlohmann::json last = last_event(folder / "m.jsonl", "eval");
  REQUIRE(last["samples"] == kTestRows);
  CHECK(last["auc"].get<double>() >= best - 0.01);
  // Better than the truth: only by leaking it. (A standard error is about 0.002.)
  CHECK(last["auc"].get<double>() < best + 0.002);
}

}  // namespace hlite::test
