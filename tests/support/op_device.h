// Where ops are tested: one case runs on the CPU with one, two and three threads, on the emulated
// device and, where there is one, on the GPU; but fp16 is for the last two.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/matmul_context.h"
#include "hugectr_lite/core/view.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/cuda_emulation/block_fibers.h"
#include "tests/support/typed_values.h"

namespace hlite::test {

// The CPU with some threads, or a CUDA backend with a stream of its own and, where `matmul` is
// given, what products need on it.
class OpDevice {
 public:
  explicit OpDevice(int threads)
      : name_(fmt::format("CPU, {} threads", threads)),
        pool_(std::make_unique<ThreadPool>(threads)) {
    exec_.pool = pool_.get();
  }
  explicit OpDevice(const CudaBackend& backend, const MatmulOptions* matmul = nullptr)
      : name_(backend.name), stream_(std::make_unique<TestStream>(*backend.table)) {
    if (matmul) matmul_ = MatmulContext(*backend.table, *matmul);
    exec_ = {.device = Device::kCuda,
             .cuda = backend.table,
             .stream = stream_->get(),
             .matmul = matmul_.get()};
  }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Exec& exec() const { return exec_; }
  [[nodiscard]] bool on_gpu() const { return exec_.on_gpu(); }

 private:
  std::string name_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<TestStream> stream_;
  MatmulContext matmul_;
  Exec exec_;
};

inline OpDevice emulated_device(const MatmulOptions* matmul = nullptr) {
  return OpDevice({"emulated", &emulated_cuda()}, matmul);
}

// What runs again with work as late as it may be is about GPUs, and with other instructions
// (core/wide.h) about the CPU.
inline bool runs_again_without(Device device) {
  return std::getenv(device == Device::kCuda ? "HLITE_INSTRUCTIONS" : "HLITE_EMULATED_STREAMS");
}

// All on which ops take tensors of T.
template <typename T>
std::vector<OpDevice> op_devices(const MatmulOptions* matmul = nullptr) {
  std::vector<OpDevice> all;
  if (kOnCpu<T> && !runs_again_without(Device::kCpu))
    for (const int threads : {1, 2, 3}) all.emplace_back(threads);
  if (!runs_again_without(Device::kCuda))
    for (const CudaBackend& backend : cuda_backends()) all.emplace_back(backend, matmul);
  return all;
}

// Values in a device's memory that begin `offset` elements after an aligned address, so that
// kernels meet pointers at which no pack may start. Those of 16 bits are floats on the host.
template <typename T>
class DeviceTensor {
  static constexpr bool k16Bits = std::is_same_v<T, bf16> || std::is_same_v<T, fp16>;

 public:
  using Value = std::conditional_t<k16Bits, float, T>;

  DeviceTensor(const OpDevice& on, const std::vector<Value>& values, int64_t offset = 0)
      : on_(&on.exec()), offset_(offset), size_(static_cast<int64_t>(values.size())) {
    std::vector<T> all(static_cast<size_t>(offset));
    if constexpr (k16Bits)
      for (const float x : values) all.push_back(from_float<T>(x));
    else
      all.insert(all.end(), values.begin(), values.end());
    if (on.on_gpu()) {
      on_gpu_ = std::make_unique<DeviceArray<T>>(*on_->cuda, all);
    } else {
      on_cpu_ = std::make_unique<T[]>(all.size());  // to the byte: ASan sees what goes beyond
      std::copy(all.begin(), all.end(), on_cpu_.get());
    }
  }

  [[nodiscard]] T* data() const { return (on_gpu_ ? on_gpu_->data() : on_cpu_.get()) + offset_; }
  [[nodiscard]] int64_t size() const { return size_; }
  operator Vector<T>() const { return {data(), size_}; }        // NOLINT: implicit on purpose
  operator Vector<const T>() const { return {data(), size_}; }  // NOLINT
  template <typename... Dims>
  [[nodiscard]] View<T, sizeof...(Dims)> view(Dims... dims) const {
    const View<T, sizeof...(Dims)> all(data(), dims...);
    REQUIRE(all.size() == size_);
    return all;
  }
  // After all work on the device's stream.
  [[nodiscard]] std::vector<Value> host() const {
    std::vector<T> all;
    if (on_gpu_)
      all = on_gpu_->to_host(on_->stream);
    else
      all.assign(on_cpu_.get(), on_cpu_.get() + offset_ + size_);
    all.erase(all.begin(), all.begin() + offset_);
    if constexpr (k16Bits)
      return widened(all);
    else
      return all;
  }

 private:
  const Exec* on_;
  int64_t offset_, size_;
  std::unique_ptr<T[]> on_cpu_;
  std::unique_ptr<DeviceArray<T>> on_gpu_;
};

// Sizes around those of packs, warps and blocks; and one for several threads of the CPU.
inline constexpr int64_t kOpSizes[] = {0, 1, 3, 4, 7, 8, 9, 31, 33, 257, 1031, 4099};
inline constexpr int64_t kManyElements = 100003;

// body(device, size, offset) for all devices of T and these sizes, at pointers that are aligned and
// not; and for kManyElements on the CPU.
template <typename T, typename Body>
void for_each_size(Body&& body, std::span<const int64_t> sizes = kOpSizes) {
  for (const OpDevice& on : op_devices<T>()) {
    const auto run = [&](int64_t n, int64_t offset) {
      INFO(on.name() << ", n " << n << ", offset " << offset);
      body(on, n, offset);
    };
    for (const int64_t n : sizes)
      for (const int64_t offset : {0, 1}) run(n, offset);
    if (!on.on_gpu()) run(kManyElements, 0);
  }
}

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
// The same of run.operator()<T>(device) for every T; and on any number of the CPU's threads.
template <typename Run>
void check_same_bits(Run&& run, const MatmulOptions* matmul = nullptr) {
  const auto on_cpu = [&]<typename T>() {
    const std::vector<float> want = run.template operator()<T>(OpDevice(1));
    for (const int threads : {2, 3, 6}) {
      INFO(threads << " threads");
      CHECK(same_values(run.template operator()<T>(OpDevice(threads)), want));
    }
  };
  if (!runs_again_without(Device::kCpu)) {
    on_cpu.template operator()<float>();
    on_cpu.template operator()<bf16>();
  }
  if (runs_again_without(Device::kCuda)) return;
  const OpDevice emulated = emulated_device(matmul);
  check_any_order([&] { return run.template operator()<float>(emulated); });
  check_any_order([&] { return run.template operator()<bf16>(emulated); });
  check_any_order([&] { return run.template operator()<fp16>(emulated); });
}

}  // namespace hlite::test
