// train --save-delta, model_delta and predict --delta: days of a model, shipped as differences.
#include <filesystem>

#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

class DeltaRuns {
 public:
  explicit DeltaRuns(Words changes) : changes_(std::move(changes)) {}
  [[nodiscard]] const SmallRun& run() const { return run_; }
  // Trains to an iteration; from day 1 on from the day before, with a delta.
  void day(int number, const std::string& ranks, const Words& more = {}) const {
    Words words = {"--quiet", "--threads", "2", "--save", model(number)};
    if (number > 0)
      words = words + Words{"--resume", model(number - 1), "--save-delta", run_ / "deltas"};
    REQUIRE(run_program(run_.command(words) + changes_of(changes_) +
                        changes_of({gpu(ranks), "solver.eval_interval=0",
                                    "solver.max_iter=" + std::to_string(6 * (number + 1))}) +
                        more)
                .code == 0);
  }
  [[nodiscard]] std::string model(int number) const {
    return run_ / ("day_" + std::to_string(number));
  }
  [[nodiscard]] ProgramResult delta(const Words& arguments) const {
    return run_program(Words{HLITE_MODEL_DELTA} + arguments);
  }
  // Full save `from` and the deltas are full save `to`, and so are their scores.
  void check_joined(int from, int to) const {
    const auto joined = delta(
        {"join", run_ / "deltas", "--base", model(from), "--out", run_ / "joined.safetensors"});
    REQUIRE(joined.code == 0);
    CHECK(read_text(run_ / "joined.safetensors") == read_text(model(to) + "/weights.safetensors"));
    const auto scores = [&](int number, const Words& more) {
      REQUIRE(run_program(Words{HLITE_PREDICT, "--model", model(number), "--input",
                                run_ / "eval.bin", "--out", run_ / "scores.csv", "--quiet"} +
                          more)
                  .code == 0);
      return read_text(run_ / "scores.csv");
    };
    const std::string want = scores(to, {});
    CHECK(scores(from, {"--delta", run_ / "deltas"}) == want);
    if (from != to) CHECK(scores(from, {}) != want);
  }

 private:
  const SmallRun run_;
  const Words changes_;
};

const char* const kAdaGrad =
    R"(layers.emb.optimizer={"type":"AdaGrad","update_type":"Local",)"
    R"("adagrad_hparam":{"learning_rate":0.05,"initial_accumulator":0.1}})";

}  // namespace

TEST_CASE("full tables and their deltas are the last full save and its scores", "[no-tsan]") {
  for (const char* precision : {"fp32", "bf16"}) {
    const DeltaRuns runs({kAdaGrad, std::string("solver.table_precision=") + precision});
    runs.day(0, "[[0]]");
    runs.day(1, "[[0]]");
    runs.day(2, "[[0,1]]");
    runs.check_joined(0, 2);
    runs.check_joined(1, 2);
    runs.check_joined(2, 2);
  }
}

TEST_CASE("a run says what its delta holds") {
  const DeltaRuns runs({kAdaGrad});
  runs.day(0, "[[0]]");
  const auto result = run_program(
      runs.run().command({"--resume", runs.model(0), "--save-delta", runs.run() / "deltas"}) +
      changes_of({kAdaGrad, "solver.eval_interval=0", "solver.max_iter=12"}));
  CHECK(result.code == 0);
  check_contains(result.err,
                 {"saved the delta of iteration 12 to ", " rows updated or added, 0 removed, "});
}

TEST_CASE("a vocabulary that loses rows ships them as gone", "[no-tsan]") {
  const DeltaRuns runs(
      {kAdaGrad, "layers.emb.type=DistributedSlotSparseEmbeddingHash",
       R"(layers.emb.sparse_embedding_hparam={"embedding_vec_size":4,)"
       R"("max_vocabulary_size_per_gpu":1000,"admission":{"type":"count","threshold":2},)"
       R"("eviction":{"interval":0,"steps_to_live":5}})"});
  runs.day(0, "[[0,1]]");
  runs.day(1, "[[0,1]]");
  runs.day(2, "[[0]]");
  runs.check_joined(0, 2);
  const auto list = runs.delta({"list", runs.run() / "deltas"});
  CHECK(list.code == 0);
  check_contains(list.out, {"deltas/0000000012  iteration 12", "deltas/0000000018", "2 deltas"});
  CHECK(runs.delta({"verify", runs.run() / "deltas", "--base", runs.model(1)}).code == 0);
  const auto pruned = runs.delta({"prune", runs.run() / "deltas", "--base", runs.model(1)});
  CHECK(pruned.code == 0);
  check_contains(pruned.out, {"1 deltas removed"});
  runs.check_joined(1, 2);
}

TEST_CASE("tables beyond memory ship the rows that were trained", "[no-tsan]") {
  const DeltaRuns runs({kAdaGrad,
                        R"(solver.embedding_memory={"host_gb":0.05,"disk":".","disk_gb":1})",
                        "layers.emb.type=LocalizedSlotSparseEmbeddingOneHot"});
  for (const int day : {0, 1, 2}) runs.day(day, "[[0]]");
  runs.check_joined(0, 2);
}

TEST_CASE(
    "a run that was killed after its delta is repeated, and a delta that fails loses no model") {
  const DeltaRuns runs({kAdaGrad});
  runs.day(0, "[[0]]");
  runs.day(1, "[[0]]");
  const std::string weights = runs.model(1) + "/weights.safetensors", saved = read_text(weights);
  // As between the delta and the checkpoint, and after both.
  std::filesystem::remove_all(runs.model(1));
  runs.day(1, "[[0]]");
  CHECK(read_text(weights) == saved);
  runs.day(1, "[[0]]");
  runs.check_joined(0, 1);
  const auto train = [&](int from, const std::string& save, int iterations, const Words& more) {
    return run_program(runs.run().command({"--quiet", "--resume", runs.model(from), "--save", save,
                                           "--save-delta", runs.run() / "deltas"}) +
                       changes_of({kAdaGrad, gpu("[[0]]"), "solver.eval_interval=0",
                                   "solver.max_iter=" + std::to_string(iterations)}) +
                       more);
  };
  // In the place of the checkpoint that it begins from, twice.
  std::filesystem::copy(runs.model(1), runs.model(2));
  for (const char* again : {"", "again"}) {
    INFO(again);
    CHECK(train(2, runs.model(2), 18, {}).code == 0);
    runs.check_joined(0, 2);
  }
  // The chain has gone on: said before training, or, where it may be this run's own link, after it.
  const auto forked = train(0, runs.run() / "forked", 8, {});
  CHECK(forked.code == 3);
  check_contains(forked.err, {"deltas: expected a chain that ends in"});
  CHECK(!std::filesystem::exists(runs.run() / "forked"));
  const auto other = train(1, runs.run() / "other", 20, {});
  CHECK(other.code == 3);
  check_contains(other.err, {"deltas: expected a chain that ends in", "the model is saved"});
  CHECK(std::filesystem::exists(runs.run() / "other/weights.safetensors"));
}

TEST_CASE("a delta needs a checkpoint to begin from, and one that the chain ends in") {
  const DeltaRuns runs({kAdaGrad});
  const auto without = run_program(runs.run().command({"--save-delta", runs.run() / "deltas"}));
  CHECK(without.code == 2);
  check_contains(without.err, {"--save-delta", "--resume"});
  runs.day(0, "[[0]]");
  runs.day(1, "[[0]]");
  const auto again = run_program(
      runs.run().command(
          {"--quiet", "--resume", runs.model(0), "--save-delta", runs.run() / "deltas"}) +
      changes_of({kAdaGrad, gpu("[[0]]"), "solver.eval_interval=0", "solver.max_iter=14"}));
  CHECK(again.code == 3);
  check_contains(again.err, {"deltas: expected a chain that ends in", "weights.safetensors"});
  for (const Words& arguments :
       {Words{"join", runs.run() / "deltas"}, Words{"prune", runs.run() / "deltas"},
        Words{"join", runs.run() / "deltas", "--base", runs.model(0)}}) {
    const auto result = runs.delta(arguments);
    CHECK(result.code == 2);
    check_contains(result.err, {"is required"});
  }
}

}  // namespace hlite::test
