// TensorRef: a tensor by its name in files, wherever its elements lie.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace hlite {

enum class DType { kF32, kU32 };

// 4-byte elements: at `data`, or, where `data` is null, behind two functions that move elements
// [first, first + span.size()) in row-major order (a device, or rows spread over ranks). `get` is
// needed to write a file, `put` to read one. Elements of uint32 travel as the bits of floats.
struct TensorRef {
  std::string name;
  std::vector<int64_t> shape;
  float* data = nullptr;
  std::function<void(int64_t first, std::span<float> out)> get = {};
  std::function<void(int64_t first, std::span<const float> in)> put = {};
  DType dtype = DType::kF32;

  [[nodiscard]] int64_t size() const {  // elements
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    return n;
  }
};

}  // namespace hlite
