// The CUDA backends that tests can run on: the emulated one always, the GPU's where there is one.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "hugectr_lite/core/cuda_plugin.h"
#include "hugectr_lite/cuda/plugin.h"
#include "tests/support/catch.h"

namespace hlite::test {

struct CudaBackend {
  std::string name;
  const cuda::Backend* table = nullptr;
};

// That of hlite_emulated_cuda, which is linked into the test.
inline const cuda::Backend& emulated_cuda() {
  static const cuda::Backend backend = cuda::backend_of(cuda::this_plugin());
  return backend;
}

// HLITE_REQUIRE_GPU=1: a machine without usable GPU fails the tests instead of skipping them.
inline bool gpu_is_required() {
  const char* value = std::getenv("HLITE_REQUIRE_GPU");
  return value && *value && std::strcmp(value, "0") != 0;
}

// Whether the running test has the tag [gpu], by which tools/gpu_check.sh finds tests; set by
// gpu_tag.cpp.
inline bool tagged_gpu = false;

// The GPU, or null after saying that the test is skipped, and why. Tests without the tag [gpu]
// fail.
inline const cuda::Backend* gpu_or_skip() {
  if (!tagged_gpu) FAIL("a test that asks for the GPU needs the tag [gpu]");
  static const cuda::CudaPlugin plugin = cuda::CudaPlugin::load();
  if (plugin.devices() > 0) return &plugin.backend();
  if (gpu_is_required()) FAIL("HLITE_REQUIRE_GPU is set, but " << plugin.reason());
  WARN("skipped on the GPU: " << plugin.reason());
  return nullptr;
}

inline std::vector<CudaBackend> cuda_backends() {
  std::vector<CudaBackend> backends{{"emulated", &emulated_cuda()}};
  if (const cuda::Backend* gpu = gpu_or_skip()) backends.push_back({"GPU", gpu});
  return backends;
}

// n values of device memory on one backend, with copies from and to the host.
template <typename T>
class DeviceArray {
 public:
  // All bits are set, so that floats are NaN: a GPU's own fresh memory is often 0.
  DeviceArray(const cuda::Backend& table, size_t n) : table_(&table), size_(n) {
    const std::vector<unsigned char> ones(n * sizeof(T), 0xff);
    take(ones.data());
  }
  DeviceArray(const cuda::Backend& table, const std::vector<T>& values)
      : table_(&table), size_(values.size()) {
    take(values.data());
  }
  ~DeviceArray() {
    if (data_) table_->free(data_);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::vector<T> to_host(void* stream) const {
    std::vector<T> values(size_);
    table_->copy(values.data(), data_, size_ * sizeof(T), stream);
    table_->stream_synchronize(stream);
    return values;
  }

 private:
  void take(const void* values) {
    void* data = nullptr;
    table_->allocate(&data, size_ * sizeof(T));
    data_ = static_cast<T*>(data);
    if (size_ == 0) return;
    table_->copy(data_, values, size_ * sizeof(T), nullptr);
    table_->stream_synchronize(nullptr);  // other streams do not wait for the default one
  }

  const cuda::Backend* table_;
  T* data_ = nullptr;
  size_t size_;
};

// A stream of one backend.
class TestStream {
 public:
  explicit TestStream(const cuda::Backend& table) : table_(&table) {
    table.stream_create(&handle_);
  }
  ~TestStream() { table_->stream_destroy(handle_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  [[nodiscard]] void* get() const { return handle_; }

 private:
  const cuda::Backend* table_;
  void* handle_ = nullptr;
};

}  // namespace hlite::test
