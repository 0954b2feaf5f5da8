// MatmulContext: what matrix products on one stream of a GPU need, owned on the program's side.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "hugectr_lite/core/plugin_table.h"

namespace hlite {

// Bytes of device memory that a context takes.
inline constexpr int64_t kMatmulBytes = int64_t{40} << 20;

// Belongs to the device that is current when it is made, and to one stream; Exec::matmul borrows
// it. The first call of each shape on it searches an
// algorithm, which no CUDA graph may capture; later calls allocate nothing.
class MatmulContext {
 public:
  MatmulContext() = default;
  // Throws DeviceError where cuBLASLt cannot be loaded, naming where it was looked for.
  MatmulContext(const cuda::OpTable& table, const cuda::MatmulOptions& options);
  ~MatmulContext();
  MatmulContext(MatmulContext&& other) noexcept
      : table_(other.table_), context_(std::exchange(other.context_, nullptr)) {}
  MatmulContext& operator=(MatmulContext&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(context_, other.context_);
    return *this;
  }

  [[nodiscard]] void* get() const { return context_; }

 private:
  const cuda::OpTable* table_ = nullptr;
  void* context_ = nullptr;
};

// Where algorithms are remembered unless somebody says otherwise:
// $XDG_CACHE_HOME/hugectr_lite/matmul_algorithms.txt, else below ~/.cache; empty without a home.
std::string default_algorithm_file();

}  // namespace hlite
