// What the stand-in for the CUDA runtime refuses because the real one does, or may hang.
#include <array>
#include <string>

#include "hugectr_lite/core/cuda_raii.cuh"
#include "tests/cuda/emulation_kernels.cuh"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

using emulation::EmulationError;

// Takes a call's error out of the runtime's memory.
cudaError_t taken(cudaError_t error) {
  (void)cudaGetLastError();
  return error;
}

// A graph on a device that waits until `word` is not 0.
struct WaitingGraph {
  WaitingGraph() {
    HLITE_CUDA(cudaMalloc(reinterpret_cast<void**>(&word), sizeof(uint32_t)));
    HLITE_CUDA(cudaMemsetAsync(word, 0, sizeof(uint32_t), stream.get()));
    stream.synchronize();
    HLITE_CUDA(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
    await_word(stream.get(), word, 1);
    cudaGraph_t graph = nullptr;
    HLITE_CUDA(cudaStreamEndCapture(stream.get(), &graph));
    HLITE_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    HLITE_CUDA(cudaGraphDestroy(graph));
  }
  ~WaitingGraph() {
    (void)cudaGraphExecDestroy(exec);
    (void)cudaFree(word);
  }
  WaitingGraph(const WaitingGraph&) = delete;
  WaitingGraph& operator=(const WaitingGraph&) = delete;
  void launch() const { HLITE_CUDA(cudaGraphLaunch(exec, stream.get())); }
  // What it waits for comes.
  void release() const {
    const Stream other;
    HLITE_CUDA(cudaMemsetAsync(word, 1, sizeof(uint32_t), other.get()));
    stream.synchronize();
  }
  Stream stream;
  uint32_t* word = nullptr;
  cudaGraphExec_t exec = nullptr;
};

TEST_CASE(
    "memory of several devices is neither taken nor freed during a graph that waits for work to "
    "come") {
  const EmulatedDevices machine(2);
  const WaitingGraph graph, second;
  std::array<char, 64> host{};
  void *early = nullptr, *data = nullptr;
  HLITE_CUDA(cudaMalloc(&early, 16));
  graph.launch();
  const std::string words = "during a kernel that waits for work which has not been launched";
  const auto refuses = [&](auto&& call) {
    check_contains(message_of<EmulationError>([&] { (void)call(); }),
                   {words.c_str(), "a word that is 0"});
  };
  HLITE_CUDA(cudaSetDevice(1));  // peers count, too
  refuses([&] { return cudaMalloc(&data, 16); });
  refuses([&] { return cudaMallocHost(&data, 16); });
  refuses([&] { return cudaHostRegister(host.data(), host.size(), cudaHostRegisterDefault); });
  refuses([&] { return cudaFree(early); });
  HLITE_CUDA(cudaSetDevice(0));
  refuses([&] { return cudaDeviceEnablePeerAccess(1, 0); });
  refuses([&] { return cudaGraphUpload(second.exec, second.stream.get()); });
  refuses([&] { return cudaGraphLaunch(second.exec, second.stream.get()); });
  graph.release();
  CHECK(cudaMalloc(&data, 16) == cudaSuccess);
  CHECK(cudaFree(data) == cudaSuccess);
  CHECK(cudaFree(early) == cudaSuccess);
}

TEST_CASE("a graph that was uploaded is launched while another one waits") {
  const EmulatedDevices machine(2);
  const WaitingGraph first, second;
  HLITE_CUDA(cudaGraphUpload(second.exec, second.stream.get()));
  first.launch();
  CHECK_NOTHROW(second.launch());
  second.release();
  first.release();
}

TEST_CASE("a capture takes no calls that wait, free, lock memory or launch a graph") {
  const Stream stream;
  const WaitingGraph graph;
  std::array<char, 64> host{};
  void *device = nullptr, *pinned = nullptr;
  HLITE_CUDA(cudaMalloc(&device, 16));
  HLITE_CUDA(cudaMallocHost(&pinned, 16));
  HLITE_CUDA(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  CHECK(taken(cudaFree(device)) == cudaErrorStreamCaptureUnsupported);
  CHECK(taken(cudaFreeHost(pinned)) == cudaErrorStreamCaptureUnsupported);
  CHECK(taken(cudaHostRegister(host.data(), host.size(), 0)) == cudaErrorStreamCaptureUnsupported);
  CHECK(taken(cudaGraphLaunch(graph.exec, stream.get())) == cudaErrorStreamCaptureUnsupported);
  CHECK(taken(cudaGraphUpload(graph.exec, stream.get())) == cudaErrorStreamCaptureUnsupported);
  cudaGraph_t captured = nullptr;
  HLITE_CUDA(cudaStreamEndCapture(stream.get(), &captured));
  HLITE_CUDA(cudaGraphDestroy(captured));
  HLITE_CUDA(cudaFree(device));
  HLITE_CUDA(cudaFreeHost(pinned));
}

TEST_CASE("host memory is page-locked once, blocks of one page each for itself") {
  alignas(4096) static std::array<char, 4096> page{};
  CHECK(cudaHostRegister(page.data() + 64, 64, 0) == cudaSuccess);
  CHECK(cudaHostRegister(page.data() + 128, 64, 0) == cudaSuccess);
  for (const auto& [at, bytes] :
       {std::pair<size_t, size_t>{64, 64}, {0, 65}, {100, 8}, {191, 8}, {0, 4096}})
    CHECK(taken(cudaHostRegister(page.data() + at, bytes, 0)) ==
          cudaErrorHostMemoryAlreadyRegistered);
  CHECK(cudaHostRegister(page.data(), 64, 0) == cudaSuccess);
  for (const size_t at : {64, 128, 0}) CHECK(cudaHostUnregister(page.data() + at) == cudaSuccess);
  CHECK(taken(cudaHostUnregister(page.data())) == cudaErrorHostMemoryNotRegistered);
}

TEST_CASE("events without timing have no time") {
  const Stream stream;
  cudaEvent_t timed = nullptr, plain = nullptr;
  HLITE_CUDA(cudaEventCreateWithFlags(&timed, cudaEventDefault));
  HLITE_CUDA(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
  for (const cudaEvent_t event : {timed, plain}) HLITE_CUDA(cudaEventRecord(event, stream.get()));
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, timed, timed) == cudaSuccess);
  CHECK(taken(cudaEventElapsedTime(&ms, timed, plain)) == cudaErrorInvalidResourceHandle);
  HLITE_CUDA(cudaEventDestroy(timed));
  HLITE_CUDA(cudaEventDestroy(plain));
}

}  // namespace
}  // namespace hlite::test
