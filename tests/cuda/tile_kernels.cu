// Kernels for the self test of the emulated tensor cores and asynchronous copies.
#include "tests/cuda/tile_kernels.cuh"

#include <cuda_pipeline_primitives.h>

#include "hugectr_lite/core/tensor_core.cuh"

namespace hlite::test {
namespace {

__global__ void load_kernel(const uint16_t* from, bool transposed, const int* rows, uint32_t* to) {
  uint16_t* const tile = dynamic_shared<uint16_t>();
  for (unsigned i = threadIdx.x; i < 256; i += 32) tile[i / 8 * kRowElements + i % 8] = from[i];
  __syncwarp();
  uint32_t registers[4];
  const uint16_t* const row = tile + rows[threadIdx.x] * kRowElements;
  if (transposed)
    load_transposed_matrices(registers, row);
  else
    load_matrices(registers, row);
  for (unsigned m = 0; m < 4; ++m) to[threadIdx.x * 4 + m] = registers[m];
}

template <typename T>
__global__ void multiply_add_kernel(const Factors* factors, float* sums) {
  const Factors& mine = factors[threadIdx.x];
  float registers[4];
  for (unsigned i = 0; i < 4; ++i) registers[i] = sums[threadIdx.x * 4 + i];
  multiply_add<T>(registers, mine.a, mine.b[0], mine.b[1]);
  multiply_add<T>(registers, mine.a, mine.b[0], mine.b[1]);
  for (unsigned i = 0; i < 4; ++i) sums[threadIdx.x * 4 + i] = registers[i];
}

__global__ void copy_later_kernel(const int* in, int* out, bool wait) {
  int* const tile = dynamic_shared<int>();
  const unsigned t = threadIdx.x;
  tile[t] = tile[t + blockDim.x] = -1;
  __pipeline_memcpy_async(tile + t, in + t, sizeof(int));
  __pipeline_commit();
  __pipeline_memcpy_async(tile + t + blockDim.x, in + t, sizeof(int));
  __pipeline_commit();
  __pipeline_wait_prior(wait ? 0 : 1);
  out[t] = tile[t];
  out[t + blockDim.x] = tile[t + blockDim.x];
  __pipeline_wait_prior(0);
}

// ---- Wrong on purpose ----

__global__ void load_at_kernel(int byte) {
  uint32_t registers[4];
  load_matrices(registers, dynamic_shared<char>() + byte);
}

__global__ void load_elsewhere_kernel() {
  alignas(16) uint16_t row[8] = {};
  uint32_t registers[4];
  load_transposed_matrices(registers, row);
}

__global__ void multiply_without_a_lane_kernel() {
  const uint32_t a[4] = {};
  float sums[4] = {};
  if (threadIdx.x != 5) multiply_add<fp16>(sums, a, 0, 0);
}

__global__ void copy_unaligned_kernel(const int* in) {
  __pipeline_memcpy_async(dynamic_shared<char>() + 2, in, sizeof(int));
}

__global__ void copy_forgotten_kernel(const int* in) {
  __pipeline_memcpy_async(dynamic_shared<int>(), in, sizeof(int));
  __pipeline_commit();
}

}  // namespace

void load(const LaunchShape& shape, const uint16_t* from, bool transposed, const int* rows,
          uint32_t* to) {
  launch(shape, load_kernel, from, transposed, rows, to);
}

template <typename T>
void multiply_twice(const LaunchShape& shape, const Factors* factors, float* sums) {
  launch(shape, multiply_add_kernel<T>, factors, sums);
}
template void multiply_twice<bf16>(const LaunchShape&, const Factors*, float*);
template void multiply_twice<fp16>(const LaunchShape&, const Factors*, float*);

void load_at(const LaunchShape& shape, int byte) { launch(shape, load_at_kernel, byte); }
void load_elsewhere(const LaunchShape& shape) { launch(shape, load_elsewhere_kernel); }
void multiply_without_a_lane(const LaunchShape& shape) {
  launch(shape, multiply_without_a_lane_kernel);
}
void copy_later(const LaunchShape& shape, const int* in, int* out, bool wait) {
  launch(shape, copy_later_kernel, in, out, wait);
}
void copy_unaligned(const LaunchShape& shape, const int* in) {
  launch(shape, copy_unaligned_kernel, in);
}
void copy_forgotten(const LaunchShape& shape, const int* in) {
  launch(shape, copy_forgotten_kernel, in);
}

}  // namespace hlite::test
