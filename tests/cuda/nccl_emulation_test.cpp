// The stand-in for NCCL: its collectives, and what it says of ranks that do not agree.
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "hugectr_lite/core/cuda_raii.cuh"
#include "tests/support/cuda_emulation/nccl.h"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

using emulation::EmulationError;

// A rank's communicator, stream and floats on its device.
struct NcclRank {
  static constexpr int kValues = 12;
  int rank, ranks;
  ncclComm_t comm = nullptr;
  Stream stream;
  float *in = nullptr, *out = nullptr;

  NcclRank(ncclUniqueId id, int r, int n) : rank(r), ranks(n) {
    const ncclConfig_t config NCCL_CONFIG_INITIALIZER;
    REQUIRE(ncclCommInitRankConfig(&comm, n, id, r, &config) == ncclSuccess);
    for (float** data : {&in, &out})
      HLITE_CUDA(cudaMalloc(reinterpret_cast<void**>(data), kValues * sizeof(float)));
    std::vector<float> values;
    for (int i = 0; i < kValues; ++i) values.push_back(value(r, i));
    HLITE_CUDA(cudaMemcpyAsync(in, values.data(), kValues * sizeof(float), cudaMemcpyDefault,
                               stream.get()));
    stream.synchronize();
  }
  ~NcclRank() {
    if (comm) CHECK(ncclCommAbort(comm) == ncclSuccess);
    (void)cudaFree(in);
    (void)cudaFree(out);
  }
  static float value(int r, int i) { return static_cast<float>(100 * r + i); }
  [[nodiscard]] std::vector<float> result() const {
    std::vector<float> values(kValues);
    HLITE_CUDA(cudaMemcpyAsync(values.data(), out, kValues * sizeof(float), cudaMemcpyDefault,
                               stream.get()));
    stream.synchronize();
    return values;
  }
  void all_reduce(size_t n = kValues, ncclDataType_t type = ncclFloat32) const {
    if (ncclAllReduce(in, out, n, type, ncclSum, comm, stream.get()) != ncclSuccess)
      throw CudaError(ncclGetLastError(comm));
  }
};

std::mutex checks;  // Catch's assertions are for one thread at a time

// body(rank) on a thread and a device each. Returns what they threw, one line each.
std::string on_ranks(int ranks, const std::function<void(NcclRank&)>& body) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::string failures;
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        HLITE_CUDA(cudaSetDevice(r));
        NcclRank rank(id, r, ranks);
        body(rank);
      } catch (const std::exception& error) {
        const std::lock_guard lock(checks);
        failures += std::string(error.what()) + "\n";
      }
    });
  for (std::thread& thread : threads) thread.join();
  return failures;
}

void require_right(bool right, const char* what, const NcclRank& rank) {
  if (!right) throw CudaError(std::string(what) + " of rank " + std::to_string(rank.rank));
}

void check_collectives(NcclRank& r) {
  constexpr int kEach = NcclRank::kValues / 3;
  const auto all = [&](const char* what, const std::function<float(int)>& want, int n) {
    const std::vector<float> got = r.result();
    for (int i = 0; i < n; ++i) require_right(got[static_cast<size_t>(i)] == want(i), what, r);
  };
  r.all_reduce();
  all(
      "all-reduce", [&](int i) { return 300.0f + 3 * static_cast<float>(i); }, NcclRank::kValues);
  ncclReduceScatter(r.in, r.out, kEach, ncclFloat32, ncclMax, r.comm, r.stream.get());
  all(
      "reduce-scatter", [&](int i) { return NcclRank::value(2, r.rank * kEach + i); }, kEach);
  ncclAllGather(r.in, r.out, kEach, ncclFloat32, r.comm, r.stream.get());
  all(
      "all-gather", [&](int i) { return NcclRank::value(i / kEach, i % kEach); }, 12);
  ncclAlltoAll(r.in, r.out, kEach, ncclFloat32, r.comm, r.stream.get());
  all(
      "all-to-all", [&](int i) { return NcclRank::value(i / kEach, r.rank * kEach + i % kEach); },
      12);
  ncclBroadcast(r.in, r.out, 5, ncclFloat32, 1, r.comm, r.stream.get());
  all(
      "broadcast", [&](int i) { return NcclRank::value(1, i); }, 5);
  const int to = (r.rank + 1) % 3, from = (r.rank + 2) % 3;
  ncclGroupStart();  // round a ring: one by one it would stand still
  ncclSend(r.in + 1, 2, ncclFloat32, to, r.comm, r.stream.get());
  ncclRecv(r.out, 2, ncclFloat32, from, r.comm, r.stream.get());
  require_right(ncclGroupEnd() == ncclSuccess, "group", r);
  all(
      "ring", [&](int i) { return NcclRank::value(from, 1 + i); }, 2);
}

TEST_CASE("the emulated NCCL moves and adds in every order") {
  const EmulatedDevices machine(3);
  CHECK(on_ranks(3, check_collectives).empty());
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const RandomStreams order(seed);
    CHECK(on_ranks(3, check_collectives).empty());
  }
}

TEST_CASE("captured collectives run as often as their graphs, on all ranks") {
  const EmulatedDevices machine(2);
  const RandomStreams order(4);
  CHECK(on_ranks(2, [](NcclRank& r) {
          HLITE_CUDA(cudaStreamBeginCapture(r.stream.get(), cudaStreamCaptureModeThreadLocal));
          r.all_reduce();
          cudaGraph_t graph = nullptr;
          cudaGraphExec_t exec = nullptr;
          HLITE_CUDA(cudaStreamEndCapture(r.stream.get(), &graph));
          HLITE_CUDA(cudaGraphInstantiate(&exec, graph, 0));
          HLITE_CUDA(cudaGraphDestroy(graph));
          for (int i = 0; i < 3; ++i) HLITE_CUDA(cudaGraphLaunch(exec, r.stream.get()));
          require_right(r.result()[1] == 102, "captured sum", r);
          // The real one would never come back.
          require_right(ncclCommDestroy(r.comm) == ncclInvalidUsage, "destroyed too early", r);
          require_right(
              std::string(ncclGetLastError(r.comm)).find("captured work") != std::string::npos,
              "words", r);
          HLITE_CUDA(cudaGraphExecDestroy(exec));
        }).empty());
}

TEST_CASE("ranks that disagree on a collective are told who and on what") {
  const EmulatedDevices machine(2);
  const auto failures_of = [](const std::function<void(NcclRank&)>& body) {
    return on_ranks(2, [&](NcclRank& r) {
      body(r);
      r.stream.synchronize();
    });
  };
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const RandomStreams order(seed);
    check_contains(failures_of([](NcclRank& r) { r.all_reduce(r.rank == 0 ? 8 : 7); }),
                   {"call 0", "all-reduce of 8 values of type 7", "all-reduce of 7 values"});
    check_contains(
        failures_of([](NcclRank& r) { r.all_reduce(4, r.rank == 0 ? ncclFloat32 : ncclInt32); }),
        {"of type 7, operation 0", "of type 2, operation 0"});
    check_contains(failures_of([](NcclRank& r) {
                     if (r.rank == 0) return r.all_reduce(4);
                     ncclAllGather(r.in, r.out, 4, ncclFloat32, r.comm, r.stream.get());
                   }),
                   {"rank 0", "rank 1", "all-reduce of 4", "all-gather of 4"});
    check_contains(failures_of([](NcclRank& r) {
                     if (r.rank == 0)
                       ncclSend(r.in, 4, ncclFloat32, 1, r.comm, r.stream.get());
                     else
                       ncclRecv(r.out, 3, ncclFloat32, 0, r.comm, r.stream.get());
                   }),
                   {"message of 4", "message of 3"});
  }
}

TEST_CASE("a rank that leaves out a collective is a deadlock that names it") {
  const EmulatedDevices machine(2);
  const int limit = std::exchange(emulation::machine().stuck_ms, 300);
  check_contains(on_ranks(2,
                          [](NcclRank& r) {
                            r.all_reduce();
                            if (r.rank == 0) r.all_reduce();
                            r.stream.synchronize();
                          }),
                 {"NCCL of device 0 waits for rank 0 of communicator", "call 1", "lacks rank 1"});
  emulation::machine().stuck_ms = limit;
}

TEST_CASE("two communicators with work on one device at a time are an error") {
  const EmulatedDevices machine(1);
  ncclUniqueId ids[2];
  ncclComm_t comms[2];
  const Stream streams[2];
  const ncclConfig_t later{0};
  for (int c = 0; c < 2; ++c) {
    REQUIRE(ncclGetUniqueId(&ids[c]) == ncclSuccess);
    ncclComm_t partner = nullptr;
    CHECK(ncclCommInitRankConfig(&comms[c], 2, ids[c], 0, &later) == ncclInProgress);
    ncclResult_t state = ncclSuccess;
    CHECK(ncclCommGetAsyncError(comms[c], &state) == ncclSuccess);
    CHECK(state == ncclInProgress);
    float x = 0;
    CHECK(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comms[c], nullptr) == ncclInvalidUsage);
    CHECK(ncclCommInitRankConfig(&partner, 2, ids[c], 1, &later) == ncclInProgress);
    CHECK(ncclCommGetAsyncError(partner, &state) == ncclSuccess);
    CHECK(state == ncclSuccess);
    CHECK(ncclCommDestroy(partner) == ncclSuccess);
  }
  std::vector<float> x(2);
  CHECK(ncclAllReduce(&x[0], &x[0], 1, ncclFloat32, ncclSum, comms[0], streams[0].get()) ==
        ncclSuccess);
  check_contains(message_of<EmulationError>([&] {
                   (void)ncclAllReduce(&x[1], &x[1], 1, ncclFloat32, ncclSum, comms[1],
                                       streams[1].get());
                 }),
                 {"communicators", "have work on device 0 at the same time"});
  for (ncclComm_t comm : comms) CHECK(ncclCommAbort(comm) == ncclSuccess);
  streams[0].synchronize();  // an abort lets it end
}

TEST_CASE("a planted fault shows, and an abort ends what waits") {
  const EmulatedDevices machine(2);
  for (const bool error : {true, false}) {
    emulation::nccl_machine().fault = error ? "error:1:2" : "silent:1:2";
    CHECK(on_ranks(2, [&](NcclRank& r) {
            r.all_reduce();
            r.all_reduce();
            Event done;
            done.record(r.stream.get());
            ncclResult_t state = ncclSuccess;
            for (int i = 0; i < (error ? 5000 : 20) && state == ncclSuccess; ++i) {
              require_right(cudaEventQuery(done.get()) == cudaErrorNotReady, "not done", r);
              (void)ncclCommGetAsyncError(r.comm, &state);
            }
            require_right(state == (error ? ncclSystemError : ncclSuccess), "state", r);
            require_right(ncclCommAbort(r.comm) == ncclSuccess, "abort", r);
            r.comm = nullptr;
            r.stream.synchronize();
          }) == "");
  }
  emulation::nccl_machine().fault.clear();
}

TEST_CASE("an initialisation that a rank misses ends, and says how many came") {
  const EmulatedDevices machine(1);
  const int limit = std::exchange(emulation::nccl_machine().init_ms, 20);
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  const ncclConfig_t config NCCL_CONFIG_INITIALIZER;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  CHECK(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclSystemError);
  CHECK(std::string(ncclGetLastError(nullptr)) == "rank 0 of 2: 1 ranks have joined");
  CHECK(ncclCommInitRankConfig(&comm, 2, id, 2, &config) == ncclInvalidArgument);
  CHECK(ncclCommInitRankConfig(&comm, 3, id, 1, &config) == ncclInvalidUsage);
  emulation::nccl_machine().init_ms = limit;
}

}  // namespace
}  // namespace hlite::test
