// hugectr_lite/comm/mpi_communicator.h, in processes under mpirun.
#include <fmt/format.h>

#include <chrono>

#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/mpirun.h"
#include "tests/support/program.h"

using namespace hlite;

namespace {
test::ProgramResult mpirun(int processes, const std::string& task, const std::string& layout,
                           const std::vector<int>& rows) {
  std::vector<std::string> command = test::mpirun_prefix(processes);
  command.insert(command.end(), {HLITE_MPI_RANKS, task, layout});
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

TEST_CASE("a number of processes that does not fit the nodes is an error that says how to start") {
  const auto result = mpirun(3, "check", "LocalFirst", {2, 2});
  CHECK(result.code != 0);
  test::check_contains(result.err, {"found 3 processes", "mpirun -np 2"});
}

TEST_CASE("a rank that fails, and a process that dies, end the others") {
  for (const char* task : {"throw", "die"}) {
    const auto start = std::chrono::steady_clock::now();
    const auto result = mpirun(2, task, "LocalFirst", {2, 2});
    INFO(result.out << result.err);
    CHECK(result.code != 0);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
    if (task == std::string("throw"))
      test::check_contains(result.err, {"rank 3: the disk is on fire"});
  }
}
