// Kernels for the self test of the emulation: each uses one feature of a block.
#include "tests/cuda/emulation_kernels.cuh"

#include <cuda/atomic>

namespace hlite::test {
namespace {

// Every thread reads what its mirror wrote: wrong without the barrier, in any order of threads.
__global__ void mirror_kernel(const int* in, int* out) {
  __shared__ int tile[256];
  const unsigned t = threadIdx.x, n = blockDim.x;
  tile[t] = in[blockIdx.x * n + t];
  __syncthreads();
  out[blockIdx.x * n + t] = tile[n - 1 - t];
}

__global__ void mirror_without_barrier_kernel(const int* in, int* out) {
  __shared__ int tile[256];
  const unsigned t = threadIdx.x, n = blockDim.x;
  tile[t] = in[blockIdx.x * n + t];
  out[blockIdx.x * n + t] = tile[n - 1 - t];
}

__device__ int warp_sum(int value) {
  for (unsigned delta = 16; delta > 0; delta /= 2)
    value += __shfl_down_sync(0xffffffffu, value, delta);
  return value;
}

// Sum of a block: shuffles within warps, shared memory between them.
__global__ void block_sum_kernel(const int* in, int* out) {
  __shared__ int sums[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int sum = warp_sum(in[blockIdx.x * blockDim.x + threadIdx.x]);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    const int total = warp_sum(lane < blockDim.x / 32 ? sums[lane] : 0);
    if (lane == 0) out[blockIdx.x] = total;
  }
}

// out[0] counts threads, out[1] sums their blocks, out[2] the largest global index, out[3] the
// winner of a compare-and-swap from -1, which one thread must get.
__global__ void atomics_kernel(int* out) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(&out[0], 1);
  atomicAdd(&out[1], static_cast<int>(blockIdx.x));
  atomicMax(&out[2], i);
  if (atomicCAS(&out[3], -1, i) == -1) atomicAdd(&out[4], 1);
}

// Four words a lane: ballot of odd lanes, any, all, and the value of lane (lane ^ 1).
__global__ void votes_kernel(unsigned* out) {
  const unsigned lane = threadIdx.x % 32;
  unsigned* mine = out + 4 * threadIdx.x;
  mine[0] = __ballot_sync(0xffffffffu, lane % 2);
  mine[1] = static_cast<unsigned>(__any_sync(0xffffffffu, lane == 7));
  mine[2] = static_cast<unsigned>(__all_sync(0xffffffffu, lane < 31));
  mine[3] = __shfl_xor_sync(0xffffffffu, lane, 1);
  __syncwarp();
}

// Segments of 8 lanes: the sum of the lanes before, and the value of the segment's lane 2.
__global__ void segments_kernel(int* before, double* second) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  int sum = lane;
  for (unsigned delta = 1; delta < 8; delta *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, sum, delta, 8);
    if (static_cast<unsigned>(lane % 8) >= delta) sum += other;
  }
  before[threadIdx.x] = sum - lane;
  second[threadIdx.x] = __shfl_sync(0xffffffffu, lane * 0.5, 2, 8);
}

// Dynamic shared memory and all three dimensions: out[linear thread] = linear index backwards.
__global__ void dimensions_kernel(int* out) {
  int* tile = dynamic_shared<int>();
  const unsigned n = blockDim.x * blockDim.y * blockDim.z;
  const unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  tile[t] = static_cast<int>(b * n + t);
  __syncthreads();
  out[b * n + t] = tile[n - 1 - t];
}

// ---- Between devices ----

__global__ void move_kernel(const float* from, float* to, int n) {
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
    to[i] = from[i];
}

__global__ void signal_kernel(unsigned* word, unsigned value) {
  __threadfence_system();
  ::cuda::atomic_ref<unsigned>(*word).store(value, ::cuda::std::memory_order_release);
}

__global__ void await_kernel(unsigned* word, unsigned value) {
  while (::cuda::atomic_ref<unsigned>(*word).load(::cuda::std::memory_order_acquire) < value)
    __nanosleep(100);
}

// ---- Wrong on purpose: for the emulation only, a device would hang or worse ----

__global__ void half_barrier_kernel() {
  if (threadIdx.x < 5) __syncthreads();
}

__global__ void two_barriers_kernel() {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void half_shuffle_kernel(int* out) {
  if (threadIdx.x % 32 != 3)
    out[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
  else
    __syncthreads();
}

__global__ void absent_lane_kernel(int* out) {
  if (threadIdx.x < 8) out[threadIdx.x] = __shfl_sync(0xffu, 1, 20);
}

__global__ void unnamed_lane_kernel(int* out) { out[threadIdx.x] = __shfl_sync(0x7u, 1, 0); }

}  // namespace

void mirror(const LaunchShape& shape, const int* in, int* out) {
  launch(shape, mirror_kernel, in, out);
}
void mirror_without_barrier(const LaunchShape& shape, const int* in, int* out) {
  launch(shape, mirror_without_barrier_kernel, in, out);
}
void block_sum(const LaunchShape& shape, const int* in, int* out) {
  launch(shape, block_sum_kernel, in, out);
}
void atomics(const LaunchShape& shape, int* out) { launch(shape, atomics_kernel, out); }
void votes(const LaunchShape& shape, unsigned* out) { launch(shape, votes_kernel, out); }
void segments(const LaunchShape& shape, int* before, double* second) {
  launch(shape, segments_kernel, before, second);
}
void dimensions(const LaunchShape& shape, int* out) { launch(shape, dimensions_kernel, out); }

void move_values(cudaStream_t stream, const float* from, float* to, int n) {
  launch({.name = "move_values", .block = dim3(32), .stream = stream}, move_kernel, from, to, n);
}
void signal_word(cudaStream_t stream, unsigned* word, unsigned value) {
  launch({.name = "signal_word", .stream = stream}, signal_kernel, word, value);
}
void await_word(cudaStream_t stream, unsigned* word, unsigned value) {
  launch({.name = "await_word", .stream = stream}, await_kernel, word, value);
}

void half_barrier(const LaunchShape& shape) { launch(shape, half_barrier_kernel); }
void two_barriers(const LaunchShape& shape) { launch(shape, two_barriers_kernel); }
void half_shuffle(const LaunchShape& shape, int* out) { launch(shape, half_shuffle_kernel, out); }
void absent_lane(const LaunchShape& shape, int* out) { launch(shape, absent_lane_kernel, out); }
void unnamed_lane(const LaunchShape& shape, int* out) { launch(shape, unnamed_lane_kernel, out); }

}  // namespace hlite::test
