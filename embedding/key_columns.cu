#include "embedding/key_columns.h"

#include "embedding/item_threads.cuh"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/no_key.h"

namespace hlite::embedding::gpu {
namespace {

__global__ void __launch_bounds__(kItemThreads)
    select_kernel(Matrix<const uint32_t> keys, Vector<const int32_t> columns,
                  Matrix<uint32_t> selected) {
  const int64_t i = global_thread();
  if (i >= selected.size()) return;
  const int64_t sample = i / columns.size();
  selected.data()[i] = keys(sample, columns(i - sample * columns.size()));
}

// A warp counts one sample's keys.
__global__ void __launch_bounds__(kItemThreads)
    count_kernel(Matrix<const uint32_t> keys, int64_t first, int64_t count, Vector<float> lengths) {
  const int64_t sample = global_thread() / kWarp, lane = threadIdx.x % kWarp;
  if (sample >= lengths.size()) return;
  int64_t found = 0;
  for (int64_t begin = 0; begin < count; begin += kWarp) {
    const int64_t c = begin + lane;
    found += __popc(__ballot_sync(0xffffffffu, c < count && keys(sample, first + c) != kNoKey));
  }
  if (lane == 0) lengths(sample) = static_cast<float>(found);
}

}  // namespace

void select_columns(cudaStream_t stream, Matrix<const uint32_t> keys, Vector<const int32_t> columns,
                    Matrix<uint32_t> selected) {
  if (selected.size() == 0) return;
  launch(item_shape("select_columns", selected.size(), stream), select_kernel, keys, columns,
         selected);
}

void count_keys(cudaStream_t stream, Matrix<const uint32_t> keys, int64_t first, int64_t count,
                Vector<float> lengths) {
  if (lengths.size() == 0) return;
  launch(item_shape("count_keys", lengths.size() * kWarp, stream), count_kernel, keys, first, count,
         lengths);
}

HLITE_KERNELS(key_columns) {
  list.add<select_columns>(kernels::select_columns);
  list.add<count_keys>(kernels::count_keys);
}

}  // namespace hlite::embedding::gpu
