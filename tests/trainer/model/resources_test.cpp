#include "hugectr_lite/trainer/model/resources.h"

#include <cstdlib>

#include "tests/support/catch.h"

namespace hlite::trainer {

TEST_CASE("the ranks that share a machine's memory are this process's, or those of all here") {
  config::SolverConfig solver;
  solver.gpu = {{0, 1}, {2, 3}};
  CHECK(ranks_here(solver) == 4);
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  CHECK(ranks_here(solver) == 2);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
  CHECK(ranks_here(solver) == 4);
  unsetenv("OMPI_COMM_WORLD_SIZE");
  unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
}

TEST_CASE("few processors for a process, or many threads on them, are warned of") {
  // Threads, processors of the process, processes under mpirun, processors of the machine.
  CHECK(processors_warning(64, 64, 0, 64).empty());
  CHECK(processors_warning(8, 2, 0, 64).empty());  // bound by the user, not by mpirun
  CHECK(processors_warning(16, 16, 4, 64).empty());
  CHECK(processors_warning(64, 64, 2, 64).empty());
  CHECK(processors_warning(1, 1, 2, 2).empty());
  CHECK(processors_warning(1, 1, 2, 64) ==
        "mpirun lets each of its 2 processes here run on 1 of 64 processors; with --bind-to none "
        "on all");
  CHECK(processors_warning(9, 2, 0, 64) == "9 threads share 2 processors: fewer may be faster");
  CHECK(processors_warning(5, 1, 0, 1) == "5 threads share 1 processor: fewer may be faster");
}

}  // namespace hlite::trainer
