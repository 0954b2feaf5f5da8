// Cutter: cuts one block of memory into arrays.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hlite::embedding {

class Cutter {
 public:
  // Without memory it only counts.
  explicit Cutter(std::byte* memory) : memory_(memory) {}
  // The next n elements, aligned to 256 bytes where the memory is.
  template <typename T>
  T* cut(int64_t n) {
    const size_t at = bytes_;
    bytes_ += (static_cast<size_t>(n) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return memory_ ? reinterpret_cast<T*>(memory_ + at) : nullptr;
  }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kAlignment = 256;
  std::byte* memory_;
  size_t bytes_ = 0;
};

}  // namespace hlite::embedding
