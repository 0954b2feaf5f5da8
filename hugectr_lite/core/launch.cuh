// The one way to start a kernel. It checks the configuration before and the launch after, names the
// kernel in errors, and is a plain function call: so g++ compiles the same .cu files against the
// emulated runtime of tests/support/cuda_emulation, which runs them without a GPU.
//
//   launch({.name = "scale", .grid = dim3(blocks), .block = dim3(256), .stream = stream},
//          scale_kernel, x, 2.0f);
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "hugectr_lite/core/cuda_raii.cuh"

namespace hlite {

struct LaunchShape {
  const char* name = "kernel";
  dim3 grid{1};
  dim3 block{1};
  size_t shared_bytes = 0;  // dynamic shared memory
  cudaStream_t stream = nullptr;
  unsigned cluster = 1;  // blocks, neighbours in x, of a cluster (cluster.cuh), at most 8
};

// Limits of every device from compute capability 5.0 on.
inline constexpr unsigned kMaxGridX = 0x7fffffffu;
inline constexpr unsigned kMaxGridYZ = 65535;
inline constexpr unsigned kMaxBlockThreads = 1024;
inline constexpr unsigned kMaxBlockZ = 64;
inline constexpr int kWarp = 32;  // threads
// Dynamic shared memory that a kernel gets without asking.
inline constexpr size_t kPlainSharedBytes = 48 * 1024;

// Number of units that cover n, at most `limit`: the grid of a kernel with a stride loop.
inline dim3 grid_for(int64_t n, int64_t unit, int64_t limit = int64_t{1} << 20) {
  const int64_t blocks = n / unit + (n % unit != 0);
  return dim3(static_cast<unsigned>(blocks < limit ? blocks : limit));
}

namespace detail {

inline std::string text_of(dim3 d) {
  return std::string("(") + std::to_string(d.x) + "," + std::to_string(d.y) + "," +
         std::to_string(d.z) + ")";
}

inline void check_shape(const LaunchShape& shape) {
  const dim3 &grid = shape.grid, &block = shape.block;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMaxBlockThreads || block.z > kMaxBlockZ)
    throw CudaError(std::string(shape.name) + ": expected a block of 1 to " +
                    std::to_string(kMaxBlockThreads) + " threads, found " + text_of(block));
  if (grid.x > kMaxGridX || grid.y > kMaxGridYZ || grid.z > kMaxGridYZ)
    throw CudaError(std::string(shape.name) + ": expected a grid of at most " +
                    text_of({kMaxGridX, kMaxGridYZ, kMaxGridYZ}) + " blocks, found " +
                    text_of(grid));
}

// More than the plain 48 KiB of shared memory must be asked for, kernel by kernel.
inline void allow_shared(const LaunchShape& shape, const void* kernel) {
  if (shape.shared_bytes <= kPlainSharedBytes) return;
  int device = 0, limit = 0;
  HLITE_CUDA(cudaGetDevice(&device));
  HLITE_CUDA(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  if (shape.shared_bytes > static_cast<size_t>(limit))
    throw CudaError(std::string(shape.name) + ": expected at most " + std::to_string(limit) +
                    " bytes of shared memory, found " + std::to_string(shape.shared_bytes));
  HLITE_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shape.shared_bytes)));
}

// `cluster` must live as long as the configuration.
inline cudaLaunchConfig_t config_of(const LaunchShape& shape, cudaLaunchAttribute& cluster) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = shape.stream;
  if (shape.cluster == 1) return config;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = shape.cluster;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return config;
}

}  // namespace detail

// Blocks of `kernel`, of the shape's size and shared memory, that the current device runs at a
// time: the grid of a kernel whose threads work on one piece after another. At least 1; asks the
// host's driver only, and neither waits nor disturbs a capture.
template <typename... Params>
int64_t resident_blocks(const LaunchShape& shape, void (*kernel)(Params...)) {
  detail::check_shape(shape);
  const auto* const code = reinterpret_cast<const void*>(kernel);
  detail::allow_shared(shape, code);
  int device = 0, multiprocessors = 0, blocks = 0;
  HLITE_CUDA(cudaGetDevice(&device));
  HLITE_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const dim3& block = shape.block;
  HLITE_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, code, static_cast<int>(block.x * block.y * block.z), shape.shared_bytes));
  return std::max<int64_t>(1, int64_t{multiprocessors} * blocks);
}

// Returns true if the current device runs clusters of the shape, and has code of `kernel` that was
// compiled for such devices. Asks the host's driver only.
template <typename... Params>
bool runs_clusters(const LaunchShape& shape, void (*kernel)(Params...)) {
  const auto* const code = reinterpret_cast<const void*>(kernel);
  int device = 0, supported = 0, limit = 0, clusters = 0;
  HLITE_CUDA(cudaGetDevice(&device));
  HLITE_CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrClusterLaunch, device));
  HLITE_CUDA(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  if (!supported || shape.shared_bytes > static_cast<size_t>(limit)) return false;
  cudaFuncAttributes attributes{};
  HLITE_CUDA(cudaFuncGetAttributes(&attributes, code));
  if (attributes.ptxVersion < 90) return false;
  detail::allow_shared(shape, code);
  cudaLaunchAttribute cluster{};
  const cudaLaunchConfig_t config = detail::config_of(shape, cluster);
  HLITE_CUDA(cudaOccupancyMaxActiveClusters(&clusters, code, &config));
  return clusters > 0;
}

// Starts kernel(args...) on shape.stream. A grid without blocks is no work and no error.
template <typename... Params, typename... Args>
void launch(const LaunchShape& shape, void (*kernel)(Params...), Args&&... args) {
  detail::check_shape(shape);
  if (uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z == 0) return;
  detail::allow_shared(shape, reinterpret_cast<const void*>(kernel));
  cudaLaunchAttribute cluster{};
  const cudaLaunchConfig_t config = detail::config_of(shape, cluster);
#if !defined(__CUDACC__)
  emulation::launch_name = shape.name;
#endif
  check_cuda(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...), shape.name, __FILE__,
             __LINE__);
  check_cuda(cudaGetLastError(), shape.name, __FILE__, __LINE__);
}

#if defined(__CUDACC__)
// The block's dynamic shared memory, aligned to 128 bytes, as an array of T. (The emulated runtime
// brings its own.)
template <typename T>
__device__ inline T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
}
#endif

}  // namespace hlite
