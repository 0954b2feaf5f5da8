// Ranks of the emulated NCCL for tests, each on its own thread. They share the test's process or
// are spread over several (nccl_process.cpp).
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hugectr_lite/core/cuda_raii.cuh"
#include "tests/support/cuda_emulation/nccl.h"

namespace hlite::test {

// A rank's communicator, stream, and input and output arrays on its device. Its methods throw
// CudaError if NCCL fails or a result is wrong.
struct NcclRank {
  static constexpr int kValues = 12;
  int rank, ranks;
  ncclComm_t comm = nullptr;
  Stream stream;
  float *in = nullptr, *out = nullptr;

  NcclRank(ncclUniqueId id, int r, int n) : rank(r), ranks(n) {
    const ncclConfig_t config NCCL_CONFIG_INITIALIZER;
    if (ncclCommInitRankConfig(&comm, n, id, r, &config) != ncclSuccess)
      throw CudaError(ncclGetLastError(nullptr));
    for (float** data : {&in, &out})
      HLITE_CUDA(cudaMalloc(reinterpret_cast<void**>(data), kValues * sizeof(float)));
    std::vector<float> values;
    for (int i = 0; i < kValues; ++i) values.push_back(value(r, i));
    HLITE_CUDA(cudaMemcpyAsync(in, values.data(), kValues * sizeof(float), cudaMemcpyDefault,
                               stream.get()));
    stream.synchronize();
  }
  ~NcclRank() {
    if (comm) (void)ncclCommAbort(comm);
    (void)cudaFree(in);
    (void)cudaFree(out);
  }
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;
  // The input of rank r at index i.
  static float value(int r, int i) { return static_cast<float>(100 * r + i); }
  [[nodiscard]] std::vector<float> result() const {
    std::vector<float> values(kValues);
    HLITE_CUDA(cudaMemcpyAsync(values.data(), out, kValues * sizeof(float), cudaMemcpyDefault,
                               stream.get()));
    stream.synchronize();
    return values;
  }
  void require(bool condition, const std::string& what) const {
    if (!condition) throw CudaError(what + " of rank " + std::to_string(rank));
  }
  void all_reduce(size_t n = kValues, ncclDataType_t type = ncclFloat32) const {
    if (ncclAllReduce(in, out, n, type, ncclSum, comm, stream.get()) != ncclSuccess)
      throw CudaError(ncclGetLastError(comm));
  }
  // Compares the first `n` values of the result with expected(i).
  void require_values(const char* what, int n, const std::function<float(int)>& expected) const {
    const std::vector<float> got = result();
    for (int i = 0; i < n; ++i) require(got[static_cast<size_t>(i)] == expected(i), what);
  }
};

// Checks every collective, and sends around a ring, on 2 to 12 ranks.
inline void check_collectives(const NcclRank& r) {
  const int n = r.ranks, each = NcclRank::kValues / n;
  cudaStream_t const stream = r.stream.get();
  const auto count = static_cast<size_t>(each);
  const auto sum_of_ranks = static_cast<float>(100 * n * (n - 1) / 2);
  r.all_reduce();
  r.require_values("all-reduce", NcclRank::kValues,
                   [&](int i) { return sum_of_ranks + static_cast<float>(n * i); });
  ncclReduceScatter(r.in, r.out, count, ncclFloat32, ncclMax, r.comm, stream);
  r.require_values("reduce-scatter", each,
                   [&](int i) { return NcclRank::value(n - 1, r.rank * each + i); });
  ncclAllGather(r.in, r.out, count, ncclFloat32, r.comm, stream);
  r.require_values("all-gather", each * n,
                   [&](int i) { return NcclRank::value(i / each, i % each); });
  ncclAlltoAll(r.in, r.out, count, ncclFloat32, r.comm, stream);
  r.require_values("all-to-all", each * n,
                   [&](int i) { return NcclRank::value(i / each, r.rank * each + i % each); });
  ncclBroadcast(r.in, r.out, 5, ncclFloat32, 1, r.comm, stream);
  r.require_values("broadcast", 5, [&](int i) { return NcclRank::value(1, i); });
  const int to = (r.rank + 1) % n, from = (r.rank + n - 1) % n;
  ncclGroupStart();  // without a group every rank would wait in its send: a deadlock
  ncclSend(r.in + 1, 2, ncclFloat32, to, r.comm, stream);
  ncclRecv(r.out, 2, ncclFloat32, from, r.comm, stream);
  r.require(ncclGroupEnd() == ncclSuccess, "group");
  r.require_values("ring", 2, [&](int i) { return NcclRank::value(from, 1 + i); });
}

// Captures an in-place all-reduce in a graph and launches it three times. Each launch sums the
// results of the one before.
inline void check_captured(const NcclRank& r) {
  HLITE_CUDA(cudaMemcpyAsync(r.out, r.in, NcclRank::kValues * sizeof(float), cudaMemcpyDefault,
                             r.stream.get()));
  HLITE_CUDA(cudaStreamBeginCapture(r.stream.get(), cudaStreamCaptureModeThreadLocal));
  const bool called = ncclAllReduce(r.out, r.out, NcclRank::kValues, ncclFloat32, ncclSum, r.comm,
                                    r.stream.get()) == ncclSuccess;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  HLITE_CUDA(cudaStreamEndCapture(r.stream.get(), &graph));
  HLITE_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  HLITE_CUDA(cudaGraphDestroy(graph));
  for (int i = 0; i < 3; ++i) HLITE_CUDA(cudaGraphLaunch(exec, r.stream.get()));
  const auto n = static_cast<float>(r.ranks), sum = 100 * n * (n - 1) / 2;
  r.require(called, "captured call");
  r.require_values("captured sums", NcclRank::kValues,
                   [&](int i) { return n * n * (sum + n * static_cast<float>(i)); });
  // Here real NCCL would hang, since the graph still holds the captured call.
  r.require(ncclCommDestroy(r.comm) == ncclInvalidUsage, "destroyed too early");
  r.require(std::string(ncclGetLastError(r.comm)).find("captured work") != std::string::npos,
            "error message");
  HLITE_CUDA(cudaGraphExecDestroy(exec));
}

// Runs body(rank) for ranks [first, first + count) of `ranks`, each on its own thread and device.
// Returns the messages of the exceptions that they threw, one per line.
inline std::string on_ranks(ncclUniqueId id, int ranks, int first, int count,
                            const std::function<void(NcclRank&)>& body) {
  std::mutex mutex;
  std::string failures;
  std::vector<std::thread> threads;
  for (int r = 0; r < count; ++r)
    threads.emplace_back([&, r] {
      try {
        HLITE_CUDA(cudaSetDevice(r));
        NcclRank rank(id, first + r, ranks);
        body(rank);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        failures += std::string(error.what()) + "\n";
      }
    });
  for (std::thread& thread : threads) thread.join();
  return failures;
}

}  // namespace hlite::test
