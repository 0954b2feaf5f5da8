// MatmulContext: what matrix products on one stream of a GPU need, owned on the program's side.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "hugectr_lite/core/kernel.h"

namespace hlite {

// Options of a context; strings are copied.
struct MatmulOptions {
  // Factors of float tensors are rounded to TF32 (10 bits of fraction),
  // which tensor cores multiply.
  bool tf32 = false;
  // The file where the fastest algorithm for each shape is remembered; null or empty: nowhere, and
  // cuBLASLt's first choice is taken instead of the fastest.
  const char* algorithm_file = nullptr;
  // Products that differ in their number of rows alone, the batch, take one algorithm: that of the
  // largest batch so far. So a row's bits are the same in every smaller one.
  bool one_for_all_batches = false;
  // Hears of what went wrong without stopping anything,
  // on the thread that multiplies. Null: stderr.
  void (*warn)(const char* text) = nullptr;
  // Hears of each product when its algorithm is found, by the name that the file gives it.
  void (*planned)(const char* product) = nullptr;
};

// Used by one thread at a time, for work that is ordered (one stream, or streams held back by
// events), while the device that was current is; destroyed when that work is done.
namespace kernels {
inline const Kernel<void*(MatmulOptions)> matmul_create{"matmul_create"};
inline const Kernel<void(void* /*matmul*/)> matmul_destroy{"matmul_destroy"};
}  // namespace kernels

// Bytes of device memory that a context takes.
inline constexpr int64_t kMatmulBytes = int64_t{40} << 20;

// Belongs to the device that is current when it is made, and to one stream; Exec::matmul borrows
// it. The first call of each shape on it searches an algorithm, which no CUDA graph may capture;
// later calls allocate nothing.
class MatmulContext {
 public:
  MatmulContext() = default;
  // Throws DeviceError where cuBLASLt cannot be loaded, naming where it was looked for.
  MatmulContext(const cuda::Backend& gpu, const MatmulOptions& options);
  ~MatmulContext();
  MatmulContext(MatmulContext&& other) noexcept
      : gpu_(other.gpu_), context_(std::exchange(other.context_, nullptr)) {}
  MatmulContext& operator=(MatmulContext&& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(context_, other.context_);
    return *this;
  }

  [[nodiscard]] void* get() const { return context_; }

 private:
  const cuda::Backend* gpu_ = nullptr;
  void* context_ = nullptr;
};

// The default file for algorithms: $XDG_CACHE_HOME/hugectr_lite/matmul_algorithms.txt, else below
// ~/.cache; empty without a home.
std::string default_algorithm_file();

}  // namespace hlite
