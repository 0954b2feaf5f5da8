// The kernel of conversions: 6 bytes moved for each element of a 16-bit type. A batch's dense
// features (65,536 x 13: 5 MB) take 1 us of an H200's bandwidth, all weights of MLPerf's DLRM (2.4
// M: 14 MB) 3 us.
#include "hugectr_lite/ops/cast_kernels.cuh"
#include "hugectr_lite/ops/map.cuh"

namespace hlite::ops::gpu {
namespace {

struct Same {
  HLITE_HD float operator()(float x) const { return x; }
};

}  // namespace

template <typename T>
void cast_from_float(cudaStream_t stream, Vector<const float> x, Vector<T> out) {
  map("cast_from_float", stream, x.size(), Same(), out.data(), x.data());
}

template <typename T>
void cast_to_float(cudaStream_t stream, Vector<const T> x, Vector<float> out) {
  map("cast_to_float", stream, x.size(), Same(), out.data(), x.data());
}

#define HLITE_INSTANTIATE(T)                                                      \
  template void cast_from_float<T>(cudaStream_t, Vector<const float>, Vector<T>); \
  template void cast_to_float<T>(cudaStream_t, Vector<const T>, Vector<float>);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::ops::gpu
