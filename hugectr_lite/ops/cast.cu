// The kernels of conversions: 6 bytes moved for each element of a 16-bit type. A batch's dense
// features (65,536 x 13: 5 MB) take 1 us of an H200's bandwidth, all weights of MLPerf's DLRM (2.4
// M: 14 MB) 3 us.
#include "hugectr_lite/ops/cast.h"

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/map.cuh"

namespace hlite::ops::gpu {
namespace {

struct Same {
  HLITE_HD float operator()(float x) const { return x; }
};

// A pack of `out`, all in one row, a thread: neighbours read neighbouring parts of a row of `x`,
// which starts anywhere, element by element.
template <int kCount, typename To, typename From>
__global__ void __launch_bounds__(kPackThreads) pad_kernel(Matrix<const From> x, Matrix<To> out) {
  const int64_t width = x.dim(1), columns = out.dim(1);
  for (int64_t at = global_thread() * kCount; at < out.size(); at += grid_threads() * kCount) {
    const int64_t row = at / columns, column = at - row * columns;
    const From* const from = x.data() + row * width;
    Pack<To, kCount> pack;
    for (int i = 0; i < kCount; ++i)
      pack.value[i] = from_float<To>(column + i < width ? to_float(from[column + i]) : 0.0f);
    store_pack(out.data() + at, pack);
  }
}

}  // namespace

template <typename T>
void cast_from_float(cudaStream_t stream, Vector<const float> x, Vector<T> out) {
  map("cast_from_float", stream, x.size(), Same(), out.data(), x.data());
}

template <typename T>
void cast_to_float(cudaStream_t stream, Vector<const T> x, Vector<float> out) {
  map("cast_to_float", stream, x.size(), Same(), out.data(), x.data());
}

template <typename T>
void affine_to_float(cudaStream_t stream, const Affine& f, Vector<const T> x, Vector<float> out) {
  map("affine_to_float", stream, x.size(), f, out.data(), x.data());
}

template <typename T>
void cast_padded(cudaStream_t stream, Matrix<const float> x, Matrix<T> out) {
  constexpr int kCount = kPackCount<T>;
  const bool packs = out.dim(1) % kCount == 0 && starts_pack<kCount>(out.data());
  with_pack_count<kCount>(packs, [&](auto count) {
    launch({.name = "cast_padded",
            .grid = pack_grid(out.size(), count),
            .block = dim3(kPackThreads),
            .stream = stream},
           pad_kernel<count(), T, float>, x, out);
  });
}

HLITE_KERNELS(cast) {
  for_each_float([&]<typename T>() {
    list.add<cast_from_float<T>>(kernels::cast_from_float<T>);
    list.add<cast_to_float<T>>(kernels::cast_to_float<T>);
    list.add<affine_to_float<T>>(kernels::affine_to_float<T>);
    list.add<cast_padded<T>>(kernels::cast_padded<T>);
  });
}

}  // namespace hlite::ops::gpu
