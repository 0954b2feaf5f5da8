// The emulated NCCL between threads of one process: its collectives, and its errors for ranks that
// disagree. nccl_processes_test.cpp tests it between processes.
#include "tests/cuda/nccl_rank.h"
#include "tests/support/catch.h"
#include "tests/support/cuda_emulation/nccl_address.h"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

using emulation::EmulationError;

std::string on_ranks(int ranks, const std::function<void(NcclRank&)>& body) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  return on_ranks(id, ranks, 0, ranks, body);
}

TEST_CASE("emulated collectives give the same results in any order of the streams") {
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
  CHECK(on_ranks(2, check_captured).empty());
}

TEST_CASE("ranks that disagree on a collective get an error that names ranks and values") {
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
  const int limit = emulation::machine().stuck_ms;
  check_contains(on_ranks(2,
                          [](NcclRank& r) {
                            r.all_reduce();
                            r.stream.synchronize();  // both ranks have made call 0
                            if (r.rank == 0) emulation::machine().stuck_ms = 300;
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
  ncclConfig_t later NCCL_CONFIG_INITIALIZER;
  later.blocking = 0;
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
  streams[0].synchronize();  // the abort released the waiting call
}

TEST_CASE("a planted error is reported, a planted hang is not, and an abort ends both") {
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
              r.require(cudaEventQuery(done.get()) == cudaErrorNotReady, "not done");
              (void)ncclCommGetAsyncError(r.comm, &state);
            }
            r.require(state == (error ? ncclSystemError : ncclSuccess), "state");
            r.require(ncclCommAbort(r.comm) == ncclSuccess, "abort");
            r.comm = nullptr;
            r.stream.synchronize();
          }) == "");
  }
  emulation::nccl_machine().fault.clear();
}

TEST_CASE("a revoked communicator ends its pending calls, also in a graph, and refuses new ones") {
  const EmulatedDevices machine(1);
  const LateStreams order;
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclConfig_t later NCCL_CONFIG_INITIALIZER;
  later.blocking = 0;
  ncclComm_t comms[2];
  for (int r = 0; r < 2; ++r)
    REQUIRE(ncclCommInitRankConfig(&comms[r], 2, id, r, &later) == ncclInProgress);
  const Stream stream;
  std::vector<float> x(1, 3.0f);
  HLITE_CUDA(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  CHECK(ncclAllReduce(&x[0], &x[0], 1, ncclFloat32, ncclSum, comms[0], stream.get()) ==
        ncclSuccess);
  cudaGraph_t graph = nullptr;
  HLITE_CUDA(cudaStreamEndCapture(stream.get(), &graph));
  cudaGraphExec_t exec = nullptr;
  HLITE_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  HLITE_CUDA(cudaGraphDestroy(graph));
  HLITE_CUDA(cudaGraphLaunch(exec, stream.get()));
  CHECK(ncclCommAbort(comms[0]) == ncclInvalidUsage);
  CHECK(ncclCommRevoke(comms[0], 0) == ncclSuccess);
  stream.synchronize();
  CHECK(x[0] == 3.0f);
  ncclResult_t state = ncclInProgress;
  CHECK(ncclCommGetAsyncError(comms[0], &state) == ncclSuccess);
  CHECK(state == ncclSuccess);
  CHECK(ncclAllReduce(&x[0], &x[0], 1, ncclFloat32, ncclSum, comms[0], stream.get()) ==
        ncclInvalidUsage);
  CHECK(std::string(ncclGetLastError(comms[0])) == "the communicator was revoked");
  HLITE_CUDA(cudaGraphExecDestroy(exec));
  for (ncclComm_t comm : comms) CHECK(ncclCommAbort(comm) == ncclSuccess);
}

TEST_CASE("finalizing a communicator completes when its calls have ended") {
  const EmulatedDevices machine(2);
  const RandomStreams order(2);
  CHECK(on_ranks(2, [](NcclRank& r) {
          r.all_reduce();
          ncclResult_t state = ncclCommFinalize(r.comm);
          r.require(state == ncclInProgress || state == ncclSuccess, "finalize");
          r.stream.synchronize();
          r.require(ncclCommGetAsyncError(r.comm, &state) == ncclSuccess && state == ncclSuccess,
                    "finalized");
          r.require(ncclAllReduce(r.in, r.out, 1, ncclFloat32, ncclSum, r.comm, r.stream.get()) ==
                        ncclInvalidUsage,
                    "a late call");
          r.require(r.result()[0] == 100, "sum");
        }) == "");
}

TEST_CASE("sums of 16 bits are rounded once") {
  const EmulatedDevices machine(3);
  CHECK(on_ranks(3, [](NcclRank& r) {
          // 1, 2^-8 and 2^-8 as bf16: a sum rounded after each step would stay at 1.
          const uint16_t values[] = {0x3f80, 0x3b80, 0x3b80};
          HLITE_CUDA(cudaMemcpyAsync(r.in, &values[r.rank], 2, cudaMemcpyDefault, r.stream.get()));
          r.all_reduce(1, ncclBfloat16);
          uint16_t sum = 0;
          HLITE_CUDA(cudaMemcpyAsync(&sum, r.out, 2, cudaMemcpyDefault, r.stream.get()));
          r.stream.synchronize();
          r.require(sum == 0x3f81, "sum in bf16");
        }) == "");
}

TEST_CASE("an initialization that a rank misses fails with the number of ranks that joined") {
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
  const ncclConfig_t empty{};
  CHECK(ncclCommInitRankConfig(&comm, 2, id, 1, &empty) == ncclInvalidArgument);
  CHECK(ncclCommInitRankConfig(&comm, 2, {}, 1, &config) == ncclInvalidArgument);
  CHECK(std::string(ncclGetLastError(nullptr)) == "it is no id of ncclGetUniqueId()");
}

TEST_CASE("NCCL_SOCKET_IFNAME chooses an interface by prefix, by whole name, or by exclusion") {
  const std::vector<emulation::NcclInterface> all = {
      {"eth0", 0x0200000a}, {"lo", 0x0100007f}, {"veth1", 0x0300000a}, {"veth10", 0x0400000a}};
  const auto chosen = [&](const char* choice) {
    return emulation::choose_interface(all, choice).name;
  };
  CHECK(chosen(nullptr) == "lo");
  CHECK(chosen("") == "lo");
  CHECK(chosen("veth") == "veth1");
  CHECK(chosen("=veth10") == "veth10");
  CHECK(chosen("ib,veth10") == "veth10");
  CHECK(chosen("^lo,eth") == "veth1");
  CHECK(chosen("^=lo,eth") == "eth0");
  check_contains(message_of<EmulationError>([&] { (void)chosen("=veth"); }),
                 {"NCCL_SOCKET_IFNAME", "=veth", "eth0 lo veth1 veth10"});
  check_contains(
      message_of<EmulationError>([&] { (void)emulation::choose_interface({}, nullptr); }),
      {"none"});
}

}  // namespace
}  // namespace hlite::test
