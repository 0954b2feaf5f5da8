// DeviceMemory and PinnedMemory: bytes on a GPU and page-locked bytes on the host, with one owner
// each.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "hugectr_lite/core/backend.h"

namespace hlite {

namespace detail {

// Bytes with one owner. kAllocate and kFree are the plug-in's functions for them.
template <auto kAllocate, auto kFree>
class OwnedBytes {
 public:
  OwnedBytes() = default;
  OwnedBytes(const cuda::Backend& ops, size_t bytes) : ops_(&ops), bytes_(bytes) {
    (ops.*kAllocate)(&data_, bytes);
  }
  OwnedBytes(OwnedBytes&& other) noexcept
      : ops_(other.ops_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  OwnedBytes& operator=(OwnedBytes&& other) noexcept {
    std::swap(ops_, other.ops_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  // Waits for the device. A failure cannot be reported here: whatever broke shows in the next call.
  ~OwnedBytes() {
    cuda::Failure failure;
    if (data_) (ops_->*kFree).entry(&failure, data_);
  }

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  [[nodiscard]] size_t size() const { return bytes_; }

 private:
  const cuda::Backend* ops_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace detail

// Device memory, uninitialised, on the device that the calling thread works on. Throws DeviceError.
class DeviceMemory
    : public detail::OwnedBytes<&cuda::DeviceFunctions::allocate, &cuda::DeviceFunctions::free> {
 public:
  using OwnedBytes::OwnedBytes;
};

// A copy of device memory that waits: for all that was issued before, and until it is done.
inline void read_device(const cuda::Backend& ops, void* to, const void* from, size_t bytes) {
  ops.device_synchronize();
  ops.copy(to, from, bytes, nullptr);
  ops.stream_synchronize(nullptr);
}

// Page-locked host memory: copies between it and a GPU overlap with work, and the GPU's kernels may
// read and write it over the bus. Zeroed. Throws DeviceError.
class PinnedMemory : public detail::OwnedBytes<&cuda::DeviceFunctions::allocate_pinned,
                                               &cuda::DeviceFunctions::free_pinned> {
 public:
  PinnedMemory() = default;
  PinnedMemory(const cuda::Backend& ops, size_t bytes) : OwnedBytes(ops, bytes) {
    if (bytes > 0) std::memset(data(), 0, bytes);
  }
};

// One T in page-locked host memory, where the GPU's copies arrive while the host goes on.
// Starts as T().
template <typename T>
class PinnedValue {
 public:
  explicit PinnedValue(const cuda::Backend& ops)
      : memory_(ops, sizeof(T)), value_(new (memory_.data()) T()) {}
  PinnedValue(const PinnedValue&) = delete;
  PinnedValue& operator=(const PinnedValue&) = delete;

  [[nodiscard]] T* get() const { return value_; }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_; }

 private:
  static_assert(std::is_trivially_destructible_v<T>);
  PinnedMemory memory_;
  T* value_;
};

}  // namespace hlite
