// Snapshots that a writer process saves in the background while training continues. They equal the
// checkpoints of runs that end there. If the writer fails, hangs or is killed, older ones remain.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "tests/end_to_end/golden_run.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Runs of the small model that take a snapshot "snap_<iteration>" every 20 iterations.
class SnapshotRuns {
 public:
  explicit SnapshotRuns(Words changes = {}) : changes_(std::move(changes)) {
    changes_.insert(changes_.begin(), {"solver.snapshot_prefix=" + (run_ / "snap_"),
                                       "solver.snapshot=20", "solver.device=cpu"});
  }
  [[nodiscard]] std::string operator/(const std::string& file) const { return run_ / file; }
  [[nodiscard]] Words command(const Words& changes, const Words& arguments = {},
                              const Words& environment = {}) const {
    Words all = {"/usr/bin/env"};
    all.insert(all.end(), environment.begin(), environment.end());
    const Words program = run_.command({"--threads", "2"});
    all.insert(all.end(), program.begin(), program.end());
    for (const Words* const list : {&changes_, &changes})
      for (const std::string& change : *list) all.insert(all.end(), {"--set", change});
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }
  [[nodiscard]] ProgramResult run(const Words& changes, const Words& arguments = {},
                                  const Words& environment = {}) const {
    return run_program(command(changes, arguments, environment));
  }
  void run_successfully(const Words& changes, const Words& arguments = {}) const {
    const ProgramResult result = run(changes, arguments);
    INFO(result.err);
    REQUIRE(result.code == kExitDone);
  }
  // Makes snap_20, then returns the command that resumes it up to iteration 50 on a disk that fails
  // as `fault` says (failing_disk.cpp).
  [[nodiscard]] Words faulty_command(const std::string& fault, const Words& changes,
                                     const Words& arguments = {}) const {
    run_successfully({"solver.max_iter=20"});
    Words all = {"--resume", run_ / "snap_20", "--metrics", run_ / "metrics"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Words more = {"solver.max_iter=50"};
    more.insert(more.end(), changes.begin(), changes.end());
    return command(more, all,
                   {std::string("LD_PRELOAD=") + HLITE_FAILING_DISK_LIBRARY,
                    "HLITE_FAILING_DISK=" + fault, "HLITE_HANGING=" + (run_ / "hanging")});
  }
  [[nodiscard]] Words snapshots() const {
    Words names;
    for (const auto& entry : fs::directory_iterator(run_.path()))
      if (const std::string name = entry.path().filename(); name.starts_with("snap_"))
        names.push_back(name);
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  SmallRun run_;
  Words changes_;
};

// Compares all files byte by byte, and the manifests without their config and checksum.
void check_same_checkpoint(const std::string& got, const std::string& want) {
  for (const char* file : {"/weights.safetensors", "/optimizer.safetensors", "/best.safetensors"}) {
    INFO(file);
    REQUIRE(fs::exists(got + file) == fs::exists(want + file));
    if (fs::exists(want + file)) CHECK((read_text(got + file) == read_text(want + file)));
  }
  const auto manifest = [](const std::string& directory) {
    auto json = nlohmann::json::parse(read_text(directory + "/manifest.json"));
    json.erase("config");
    json.erase("xxh3_64");
    return json;
  };
  CHECK(manifest(got) == manifest(want));
}

// Hash tables that admit a row at its second key and evict rows that are no longer used.
constexpr const char* kHashTables =
    R"(layers.emb.sparse_embedding_hparam={"embedding_vec_size":4,"slot_size_array":[40,5,300],)"
    R"("max_vocabulary_size_per_gpu":1000,"admission":{"type":"count","threshold":2},)"
    R"("eviction":{"interval":0,"steps_to_live":10}})";

}  // namespace

TEST_CASE("a snapshot written in the background equals the checkpoint of a run that ends there",
          "[slow]") {
  const std::string four_ranks = gpu("[[0,1],[2,3]]"),
                    hash_layer = "layers.emb.type=DistributedSlotSparseEmbeddingHash";
  const std::vector<Words> cases = {
      {},
      {"solver.table_precision=bf16", "solver.precision=bf16"},
      {hash_layer, kHashTables},
      {R"(solver.early_stop={"monitor":"AUC","patience":50})", "solver.eval_interval=10"},
      {four_ranks},
      {four_ranks, "solver.table_precision=bf16", "solver.precision=bf16",
       "solver.shard_optimizer=true"},
      {four_ranks, hash_layer, kHashTables}};
  for (const Words& changes : cases) {
    INFO((changes.empty() ? "one rank" : changes.back()));
    const SnapshotRuns runs(changes);
    runs.run_successfully({"solver.max_iter=50"}, {"--save", runs / "background"});
    runs.run_successfully({"solver.max_iter=40", "solver.snapshot_prefix=" + (runs / "other_")},
                          {"--save", runs / "inline_40"});
    check_same_checkpoint(runs / "snap_40", runs / "inline_40");
    // A save evicts rows of hash tables, so the final weights depend on the snapshots.
    if (!changes.empty() && changes.back() == kHashTables) continue;
    runs.run_successfully({"solver.max_iter=50", "solver.snapshot=0"},
                          {"--save", runs / "inline_50"});
    check_same_checkpoint(runs / "background", runs / "inline_50");
  }
}

TEST_CASE("a snapshot that cannot be written ends the run, unless solver.on_save_error is continue",
          "[no-asan][no-tsan]") {
  for (const char* ranks : {"[[0]]", "[[0,1],[2,3]]"})
    for (const char* fault : {"sync:1:5", "sync:2:kill"}) {
      INFO(ranks << " " << fault);
      const SnapshotRuns runs({gpu(ranks)});
      const bool killed = std::string(fault).ends_with("kill");
      const std::string why =
          killed ? "snap_40: its process was killed (signal 9" : "bytes durable";
      const ProgramResult stopped = run_program(runs.faulty_command(fault, {}));
      INFO(stopped.err);
      CHECK(stopped.code == kExitData);
      check_contains(stopped.err, {why.c_str()});
      CHECK(runs.snapshots() == Words{"snap_20"});

      const ProgramResult continued =
          run_program(runs.faulty_command(fault, {"solver.on_save_error=continue"}));
      INFO(continued.err);
      CHECK(continued.code == kExitDone);
      check_contains(continued.err,
                     {"warning: ", why.c_str(), "iteration 40 (solver.on_save_error)",
                      "done after 50 iterations"});
      check_contains(read_text(runs / "metrics"),
                     {R"({"event":"save_failed","iter":40,"error":")", why.c_str()});
      CHECK(runs.snapshots() == Words{"snap_20"});
    }
}

TEST_CASE("a failed save at the end is an error even if snapshots may fail", "[no-asan][no-tsan]") {
  const SnapshotRuns runs;
  const ProgramResult result = run_program(
      runs.faulty_command("sync:1:5", {"solver.on_save_error=continue"}, {"--save", runs / "out"}));
  INFO(result.err);
  CHECK(result.code == kExitData);
  check_contains(result.err, {"iteration 40 (solver.on_save_error)", "out.tmp."});
  CHECK(!fs::exists(runs / "out"));
}

TEST_CASE("solver.on_save_error also applies to snapshots that training waits for",
          "[no-asan][no-tsan]") {
  const SnapshotRuns runs({"solver.algorithm_search=false"});
  Words command =
      runs.faulty_command("sync:1:5", {"solver.on_save_error=continue", "solver.device=cuda"});
  command.insert(command.begin() + 1, std::string("HLITE_CUDA_LIBRARY=") + HLITE_EMULATED_PLUGIN);
  const ProgramResult result = run_program(command);
  INFO(result.err);
  CHECK(result.code == kExitDone);
  check_contains(result.err, {"iteration 40 (solver.on_save_error)", "done after 50 iterations"});
  CHECK(runs.snapshots() == Words{"snap_20"});
}

// Training continues while the writer hangs in the middle of a checkpoint. If the run is killed,
// its writer ends with it. The resumed run removes the partial checkpoint.
TEST_CASE("a run that is killed while a snapshot is written can be resumed", "[no-asan][no-tsan]") {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphaned writers become children of this process
  for (const char* ranks : {"[[0]]", "[[0,1],[2,3]]"}) {
    INFO(ranks);
    const SnapshotRuns runs({gpu(ranks), "solver.keep_checkpoints=1"});
    const std::string metrics = runs / "metrics";
    RunningProgram run(runs.faulty_command("sync:2:hang", {kEndless, "solver.snapshot=40"}), "");
    run.await_text(runs / "hanging");
    const auto reached_70 = [&] {
      return read_text(metrics).find(R"({"event":"train","iter":70,)") != std::string::npos;
    };
    while (run.running() && (!fs::exists(metrics) || !reached_70())) usleep(1000);
    run.signal(SIGKILL);
    CHECK(run.wait().code == 128 + SIGKILL);
    const pid_t writer = std::stoi(read_text(runs / "hanging"));
    CHECK(waitpid(writer, nullptr, 0) == writer);
    const Words left = runs.snapshots();
    REQUIRE(left.size() == 2);
    CHECK(left[0] == "snap_20");
    CHECK(left[1].starts_with("snap_40.tmp." + std::to_string(writer) + "."));

    runs.run_successfully({"solver.max_iter=50"}, {"--resume", runs / "snap_20"});
    CHECK(runs.snapshots() == Words{"snap_20", "snap_40"});
    runs.run_successfully({"solver.max_iter=40", "solver.snapshot=0"}, {"--save", runs / "inline"});
    CHECK((everything(runs / "snap_40") == everything(runs / "inline")));
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace hlite::test
