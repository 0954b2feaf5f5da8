// The kernel of dropout. A thread takes the elements of one or two blocks of random numbers (four
// each), which are a pack where the tensor starts at a block's edge; elsewhere it goes element by
// element. Two elements move for each one computed; ten rounds of Philox, about 25 integer
// operations an element, cost as much time as 8 bytes of an H200's memory, so fp32 runs at the
// memory's speed and 16-bit types at half of it.
#include "hugectr_lite/ops/dropout.h"

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/pack.cuh"

namespace hlite::ops::gpu {
namespace {

template <typename T>
__global__ void __launch_bounds__(kPackThreads)
    dropout_kernel(Vector<const T> x, Vector<T> y, DropoutMask mask, bool aligned) {
  constexpr int kCount = kPackCount<T>;
  constexpr int kBlocks = kCount / 4;
  const float scale = 1 / (1 - mask.rate);
  const uint64_t first = dropout_first_index(mask);
  const auto shift = static_cast<int64_t>(first % kCount);  // of element 0 in its group
  const int64_t n = x.size(), groups = (shift + n + kCount - 1) / kCount;
  for (int64_t group = global_thread(); group < groups; group += grid_threads()) {
    float u[kCount];
    for (int b = 0; b < kBlocks; ++b) {
      const uint64_t block = first / kCount * kBlocks + static_cast<uint64_t>(group * kBlocks + b);
      const random::Block words = random::block(mask.seed, mask.stream, block);
      for (int w = 0; w < 4; ++w) u[4 * b + w] = random::uniform(words.word[w]);
    }
    const auto element = [&](T value, int i) {
      return from_float<T>(dropout_element(to_float(value), u[i], mask.rate, scale));
    };
    const int64_t at = group * kCount - shift;
    if (aligned && shift == 0 && at + kCount <= n) {
      Pack<T, kCount> pack = load_pack<kCount>(x.data() + at);
      for (int i = 0; i < kCount; ++i) pack.value[i] = element(pack.value[i], i);
      store_pack(y.data() + at, pack);
    } else {
      for (int i = 0; i < kCount; ++i)
        if (at + i >= 0 && at + i < n) y.data()[at + i] = element(x.data()[at + i], i);
    }
  }
}

}  // namespace

template <typename T>
void dropout(cudaStream_t stream, Vector<const T> x, Vector<T> y, const DropoutMask& mask) {
  if (x.size() == 0) return;
  constexpr int kCount = kPackCount<T>;
  // One group more than elements fill: a shift spreads them over both ends.
  launch({.name = "dropout",
          .grid = pack_grid(x.size() + kCount, kCount),
          .block = dim3(kPackThreads),
          .stream = stream},
         dropout_kernel<T>, x, y, mask,
         starts_pack<kCount>(x.data()) && starts_pack<kCount>(y.data()));
}

HLITE_KERNELS(dropout) {
  for_each_float([&]<typename T>() { list.add<dropout<T>>(kernels::dropout<T>); });
}

}  // namespace hlite::ops::gpu
