// y[i] = body(a[i], b[i], ...) on device memory, computed in float, a pack a thread.
#pragma once

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/pack.cuh"

namespace hlite::ops::gpu {

template <typename Out, int kCount, typename Body, typename... In>
__device__ inline Pack<Out, kCount> map_packs(const Body& body, const Pack<In, kCount>&... in) {
  Pack<Out, kCount> out;
  for (int i = 0; i < kCount; ++i) out.value[i] = from_float<Out>(body(to_float(in.value[i])...));
  return out;
}

template <int kCount, typename Body, typename Out, typename... In>
__global__ void __launch_bounds__(kPackThreads)
    map_kernel(int64_t n, Body body, Out* out, const In*... in) {
  for_each_pack<kCount>(n, [&]<int k>(int64_t at) {
    store_pack(out + at, map_packs<Out, k>(body, load_pack<k>(in + at)...));
  });
}

// Body: a small class with HLITE_HD float operator()(float, ...) const. `out` may be one of the
// inputs; all are read before it is written.
template <typename Body, typename Out, typename... In>
void map(const char* name, cudaStream_t stream, int64_t n, Body body, Out* out, const In*... in) {
  constexpr int kCount = kPackCount<Out, In...>;
  const bool aligned = (starts_pack<kCount>(out) && ... && starts_pack<kCount>(in));
  with_pack_count<kCount>(aligned, [&](auto count) {
    launch(
        {.name = name, .grid = pack_grid(n, count), .block = dim3(kPackThreads), .stream = stream},
        map_kernel<count(), Body, Out, In...>, n, body, out, in...);
  });
}

}  // namespace hlite::ops::gpu
