// TensorRef: a tensor by its name in files, wherever its elements lie.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace hlite {

enum class DType { kF32, kU32, kBf16, kF16 };

constexpr int64_t dtype_bytes(DType dtype) {
  return dtype == DType::kBf16 || dtype == DType::kF16 ? 2 : 4;
}

// Float elements at `data` or, if `data` is null, elements that two functions move: [first, first +
// span.size()) in row-major order (on a device, or of rows sharded over ranks). `get` is
// needed to write a file, `put` to read one. `dtype` is what a file holds: elements of uint32
// travel as the bits of floats, those of 16 bits as floats of the same value.
struct TensorRef {
  std::string name;
  std::vector<int64_t> shape;
  float* data = nullptr;
  std::function<void(int64_t first, std::span<float> out)> get = {};
  std::function<void(int64_t first, std::span<const float> in)> put = {};
  DType dtype = DType::kF32;
  bool grows = false;  // a file from before the tensor grew may have fewer rows
  // The two halves of `get` for elements that are spread over ranks, which a process that sees the
  // memory of all ranks can call without them: what a rank holds of [first, first + count), and on
  // rank 0 the elements from the parts of ranks 0, 1, ..., one after the other.
  std::function<std::vector<float>(int64_t first, int64_t count)> part = {};
  std::function<void(int64_t first, std::span<const float> parts, std::span<float> out)> join = {};

  [[nodiscard]] int64_t size() const {  // elements
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    return n;
  }
};

}  // namespace hlite
