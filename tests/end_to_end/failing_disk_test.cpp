// Training with rows on a disk that is killed, or whose disk fails, leaves a checkpoint from which
// it goes on to the bits of a run that nothing has happened to. Where it is killed and what fails
// is chosen by counted calls (tests/support/failing_disk.cpp), never by time.
//
// HLITE_KILLS=50 in the environment: as many kills in place of 5.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include "hugectr_lite/core/error.h"
#include "tests/end_to_end/golden_run.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using Changes = std::vector<std::string>;

// A small run with rows of 12 KB, 4 MB in all, of which few are in memory. It saves checkpoints
// "snap_<iteration>".
class DiskRun {
 public:
  // `on_gpu`: on an emulated GPU, whose memory has few rows too, for fewer iterations.
  explicit DiskRun(bool on_gpu = false) : on_gpu_(on_gpu) {
    std::string text = small_config();
    const auto replace = [&](const std::string& what, const std::string& by) {
      const size_t at = text.find(what);
      REQUIRE(at != std::string::npos);
      text.replace(at, what.size(), by);
    };
    replace("\"embedding_vec_size\": 4", "\"embedding_vec_size\": 1024");
    replace("\"num_output\": 4", "\"num_output\": 1024");
    replace(R"("type": "Adam", "update_type": "Global")",
            R"("type": "Adam", "update_type": "Local")");
    replace("\"max_iter\": 200", "\"max_iter\": 160");
    replace("\"batchsize\": 32", "\"batchsize\": 8");
    replace("\"snapshot\": 1000000", "\"snapshot\": 40");
    replace("\"./snap_\"", "\"" + (run_ / "snap_") + "\"");
    replace("\"eval_interval\": 50", "\"eval_interval\": 60");
    replace("\"batchsize_eval\": 64, \"eval_batches\": 10",
            "\"batchsize_eval\": 8, \"eval_batches\": 2");
    write_text(run_ / "config.json", text);
    std::filesystem::create_directory(run_ / "tier");
    if (on_gpu) min_gpu_ = min_gigabytes();
    min_ = min_gigabytes();
  }
  [[nodiscard]] std::string min_gigabytes() const {
    const ProgramResult refused = go({}, {memory("1e-6")});
    INFO(refused.err);
    std::smatch found;
    REQUIRE(std::regex_search(refused.err, found, std::regex("at least ([0-9.]+) GB")));
    return found[1];
  }
  [[nodiscard]] ProgramResult go(Changes environment, const Changes& changes,
                                 const Changes& arguments = {}) const {
    Changes command = {"/usr/bin/env"};
    if (on_gpu_) environment.push_back(std::string("HLITE_CUDA_LIBRARY=") + HLITE_EMULATED_PLUGIN);
    command.insert(command.end(), environment.begin(), environment.end());
    const Changes program =
        run_.command({"--quiet", "--device", on_gpu_ ? "cuda" : "cpu", "--threads", "2"});
    command.insert(command.end(), program.begin(), program.end());
    for (const std::string& change : changes) command.insert(command.end(), {"--set", change});
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run_program(command);
  }
  [[nodiscard]] std::string memory(const std::string& gb, const std::string& more = "") const {
    const std::string gpu = on_gpu_ ? fmt::format(R"("gpu_gb":{},)", min_gpu_) : "";
    return fmt::format(R"(solver.embedding_memory={{{}"host_gb":{},"disk":"{}"{}}})", gpu, gb,
                       run_ / "tier", more);
  }
  // A run whose disk does what `fault` says (failing_disk.cpp).
  [[nodiscard]] ProgramResult with(const std::string& fault, const std::string& more = "") const {
    return go({std::string("LD_PRELOAD=") + HLITE_FAILING_DISK_LIBRARY,
               "HLITE_FAILING_DISK=" + fault, "HLITE_COUNTED_CALLS=" + (run_ / "calls")},
              {memory(min_, more)},
              {"--save", run_ / "out", "--export", run_ / "disk.safetensors"});
  }
  // In a new folder, with a fault at the n-th call of a kind. How many calls a run makes varies a
  // little with what its reader has read ahead: where it ends well before, the fault comes earlier.
  [[nodiscard]] ProgramResult failing_at(const std::string& kind, long n,
                                         const std::string& result) const {
    for (;; n = n * 3 / 4) {
      clear();
      ProgramResult ended = with(fmt::format("{}:{}:{}", kind, n, result));
      if (ended.code != 0 || n <= 1) return ended;
    }
  }
  // Returns the number of calls of each kind in a whole run, and keeps that run's checkpoint.
  [[nodiscard]] std::map<std::string, long> count_calls() {
    REQUIRE(with("none:0:0").code == 0);
    std::map<std::string, long> counts;
    std::istringstream text(read_text(run_ / "calls"));
    std::string name;
    for (long n = 0; text >> name >> n;) counts[name] = n;
    whole_ = everything(run_ / "out");
    return counts;
  }
  // Tables in memory alone give the weights of the run before.
  void check_in_memory() const {
    REQUIRE(go({}, {}, {"--export", run_ / "memory.safetensors"}).code == 0);
    CHECK((read_text(run_ / "memory.safetensors") == read_text(run_ / "disk.safetensors")));
  }
  void clear() const {
    for (const auto& entry : std::filesystem::directory_iterator(run_.path()))
      if (const std::string name = entry.path().filename();
          name.starts_with("snap_") || name.starts_with("out"))
        std::filesystem::remove_all(entry);
  }
  // The last checkpoint that is complete; "": there is none.
  [[nodiscard]] std::string last_checkpoint() const {
    std::string last;
    for (int iteration = 40; iteration <= 160; iteration += 40)
      if (const std::string path = run_ / ("snap_" + std::to_string(iteration));
          std::filesystem::exists(path))
        last = path;
    return last;
  }
  // Goes on from the last checkpoint, with a good disk, to the end. Nothing else is in the way.
  void check_goes_on() const {
    CHECK(std::filesystem::is_empty(run_ / "tier"));
    Changes arguments = {"--save", run_ / "out"};
    if (const std::string last = last_checkpoint(); !last.empty())
      arguments.insert(arguments.end(), {"--resume", last});
    REQUIRE(go({}, {memory(min_)}, arguments).code == 0);
    CHECK((everything(run_ / "out") == whole_));
  }

 private:
  const bool on_gpu_;
  SmallRun run_;
  std::string min_, min_gpu_ = "1e-6";
  Tensors whole_;
};

}  // namespace

TEST_CASE("training with rows on a disk goes on from its last checkpoint when it was killed",
          "[no-asan][no-tsan]") {
  DiskRun run;
  std::map<std::string, long> calls = run.count_calls();
  run.check_in_memory();
  for (const auto& [name, n] : calls) {
    INFO(name);
    REQUIRE(n > 2);
  }
  const char* const wanted = std::getenv("HLITE_KILLS");
  const int kills = wanted ? std::atoi(wanted) : 5;
  const char* const kinds[] = {"read", "rename", "write", "sync"};
  int resumed = 0;
  for (int i = 0; i < kills; ++i) {
    const std::string kind = kinds[i % 4];
    // Spread over the run.
    const long n = std::max(1L, calls[kind] * (i + 1) / (kills + 1));
    INFO(kind << ", " << n);
    REQUIRE(run.failing_at(kind, n, "kill").code == 128 + SIGKILL);
    resumed += !run.last_checkpoint().empty();
    run.check_goes_on();
  }
  CHECK(resumed > 0);
}

TEST_CASE("training with rows on a disk that fails says why and leaves its last checkpoint",
          "[no-asan][no-tsan]") {
  DiskRun run;
  std::map<std::string, long> calls = run.count_calls();
  struct Fault {
    const char* call;
    double share;  // of the run's calls that go well: enough for a checkpoint
    int error;
    std::vector<std::string> says;
  };
  const Fault faults[] = {
      {"read", 0.6, EIO, {"tier", "emb", "cannot read", "Input/output error"}},
      {"write",
       0.8,
       ENOSPC,
       {"tier", "emb", "cannot write 1044480 bytes", "No space left on device"}},
      {"sync", 0.6, EIO, {"snap_", "Input/output error"}},
      {"rename", 0.4, EIO, {"snap_", "Input/output error"}}};
  for (const Fault& fault : faults) {
    const auto good = static_cast<long>(fault.share * static_cast<double>(calls[fault.call]));
    INFO(fault.call << ", " << good + 1);
    const ProgramResult result = run.failing_at(fault.call, good + 1, std::to_string(fault.error));
    INFO(result.err);
    CHECK(result.code == kExitData);
    for (const std::string& part : fault.says) CHECK(result.err.find(part) != std::string::npos);
    CHECK(!run.last_checkpoint().empty());
    run.check_goes_on();
  }
  // A file that may not grow.
  run.clear();
  const ProgramResult full = run.with("none:0:0", R"(,"disk_gb":0.0105)");
  INFO(full.err);
  CHECK(full.code == kExitData);
  for (const char* part : {"emb", "expected at most 10500000 bytes",
                           "solver.embedding_memory.disk_gb", "live records"})
    check_contains(full.err, {part});
  run.check_goes_on();
}

TEST_CASE("a GPU's training with rows on a disk that fails or is killed goes on as a CPU's does",
          "[release-only][slow]") {
  DiskRun run(/*on_gpu=*/true);
  std::map<std::string, long> calls = run.count_calls();
  run.check_in_memory();
  struct Fault {
    const char* call;
    long tenths;  // of the run's calls
    std::string result, says;
  };
  const Fault faults[] = {{"read", 6, std::to_string(EIO), "cannot read"},
                          {"write", 8, std::to_string(ENOSPC), "No space left on device"},
                          {"read", 7, "kill", ""}};
  for (const auto& [call, tenths, how, says] : faults) {
    INFO(call << ", " << how);
    const ProgramResult result = run.failing_at(call, calls[call] * tenths / 10, how);
    INFO(result.err);
    CHECK(result.code == (says.empty() ? 128 + SIGKILL : int{kExitData}));
    check_contains(result.err, {says});
    CHECK(!run.last_checkpoint().empty());
    run.check_goes_on();
  }
}

}  // namespace hlite::test
