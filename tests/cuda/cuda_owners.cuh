// Owners of CUDA resources in addition to those of core/cuda_raii.cuh.
#pragma once

#include <span>

#include "hugectr_lite/core/cuda_raii.cuh"

namespace hlite::test {

// n uninitialised T in page-locked host memory.
template <typename T>
class PinnedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(size_t n) : size_(n) {
    if (n > 0) HLITE_CUDA(cudaMallocHost(reinterpret_cast<void**>(&data_), n * sizeof(T)));
  }
  ~PinnedBuffer() {
    if (data_) report_cuda(cudaFreeHost(data_), "cudaFreeHost");
  }
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  [[nodiscard]] std::span<T> span() const { return {data_, size_}; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

// Works on `device` within a scope, then on the one before.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    HLITE_CUDA(cudaGetDevice(&before_));
    HLITE_CUDA(cudaSetDevice(device));
  }
  ~DeviceGuard() { report_cuda(cudaSetDevice(before_), "cudaSetDevice"); }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
};

}  // namespace hlite::test
