// A kernel for the test of core/pack.cuh.
#include "tests/cuda/pack_kernels.cuh"

#include "hugectr_lite/core/pack.cuh"

namespace hlite::test {
namespace {

template <int kCount>
__global__ void visit_kernel(int64_t n, int* visits) {
  for_each_pack<kCount>(n, [&]<int k>(int64_t at) {
    for (int i = 0; i < k; ++i) visits[at + i] += k;
  });
}

}  // namespace

template <int kCount>
void visit_packs(int64_t n, int blocks, int* visits) {
  launch({.name = "visit", .grid = pack_grid(n, kCount, blocks), .block = dim3(kPackThreads)},
         visit_kernel<kCount>, n, visits);
}

template void visit_packs<1>(int64_t, int, int*);
template void visit_packs<4>(int64_t, int, int*);
template void visit_packs<8>(int64_t, int, int*);

}  // namespace hlite::test
