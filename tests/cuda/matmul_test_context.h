// What tests of matrix products share: an Exec with a stream and a context for products.
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/matmul_context.h"
#include "tests/support/cuda_backends.h"

namespace hlite::test {

// One stream of a backend that multiplies.
class MatmulStream {
 public:
  explicit MatmulStream(const cuda::Backend& table, const MatmulOptions& options = {})
      : table_(&table), stream_(table), context_(table, options) {}
  [[nodiscard]] Exec exec() const {
    return {
        .device = Device::kCuda, .cuda = table_, .stream = stream_.get(), .matmul = context_.get()};
  }
  [[nodiscard]] const cuda::Backend& table() const { return *table_; }
  [[nodiscard]] void* get() const { return stream_.get(); }

 private:
  const cuda::Backend* table_;
  TestStream stream_;
  MatmulContext context_;
};

}  // namespace hlite::test
