// HostMemory: zeroed, 64-byte aligned bytes with one owner.
//
// Large blocks come straight from the kernel and ask for huge pages: embedding tables are read and
// written at random rows, and with 4 KiB pages page-table walks dominate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "hugectr_lite/core/view.h"

namespace hlite {

// A value at any address.
template <typename T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

class HostMemory {
 public:
  HostMemory() = default;
  // Throws DataError naming `what` and the size when the system has not enough memory.
  HostMemory(size_t bytes, const char* what);
  HostMemory(HostMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Owns a zeroed host array of the given shape.
template <typename T, int R>
class Tensor {
 public:
  Tensor() = default;
  template <typename... Dims>
  requires(sizeof...(Dims) == R) explicit Tensor(Dims... dims)
      : memory_(sizeof(T) * static_cast<size_t>((static_cast<int64_t>(dims) * ... * 1)), "tensor"),
        view_(reinterpret_cast<T*>(memory_.data()), dims...) {}
  [[nodiscard]] View<T, R> view() const { return view_; }
  [[nodiscard]] T* data() const { return view_.data(); }
  [[nodiscard]] int64_t size() const { return view_.size(); }

 private:
  HostMemory memory_;
  View<T, R> view_;
};

// Physical memory that this process can still have, in bytes: of the machine, or of the control
// group (a container, a batch job) whose limit leaves less. `root`: where /proc and /sys are.
int64_t available_memory_bytes(const std::string& root = "");
// Most memory this process has had resident so far, in bytes.
int64_t peak_resident_bytes();

}  // namespace hlite
