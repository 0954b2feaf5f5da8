// A process of a run, alone or one of several under mpirun: every check of collective_checks.h, or
// a way to fail of the last rank.
//   comm_ranks TASK LAYOUT RANKS...     ranks of each node; LAYOUT: LocalFirst or NodeFirst
// HLITE_LIMIT: of a wait for others, in seconds, where the task is to stop or to hang. HLITE_ARRIVALS:
// an empty file, where the task is a barrier.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/core/file.h"
#include "tests/comm/collective_checks.h"

namespace {

// Each arrival is a byte of a file that all processes have.
void check_barrier(hlite::comm::Communicator& world) {
  const hlite::FileDescriptor file(open(std::getenv("HLITE_ARRIVALS"), O_WRONLY | O_APPEND));
  for (int round = 1; round <= 20; ++round) {
    if (write(file.get(), "x", 1) != 1) hlite::raise("cannot write");
    world.barrier();
    struct stat now {};
    if (fstat(file.get(), &now) != 0) hlite::raise("cannot look");
    if (now.st_size < int64_t{round} * world.size())
      hlite::raise("rank {}: passed barrier {} after {} arrivals", world.rank(), round,
                   now.st_size);
    world.barrier();
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hlite;
  try {
    if (argc < 4) raise("expected a task, a layout and ranks");
    const std::string task = argv[1];
    std::vector<int> rows;
    for (int i = 3; i < argc; ++i) rows.push_back(std::atoi(argv[i]));
    const comm::Topology topology(rows, std::strcmp(argv[2], "NodeFirst") == 0);
    const auto ranks =
        comm::under_mpirun() ? comm::mpi_ranks(topology) : comm::make_thread_ranks(topology);
    // Processes start one after another; ranks wait only so long for what comes then.
    comm::run_ranks(ranks, [](comm::Communicator& world) { world.barrier(); });
    if (task == "stop" || task == "hang")
      setenv("HLITE_COMM_TIMEOUT", std::getenv("HLITE_LIMIT"), 1);
    comm::run_ranks(ranks, [&](comm::Communicator& world) {
      if (world.size() != topology.ranks()) raise("{} ranks", world.size());
      if (task == "barrier") {
        check_barrier(world);
        return;
      }
      if (task == "check") {
        test::check_everything(world);
        if (world.rank() == 0) std::printf("%d ranks: all right\n", world.size());
      } else if (world.rank() == world.size() - 1) {
        if (task == "throw") raise("the disk is on fire");
        if (task == "die") std::abort();
        if (task == "stop") kill(getpid(), SIGSTOP);
        for (;;) pause();  // task hang
      }
      // Each rank gets a message of each other one: it knows who has not come.
      float word = 1;
      world.all_reduce(test::RankExec(world), {&word, 1});
    });
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
