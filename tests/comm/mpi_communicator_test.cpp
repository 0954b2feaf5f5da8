// hugectr_lite/comm/mpi_communicator.h, in processes under mpirun.
#include <fmt/format.h>

#include <chrono>

#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/program.h"

using namespace hlite;

namespace {
test::ProgramResult mpirun(int ranks, const char* task) {
  // "isolated": this machine only, so mpirun needs no ssh. Open MPI leaks memory of its own.
  return test::run_program({HLITE_MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to",
                            "none", "--mca", "plm", "isolated", "-x", "ASAN_OPTIONS=detect_leaks=0",
                            "-np", std::to_string(ranks), HLITE_MPI_RANKS, task});
}
}  // namespace

TEST_CASE("collectives under mpirun move and add exactly") {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    const auto result = mpirun(ranks, "check");
    INFO(result.out << result.err);
    CHECK(result.code == 0);
    test::check_contains(result.out, {fmt::format("{} ranks: all right", ranks)});
  }
}

TEST_CASE("a process that fails or dies ends the others") {
  for (const char* task : {"throw", "die"}) {
    const auto start = std::chrono::steady_clock::now();
    const auto result = mpirun(3, task);
    INFO(result.out << result.err);
    CHECK(result.code != 0);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
    if (task == std::string("throw"))
      test::check_contains(result.err, {"rank 2: the disk is on fire"});
  }
}
