// Runs on several emulated GPUs: the same bits in every order of their work, one message when any
// work fails, and nothing kept.
#include "hugectr_lite/trainer/run/session.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "hugectr_lite/trainer/model/model.h"
#include "hugectr_lite/trainer/model/placements.h"
#include "hugectr_lite/trainer/run/resources.h"
#include "tests/support/errors.h"
#include "tests/support/sanitized.h"
#include "tests/trainer/run/gpu_runs.h"

namespace hlite::test {
namespace {

using emulation::plant;
using emulation::Planted;
using What = emulation::Planted::What;

// Names of the steps that train the model on GPUs.
std::set<std::string> steps_of(const config::TrainConfig& config) {
  const auto topology = trainer::topology_of(config.solver);
  trainer::ModelRanks ranks;
  ranks.context.topology = std::make_shared<const comm::Topology>(topology);
  ranks.placements = trainer::make_placements(config, topology, true);
  trainer::Model model(config, 1, 1, std::move(ranks), &trainer::absent_gpu());
  model.build_plans();
  std::set<std::string> names;
  for (const plan::Step& step : model.train_plan().steps()) names.insert(step.name);
  return names;
}

// Of "..., after 2 iterations: step NAME: ..."; empty where there is none.
std::string step_in(const std::string& error) {
  const size_t begin = error.find(": step "), end = error.find(": ", begin + 2);
  return begin == std::string::npos ? "" : error.substr(begin + 7, end - begin - 7);
}

const Words kTwo = {gpu("[[0,1]]"), "solver.max_iter=5"};

Words with(Words changes, const Words& more) {
  changes.insert(changes.end(), more.begin(), more.end());
  return changes;
}

const std::string kGraphs = "solver.cuda_graph=true", kEager = "solver.cuda_graph=false";
const std::string kTables =
    R"(layers.emb.sparse_embedding_hparam={"slot_size_array":[40,5,300],)"
    R"("embedding_vec_size":4,"combiner":0,"sharding":"auto","sharding_param":{"replicate_below_mb":0.0005}})";

// Runs in which one work of GPU 1 in iteration 3 fails, in the call or when it runs.
class FailingRuns {
 public:
  FailingRuns(const GpuRuns& runs, const Words& changes, What what)
      : runs_(runs), changes_(changes), what_(what), third_(runs.window(changes, 1, what, "", 3)) {
    // After the last iteration results are checked.
    two_ = with(changes, {"solver.max_iter=2"});
    while (step_in(run(two_, third_.before, What::kFails).error).empty()) --third_.before;
  }
  [[nodiscard]] int works() const { return third_.in; }
  // `work`: 1, 2, ...
  [[nodiscard]] GpuRun fail(int work) const { return run(changes_, third_.before + work, what_); }

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
  GpuRuns::Window third_;
  Words two_;
};

void check_ended(const GpuRun& run, const HandedOut& before) {
  CHECK(run.code == kExitDevice);
  CHECK(run.error.find('\n') == std::string::npos);
  CHECK(handed_out() == before);
}

}  // namespace

TEST_CASE("several GPUs end with one message and keep nothing when any work of a step fails",
          "[no-tsan]") {
  const GpuRuns runs(2);
  for (const std::string& graphs : {kGraphs, kEager}) {
    const Words changes = with(kTwo, {graphs, "all_reduce={\"grouped\":false}"});
    const FailingRuns failing(runs, changes, What::kFails);
    const HandedOut before = handed_out();
    std::set<std::string> failed;
    for (int work = 1; work <= failing.works(); work += kSanitized ? 7 : 1) {
      const GpuRun run = failing.fail(work);
      INFO(graphs << ", work " << work << " of " << failing.works() << ": " << run.error);
      check_ended(run, before);
      check_contains(run.error, {"rank 1 on GPU 1, after 2 iterations: step "});
      failed.insert(step_in(run.error));
    }
    if (!kSanitized) CHECK(failed == steps_of(*runs.load(changes)));
  }
}

// All that is issued later finds a GPU that is lost, and waiting ranks have to be released.
TEST_CASE("several GPUs end with one message when one of them fails while any of its work runs",
          "[no-tsan]") {
  const GpuRuns runs(2);
  for (const std::string& graphs : {kGraphs, kEager}) {
    const FailingRuns failing(runs, with(kTwo, {graphs}), What::kFailsRunning);
    const HandedOut before = handed_out();
    for (int work = 1; work <= failing.works(); work += kSanitized ? 11 : 3) {
      std::optional<RandomStreams> order;
      if (work % 2 == 1) order.emplace(static_cast<uint64_t>(work));
      const GpuRun run = failing.fail(work);
      INFO(graphs << ", work " << work << " of " << failing.works() << ": " << run.error);
      check_ended(run, before);
      check_contains(run.error, {"rank 1 on GPU 1, after "});
      // The runtime's words, or the library's, whichever is called first.
      CHECK((run.error.find("cudaErrorLaunchFailure") != std::string::npos ||
             run.error.find("failed to launch on the GPU") != std::string::npos));
    }
  }
}

// The last signal of the last iteration is missing in its graph: only the host that reads the loss
// waits for it.
TEST_CASE("a number of a run that does not end is waited for as long as others may take") {
  const GpuRuns runs(2);
  const Words changes = {gpu("[[0,1]]"), "solver.max_iter=3", kGraphs};
  const auto third = runs.window(changes, 1, What::kLeftOut, "peer_signal", 3);
  setenv("HLITE_COMM_TIMEOUT", "1", 1);
  plant(
      {.what = What::kLeftOut, .device = 1, .name = "peer_signal", .nth = third.before + third.in});
  const GpuRun run = runs.train(changes, false);
  plant({});
  unsetenv("HLITE_COMM_TIMEOUT");
  INFO(run.error);
  CHECK(run.code == kExitDevice);
  check_contains(run.error, {"has waited 1 s", "HLITE_COMM_TIMEOUT"});
}

TEST_CASE("several GPUs train the same bits in each of 20 orders of their work", "[release-only]") {
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
        {"[[0,1],[2,3]]", {kGraphs, one_hot, kTables}}}) {
    INFO(rows << " " << changes[0]);
    const Words all = with({gpu(rows), "solver.max_iter=5"}, changes);
    const GpuRun want = runs.train(all);
    INFO(want.error);
    REQUIRE(want.code == 0);
    for (uint64_t seed = 1; seed <= (kSanitized ? 2 : 20); ++seed) {
      const RandomStreams order(seed);
      INFO("seed " << seed);
      const GpuRun run = runs.train(all);
      INFO(run.error);
      CHECK((run == want));
    }
  }
}

}  // namespace hlite::test
