// What the tests of embedding kernels share: a backend to run on, and values of its types.
#pragma once

#include <cuda_runtime.h>  // the emulated one
#include <fmt/core.h>

#include <string>
#include <vector>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/half.h"
#include "tests/embedding/lookup_case.h"
#include "tests/support/cuda_backends.h"

namespace hlite::test {

// A backend with a stream.
class OnDevice {
 public:
  explicit OnDevice(const cuda::Backend& table) : table_(&table), stream_(table) {}
  [[nodiscard]] Exec exec() const {
    return {.device = Device::kCuda, .cuda = table_, .stream = stream_.get()};
  }
  [[nodiscard]] const cuda::Backend& ops() const { return *table_; }
  [[nodiscard]] void* stream() const { return stream_.get(); }

 private:
  const cuda::Backend* table_;
  TestStream stream_;
};

template <typename T>
std::vector<T> from_floats(const std::vector<float>& values) {
  std::vector<T> out;
  for (const float v : values) out.push_back(from_float<T>(v));
  return out;
}
// The rounding error of a result in T, in addition to the error of its computation in float.
template <typename T>
Tolerance resolution(double absolute) {
  if constexpr (std::is_same_v<T, bf16>) return {.absolute = absolute, .relative = 0x1p-8};
  if constexpr (std::is_same_v<T, fp16>) return {.absolute = absolute, .relative = 0x1p-11};
  return {.absolute = absolute, .relative = 1e-6};
}

inline std::string describe(const LookupCase& x) {
  return fmt::format("{} slots, {} columns, width {}, batch {}:", x.layout.slots(),
                     x.layout.keys.columns, x.layout.width, x.batch);
}

}  // namespace hlite::test
