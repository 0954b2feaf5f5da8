// hugectr_lite/comm/mpi_communicator.h, in processes under mpirun.
#include <fmt/format.h>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/mpirun.h"
#include "tests/support/program.h"

using namespace hlite;

namespace {
test::ProgramResult mpirun(int processes, const std::string& task, const std::string& layout,
                           const std::vector<int>& rows,
                           const std::vector<std::string>& environment = {}) {
  std::vector<std::string> command = {"/usr/bin/env"};
  command.insert(command.end(), environment.begin(), environment.end());
  const auto prefix = test::mpirun_prefix(processes);
  command.insert(command.end(), prefix.begin(), prefix.end());
  command.insert(command.end(), {HLITE_COMM_RANKS, task, layout});
  for (const int row : rows) command.push_back(std::to_string(row));
  return test::run_program(command);
}
}  // namespace

TEST_CASE("collectives under mpirun move and add exactly") {
  const std::vector<int> nodes[] = {{1},          {3},       {1, 1},          {1, 1, 1},
                                    {2, 2},       {3, 1, 1}, {1, 1, 1, 1, 1}, {2, 1, 2, 2},
                                    {1, 1, 1, 1}, {4, 4}};
  for (const auto& rows : nodes) {
    const auto result = mpirun(static_cast<int>(rows.size()), "check", "LocalFirst", rows);
    INFO(fmt::format("nodes of {}: {}{}", fmt::join(rows, ","), result.out, result.err));
    CHECK(result.code == 0);
    test::check_contains(result.out, {": all right"});
  }
  CHECK(mpirun(2, "check", "NodeFirst", {3, 3}).code == 0);
}

TEST_CASE("no process passes a barrier before the ranks of all have come") {
  for (const auto& rows : {std::vector<int>{1, 1}, {1, 1, 1}, {2, 2}, {1, 3, 2}}) {
    const test::TemporaryDirectory folder;
    test::write_text(folder / "arrivals", "");
    const auto result = mpirun(static_cast<int>(rows.size()), "barrier", "LocalFirst", rows,
                               {"HLITE_ARRIVALS=" + (folder / "arrivals")});
    INFO(fmt::format("nodes of {}: {}", fmt::join(rows, ","), result.err));
    CHECK(result.code == 0);
  }
}

TEST_CASE("a number of processes that does not fit the nodes is an error that says how to start") {
  const auto result = mpirun(3, "check", "LocalFirst", {2, 2});
  CHECK(result.code != 0);
  test::check_contains(result.err, {"found 3 processes", "mpirun -np 2"});
}

TEST_CASE("a rank that fails, and a process that dies, end the others") {
  for (const char* task : {"throw", "die"}) {
    const auto result = mpirun(2, task, "LocalFirst", {2, 2});
    INFO(result.out << result.err);
    CHECK(result.code != 0);
    CHECK(result.err.find("HLITE_COMM_TIMEOUT") == std::string::npos);  // no rank waited so long
    if (task == std::string("throw"))
      test::check_contains(result.err, {"rank 3: the disk is on fire"});
  }
}

// In a file system of its own, where /dev/shm has 64 kB.
TEST_CASE("processes share files elsewhere where /dev/shm is full, with one warning") {
  const std::vector<std::string> small = {"/usr/bin/env",
                                          "-u",
                                          "OMPI_MCA_btl_vader_backing_directory",
                                          "unshare",
                                          "-rm",
                                          "sh",
                                          "-c",
                                          "mount -t tmpfs -o size=64k none /dev/shm && exec \"$@\"",
                                          "sh"};
  std::vector<std::string> command = small;
  command.push_back("/bin/true");
  if (test::run_program(command).code != 0) {
    WARN("skipped: a file system cannot be mounted here");
    return;
  }
  command = small;
  const auto prefix = test::mpirun_prefix(2);
  command.insert(command.end(), prefix.begin(), prefix.end());
  command.insert(command.end(), {HLITE_COMM_RANKS, "check", "LocalFirst", "1", "1"});
  const auto result = test::run_program(command);
  INFO(result.out << result.err);
  CHECK(result.code == 0);
  const size_t at = result.err.find("/dev/shm has less than the 8.4 MB");
  REQUIRE(at != std::string::npos);
  test::check_contains(result.err, {"--shm-size"});
  CHECK(result.err.find("/dev/shm has less", at + 1) == std::string::npos);
  CHECK(result.err.find("It appears as if there is not enough space") == std::string::npos);
}

// A rank that does not come, with its process or alone, is waited for as long as the limit says. On
// a busy machine others, too, may be so late, and be named instead of it: then the limit was too
// short for this machine, and the next one is longer.
TEST_CASE("processes name the ranks that do not come, and end") {
  struct Case {
    const char* task;
    std::vector<int> rows;
  };
  for (const Case& c : {Case{"stop", {2, 1, 1}}, Case{"hang", {2, 2}}}) {
    test::ProgramResult result;
    std::string says;
    for (const char* limit : {"1", "10", "100"}) {
      result = mpirun(static_cast<int>(c.rows.size()), c.task, "LocalFirst", c.rows,
                      {std::string("HLITE_LIMIT=") + limit});
      says = fmt::format("has waited {} s for rank", limit);
      INFO(c.task << " of " << c.rows.size() << " processes: " << result.out << result.err);
      CHECK(result.code == kExitDevice);
      test::check_contains(result.err, {says.c_str()});
      if (result.err.find(" 3 (HLITE_COMM_TIMEOUT)") != std::string::npos) break;
    }
    INFO(c.task << " of " << c.rows.size() << " processes: " << result.out << result.err);
    test::check_contains(result.err, {says.c_str(), " 3 (HLITE_COMM_TIMEOUT)"});
  }
}
