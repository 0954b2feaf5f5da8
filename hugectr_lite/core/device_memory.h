// DeviceMemory: bytes on a GPU with one owner, taken and given back through the plug-in.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "hugectr_lite/core/backend.h"

namespace hlite {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Uninitialised, on the device that the calling thread works on. Throws DeviceError.
  DeviceMemory(const cuda::Backend& ops, size_t bytes) : ops_(&ops), bytes_(bytes) {
    ops.allocate(&data_, bytes);
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : ops_(other.ops_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(ops_, other.ops_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  // Waits for the device. A failure has nobody to go to: whatever broke shows in the next call.
  ~DeviceMemory() {
    cuda::Failure failure;
    if (data_) ops_->free.entry(&failure, data_);
  }

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  [[nodiscard]] size_t size() const { return bytes_; }

 private:
  const cuda::Backend* ops_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// A copy of device memory that waits: for all that was issued before, and until it is done.
inline void read_device(const cuda::Backend& ops, void* to, const void* from, size_t bytes) {
  ops.device_synchronize();
  ops.copy(to, from, bytes, nullptr);
  ops.stream_synchronize(nullptr);
}

// One T in page-locked host memory, where the GPU's copies arrive while the host goes on.
// Starts as T().
template <typename T>
class PinnedValue {
 public:
  explicit PinnedValue(const cuda::Backend& ops) : ops_(&ops) {
    void* data = nullptr;
    ops.allocate_pinned(&data, sizeof(T));
    value_ = new (data) T();
  }
  PinnedValue(const PinnedValue&) = delete;
  PinnedValue& operator=(const PinnedValue&) = delete;
  ~PinnedValue() {
    cuda::Failure failure;
    ops_->free_pinned.entry(&failure, value_);
  }

  [[nodiscard]] T* get() const { return value_; }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_; }

 private:
  static_assert(std::is_trivially_destructible_v<T>);
  const cuda::Backend* ops_;
  T* value_;
};

}  // namespace hlite
