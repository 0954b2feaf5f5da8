// What tests plant on emulated devices happens there, and nowhere else.
#include "tests/support/cuda_emulation/planted.h"

#include "hugectr_lite/core/cuda_raii.cuh"
#include "tests/cuda/emulation_kernels.cuh"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

using emulation::plant;
using What = emulation::Planted::What;

struct PlantedScope {
  explicit PlantedScope(const emulation::Planted& planted) { plant(planted); }
  ~PlantedScope() {
    plant({});
    (void)cudaGetLastError();  // which later tests of this process would find
  }
  PlantedScope(const PlantedScope&) = delete;
  PlantedScope& operator=(const PlantedScope&) = delete;
};

// A stream of a device, with a float there.
struct ValueOnDevice {
  explicit ValueOnDevice(int number) : device((HLITE_CUDA(cudaSetDevice(number)), number)) {
    HLITE_CUDA(cudaMalloc(reinterpret_cast<void**>(&value), sizeof(float)));
  }
  ~ValueOnDevice() { (void)cudaFree(value); }
  [[nodiscard]] cudaError_t clear() const {
    return cudaMemsetAsync(value, 0, sizeof(float), stream.get());
  }
  [[nodiscard]] cudaError_t finish() const { return cudaStreamSynchronize(stream.get()); }
  const int device;
  Stream stream;
  float* value = nullptr;
};

TEST_CASE("the n-th call of a name fails on the device that it is planted for, and each after it") {
  const EmulatedDevices machine(2);
  const ValueOnDevice a(0), b(1);
  const PlantedScope planted(
      {.what = What::kFails, .device = 1, .name = "set memory", .nth = 2, .every = 3});
  for (int i = 1; i <= 6; ++i) {
    CHECK(a.clear() == cudaSuccess);
    CHECK(b.clear() == (i == 2 || i == 5 ? cudaErrorLaunchFailure : cudaSuccess));
  }
  CHECK(emulation::counted() == 6);
  CHECK(b.finish() == cudaSuccess);
}

TEST_CASE("a device whose work fails while it runs says so from then on, and runs nothing") {
  const EmulatedDevices machine(2);
  const LateStreams late;
  const ValueOnDevice a(0), b(1);
  HLITE_CUDA(b.clear());
  HLITE_CUDA(b.finish());
  const float* const at = b.value;
  {
    const PlantedScope planted({.what = What::kFailsRunning, .device = 1, .nth = 1});
    CHECK(b.clear() == cudaSuccess);
    int later = 0;
    emulation::submit(b.stream.get(), [&later] { ++later; });
    CHECK(b.finish() == cudaErrorLaunchFailure);
    CHECK(later == 0);
    CHECK(b.clear() == cudaErrorLaunchFailure);
    void* more = nullptr;
    CHECK(cudaMalloc(&more, 8) == cudaErrorLaunchFailure);
    CHECK(a.clear() == cudaSuccess);
    CHECK(a.finish() == cudaSuccess);
  }
  CHECK(b.value == at);
  CHECK(b.clear() == cudaSuccess);
  CHECK(b.finish() == cudaSuccess);
}

TEST_CASE("memory is freed although other work fails while the call waits") {
  const EmulatedDevices machine(2);
  const LateStreams late;
  const ValueOnDevice other(1);
  const emulation::Machine& blocks = emulation::machine();
  const int pinned = blocks.pinned_blocks, device = blocks.device_blocks;
  void *on_host = nullptr, *on_device = nullptr;
  HLITE_CUDA(cudaMallocHost(&on_host, 4));
  HLITE_CUDA(cudaMalloc(&on_device, 4));
  const auto failing = [&] {
    emulation::submit(other.stream.get(), [] { throw emulation::EmulationError("it fails"); });
  };
  failing();
  failing();  // each is its own error
  CHECK_THROWS_AS(cudaFreeHost(on_host), emulation::EmulationError);
  CHECK(blocks.pinned_blocks == pinned);
  failing();
  CHECK_THROWS_AS(cudaFree(on_device), emulation::EmulationError);
  CHECK(blocks.device_blocks == device);
}

TEST_CASE("a work that is left out does not run, and others do") {
  const EmulatedDevices machine(2);
  const ValueOnDevice a(0);
  int runs[2] = {};
  const PlantedScope planted({.what = What::kLeftOut, .device = 0, .name = "second", .nth = 1});
  emulation::submit(
      a.stream.get(), [&runs] { ++runs[0]; }, "first");
  emulation::submit(
      a.stream.get(), [&runs] { ++runs[1]; }, "second");
  CHECK(a.finish() == cudaSuccess);
  CHECK(runs[0] == 1);
  CHECK(runs[1] == 0);
}

// Streams a, b and c of one device: c waits for a by way of b, and then for a itself.
std::string what_is_said(bool by_way, bool captured) {
  const EmulatedDevices machine(2);
  const ValueOnDevice a(0);
  const Stream b, c, origin;
  Event begun, of_a, of_b, end_b, end_c;
  cudaGraph_t graph = nullptr;
  if (captured) {
    HLITE_CUDA(cudaStreamBeginCapture(origin.get(), cudaStreamCaptureModeThreadLocal));
    begun.record(origin.get());
    for (const Stream* stream : {&a.stream, &b, &c}) begun.hold_back(stream->get());
  }
  emulation::submit(
      a.stream.get(), [] {}, "made");
  of_a.record(a.stream.get());
  of_a.hold_back(b.get());
  emulation::submit(
      b.get(), [] {}, "between");
  of_b.record(b.get());
  if (by_way) of_b.hold_back(c.get());
  of_a.hold_back(c.get());
  emulation::submit(
      c.get(), [] {}, "used");
  if (captured) {
    end_b.record(b.get());
    end_b.hold_back(origin.get());
    end_c.record(c.get());
    end_c.hold_back(origin.get());
    of_a.hold_back(origin.get());
    HLITE_CUDA(cudaStreamEndCapture(origin.get(), &graph));
    HLITE_CUDA(cudaGraphDestroy(graph));
  }
  HLITE_CUDA(cudaDeviceSynchronize());
  return emulation::left_out();
}

TEST_CASE("of a wait that is left out it is known whether another order implies it") {
  for (const bool captured : {false, true})
    for (const bool by_way : {false, true}) {
      INFO(captured << " " << by_way);
      const PlantedScope planted({.what = What::kLeftOut,
                                  .device = 0,
                                  .name = "wait",
                                  .nth = (captured ? 3 : 0) + (by_way ? 3 : 2)});
      const std::string said = what_is_said(by_way, captured);
      check_contains(said, {"left out: wait ", " of device 0", "used for "});
      CHECK((said.find(": implied") != std::string::npos) == by_way);
      CHECK((said.find("for made") != std::string::npos) == (!captured || !by_way));
    }
}

}  // namespace
}  // namespace hlite::test
