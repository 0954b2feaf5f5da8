// A process of the emulated NCCL, started by nccl_processes_test.cpp:
//   nccl_process TASK FOLDER PROCESS RANKS FIRST COUNT [VALUE]
// Its ranks are [FIRST, FIRST + COUNT) of RANKS. Process 0 makes the ids, which the others find in
// the folder. What went wrong is printed, and is exit code 1.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "tests/cuda/nccl_rank.h"
#include "tests/support/cuda_emulation/stream_queues.h"

using namespace hlite;
using namespace hlite::test;

namespace {

struct Process {
  std::string folder;
  int number = 0, ranks = 0, first = 0, count = 0;
  int value = 0;  // how many orders, or which process dies
};

constexpr int kMaxWaits = 600'000;  // of a millisecond or more; ends a test that hangs

void wait_for_file(const std::string& path) {
  for (int i = 0; i < kMaxWaits && !std::filesystem::exists(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Returns when every rank has called it with this name.
void meet(const Process& p, const std::string& name, int rank) {
  std::ofstream(p.folder + "/" + name + std::to_string(rank)).flush();
  for (int q = 0; q < p.ranks; ++q) wait_for_file(p.folder + "/" + name + std::to_string(q));
}

ncclUniqueId share_id(const Process& p, const std::string& name) {
  const std::string path = p.folder + "/" + name, unfinished = path + ".part";
  ncclUniqueId id{};
  if (p.number == 0) {
    if (ncclGetUniqueId(&id) != ncclSuccess) throw CudaError(ncclGetLastError(nullptr));
    std::ofstream(unfinished, std::ios::binary).write(id.internal, sizeof(id.internal));
    std::filesystem::rename(unfinished, path);
    return id;
  }
  wait_for_file(path);
  std::ifstream(path, std::ios::binary).read(id.internal, sizeof(id.internal));
  return id;
}

std::string on_ranks(const Process& p, const std::string& id,
                     const std::function<void(NcclRank&)>& body) {
  return on_ranks(share_id(p, id), p.ranks, p.first, p.count, body);
}

// Every call in several orders, each of a communicator of its own.
std::string check(const Process& p) {
  emulation::machine().order = emulation::StreamOrder::kRandom;
  std::string failures;
  for (int seed = 1; seed <= p.value; ++seed) {
    emulation::StreamQueues::begin_order(static_cast<uint64_t>(seed * 16 + p.number));
    failures += on_ranks(p, "id" + std::to_string(seed), [](NcclRank& r) {
      check_collectives(r);
      check_captured(r);
      // So that no rank sees another one give up.
      r.require(ncclCommDestroy(r.comm) == ncclSuccess, "destroy");
      r.comm = nullptr;
    });
  }
  return failures;
}

std::string mismatch(const Process& p) {
  return on_ranks(p, "id", [](NcclRank& r) {
    r.all_reduce(r.rank == 0 ? 8 : 7);
    r.stream.synchronize();
  });
}

// The last rank leaves out the second sum, and waits until the others have seen it. The time of
// those that wait begins when all others have come.
std::string missing(const Process& p) {
  return on_ranks(p, "id", [&](NcclRank& r) {
    r.all_reduce();
    r.stream.synchronize();
    if (r.rank + 1 < r.ranks) r.all_reduce();
    meet(p, "launched", r.rank);
    emulation::elsewhere_ms() = 300;
    r.stream.synchronize();
    ncclResult_t state = ncclSuccess;
    while (r.rank + 1 == r.ranks && state == ncclSuccess) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      (void)ncclCommGetAsyncError(r.comm, &state);
    }
  });
}

// After a first sum a process is killed, or a rank breaks by a planted fault: the others see it in
// the second.
std::string lost(const Process& p, ncclResult_t want, bool revoke) {
  return on_ranks(p, "id", [&](NcclRank& r) {
    r.all_reduce();
    r.stream.synchronize();
    meet(p, "past", r.rank);
    if (want == ncclRemoteError && p.number == p.value) kill(getpid(), SIGKILL);
    r.all_reduce();
    Event done;
    done.record(r.stream.get());
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess) {
      r.require(cudaEventQuery(done.get()) == cudaErrorNotReady, "not done");
      (void)ncclCommGetAsyncError(r.comm, &state);
    }
    r.require(state == want, "state " + std::to_string(state));
    const std::string words = ncclGetLastError(r.comm);
    r.require(want != ncclRemoteError || words.find("has ended") != std::string::npos ||
                  words.find("has given up") != std::string::npos,
              "words \"" + words + "\"");
    if (revoke) r.require(ncclCommRevoke(r.comm, 0) == ncclSuccess, "revoke");
    r.require(ncclCommAbort(r.comm) == ncclSuccess, "abort");
    r.comm = nullptr;
    r.stream.synchronize();
  });
}

// The second process expects one rank more, in words that it prints.
std::string refused(const Process& p) {
  const ncclUniqueId id = share_id(p, "id");
  ncclConfig_t later NCCL_CONFIG_INITIALIZER;
  later.blocking = 0;
  ncclComm_t comm = nullptr;
  const int ranks = p.ranks + (p.number == 1 ? 1 : 0);
  ncclResult_t state = ncclCommInitRankConfig(&comm, ranks, id, p.first, &later);
  if (state != ncclInProgress) return "not in progress\n";
  for (int i = 0; i < kMaxWaits && state == ncclInProgress; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    (void)ncclCommGetAsyncError(comm, &state);
    if (p.number == 0 && std::filesystem::exists(p.folder + "/seen")) break;
  }
  if (p.number == 1) std::ofstream(p.folder + "/seen") << state;
  const std::string words = ncclGetLastError(comm);
  (void)ncclCommAbort(comm);
  return "state " + std::to_string(state) + " " + words + "\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  const std::string task = argv[1];
  const Process p{argv[2],
                  std::atoi(argv[3]),
                  std::atoi(argv[4]),
                  std::atoi(argv[5]),
                  std::atoi(argv[6]),
                  argc > 7 ? std::atoi(argv[7]) : 0};
  emulation::machine().devices = p.count;
  const std::map<std::string, std::function<std::string()>> tasks = {
      {"check", [&] { return check(p); }},
      {"mismatch", [&] { return mismatch(p); }},
      {"missing", [&] { return missing(p); }},
      {"die", [&] { return lost(p, ncclRemoteError, false); }},
      {"die, revoked", [&] { return lost(p, ncclRemoteError, true); }},
      {"fault",
       [&] {
         emulation::nccl_machine().fault = "error:1:2";
         return lost(p, ncclSystemError, false);
       }},
      {"refused", [&] { return refused(p); }}};
  std::string failures;
  try {
    failures = tasks.at(task)();
  } catch (const std::exception& error) {
    failures = std::string(error.what()) + "\n";
  }
  std::fputs(failures.c_str(), stderr);
  return failures.empty() ? 0 : 1;
}
