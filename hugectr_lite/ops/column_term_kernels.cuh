// Kernels of column_terms.h. Sums: a block for 32 columns of a part of the rows, whose eight warps
// take every eighth row each; then a thread for each sum adds up the parts.
#pragma once

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/pack.cuh"
#include "hugectr_lite/ops/column_terms.h"

namespace hlite::ops::gpu {
namespace column_terms {

constexpr int kTile = 32, kRowsAtOnce = 8;

template <typename F>
__global__ void __launch_bounds__(kTile* kRowsAtOnce)
    part_sums_kernel(F f, int64_t rows, int64_t n, double* parts) {
  __shared__ double first[kRowsAtOnce][kTile], second[kRowsAtOnce][kTile];
  const int64_t j = int64_t{blockIdx.x} * kTile + threadIdx.x, part = blockIdx.y;
  const int64_t end = rows * (part + 1) / kTermParts;
  Terms own;
  if (j < n)
    for (int64_t row = rows * part / kTermParts + threadIdx.y; row < end; row += kRowsAtOnce) {
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
    for (int64_t p = 0; p < kTermParts; ++p) sum += parts[p * count + i];
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

inline LaunchShape thread_each(const char* name, int64_t n, cudaStream_t stream) {
  return {.name = name, .grid = pack_grid(n, 1), .block = dim3(kPackThreads), .stream = stream};
}

}  // namespace column_terms

template <typename F>
void sum_terms(cudaStream_t stream, const F& f, int64_t rows, int64_t n, double* workspace,
               double* sums) {
  const dim3 across = grid_for(n, column_terms::kTile);
  launch({.name = F::kName,
          .grid = dim3(across.x, static_cast<unsigned>(kTermParts)),
          .block = dim3(column_terms::kTile, column_terms::kRowsAtOnce),
          .stream = stream},
         column_terms::part_sums_kernel<F>, f, rows, n, workspace);
  launch(column_terms::thread_each(F::kName, 2 * n, stream), column_terms::add_parts_kernel,
         static_cast<const double*>(workspace), 2 * n, sums);
}

template <typename F>
void for_each_element(cudaStream_t stream, const F& f, int64_t rows, int64_t n) {
  launch(column_terms::thread_each(F::kName, rows * n, stream), column_terms::elements_kernel<F>, f,
         rows * n, n);
}

template <typename F>
void for_each_column(cudaStream_t stream, const F& f, int64_t n) {
  launch(column_terms::thread_each(F::kName, n, stream), column_terms::columns_kernel<F>, f, n);
}

// Used by HLITE_KERNELS(x).
template <typename F>
void add_sums(KernelList& list) {
  list.add<sum_terms<F>>(kernels::sum_terms<F>);
}
template <typename F>
void add_elements(KernelList& list) {
  list.add<for_each_element<F>>(kernels::for_each_element<F>);
}
template <typename F>
void add_columns(KernelList& list) {
  list.add<for_each_column<F>>(kernels::for_each_column<F>);
}

}  // namespace hlite::ops::gpu
