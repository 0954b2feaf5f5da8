// The stand-in for NCCL among processes (nccl_process.cpp), each with one rank or several.
#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/program.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {
namespace {

// What processes with so many ranks each say, in their order.
std::vector<ProgramResult> run_processes(const std::string& task, const std::vector<int>& counts,
                                         const std::vector<std::string>& more = {}) {
  const TemporaryDirectory folder;
  int ranks = 0, first = 0;
  for (const int count : counts) ranks += count;
  std::vector<std::unique_ptr<RunningProgram>> running;
  for (size_t p = 0; p < counts.size(); ++p) {
    std::vector<std::string> command = {HLITE_NCCL_PROCESS,
                                        task,
                                        folder.path(),
                                        std::to_string(p),
                                        std::to_string(ranks),
                                        std::to_string(first),
                                        std::to_string(counts[p])};
    command.insert(command.end(), more.begin(), more.end());
    running.push_back(std::make_unique<RunningProgram>(command, ""));
    first += counts[p];
  }
  std::vector<ProgramResult> results;
  for (const auto& program : running) results.push_back(program->wait());
  return results;
}

TEST_CASE("the emulated NCCL moves and adds between processes, in every order") {
  const std::string orders = kSanitized ? "4" : "20";
  for (const auto& counts : std::vector<std::vector<int>>{{1, 1}, {2, 2}, {1, 3, 2}})
    for (const ProgramResult& result : run_processes("check", counts, {orders})) {
      CHECK(result.err == "");
      CHECK(result.code == 0);
    }
}

TEST_CASE("processes whose ranks disagree all get the same error") {
  const auto results = run_processes("mismatch", {1, 1});
  for (const ProgramResult& result : results) {
    CHECK(result.code == 1);
    check_contains(result.err, {"call 0: rank ", "rank 0 calls all-reduce of 8 values of type 7",
                                "rank 1 calls all-reduce of 7 values of type 7"});
  }
  CHECK(results[0].err == results[1].err);
}

TEST_CASE("a rank of another process that stays away is waited for, then named") {
  const auto results = run_processes("missing", {1, 2});
  for (const ProgramResult& result : results) {
    CHECK(result.code == 1);
    // The first that gives up is one more that the others lack.
    check_contains(result.err, {"NCCL of device 0 waits for rank", "call 1, all-reduce of 12",
                                "lacks rank", " 2; 0 after it"});
  }
}

TEST_CASE("a process that is killed is an error of the others, whose work ends by an abort") {
  // The first is the one that made the id, through which all goes.
  for (const size_t victim : {size_t{2}, size_t{0}})
    for (const char* task : {"die", "die, revoked"}) {
      const auto results = run_processes(task, {1, 2, 1}, {std::to_string(victim)});
      for (size_t p = 0; p < results.size(); ++p) {
        CHECK(results[p].err == "");
        CHECK(results[p].code == (p == victim ? 128 + SIGKILL : 0));
      }
    }
}

TEST_CASE("a planted fault of one rank is an error of the ranks of all processes") {
  for (const ProgramResult& result : run_processes("fault", {1, 2})) {
    CHECK(result.err == "");
    CHECK(result.code == 0);
  }
}

TEST_CASE(
    "a rank that expects another number of ranks gets an error from the process that made the id") {
  const auto results = run_processes("refused", {1, 1});
  check_contains(results[1].err, {"state 5", "rank 1 expects 3 ranks, others expect 2"});
  check_contains(results[0].err, {"state 7"});  // still in progress
}

}  // namespace
}  // namespace hlite::test
