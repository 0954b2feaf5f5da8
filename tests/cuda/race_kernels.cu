#include "tests/cuda/race_kernels.cuh"

#include <cuda_pipeline_primitives.h>

#include "hugectr_lite/core/cluster.cuh"

namespace hlite::test {
namespace {

constexpr int kThreads = 64;

__device__ void come_together(Barrier barrier) {
  if (barrier == Barrier::kWarp) __syncwarp();
  if (barrier == Barrier::kBlock) __syncthreads();
  if (barrier == Barrier::kShuffle) (void)__shfl_sync(0xffffffffu, 0, 0);
}

__device__ int thread_ahead(int ahead) {
  return (static_cast<int>(threadIdx.x) + ahead) % kThreads;
}

__global__ void pass_on_kernel(int ahead, Barrier barrier, const int* in, int* out) {
  __shared__ int tile[kThreads];
  const unsigned first = blockIdx.x * kThreads;
  tile[threadIdx.x] = in[first + threadIdx.x];
  come_together(barrier);
  out[first + threadIdx.x] = tile[thread_ahead(ahead)];
}

__global__ void pass_on_globally_kernel(int ahead, Barrier barrier, int* at, int* out) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x, all = gridDim.x * kThreads;
  at[i] = static_cast<int>(i);
  come_together(barrier);
  out[i] = at[(i + static_cast<unsigned>(ahead)) % all];
}

__global__ void reuse_tile_kernel(Barrier barrier, const int* in, int* out) {
  int* const tile = dynamic_shared<int>();
  for (int turn = 0; turn < 2; ++turn) {
    tile[threadIdx.x] = in[threadIdx.x] + turn;
    __syncthreads();
    out[turn * kThreads + static_cast<int>(threadIdx.x)] = tile[thread_ahead(33)];
    come_together(barrier);
  }
}

__global__ void pass_on_in_cluster_kernel(unsigned ahead, bool writes, Unmet unmet, const int* in,
                                          int* out) {
  auto* const tile = dynamic_shared<uint32_t>() + threadIdx.x;
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  const unsigned other = (cluster_rank() + ahead) % 4;
  const auto value = static_cast<uint32_t>(in[i]);
  if (unmet != Unmet::kAtStart) cluster_sync();
  if (writes)
    cluster_store(tile, other, value);
  else
    *tile = value;
  if (unmet == Unmet::kBlockOnly)
    __syncthreads();
  else if (unmet != Unmet::kBetween)
    cluster_sync();
  out[i] = static_cast<int>(writes ? *tile : cluster_load(tile, other));
  if (unmet != Unmet::kAtEnd) cluster_sync();
}

__global__ void fetch_kernel(Barrier barrier, const int* in, int* out) {
  int* const tile = dynamic_shared<int>();
  __pipeline_memcpy_async(tile + threadIdx.x, in + threadIdx.x, sizeof(int));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  come_together(barrier);
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

__global__ void count_kernel(bool atomic, int* count) {
  if (atomic)
    atomicAdd(count, 1);
  else
    ++*count;
}

__global__ void look_and_set_kernel(bool is_volatile, int* flag, int* seen) {
  if (is_volatile)
    seen[threadIdx.x] = *static_cast<volatile int*>(flag);
  else
    seen[threadIdx.x] = *flag;
  if (threadIdx.x == 5) atomicExch(flag, 1);
}

__global__ void write_bytes_kernel(bool before, char* to) {
  to[threadIdx.x] = 1;
  if (before && threadIdx.x > 0) to[threadIdx.x - 1] = 1;
}

__device__ bool count_block(Missing missing, unsigned* count) {
  if (missing != Missing::kFenceBefore) __threadfence();
  const bool last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
  if (missing != Missing::kFenceAfter) __threadfence();
  return last;
}

__global__ void hand_to_last_block_kernel(Missing missing, int* parts, unsigned* count, int* out) {
  __shared__ bool last;
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (missing != Missing::kEarly) parts[i] = static_cast<int>(i);
  if (missing != Missing::kBarrierBefore) __syncthreads();
  if (threadIdx.x == 0) last = count_block(missing, count);
  if (missing == Missing::kEarly) parts[i] = static_cast<int>(i);
  if (missing != Missing::kBarrierAfter) __syncthreads();
  if (!last) return;
  int sum = 0;
  for (unsigned block = 0; block < gridDim.x; ++block)
    sum += parts[block * kThreads + static_cast<unsigned>(thread_ahead(1))];
  out[threadIdx.x] = sum;
}

__global__ void hand_to_last_thread_kernel(Missing missing, int* parts, unsigned* count, int* out) {
  if (threadIdx.x != 0) return;
  if (missing != Missing::kEarly) parts[blockIdx.x] = 1;
  const bool last = count_block(missing, count);
  if (missing == Missing::kEarly) parts[blockIdx.x] = 1;
  if (!last) return;
  *out = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) *out += parts[block];
}

LaunchShape shape_of(const char* name, int blocks = 1, size_t shared_bytes = 0) {
  return {.name = name,
          .grid = dim3(static_cast<unsigned>(blocks)),
          .block = dim3(kThreads),
          .shared_bytes = shared_bytes};
}

}  // namespace

void pass_on(int ahead, Barrier barrier, const int* in, int* out) {
  launch(shape_of("pass_on", 2), pass_on_kernel, ahead, barrier, in, out);
}
void pass_on_globally(int blocks, int ahead, Barrier barrier, int* at, int* out) {
  launch(shape_of("pass_on_globally", blocks), pass_on_globally_kernel, ahead, barrier, at, out);
}
void reuse_tile(Barrier barrier, const int* in, int* out) {
  launch(shape_of("reuse_tile", 1, kThreads * sizeof(int)), reuse_tile_kernel, barrier, in, out);
}
void pass_on_in_cluster(int ahead, bool writes, Unmet unmet, const int* in, int* out) {
  LaunchShape shape = shape_of("pass_on_in_cluster", 8, kThreads * sizeof(int));
  shape.cluster = 4;
  launch(shape, pass_on_in_cluster_kernel, static_cast<unsigned>(ahead), writes, unmet, in, out);
}
void fetch_and_pass_on(Barrier barrier, const int* in, int* out) {
  launch(shape_of("fetch", 1, kThreads * sizeof(int)), fetch_kernel, barrier, in, out);
}
void count_threads(int blocks, bool atomic, int* count) {
  launch(shape_of("count_threads", blocks), count_kernel, atomic, count);
}
void look_and_set(bool is_volatile, int* flag, int* seen) {
  launch(shape_of("look_and_set"), look_and_set_kernel, is_volatile, flag, seen);
}
void write_bytes(bool before, char* to) {
  launch(shape_of("write_bytes"), write_bytes_kernel, before, to);
}
void hand_to_last_block(int blocks, Missing missing, int* parts, unsigned* count, int* out) {
  launch(shape_of("hand_to_last_block", blocks), hand_to_last_block_kernel, missing, parts, count,
         out);
}
void hand_to_last_thread(int blocks, Missing missing, int* parts, unsigned* count, int* out) {
  launch(shape_of("hand_to_last_thread", blocks), hand_to_last_thread_kernel, missing, parts, count,
         out);
}

}  // namespace hlite::test
