// Kernels that look for NaN and infinity: they read every element once, a pack a thread, and write
// where there is something to find only, by atomics whose result does not depend on their order.
// The dense gradients of MLPerf's DLRM (2.4 M floats) take 2 us of an H200's bandwidth.
#include "hugectr_lite/ops/non_finite.h"

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/pack.cuh"

namespace hlite::ops::gpu {
namespace {

using Index = unsigned long long;  // what 64-bit atomics take
constexpr Index kNone = ~Index{0};

template <int kCount, typename T>
__global__ void __launch_bounds__(kPackThreads) first_kernel(Vector<const T> x, Index* first) {
  Index mine = kNone;
  for_each_pack<kCount>(x.size(), [&]<int k>(int64_t at) {
    const Pack<T, k> pack = load_pack<k>(x.data() + at);
    for (int i = 0; i < k; ++i) {
      const Index index = static_cast<Index>(at + i);
      if (non_finite(to_float(pack.value[i])) && index < mine) mine = index;
    }
  });
  if (mine != kNone) atomicMin(first, mine);
}

template <int kCount, typename T>
__global__ void __launch_bounds__(kPackThreads) flag_kernel(Vector<const T> x, int* found) {
  bool mine = false;
  for_each_pack<kCount>(x.size(), [&]<int k>(int64_t at) {
    const Pack<T, k> pack = load_pack<k>(x.data() + at);
    for (int i = 0; i < k; ++i) mine |= non_finite(to_float(pack.value[i]));
  });
  if (mine) atomicExch(found, 1);
}

}  // namespace

template <typename T>
int64_t first_non_finite(cudaStream_t stream, Vector<const T> x) {
  const DeviceBuffer<Index> first(1, stream);
  HLITE_CUDA(cudaMemsetAsync(first.data(), 0xFF, sizeof(Index), stream));  // kNone
  constexpr int kCount = kPackCount<T>;
  with_pack_count<kCount>(starts_pack<kCount>(x.data()), [&](auto count) {
    launch({.name = "first_non_finite",
            .grid = pack_grid(x.size(), count),
            .block = dim3(kPackThreads),
            .stream = stream},
           first_kernel<count(), T>, x, first.data());
  });
  Index index = kNone;
  HLITE_CUDA(cudaMemcpyAsync(&index, first.data(), sizeof(Index), cudaMemcpyDefault, stream));
  HLITE_CUDA(cudaStreamSynchronize(stream));
  return index == kNone ? -1 : static_cast<int64_t>(index);
}

template <typename T>
void flag_non_finite(cudaStream_t stream, Vector<const T> x, int32_t* found) {
  constexpr int kCount = kPackCount<T>;
  with_pack_count<kCount>(starts_pack<kCount>(x.data()), [&](auto count) {
    launch({.name = "flag_non_finite",
            .grid = pack_grid(x.size(), count),
            .block = dim3(kPackThreads),
            .stream = stream},
           flag_kernel<count(), T>, x, found);
  });
}

HLITE_KERNELS(non_finite) {
  for_each_float([&]<typename T>() {
    list.add<first_non_finite<T>>(kernels::first_non_finite<T>);
    list.add<flag_non_finite<T>>(kernels::flag_non_finite<T>);
  });
}

}  // namespace hlite::ops::gpu
