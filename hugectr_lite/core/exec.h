// Exec: where an op runs. Borrowed by everyone, owned by the trainer (or a test).
#pragma once

#include "hugectr_lite/core/thread_pool.h"

namespace hlite {

namespace cuda {
struct Backend;  // core/backend.h
}

enum class Device { kCpu, kCuda };

struct Exec {
  Device device = Device::kCpu;
  ThreadPool* pool = nullptr;           // CPU: never null
  const cuda::Backend* cuda = nullptr;  // CUDA: never null
  void* stream = nullptr;               // CUDA: a cudaStream_t
  void* matmul = nullptr;               // CUDA: this stream's MatmulContext, for what multiplies

  [[nodiscard]] bool on_gpu() const { return device == Device::kCuda; }
  [[nodiscard]] ThreadPool& threads() const { return *pool; }
};

}  // namespace hlite
