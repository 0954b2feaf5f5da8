// Kernels of batch normalisation. Sums: a block for 32 columns of a part of the rows, whose eight
// warps take every eighth row each; then a thread for each sum adds up the parts.
#include "hugectr_lite/ops/batch_norm.h"

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/pack.cuh"
#include "hugectr_lite/ops/batch_norm_columns.h"

namespace hlite::ops::gpu {
namespace {

using batch_norm::Terms;

constexpr int kTile = 32, kRowsAtOnce = 8;

template <typename F>
__global__ void __launch_bounds__(kTile* kRowsAtOnce)
    part_sums_kernel(F f, int64_t rows, int64_t n, double* parts) {
  __shared__ double first[kRowsAtOnce][kTile], second[kRowsAtOnce][kTile];
  const int64_t j = int64_t{blockIdx.x} * kTile + threadIdx.x, part = blockIdx.y;
  const int64_t end = rows * (part + 1) / kBatchNormParts;
  Terms own;
  if (j < n)
    for (int64_t row = rows * part / kBatchNormParts + threadIdx.y; row < end; row += kRowsAtOnce) {
      const Terms t = f(row, j);
      own.first += t.first;
      own.second += t.second;
    }
  first[threadIdx.y][threadIdx.x] = own.first;
  second[threadIdx.y][threadIdx.x] = own.second;
  __syncthreads();
  if (threadIdx.y != 0 || j >= n) return;
  for (int y = 1; y < kRowsAtOnce; ++y) {
    own.first += first[y][threadIdx.x];
    own.second += second[y][threadIdx.x];
  }
  parts[part * 2 * n + j] = own.first;
  parts[(part * 2 + 1) * n + j] = own.second;
}

static __global__ void __launch_bounds__(kPackThreads)
    add_parts_kernel(const double* parts, int64_t count, double* sums) {
  for_each_pack<1>(count, [&]<int>(int64_t i) {
    double sum = 0;
    for (int64_t p = 0; p < kBatchNormParts; ++p) sum += parts[p * count + i];
    sums[i] = sum;
  });
}

template <typename F>
__global__ void __launch_bounds__(kPackThreads) elements_kernel(F f, int64_t size, int64_t n) {
  for_each_pack<1>(size, [&]<int>(int64_t i) { f(i, i % n); });
}

template <typename F>
__global__ void __launch_bounds__(kPackThreads) columns_kernel(F f, int64_t n) {
  for_each_pack<1>(n, [&]<int>(int64_t j) { f(j); });
}

LaunchShape thread_each(const char* name, int64_t n, cudaStream_t stream) {
  return {.name = name, .grid = pack_grid(n, 1), .block = dim3(kPackThreads), .stream = stream};
}

}  // namespace

template <typename F>
void batch_norm_sums(cudaStream_t stream, const F& f, int64_t rows, int64_t n, double* workspace,
                     double* sums) {
  const dim3 across = grid_for(n, kTile);
  launch({.name = F::kName,
          .grid = dim3(across.x, static_cast<unsigned>(kBatchNormParts)),
          .block = dim3(kTile, kRowsAtOnce),
          .stream = stream},
         part_sums_kernel<F>, f, rows, n, workspace);
  launch(thread_each(F::kName, 2 * n, stream), add_parts_kernel,
         static_cast<const double*>(workspace), 2 * n, sums);
}

template <typename F>
void batch_norm_elements(cudaStream_t stream, const F& f, int64_t rows, int64_t n) {
  launch(thread_each(F::kName, rows * n, stream), elements_kernel<F>, f, rows * n, n);
}

template <typename F>
void batch_norm_columns(cudaStream_t stream, const F& f, int64_t n) {
  launch(thread_each(F::kName, n, stream), columns_kernel<F>, f, n);
}

HLITE_KERNELS(batch_norm) {
  list.add<batch_norm_columns<batch_norm::FromSums>>(
      kernels::batch_norm_columns<batch_norm::FromSums>);
  list.add<batch_norm_columns<batch_norm::FromRunning>>(
      kernels::batch_norm_columns<batch_norm::FromRunning>);
  list.add<batch_norm_columns<batch_norm::GradientMeans>>(
      kernels::batch_norm_columns<batch_norm::GradientMeans>);
  list.add<batch_norm_columns<batch_norm::ParameterGradients>>(
      kernels::batch_norm_columns<batch_norm::ParameterGradients>);
  list.add<batch_norm_columns<batch_norm::Running>>(
      kernels::batch_norm_columns<batch_norm::Running>);
  for_each_float([&]<typename T>() {
    list.add<batch_norm_sums<batch_norm::ValueTerms<T>>>(
        kernels::batch_norm_sums<batch_norm::ValueTerms<T>>);
    list.add<batch_norm_sums<batch_norm::GradientTerms<T>>>(
        kernels::batch_norm_sums<batch_norm::GradientTerms<T>>);
    list.add<batch_norm_elements<batch_norm::Forward<T>>>(
        kernels::batch_norm_elements<batch_norm::Forward<T>>);
    list.add<batch_norm_elements<batch_norm::Backward<T>>>(
        kernels::batch_norm_elements<batch_norm::Backward<T>>);
  });
}

}  // namespace hlite::ops::gpu
