// The kernel of elementwise.h: reads every input once, whatever their number, and writes once. A
// pack a thread; the inputs' pointers travel with the launch.
#include "hugectr_lite/ops/elementwise.h"

#include <algorithm>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/pack.cuh"

namespace hlite::ops::gpu {
namespace {

constexpr int64_t kMaxTerms = 64;

template <typename T>
struct ElementwiseTerms {
  const T* data[kMaxTerms];
  int count;
};

template <int kCount, typename T>
__global__ void __launch_bounds__(kPackThreads)
    elementwise_kernel(Elementwise how, const __grid_constant__ ElementwiseTerms<T> terms,
                       Vector<T> out) {
  for_each_pack<kCount>(out.size(), [&]<int k>(int64_t at) {
    Pack<T, k> pack = load_pack<k>(terms.data[0] + at);
    float sum[k];  // or difference, or product
    for (int i = 0; i < k; ++i) sum[i] = to_float(pack.value[i]);
    for (int term = 1; term < terms.count; ++term) {
      pack = load_pack<k>(terms.data[term] + at);
      for (int i = 0; i < k; ++i) sum[i] = combine(how, sum[i], to_float(pack.value[i]));
    }
    for (int i = 0; i < k; ++i) pack.value[i] = from_float<T>(sum[i]);
    store_pack(out.data() + at, pack);
  });
}

}  // namespace

template <typename T>
void elementwise(cudaStream_t stream, Elementwise how, std::span<const Vector<const T>> inputs,
                 Vector<T> out) {
  size_t done = 0;
  do {
    // The combination so far is the first term of the next pass.
    ElementwiseTerms<T> terms{};
    if (done > 0) terms.data[terms.count++] = out.data();
    for (; done < inputs.size() && terms.count < kMaxTerms; ++done)
      terms.data[terms.count++] = inputs[done].data();
    constexpr int kCount = kPackCount<T>;
    const bool aligned = starts_pack<kCount>(out.data()) &&
                         std::all_of(terms.data, terms.data + terms.count, starts_pack<kCount, T>);
    with_pack_count<kCount>(aligned, [&](auto c) {
      launch({.name = "elementwise",
              .grid = pack_grid(out.size(), c),
              .block = dim3(kPackThreads),
              .stream = stream},
             elementwise_kernel<c(), T>, how, terms, out);
    });
  } while (done < inputs.size());
}

HLITE_KERNELS(elementwise) {
  for_each_float([&]<typename T>() { list.add<elementwise<T>>(kernels::elementwise<T>); });
}

}  // namespace hlite::ops::gpu
