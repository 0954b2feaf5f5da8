// The checked launch and the owners of CUDA resources, on the emulated runtime.
#include "hugectr_lite/core/launch.cuh"

#include <utility>
#include <vector>

#include "tests/cuda/cuda_owners.cuh"
#include "tests/cuda/emulation_kernels.cuh"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

TEST_CASE("launch refuses blocks and grids that no device runs") {
  std::vector<int> out(5);
  const auto message = [&](LaunchShape shape) {
    shape.name = "the_kernel";
    return message_of<CudaError>([&] { atomics(shape, out.data()); });
  };
  check_contains(message({.block = dim3(1025)}),
                 {"the_kernel", "1 to 1024 threads", "found (1025,1,1)"});
  check_contains(message({.block = dim3(0)}), {"found (0,1,1)"});
  check_contains(message({.block = dim3(1, 1, 65)}), {"found (1,1,65)"});
  check_contains(message({.block = dim3(65536, 65536, 1)}), {"found (65536,65536,1)"});
  check_contains(message({.grid = dim3(1, 65536)}), {"65535", "found (1,65536,1)"});
  check_contains(message({.grid = dim3(0x80000000u)}), {"found (2147483648,1,1)"});
  check_contains(message({.shared_bytes = 1 << 20}), {"at most 232448 bytes", "found 1048576"});
  CHECK(out == std::vector<int>(5));
}

TEST_CASE("launch reports clusters that the device or the grid does not allow") {
  std::vector<int> out(5);
  const auto message = [&](unsigned blocks, unsigned cluster) {
    return message_of<CudaError>([&] {
      atomics({.name = "the_kernel", .grid = dim3(blocks), .cluster = cluster}, out.data());
    });
  };
  check_contains(message(6, 4), {"the_kernel", "cudaErrorInvalidClusterSize"});
  check_contains(message(9, 9), {"cudaErrorInvalidClusterSize"});
  emulation::machine().has_clusters = false;
  check_contains(message(4, 4), {"cudaErrorInvalidClusterSize"});
  emulation::machine().has_clusters = true;
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(out == std::vector<int>(5));
  atomics({.name = "the_kernel", .grid = dim3(8), .cluster = 4}, out.data());
  CHECK(out[0] == 8);
}

TEST_CASE("launch of an empty grid is no work") {
  std::vector<int> out(5);
  atomics({.grid = dim3(0), .block = dim3(32)}, out.data());
  CHECK(out[0] == 0);
}

TEST_CASE("launch asks for more than 48 KiB of shared memory") {
  const unsigned threads = 1024;
  std::vector<int> out(threads);
  dimensions({.block = dim3(threads), .shared_bytes = 100 * 1024}, out.data());
  CHECK(out[0] == static_cast<int>(threads) - 1);
}

TEST_CASE("launch reports what the runtime says, and the error does not stick") {
  std::vector<int> out(5);
  emulation::machine().next_error = cudaErrorLaunchFailure;
  const std::string text =
      message_of<CudaError>([&] { atomics({.name = "the_kernel"}, out.data()); });
  check_contains(text, {"the_kernel", "cudaErrorLaunchFailure"});
  CHECK(cudaGetLastError() == cudaSuccess);
  atomics({.name = "the_kernel"}, out.data());
  CHECK(out[0] == 1);
}

TEST_CASE("grid_for covers every element and keeps its limit") {
  CHECK(grid_for(0, 256).x == 0);
  CHECK(grid_for(1, 256).x == 1);
  CHECK(grid_for(256, 256).x == 1);
  CHECK(grid_for(257, 256).x == 2);
  CHECK(grid_for(int64_t{1} << 40, 1).x == 1u << 20);
  CHECK(grid_for(100, 1, 7).x == 7);
}

TEST_CASE("HLITE_CUDA names call, place and error") {
  emulation::machine().next_error = cudaErrorMemoryAllocation;
  const std::string text = message_of<CudaError>([] { DeviceBuffer<float>(7, nullptr); });
  check_contains(text, {"cuda_raii.cuh:", "cudaMallocAsync", "cudaErrorMemoryAllocation"});
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("owners of CUDA resources give everything back once") {
  const emulation::Machine before = emulation::machine();
  {
    Stream stream;
    DeviceBuffer<float> buffer(33, stream.get());
    PinnedBuffer<int> pinned(5);
    Event event;
    event.record(stream.get());
    Stream other;
    event.hold_back(other.get());
    CHECK(emulation::machine().waits == before.waits + 1);
    CHECK(emulation::machine().streams == before.streams + 2);

    DeviceBuffer<float> moved(std::move(buffer));
    CHECK(buffer.data() == nullptr);  // NOLINT: moved from, on purpose
    CHECK(moved.size() == 33);
    DeviceBuffer<float> target(2, stream.get());
    target = std::move(moved);
    CHECK(target.size() == 33);
    PinnedBuffer<int> pinned_target;
    pinned_target = std::move(pinned);
    CHECK(pinned_target.span().size() == 5);
    stream.synchronize();
    Stream taken(std::move(stream));
    Event event_taken(std::move(event));
    CHECK(taken.get() != nullptr);
    CHECK(event_taken.get() != nullptr);
    const DeviceBuffer<float> empty(0, taken.get());
    CHECK(empty.data() == nullptr);
    std::swap(target, moved);
    moved = {};  // while its stream lives
    target = {};
  }
  const emulation::Machine& after = emulation::machine();
  CHECK(after.streams == before.streams);
  CHECK(after.events == before.events);
  CHECK(after.device_blocks == before.device_blocks);
  CHECK(after.pinned_blocks == before.pinned_blocks);
}

TEST_CASE("a device guard returns to the device before") {
  emulation::machine().devices = 3;
  HLITE_CUDA(cudaSetDevice(1));
  int device = -1;
  {
    const DeviceGuard guard(2);
    HLITE_CUDA(cudaGetDevice(&device));
    CHECK(device == 2);
    CHECK_THROWS_AS(DeviceGuard(3), CudaError);
  }
  HLITE_CUDA(cudaGetDevice(&device));
  CHECK(device == 1);
  HLITE_CUDA(cudaSetDevice(0));
  emulation::machine().devices = 1;
}

}  // namespace
}  // namespace hlite::test
