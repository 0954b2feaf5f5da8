// Stands in for CUB's header of this name: the same results, computed on the host.
#pragma once

#include <cstddef>
#include <cstring>

#include "tests/support/cuda_emulation/cuda_runtime.h"

namespace cub {

struct DeviceScan {
  // Like CUB's: without temporary memory it returns the size that it needs.
  template <typename In, typename Out, typename Op, typename Init, typename Count>
  static cudaError_t ExclusiveScan(void* temporary, size_t& bytes, const In* in, Out* out, Op op,
                                   Init init, Count n, cudaStream_t stream = nullptr) {
    const size_t needed = 64 + static_cast<size_t>(n) / 64;
    if (!temporary) {
      bytes = needed;
      return cudaSuccess;
    }
    if (bytes < needed) return cudaErrorInvalidValue;
    if (const cudaError_t error = hlite::emulation::check_fault_on(stream, "scan");
        error != cudaSuccess)
      return error;
    hlite::emulation::submit(
        stream,
        [=] {
          std::memset(temporary, 0xFF, bytes);
          Init sum = init;
          for (Count i = 0; i < n; ++i) {
            const Init next = op(sum, in[i]);
            out[i] = sum;
            sum = next;
          }
        },
        "scan");
    return cudaSuccess;
  }
};

}  // namespace cub
