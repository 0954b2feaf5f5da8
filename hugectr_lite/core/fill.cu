// Kernels that set the initial values of arrays.
//
// Uniform numbers: a thread makes the four words of one Philox block, about 110 integer
// instructions for 16 bytes. An H200 can issue those at about the rate at which its memory takes
// the bytes: 96 GB of tables take some 25 ms.
#include "hugectr_lite/core/fill.h"

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/random.h"

namespace hlite::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kWords = 4;  // of a Philox block

struct alignas(kWords * sizeof(float)) FourFloats {
  float at[kWords];
};

__device__ inline int64_t global_thread() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t all_threads() { return int64_t{gridDim.x} * blockDim.x; }

// Neighbouring threads write neighbouring elements.
__global__ void __launch_bounds__(kThreads) fill_kernel(float* out, int64_t n, float value) {
  for (int64_t i = global_thread(); i < n; i += all_threads()) out[i] = value;
}

struct Uniform {
  uint64_t seed, random_stream, first;
  float low, range;

  // Philox blocks that cover n elements.
  HLITE_HD int64_t blocks(int64_t n) const {
    const auto before = static_cast<int64_t>(first % kWords);
    return (before + n + kWords - 1) / kWords;
  }
};

// Thread i makes block i of those that the elements lie in; neighbours write neighbouring groups of
// four. Only the first and the last block may be cut. kAligned: whole blocks lie on 16 bytes.
template <bool kAligned>
__global__ void __launch_bounds__(kThreads) uniform_kernel(Uniform uniform, float* out, int64_t n) {
  const auto before = static_cast<int64_t>(uniform.first % kWords);
  const uint64_t first_block = uniform.first / kWords;
  for (int64_t i = global_thread(); i < uniform.blocks(n); i += all_threads()) {
    const random::Block words =
        random::block(uniform.seed, uniform.random_stream, first_block + static_cast<uint64_t>(i));
    FourFloats values;
    for (int w = 0; w < kWords; ++w)
      values.at[w] = fmaf(uniform.range, random::uniform(words.word[w]), uniform.low);
    const int64_t at = i * kWords - before;  // of the block's first element in out
    if (kAligned && at >= 0 && at + kWords <= n) {
      *reinterpret_cast<FourFloats*>(out + at) = values;
    } else {
      for (int w = 0; w < kWords; ++w)
        if (at + w >= 0 && at + w < n) out[at + w] = values.at[w];
    }
  }
}

}  // namespace

void fill(cudaStream_t stream, Vector<float> out, float value) {
  launch(
      {.name = "fill", .grid = grid_for(out.size(), kThreads), .block = kThreads, .stream = stream},
      fill_kernel, out.data(), out.size(), value);
}

void fill_uniform(cudaStream_t stream, Vector<float> out, uint64_t seed, uint64_t random_stream,
                  uint64_t first, float low, float high) {
  const int64_t n = out.size();
  const Uniform uniform{seed, random_stream, first, low, high - low};
  // The address where element 0 of the first block would lie.
  const auto origin = reinterpret_cast<uintptr_t>(out.data()) - first % kWords * sizeof(float);
  const bool aligned = origin % alignof(FourFloats) == 0;
  launch({.name = "fill_uniform",
          .grid = grid_for(n == 0 ? 0 : uniform.blocks(n), kThreads),
          .block = kThreads,
          .stream = stream},
         aligned ? uniform_kernel<true> : uniform_kernel<false>, uniform, out.data(), n);
}

HLITE_KERNELS(fill) {
  list.add<fill>(kernels::fill);
  list.add<fill_uniform>(kernels::fill_uniform);
}

}  // namespace hlite::gpu
