// Stands in for CUB's header of this name: the same results, computed on the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/support/cuda_emulation/cuda_runtime.h"

namespace cub {

template <typename T>
struct DoubleBuffer {
  T* d_buffers[2];
  int selector = 0;
  DoubleBuffer(T* current, T* alternate) : d_buffers{current, alternate} {}
  [[nodiscard]] T* Current() const { return d_buffers[selector]; }
  [[nodiscard]] T* Alternate() const { return d_buffers[selector ^ 1]; }
};

struct DeviceRadixSort {
  // Like CUB's: without temporary memory it returns the size that it needs. It overwrites all of
  // that memory, so that a test sees memory that is too small or shared. As with CUB, an odd number
  // of passes over digits of eight bits ends in the alternate buffers.
  template <typename Key, typename Value, typename Count>
  static cudaError_t SortPairs(void* temporary, size_t& bytes, DoubleBuffer<Key>& keys,
                               DoubleBuffer<Value>& values, Count n, int begin_bit, int end_bit,
                               cudaStream_t stream = nullptr) {
    const size_t needed = 256 + static_cast<size_t>(n) / 4;
    if (!temporary) {
      bytes = needed;
      return cudaSuccess;
    }
    if (bytes < needed) return cudaErrorInvalidValue;
    const bool stays = (end_bit - begin_bit + 7) / 8 % 2 == 0;
    if (const cudaError_t error = hlite::emulation::check_fault_on(stream, "sort");
        error != cudaSuccess)
      return error;
    hlite::emulation::submit(
        stream,
        [=] {
          std::memset(temporary, 0xFF, bytes);
          const auto size = static_cast<size_t>(n);
          const uint64_t mask = (uint64_t{1} << end_bit) - (uint64_t{1} << begin_bit);
          std::vector<size_t> order(size);
          std::iota(order.begin(), order.end(), size_t{0});
          std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
            return (keys.Current()[a] & mask) < (keys.Current()[b] & mask);
          });
          for (size_t i = 0; i < size; ++i) {
            keys.Alternate()[i] = keys.Current()[order[i]];
            values.Alternate()[i] = values.Current()[order[i]];
          }
          if (!stays) return;
          std::copy_n(keys.Alternate(), size, keys.Current());
          std::copy_n(values.Alternate(), size, values.Current());
        },
        "sort");
    if (!stays) {
      keys.selector ^= 1;
      values.selector ^= 1;
    }
    return cudaSuccess;
  }
};

}  // namespace cub
