// Each rank updates a part of the dense parameters: `shard_optimizer`.
#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

const std::string kSharded = "solver.shard_optimizer=true";

class ShardedRuns {
 public:
  // What a run has saved.
  Tensors train(const char* rows, const Words& changes, const Words& more = {},
                const std::string& name = "saved") {
    REQUIRE(run_program(run_.command({"--quiet", "--threads", "2", "--save", run_ / name}) +
                        changes_of({gpu(rows), "solver.max_iter=20", "solver.eval_interval=10"}) +
                        changes_of(changes) + more)
                .code == 0);
    return everything(run_ / name);
  }
  [[nodiscard]] const SmallRun& run() const { return run_; }

 private:
  SmallRun run_;
};

const char* const kOptimizers[] = {
    R"({"type":"SGD","update_type":"Local","sgd_hparam":{"learning_rate":0.5}})",
    R"({"type":"AdaGrad","update_type":"Local","adagrad_hparam":{"learning_rate":0.05,)"
    R"("initial_accumulator":0.1}})",
    R"({"type":"MomentumSGD","update_type":"Local","momentum_sgd_hparam":{"learning_rate":0.05,)"
    R"("momentum_factor":0.9}})",
    R"({"type":"Nesterov","update_type":"Local","nesterov_hparam":{"learning_rate":0.05,)"
    R"("momentum_factor":0.9}})",
    R"({"type":"Adam","update_type":"Local","adam_hparam":{"learning_rate":0.01,"beta1":0.9,)"
    R"("beta2":0.999,"epsilon":1e-7}})",
    R"({"type":"Ftrl","update_type":"Local","ftrl_hparam":{"learning_rate":0.1,"beta":0.001,)"
    R"("lambda1":1e-5,"lambda2":1e-3}})",
    R"({"type":"RowWiseAdaGrad","update_type":"Local","row_wise_adagrad_hparam":)"
    R"({"learning_rate":0.05,"initial_accumulator":0.1}})"};

}  // namespace

TEST_CASE("a sharded optimizer trains the bits of an unsharded one, each and by any route",
          "[slow][release-only]") {
  ShardedRuns runs;
  for (const char* optimizer : kOptimizers) {
    INFO(optimizer);
    const std::string change = std::string("optimizer=") + optimizer;
    for (const char* rows : {"[[0,1,2]]", "[[0,1],[2,3]]"}) {
      if (std::string(rows) == "[[0,1,2]]" && optimizer != kOptimizers[4]) continue;
      const Words batch = {"solver.batchsize=36", "solver.batchsize_eval=36", change};
      CHECK((runs.train(rows, batch + Words{kSharded}) == runs.train(rows, batch)));
    }
  }
  // In 16 bits, whose working copies all ranks round, and on a narrow wire; lanes overlap.
  for (const char* more : {"solver.precision=bf16", "solver.wire_precision=bf16"})
    CHECK((runs.train("[[0,1],[2,3]]", {more, kSharded, "solver.enable_overlap=true"}) ==
           runs.train("[[0,1],[2,3]]", {more})));
}

TEST_CASE("a sharded optimizer's checkpoint goes on, on other ranks, sharded or not") {
  ShardedRuns runs;
  const SmallRun& run = runs.run();
  const Words adam = {std::string("optimizer=") + kOptimizers[4], "solver.precision=bf16"};
  const auto saved = runs.train("[[0,1],[2,3]]", adam + Words{kSharded}, {}, "four");
  const auto resume = [&](const char* rows, const Words& changes, const char* iterations) {
    return runs.train(rows, adam + changes + Words{std::string("solver.max_iter=") + iterations},
                      {"--resume", run / "four"});
  };
  // What is saved is what was loaded.
  CHECK((resume("[[0,1]]", {kSharded}, "20") == saved));
  CHECK((resume("[[0]]", {}, "20") == saved));
  CHECK((resume("[[0,1,2,3]]", {}, "20") == saved));
  const auto whole = runs.train("[[0,1],[2,3]]", adam + Words{kSharded, "solver.max_iter=30"});
  CHECK((resume("[[0,1],[2,3]]", {kSharded}, "30") == whole));
}

TEST_CASE("gradients are clipped by their whole norm where the optimizer is sharded") {
  ShardedRuns runs;
  const Words clipped = {"solver.gradient_clip_norm=0.01"};
  check_close_tensors(runs.train("[[0,1],[2,3]]", clipped + Words{kSharded}),
                      runs.train("[[0,1],[2,3]]", clipped), 1e-6);
}

TEST_CASE("a penalty on the dense network has no sharded optimizer, and that is said") {
  const GoldenRun run("dlrm_fused");
  const auto config = nlohmann::json::parse(read_text(run / "config.json"));
  const std::string loss = config["layers"].back()["name"];
  const auto result =
      run_program(Words{HLITE_TRAIN, "--config", run / "config.json", "--check"} +
                  changes_of({gpu("[[0,1]]"), kSharded, "layers." + loss + ".regularizer=L2",
                              "layers." + loss + ".lambda=0.1"}));
  CHECK(result.code == 2);
  check_contains(result.err, {"regularizer", "expected no penalty", "shard_optimizer"});
}

TEST_CASE("GPUs with a sharded optimizer train the bits of GPUs without, in every order",
          "[no-tsan]") {
  Golden run("dlrm_fused");
  const Words adam = {std::string("optimizer=") + kOptimizers[4]};
  for (const char* precision : {"fp32", "bf16"}) {
    INFO(precision);
    const Words changes = adam + Words{std::string("solver.precision=") + precision};
    const auto weights = [&](const Words& order, const Words& more) {
      return run.weights(kFourGpus + order, "cuda", on_ranks("[[0,1,2,3]]", changes + more), 5);
    };
    const auto want = weights({}, {});
    CHECK((weights({}, {kSharded}) == want));
    CHECK((weights({order_of(2)}, {kSharded}) == want));
  }
}

}  // namespace hlite::test
