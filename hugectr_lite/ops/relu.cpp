#include "hugectr_lite/ops/relu.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {
constexpr int64_t kGrain = 1 << 14;  // elements worth waking a thread for
}

void relu_forward(const Exec& exec, Vector<const float> x, Vector<float> y) {
  HLITE_CHECK(x.dim(0) == y.dim(0), "x {}, y {}", x.shape(), y.shape());
  cpu_threads(exec, "relu_forward").parallel_for(x.size(), kGrain, [&](int64_t begin, int64_t end) {
    const float* const from = x.data();
    float* const to = y.data();
    for (int64_t i = begin; i < end; ++i) to[i] = relu(from[i]);
  });
}

void relu_backward(const Exec& exec, Vector<const float> y, Vector<const float> dy,
                   Vector<float> dx) {
  HLITE_CHECK(y.dim(0) == dy.dim(0) && dx.dim(0) == dy.dim(0), "y {}, dy {}, dx {}", y.shape(),
              dy.shape(), dx.shape());
  cpu_threads(exec, "relu_backward")
      .parallel_for(y.size(), kGrain, [&](int64_t begin, int64_t end) {
        const float* const out = y.data();
        const float* const from = dy.data();
        float* const to = dx.data();
        for (int64_t i = begin; i < end; ++i) to[i] = relu_gradient(out[i], from[i]);
      });
}

}  // namespace hlite::ops
