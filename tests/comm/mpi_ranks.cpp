// One process of a run under mpirun: every check of collective_checks.h, or a way to fail.
//   mpi_ranks TASK LAYOUT RANKS...     ranks of each node; LAYOUT: LocalFirst or NodeFirst
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/comm/collective_checks.h"

int main(int argc, char** argv) {
  using namespace hlite;
  try {
    if (!comm::under_mpirun() || argc < 4) raise("expected mpirun and a task");
    std::vector<int> rows;
    for (int i = 3; i < argc; ++i) rows.push_back(std::atoi(argv[i]));
    const comm::Topology topology(rows, std::strcmp(argv[2], "NodeFirst") == 0);
    comm::run_ranks(comm::mpi_ranks(topology), [&](comm::Communicator& world) {
      if (world.size() != topology.ranks()) raise("{} ranks", world.size());
      if (std::strcmp(argv[1], "check") == 0) {
        test::check_everything(world);
        if (world.rank() == 0) std::printf("%d ranks: all right\n", world.size());
      } else if (world.rank() == world.size() - 1) {
        if (std::strcmp(argv[1], "throw") == 0) raise("the disk is on fire");
        std::abort();
      }
      world.barrier();
    });
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
