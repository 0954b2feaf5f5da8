#include "hugectr_lite/core/device_sort.cuh"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "hugectr_lite/core/host_device.h"

namespace hlite::gpu {
namespace {

struct Plus {
  HLITE_HD uint32_t operator()(uint32_t a, uint32_t b) const { return a + b; }
};

template <typename Value>
int sort(void* temporary, size_t& bytes, const SortPairs<Value>& pairs, int bits,
         cudaStream_t stream) {
  cub::DoubleBuffer<uint32_t> keys(pairs.keys[0], pairs.keys[1]);
  cub::DoubleBuffer<Value> values(pairs.values[0], pairs.values[1]);
  HLITE_CUDA(
      cub::DeviceRadixSort::SortPairs(temporary, bytes, keys, values, pairs.n, 0, bits, stream));
  return keys.selector;
}

}  // namespace

template <typename Value>
int sort_pairs(cudaStream_t stream, const Temporary& temporary, const SortPairs<Value>& pairs,
               int bits) {
  if (pairs.n == 0) return 0;
  size_t bytes = temporary.bytes;
  return sort(temporary.data, bytes, pairs, bits, stream);
}

template <typename Value>
size_t sort_pairs_bytes(uint32_t n, int bits) {
  size_t bytes = 0;
  sort<Value>(nullptr, bytes, {.keys = {}, .values = {}, .n = n}, bits, nullptr);
  return bytes;
}

template int sort_pairs(cudaStream_t, const Temporary&, const SortPairs<uint32_t>&, int);
template int sort_pairs(cudaStream_t, const Temporary&, const SortPairs<uint8_t>&, int);
template size_t sort_pairs_bytes<uint32_t>(uint32_t, int);
template size_t sort_pairs_bytes<uint8_t>(uint32_t, int);

void exclusive_sums(cudaStream_t stream, const Temporary& temporary, const uint8_t* values,
                    uint32_t* sums, uint32_t n) {
  if (n == 0) return;
  size_t bytes = temporary.bytes;
  HLITE_CUDA(cub::DeviceScan::ExclusiveScan(temporary.data, bytes, values, sums, Plus{},
                                            uint32_t{0}, n, stream));
}

size_t exclusive_sums_bytes(uint32_t n) {
  size_t bytes = 0;
  HLITE_CUDA(cub::DeviceScan::ExclusiveScan(nullptr, bytes, static_cast<const uint8_t*>(nullptr),
                                            static_cast<uint32_t*>(nullptr), Plus{}, uint32_t{0},
                                            n));
  return bytes;
}

}  // namespace hlite::gpu
