// Training on several emulated GPUs. Any order of device work gives the same bits. A failure ends
// the run with one message and leaks no resource of the device.
#include "hugectr_lite/trainer/run/session.h"

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <set>

#include "hugectr_lite/trainer/model/model.h"
#include "hugectr_lite/trainer/model/placements.h"
#include "hugectr_lite/trainer/model/resources.h"
#include "tests/support/errors.h"
#include "tests/support/sanitized.h"
#include "tests/trainer/run/gpu_runs.h"

namespace hlite::test {
namespace {

using emulation::plant;
using emulation::Planted;
using What = emulation::Planted::What;

// Returns the names of the steps of an iteration on GPUs.
std::set<std::string> train_step_names(const config::TrainConfig& config) {
  const auto topology = trainer::topology_of(config.solver);
  trainer::ModelRanks ranks;
  ranks.context.topology = std::make_shared<const comm::Topology>(topology);
  ranks.placements = trainer::make_placements(config, topology, true);
  ranks.one_process = true;
  trainer::Model model(config, 1, 1, std::move(ranks), &trainer::absent_gpu());
  model.build_plans();
  std::set<std::string> names;
  for (const plan::Plan* part : {&model.keys_plan(), &model.train_plan()})
    for (const plan::Step& step : part->steps()) names.insert(step.name);
  return names;
}

// Returns NAME from "..., after 2 iterations: step NAME: ...". Returns "" if `message` names no
// step.
std::string failed_step(const std::string& message) {
  const size_t begin = message.find(": step "), end = message.find(": ", begin + 2);
  return begin == std::string::npos ? "" : message.substr(begin + 7, end - begin - 7);
}

const Words kTwoGpus = {gpu("[[0,1]]"), "solver.max_iter=5"};

Words with(Words changes, const Words& more) {
  changes.insert(changes.end(), more.begin(), more.end());
  return changes;
}

const std::string kGraphs = "solver.cuda_graph=true", kEager = "solver.cuda_graph=false";
const std::string kAutoSharding =
    R"(layers.emb.sparse_embedding_hparam={"slot_size_array":[40,5,300],)"
    R"("embedding_vec_size":4,"combiner":0,"sharding":"auto","sharding_param":{"replicate_below_mb":0.0005}})";

// Runs in which one operation of GPU 1 in iteration 3 fails, in the call or when it executes.
class FailingRuns {
 public:
  FailingRuns(const GpuRuns& runs, const Words& changes, What what)
      : runs_(runs),
        changes_(changes),
        what_(what),
        iteration_3_(runs.window(changes, 1, what, "", 3)) {
    // The count before iteration 3 comes from a run of 2 iterations, which checks its results at
    // the end. Leaves out those last operations, whose failure names no step.
    const Words two_iterations = with(changes, {"solver.max_iter=2"});
    while (failed_step(run(two_iterations, iteration_3_.before, What::kFails).error).empty())
      --iteration_3_.before;
  }
  // Operations in iteration 3.
  [[nodiscard]] int operations() const { return iteration_3_.in; }
  // Trains with the failure of one of them, counted from 1.
  [[nodiscard]] GpuRun fail(int operation) const {
    return run(changes_, iteration_3_.before + operation, what_);
  }

 private:
  [[nodiscard]] GpuRun run(const Words& changes, int nth, What what) const {
    plant({.what = what, .device = 1, .nth = nth});
    GpuRun run = runs_.train(changes, false);
    plant({});
    return run;
  }
  const GpuRuns& runs_;
  const Words changes_;
  const What what_;
  GpuRuns::Window iteration_3_;
};

// Checks that the run failed with one line of text and gave back all that it had taken.
void check_clean_failure(const GpuRun& run, const HandedOut& before) {
  CHECK(run.code == kExitDevice);
  CHECK(run.error.find('\n') == std::string::npos);
  CHECK(handed_out() == before);
}

}  // namespace

TEST_CASE("a run on GPUs ends with one message and leaks nothing when any operation fails",
          "[no-tsan]") {
  const GpuRuns runs(2);
  for (const std::string& graphs : {kGraphs, kEager}) {
    const Words changes = with(kTwoGpus, {graphs, "all_reduce={\"grouped\":false}"});
    const FailingRuns failing(runs, changes, What::kFails);
    const HandedOut before = handed_out();
    std::set<std::string> failed;
    for (int operation = 1; operation <= failing.operations(); operation += kSanitized ? 7 : 1) {
      const GpuRun run = failing.fail(operation);
      INFO(graphs << ", operation " << operation << " of " << failing.operations() << ": "
                  << run.error);
      check_clean_failure(run, before);
      check_contains(run.error, {"rank 1 on GPU 1, after 2 iterations: step "});
      failed.insert(failed_step(run.error));
    }
    if (!kSanitized) CHECK(failed == train_step_names(*runs.load(changes)));
  }
}

// Every later call on the device fails, and the ranks that wait for it must be released.
TEST_CASE("a run on GPUs ends with one message when one of them fails during any operation",
          "[no-tsan]") {
  const GpuRuns runs(2);
  for (const std::string& graphs : {kGraphs, kEager}) {
    const FailingRuns failing(runs, with(kTwoGpus, {graphs}), What::kFailsRunning);
    const HandedOut before = handed_out();
    for (int operation = 1; operation <= failing.operations(); operation += kSanitized ? 11 : 3) {
      std::optional<RandomStreams> order;
      if (operation % 2 == 1) order.emplace(static_cast<uint64_t>(operation));
      const GpuRun run = failing.fail(operation);
      INFO(graphs << ", operation " << operation << " of " << failing.operations() << ": "
                  << run.error);
      check_clean_failure(run, before);
      check_contains(run.error, {"rank 1 on GPU 1, after "});
      // The text is the CUDA runtime's or cuBLAS's, depending on which is called first.
      CHECK((run.error.find("cudaErrorLaunchFailure") != std::string::npos ||
             run.error.find("failed to launch on the GPU") != std::string::npos));
    }
  }
}

// Each copy is a piece of work of its own, and words that go between a step's buffers need none.
TEST_CASE("an iteration on several GPUs copies nothing but its batch") {
  const GpuRuns runs(2);
  const int labels_dense_keys = 3;
  CHECK(runs.window({gpu("[[0,1]]"), kGraphs}, 1, What::kFails, "copy", 3).in == labels_dense_keys);
}

// The last meeting of an iteration is left out of a rank's graph. Only the host waits for it, when
// it reads the loss.
TEST_CASE("reading the loss of a run that never ends fails after HLITE_COMM_TIMEOUT") {
  const GpuRuns runs(2);
  const Words changes = {gpu("[[0,1]]"), "solver.max_iter=3", kGraphs};
  const auto meetings = runs.window(changes, 1, What::kLeftOut, "peer_meet", 3);
  setenv("HLITE_COMM_TIMEOUT", "1", 1);
  plant({.what = What::kLeftOut,
         .device = 1,
         .name = "peer_meet",
         .nth = meetings.before + meetings.in});
  const GpuRun run = runs.train(changes, false);
  plant({});
  unsetenv("HLITE_COMM_TIMEOUT");
  INFO(run.error);
  CHECK(run.code == kExitDevice);
  check_contains(run.error, {"has waited 1 s", "HLITE_COMM_TIMEOUT"});
}

// A run without graphs exchanges keys in the iteration itself.
TEST_CASE("keys that several GPUs exchange an iteration ahead change no bit of a run",
          "[release-only][slow]") {
  const GpuRuns runs(4);
  const std::string at = "layers.emb.sparse_embedding_hparam.";
  const std::string hashed =
      R"(layers.emb.sparse_embedding_hparam={"embedding_vec_size":4,"combiner":0,)"
      R"("max_vocabulary_size_per_gpu":400})";
  struct Variant {
    const char* rows;
    Words changes;
  };
  // The least memory of GPUs that keep their other rows in the host's.
  const auto tier = [](const std::string& gb) {
    return "solver.embedding_memory={\"gpu_gb\":" + gb + "}";
  };
  std::smatch least;
  const std::string local = "layers.emb.optimizer.update_type=Local",
                    refused = runs.train({gpu("[[0,1]]"), local, tier("1e-9")}).error;
  INFO(refused);
  REQUIRE(std::regex_search(refused, least, std::regex("at least ([0-9.e-]+) GB")));
  uint64_t seed = 0;
  for (const auto& [rows, changes] :
       {Variant{"[[0,1]]", {}},
        {"[[0,1],[2,3]]", {"layers.emb.type=LocalizedSlotSparseEmbeddingOneHot", kAutoSharding}},
        {"[[0,1]]", {"layers.emb.type=DistributedSlotSparseEmbeddingHash", hashed}},
        {"[[0,1]]", {"layers.emb.type=LocalizedSlotSparseEmbeddingHash", hashed}},
        {"[[0,1]]", {at + "exchange_capacity=1"}},
        {"[[0,1]]", {at + "exchange_capacity=13", "solver.wire_precision=bf16"}},
        {"[[0,1]]", {"solver.input=broadcast"}},
        {"[[0,1]]", {"solver.wire_precision=bf16", "solver.shard_optimizer=true"}},
        {"[[0,1]]", {local, tier(least[1])}}}) {
    INFO(rows << " " << (changes.empty() ? "" : changes.back()));
    // Evaluations, a partial batch, and iterations of each side after both.
    const Words all = with(
        {gpu(rows), "solver.max_iter=21", "solver.eval_interval=3", "solver.display=7"}, changes);
    const GpuRun expected = runs.train(with(all, {kEager}));
    INFO(expected.error);
    REQUIRE(expected.code == 0);
    const RandomStreams order(++seed);
    const GpuRun run = runs.train(with(all, {kGraphs}));
    INFO(run.error);
    CHECK((run == expected));
  }
  // Routed batches are counted there alone.
  for (const std::string& graphs : {kGraphs, kEager})
    CHECK(runs.window({gpu("[[0,1]]"), graphs}, 1, What::kFails, "advance_schedules", 3).in ==
          (graphs == kGraphs ? 2 : 1));
}

TEST_CASE("training on several GPUs is bitwise reproducible in 20 orders of their work",
          "[release-only][slow]") {
  const GpuRuns runs(4);
  struct Variant {
    const char* rows;
    Words changes;
  };
  const std::string one_hot = "layers.emb.type=LocalizedSlotSparseEmbeddingOneHot";
  for (const auto& [rows, changes] :
       {Variant{"[[0,1]]", {kGraphs}},
        {"[[0,1]]", {kEager, "solver.precision=bf16", "solver.shard_optimizer=true"}},
        {"[[0],[0]]", {"solver.wire_precision=bf16"}},
        {"[[0,1],[2,3]]", {kGraphs, one_hot, kAutoSharding}}}) {
    INFO(rows << " " << changes[0]);
    const Words all = with({gpu(rows), "solver.max_iter=5"}, changes);
    const GpuRun expected = runs.train(all);
    INFO(expected.error);
    REQUIRE(expected.code == 0);
    for (uint64_t seed = 1; seed <= (kSanitized ? 2 : 20); ++seed) {
      const RandomStreams order(seed);
      INFO("seed " << seed);
      const GpuRun run = runs.train(all);
      INFO(run.error);
      CHECK((run == expected));
    }
  }
}

}  // namespace hlite::test
