// What the kernels' tests share: values of float, bf16 and fp16, and ops called on a backend.
#pragma once

#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <vector>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/half.h"
#include "tests/support/compare.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/cuda_emulation/block_fibers.h"

namespace hlite::test {

// Sizes around those of packs, warps and blocks.
inline constexpr int64_t kKernelSizes[] = {0, 1, 3, 4, 7, 8, 9, 31, 257, 1031, 4099};

// An Exec on one backend with a stream of its own; ops go through their own dispatch.
class OnBackend {
 public:
  explicit OnBackend(const cuda::Backend& table) : stream_(table) {
    exec_ = {.device = Device::kCuda, .cuda = &table, .stream = stream_.get()};
  }
  [[nodiscard]] const Exec& exec() const { return exec_; }
  [[nodiscard]] const cuda::Backend& table() const { return *exec_.cuda; }
  [[nodiscard]] void* stream() const { return stream_.get(); }

 private:
  TestStream stream_;
  Exec exec_;
};

template <typename T>
std::vector<T> rounded(const std::vector<float>& values) {
  std::vector<T> out;
  for (const float x : values) out.push_back(from_float<T>(x));
  return out;
}
template <typename T>
std::vector<float> widened(const std::vector<T>& values) {
  std::vector<float> out;
  for (const T x : values) out.push_back(to_float(x));
  return out;
}

// n uniform numbers in [-1, 1), rounded to T.
template <typename T>
std::vector<T> random_values(int64_t n, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(n));
  fill_random(values, seed);
  return rounded<T>(values);
}
// The same, as floats.
template <typename T>
std::vector<float> values_of(int64_t n, uint64_t seed) {
  return widened(random_values<T>(n, seed));
}

// Half a unit in the last place, relative: what rounding to T may cost.
template <typename T>
inline constexpr double kRounding = 0x1p-24;
template <>
inline constexpr double kRounding<bf16> = 0x1p-8;
template <>
inline constexpr double kRounding<fp16> = 0x1p-11;

// Same bits, but any NaN for a NaN.
inline bool same_values(const std::vector<float>& a, const std::vector<float>& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i)
    same = std::isnan(a[i]) ? std::isnan(b[i])
                            : std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i]);
  return same;
}

// Device memory for values of T that starts `offset` elements after an aligned address, so that
// kernels meet pointers at which no pack may start.
template <typename T>
class DeviceValues {
 public:
  DeviceValues(const OnBackend& on, const std::vector<float>& values, int64_t offset = 0)
      : on_(&on), offset_(offset), array_(on.table(), padded(values, offset)) {}
  DeviceValues(const OnBackend& on, std::initializer_list<float> values)
      : DeviceValues(on, std::vector<float>(values)) {}
  // All NaN.
  DeviceValues(const OnBackend& on, size_t n, int64_t offset = 0)
      : DeviceValues(on, std::vector<float>(n, std::numeric_limits<float>::quiet_NaN()), offset) {}

  [[nodiscard]] T* data() const { return array_.data() + offset_; }
  [[nodiscard]] std::vector<float> host() const {
    const std::vector<T> all = array_.to_host(on_->stream());
    return widened(std::vector<T>(all.begin() + offset_, all.end()));
  }

 private:
  static std::vector<T> padded(const std::vector<float>& values, int64_t offset) {
    std::vector<T> all(static_cast<size_t>(offset));
    for (const float x : values) all.push_back(from_float<T>(x));
    return all;
  }
  const OnBackend* on_;
  int64_t offset_;
  DeviceArray<T> array_;
};

// run(), which gives a list of floats on the emulated device, gives the same bits whatever the
// order of threads.
template <typename Run>
void check_any_order(Run&& run) {
  const std::vector<float> want = run();
  for (const auto order : {emulation::Order::kReverse, emulation::Order::kShuffled}) {
    emulation::set_order(order, 5);
    CHECK(same_values(run(), want));
  }
  emulation::set_order(emulation::Order::kForward);
}

}  // namespace hlite::test
