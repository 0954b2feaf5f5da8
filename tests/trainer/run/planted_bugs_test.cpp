// What if a signal, a wait or a dependency were missing? Each is left out in turn, on one GPU of
// two and for good: some order of work must then end in other weights, or in an error. Where none
// can, because streams and events order the same without it, the emulation says so.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <regex>

#include "tests/support/sanitized.h"
#include "tests/trainer/run/gpu_runs.h"

namespace hlite::test {
namespace {

using emulation::Planted;

// Work as late as it may be, then the orders of so many seeds, until it shows: mostly in the first
// five. On a busy machine a host that is slow lets all work run that may, and a seed shows less.
constexpr uint64_t kSeeds = 300;

struct Trial {
  bool right = false;
  std::string left_out;  // what the emulation says of it
};

class PlantedRuns {
 public:
  PlantedRuns(int device, Words changes) : device_(device), changes_(std::move(changes)) {
    const GpuRun run = runs_.train(changes_);
    INFO(run.error);
    REQUIRE(run.code == 0);
    want_ = run.weights;
  }
  // Of iteration `iteration`.
  [[nodiscard]] GpuRuns::Window window(const std::string& name, int iteration) const {
    return runs_.window(changes_, device_, Planted::What::kLeftOut, name, iteration);
  }
  // That something is missing on.
  [[nodiscard]] int device() const { return device_; }
  // In a process of its own: what goes wrong may write anywhere, or wait for ever.
  [[nodiscard]] Trial run(const Planted& planted, uint64_t seed) const {
    const std::string said = files_ / "said";
    write_text(said, "");
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(run_here(planted, seed, said) ? 0 : 1);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return {WIFEXITED(status) && WEXITSTATUS(status) == 0, read_text(said)};
  }

 private:
  [[nodiscard]] bool run_here(const Planted& planted, uint64_t seed,
                              const std::string& said) const {
    std::signal(SIGSEGV, SIG_DFL);
    std::signal(SIGABRT, SIG_DFL);
    alarm(60);
    emulation::machine().stuck_ms = 250;
    emulation::machine().order =
        seed == 0 ? emulation::StreamOrder::kLate : emulation::StreamOrder::kRandom;
    emulation::StreamQueues::begin_order(seed);
    emulation::plant(planted);
    const GpuRun run = runs_.train(changes_);
    write_text(said, emulation::left_out());
    return run.code == 0 && run.weights == want_;
  }

  const GpuRuns runs_{2};
  const int device_;
  TemporaryDirectory files_;
  Words changes_;
  std::string want_;
};

bool implied(const std::string& left_out) {
  return !left_out.empty() && left_out.find("not implied") == std::string::npos;
}

struct Leaving {
  std::string name;
  int iteration = 3;    // the n-th of this one
  bool always = false;  // and of all after it
  int step = 1;         // of every so many one; HLITE_PLANT_ALL=1: of all
};
// Whether the n-th needs not be seen, of which the emulation says this when it is left out.
using Argued = std::function<bool(int n, const std::string& left_out)>;

// What no order shows, though neither the emulation nor `argued` knows another way that orders the
// same: number, and what the emulation says.
std::vector<std::string> unseen(const PlantedRuns& runs, const Leaving& leaving,
                                const Argued& argued) {
  const auto window = runs.window(leaving.name, leaving.iteration);
  CHECK(window.in > 0);
  std::vector<std::string> list;
  int seen = 0;
  const int step = std::getenv("HLITE_PLANT_ALL") ? 1 : kSanitized ? 9 : leaving.step;
  for (int i = 1; i <= window.in; i += step) {
    const Planted planted{.what = Planted::What::kLeftOut,
                          .device = runs.device(),
                          .name = leaving.name,
                          .nth = window.before + i,
                          .every = leaving.always ? window.in : 0};
    Trial trial{.right = true, .left_out = {}};
    bool known = false;
    for (uint64_t seed = 0; seed <= kSeeds && trial.right && !known; ++seed) {
      trial = runs.run(planted, seed);
      known = implied(trial.left_out) || argued(i, trial.left_out);
    }
    seen += trial.right ? 0 : 1;
    if (trial.right && !known) list.push_back(fmt::format("{}: {}", i, trial.left_out));
  }
  CHECK(seen > 0);
  return list;
}

// On GPU 1 of two.
PlantedRuns runs_with(const char* graphs) {
  return {1,
          {gpu("[[0,1]]"), "solver.max_iter=9", std::string("solver.cuda_graph=") + graphs,
           "all_reduce={\"grouped\":false}"}};
}
// Of one GPU, whose host is alone: no other one runs its work while it is slow.
PlantedRuns runs_of_one(const char* graphs) {
  return {0, {gpu("[[0]]"), "solver.max_iter=9", std::string("solver.cuda_graph=") + graphs}};
}

const std::vector<std::string> kNone;

bool says(const std::string& left_out, const char* part) {
  return left_out.find(part) != std::string::npos;
}

TEST_CASE("a dependency that the graph of one of several GPUs leaves out shows in some order",
          "[no-tsan]") {
  // A launch's own two are the next test's. Rank 0 alone shows a mean loss. The host launches the
  // graph of a batch when the notice of that of its keys has come, which ends that.
  const auto argued = [](int n, const std::string& left_out) {
    return n <= 2 || says(left_out, "in a graph of add_loss") ||
           says(left_out, ", of a graph for a graph of device 1");
  };
  CHECK(unseen(runs_with("true"), {"wait"}, argued) == kNone);
}

TEST_CASE("a graph that is launched before its batch is there, or a batch too early, shows") {
  const auto never = [](int, const std::string&) { return false; };
  CHECK(unseen(runs_of_one("true"), {"wait", 5, true}, never) == kNone);
}

// No rank reads before all have written: a rendezvous after each exchange. And no rank writes
// before all have read what lay there: a rendezvous before it, but for keys, rows and row
// gradients, of which exchanges before say so. So they would of the sum of copies' gradients, too,
// where that is one of its own, in 32 bits; it meets all the same.
TEST_CASE("a meeting or a wait between several GPUs that one of them leaves out shows",
          "[no-tsan]") {
  const PlantedRuns runs = runs_with("true");
  CHECK(unseen(runs, {"peer_meet", 3, false, 2}, [](int, const std::string&) { return false; }) ==
        kNone);
  const auto of_earlier = [](int meeting, const std::string&) { return meeting == 6; };
  CHECK(unseen(runs, {"peer_meet/waits"}, of_earlier) == kNone);
}

TEST_CASE("an event that a GPU without graphs does not wait for shows") {
  if (kSanitized) return;  // the same steps as above
  // What a lane's last steps touch is touched next by steps of the same lane; one GPU has no steps
  // on the lane of exchanges.
  const auto argued = [](int, const std::string& left_out) {
    return says(left_out, ", of wait for ") || says(left_out, ", of an event for wait of device 0");
  };
  CHECK(unseen(runs_of_one("false"), {"wait", 3, true}, argued) == kNone);
}

// The changes of a run with rows in a GPU's memory, the host's and on a disk, as few as can be in
// each.
Words in_three_tiers(const std::string& disk) {
  const GpuRuns runs(1);
  Words changes = {gpu("[[0]]"), "solver.max_iter=20", "solver.batchsize_eval=32",
                   R"(layers.emb.optimizer={"type":"Adam","update_type":"Local","adam_hparam":)"
                   R"({"learning_rate":0.01,"beta1":0.9,"beta2":0.999,"epsilon":1e-8}})",
                   ""};
  std::string gpu_gb = "1e-6", host_gb = "1e-6";
  for (std::string* const least : {&gpu_gb, &host_gb, static_cast<std::string*>(nullptr)}) {
    changes.back() =
        fmt::format(R"(solver.embedding_memory={{"gpu_gb":{},"host_gb":{},"disk":"{}"}})", gpu_gb,
                    host_gb, disk);
    if (!least) break;
    const GpuRun refused = runs.train(changes);
    std::smatch found;
    REQUIRE(std::regex_search(refused.error, found, std::regex("at least ([0-9.]+) GB")));
    *least = found[1];
  }
  return changes;
}

// The host takes a row from its line for another one. The GPU may have a newer value, which it
// writes there in recall_rows; and the row's line on the GPU is to be free.
TEST_CASE("a host that does not wait for rows of a GPU, or a GPU that sends none back, shows",
          "[no-tsan]") {
  const TemporaryDirectory disk;
  const Words tiers = in_three_tiers(disk.path());
  const auto runs = [&](const char* graphs) {
    Words changes = tiers;
    changes.push_back(std::string("solver.cuda_graph=") + graphs);
    return PlantedRuns(0, changes);
  };
  // All of that name from the n-th on: how many there are in an iteration depends on whether the
  // reader was ahead.
  const auto shows = [](const PlantedRuns& of, const char* name, int nth) {
    for (uint64_t seed = 0; seed <= kSeeds; ++seed)
      if (!of.run({.what = Planted::What::kLeftOut,
                   .device = 0,
                   .name = name,
                   .nth = nth,
                   .every = 1},
                  seed)
               .right)
        return true;
    return false;
  };
  CHECK(shows(runs("true"), "recall_rows", 2));
  for (const char* graphs : {"true", "false"}) CHECK(shows(runs(graphs), "host wait", 20));
}

// By hand (HLITE_PLANT_ALL=1), on a quiet machine: where a host is slow, another one has run its
// work before it can go wrong.
TEST_CASE("an event that one of several GPUs without graphs does not wait for shows",
          "[release-only]") {
  if (!std::getenv("HLITE_PLANT_ALL")) return;
  // A run begins when the notice of the one before has come, which lies after all of the run before
  // that: a copy need not wait for its side.
  const auto argued = [](int, const std::string& left_out) {
    return says(left_out, ", of copy for ") ||
           says(left_out, ", of wait for update_rows of device 1");
  };
  // Of two sums that of copies' gradients needs no meeting before it.
  const auto left = unseen(runs_with("false"), {"wait", 3, true}, argued);
  CHECK(left.size() <= 1);
  for (const std::string& one : left) CHECK(says(one, ", of peer_sum for wait of device 0"));
}

}  // namespace
}  // namespace hlite::test
