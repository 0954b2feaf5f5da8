// Several emulated devices: whose memory, streams and events are whose, and who may touch them.
#include <thread>
#include <vector>

#include "hugectr_lite/core/cuda_raii.cuh"
#include "tests/cuda/emulation_kernels.cuh"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

using emulation::EmulationError;

// Four floats in the memory of a device, with a stream of it.
struct DeviceValues {
  static constexpr int kValues = 4;
  explicit DeviceValues(int number) : device((HLITE_CUDA(cudaSetDevice(number)), number)) {
    HLITE_CUDA(cudaMalloc(reinterpret_cast<void**>(&data), kValues * sizeof(float)));
    const std::vector<float> first(kValues, static_cast<float>(number));
    HLITE_CUDA(cudaMemcpyAsync(data, first.data(), kValues * sizeof(float), cudaMemcpyDefault,
                               stream.get()));
    stream.synchronize();
  }
  ~DeviceValues() { (void)cudaFree(data); }
  [[nodiscard]] std::vector<float> read() const {
    std::vector<float> values(kValues);
    HLITE_CUDA(cudaMemcpyAsync(values.data(), data, kValues * sizeof(float), cudaMemcpyDefault,
                               stream.get()));
    stream.synchronize();
    return values;
  }
  const int device;
  Stream stream;
  float* data = nullptr;
};

void move_between(const DeviceValues& from, const DeviceValues& to, const DeviceValues& runs) {
  HLITE_CUDA(cudaSetDevice(runs.device));
  move_values(runs.stream.get(), from.data, to.data, DeviceValues::kValues);
  runs.stream.synchronize();
}

TEST_CASE("a kernel that touches a peer's memory without access names both devices") {
  const EmulatedDevices machine(3);
  const DeviceValues a(0), b(1), c(2);
  check_contains(message_of<EmulationError>([&] { move_between(a, b, a); }),
                 {"move_values of device 0 touches memory of device 1 without access",
                  "byte 0 of a block of 16 bytes of device 1", "cudaDeviceEnablePeerAccess"});
  check_contains(message_of<EmulationError>([&] { move_between(b, a, a); }),
                 {"of device 0 touches memory of device 1"});
  CHECK(b.read() == std::vector<float>(4, 1));

  HLITE_CUDA(cudaSetDevice(0));
  HLITE_CUDA(cudaDeviceEnablePeerAccess(1, 0));
  move_between(a, b, a);
  CHECK(b.read() == std::vector<float>(4, 0));
  // One way, and to that peer only.
  check_contains(message_of<EmulationError>([&] { move_between(a, b, b); }),
                 {"of device 1 touches memory of device 0"});
  check_contains(message_of<EmulationError>([&] { move_between(a, c, a); }),
                 {"of device 0 touches memory of device 2"});
  HLITE_CUDA(cudaSetDevice(0));
  HLITE_CUDA(cudaDeviceDisablePeerAccess(1));
  CHECK_THROWS_AS(move_between(a, b, a), EmulationError);
  move_between(c, c, c);  // the machine works on
}

TEST_CASE("work of a library that touches a peer's memory is seen, too") {
  const EmulatedDevices machine(2);
  const DeviceValues a(0), b(1);
  HLITE_CUDA(cudaSetDevice(1));
  check_contains(message_of<EmulationError>([&] {
                   emulation::submit(b.stream.get(), [&] { a.data[1] = 5; });
                   b.stream.synchronize();
                 }),
                 {"library call of device 1 touches memory of device 0", "byte 4 of a block"});
  CHECK(a.read() == std::vector<float>(4, 0));
}

TEST_CASE("copies need access to a peer's memory, but for those between peers") {
  const EmulatedDevices machine(2);
  const DeviceValues a(0), b(1);
  const auto copy = [&] {
    HLITE_CUDA(cudaMemcpyAsync(a.data, b.data, 16, cudaMemcpyDefault, a.stream.get()));
  };
  check_contains(message_of<EmulationError>(copy),
                 {"a copy of device 0 touches memory of device 1"});
  check_contains(message_of<EmulationError>(
                     [&] { HLITE_CUDA(cudaMemsetAsync(b.data, 0, 16, a.stream.get())); }),
                 {"of device 0 touches memory of device 1"});
  HLITE_CUDA(cudaMemcpyPeerAsync(a.data, 0, b.data, 1, 16, a.stream.get()));
  CHECK(a.read() == std::vector<float>(4, 1));
  check_contains(message_of<EmulationError>([&] {
                   HLITE_CUDA(cudaMemcpyPeerAsync(a.data, 1, b.data, 1, 16, a.stream.get()));
                 }),
                 {"the end of a peer copy of device 1 touches memory of device 0"});
}

TEST_CASE("memory of a pool is never open to peers") {
  const EmulatedDevices machine(2, /*peers=*/true);
  const DeviceValues a(0), b(1);
  move_between(a, b, b);
  HLITE_CUDA(cudaSetDevice(0));
  const DeviceBuffer<float> pool(4, a.stream.get());
  HLITE_CUDA(cudaSetDevice(1));
  check_contains(message_of<EmulationError>([&] {
                   move_values(b.stream.get(), pool.data(), b.data, 4);
                   b.stream.synchronize();
                 }),
                 {"of device 1 touches memory of device 0", "not of a pool"});
}

TEST_CASE("every device has its own memory, and a thread its own device") {
  const EmulatedDevices machine(2);
  const size_t bytes = std::exchange(emulation::machine().memory_bytes, 1000);
  const auto take = [](int device, size_t n) {
    HLITE_CUDA(cudaSetDevice(device));
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, n);
    (void)cudaGetLastError();
    return std::pair(error, data);
  };
  const auto first = take(0, 800);
  CHECK(take(0, 800).first == cudaErrorMemoryAllocation);
  std::pair<cudaError_t, void*> second;
  size_t left = 0, all = 0;
  std::thread([&] {
    second = take(1, 800);
    HLITE_CUDA(cudaMemGetInfo(&left, &all));
  }).join();
  CHECK(second.first == cudaSuccess);
  CHECK((left == 200 && all == 1000));
  int device = -1;
  HLITE_CUDA(cudaGetDevice(&device));
  CHECK(device == 0);
  HLITE_CUDA(cudaFree(first.second));
  HLITE_CUDA(cudaFree(second.second));
  emulation::machine().memory_bytes = bytes;
}

TEST_CASE("streams and events belong to a device") {
  const EmulatedDevices machine(2);
  const DeviceValues a(0), b(1);
  Event of_b;
  HLITE_CUDA(cudaSetDevice(0));
  check_contains(message_of<CudaError>([&] { move_values(b.stream.get(), b.data, b.data, 1); }),
                 {"move_values", "cudaErrorInvalidResourceHandle"});
  check_contains(message_of<CudaError>([&] { of_b.record(a.stream.get()); }),
                 {"cudaErrorInvalidResourceHandle"});
  of_b.record(b.stream.get());
  of_b.hold_back(a.stream.get());  // which may be of another device
  const Event of_a;
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, of_a.get(), of_b.get()) == cudaErrorInvalidResourceHandle);
  (void)cudaGetLastError();
}

TEST_CASE("peer access is asked for once, between devices that have it") {
  const EmulatedDevices machine(2);
  int can = -1;
  HLITE_CUDA(cudaDeviceCanAccessPeer(&can, 0, 1));
  CHECK(can == 1);
  HLITE_CUDA(cudaDeviceCanAccessPeer(&can, 1, 1));
  CHECK(can == 0);
  CHECK(cudaDeviceCanAccessPeer(&can, 0, 2) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled);
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  emulation::machine().peers_connected = false;
  HLITE_CUDA(cudaDeviceCanAccessPeer(&can, 0, 1));
  CHECK(can == 0);
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessUnsupported);
  emulation::machine().peers_connected = true;
  (void)cudaGetLastError();
}

TEST_CASE("a capture takes no work of outside, and its events are of no use outside") {
  const EmulatedDevices machine(1);
  const Stream inside, outside;
  Event captured, plain;
  plain.record(outside.get());
  HLITE_CUDA(cudaStreamBeginCapture(inside.get(), cudaStreamCaptureModeThreadLocal));
  CHECK(cudaStreamWaitEvent(inside.get(), plain.get(), 0) == cudaErrorStreamCaptureIsolation);
  captured.record(inside.get());
  cudaGraph_t graph = nullptr;
  HLITE_CUDA(cudaStreamEndCapture(inside.get(), &graph));
  HLITE_CUDA(cudaGraphDestroy(graph));
  CHECK(cudaStreamWaitEvent(outside.get(), captured.get(), 0) == cudaErrorCapturedEvent);
  CHECK(cudaEventSynchronize(captured.get()) == cudaErrorCapturedEvent);
  CHECK(cudaEventQuery(captured.get()) == cudaErrorCapturedEvent);
  (void)cudaGetLastError();
}

}  // namespace
}  // namespace hlite::test
