// One process of a run under mpirun: every check of collective_checks.h, or a way to fail.
#include <cstdio>
#include <cstring>
#include <thread>

#include "hugectr_lite/comm/mpi_plugin.h"
#include "tests/comm/collective_checks.h"

int main(int argc, char** argv) {
  using namespace hlite;
  std::unique_ptr<comm::Communicator> world;
  try {
    if (!comm::under_mpirun()) raise("expected to be started by mpirun");
    world = comm::mpi_world();
    const char* task = argc > 1 ? argv[1] : "check";
    if (std::strcmp(task, "check") == 0) {
      test::check_everything(*world);
      if (world->rank() == 0) std::printf("%d ranks: all right\n", world->size());
    } else if (world->rank() == world->size() - 1) {
      if (std::strcmp(task, "throw") == 0) raise("the disk is on fire");
      std::abort();
    }
    world->barrier();
    return 0;
  } catch (const std::exception& error) {
    if (world) world->abort(fmt::format("rank {}: {}", world->rank(), error.what()));
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
