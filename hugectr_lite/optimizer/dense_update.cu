// Kernels of the dense update: one pass, four elements a thread,
// the working copy of the weights included.
//
// Bytes moved for a parameter: SGD 12, with a mirror of 16 bits 14; Momentum, Nesterov, AdaGrad 20
// or 22; Adam 28 or 30. MLPerf's DLRM has 2.4 M parameters: 33 MB with SGD and a mirror, 7 us of an
// H200's bandwidth, and less where the gradients just written are still in L2 (50 MB).
//
// The step's scalars (Adam's take two powers in double) are computed once a block. So blocks are
// few: one wave over an H100's or H200's 132 multiprocessors, four blocks each.
#include "hugectr_lite/optimizer/dense_update.h"

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/pack.cuh"

namespace hlite::optimizer::gpu {
namespace {

constexpr int kBlocksPerSm = 4;
constexpr int64_t kMaxBlocks = 132 * kBlocksPerSm;

struct DeviceUpdateArrays {
  const float* g;
  float *w, *state0, *state1;
  int64_t n;
};

// mirror null: none.
template <OptimizerType type, int kCount, typename T>
__global__ void __launch_bounds__(kPackThreads, kBlocksPerSm)
    update_kernel(UpdateRule rule, const float* lr, const int64_t* step, DeviceUpdateArrays x,
                  GradientScale scale, T* mirror) {
  if (scale.skips()) return;
  rule.type = type;  // known here, so that Adam's powers are in Adam's kernels alone
  __shared__ StepScalars shared;
  if (threadIdx.x == 0) shared = step_scalars(rule, *lr, *step);
  __syncthreads();
  const StepScalars scalars = shared;
  const float inverse = scale.inverse ? *scale.inverse : 1.0f;
  constexpr int kStates = state_count(type);
  for_each_pack<kCount>(x.n, [&]<int k>(int64_t at) {
    const Pack<float, k> g = load_pack<k>(x.g + at);
    Pack<float, k> w = load_pack<k>(x.w + at), state0{}, state1{};
    if constexpr (kStates > 0) state0 = load_pack<k>(x.state0 + at);
    if constexpr (kStates > 1) state1 = load_pack<k>(x.state1 + at);
    for (int i = 0; i < k; ++i)
      update_element<type>(scalars, g.value[i] * inverse, w.value[i], state0.value[i],
                           state1.value[i]);
    store_pack(x.w + at, w);
    if constexpr (kStates > 0) store_pack(x.state0 + at, state0);
    if constexpr (kStates > 1) store_pack(x.state1 + at, state1);
    if (mirror) {
      Pack<T, k> rounded;
      for (int i = 0; i < k; ++i) rounded.value[i] = from_float<T>(w.value[i]);
      store_pack(mirror + at, rounded);
    }
  });
}

}  // namespace

template <typename T>
void dense_update(cudaStream_t stream, const UpdateRule& rule, const float* lr, const int64_t* step,
                  const DenseArrays& arrays, const GradientScale& scale, Vector<T> mirror) {
  const DeviceUpdateArrays x{arrays.g.data(), arrays.w.data(), arrays.state0.data(),
                             arrays.state1.data(), arrays.w.size()};
  constexpr int kCount = kPackCount<float>;
  const bool aligned = starts_pack<kCount>(x.g) && starts_pack<kCount>(x.w) &&
                       starts_pack<kCount>(x.state0) && starts_pack<kCount>(x.state1) &&
                       starts_pack<kCount>(mirror.data());
  with_rule_type(rule.type, [&]<OptimizerType type>() {
    with_pack_count<kCount>(aligned, [&](auto count) {
      launch({.name = "dense_update",
              .grid = pack_grid(x.n, count, kMaxBlocks),
              .block = dim3(kPackThreads),
              .stream = stream},
             update_kernel<type, count(), T>, rule, lr, step, x, scale, mirror.data());
    });
  });
}

HLITE_KERNELS(dense_update) {
  for_each_float([&]<typename T>() { list.add<dense_update<T>>(kernels::dense_update<T>); });
}

}  // namespace hlite::optimizer::gpu
