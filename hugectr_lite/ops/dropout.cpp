#include "hugectr_lite/ops/dropout.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

// Forward and backward are the same map: y = x * factor.
void apply(const Exec& exec, const char* op, Vector<const float> x, Vector<float> y, float rate,
           uint64_t seed, uint64_t stream, uint64_t first_index) {
  HLITE_CHECK(x.dim(0) == y.dim(0), "{}: from {}, to {}", op, x.shape(), y.shape());
  HLITE_CHECK(rate >= 0 && rate < 1, "{}: rate {}, expected 0 <= rate < 1", op, rate);
  constexpr int64_t kGrain = 1 << 12;  // elements worth waking a thread for
  constexpr int64_t kChunk = 512;
  const float scale = 1 / (1 - rate);
  cpu_threads(exec, op).parallel_for(x.size(), kGrain, [&](int64_t begin, int64_t end) {
    float u[kChunk];
    for (; begin < end; begin += kChunk) {
      const int64_t n = std::min(kChunk, end - begin);
      random::fill_uniform(u, n, seed, stream, first_index + static_cast<uint64_t>(begin), 0, 1);
      const float* const from = x.data() + begin;
      float* const to = y.data() + begin;
      for (int64_t i = 0; i < n; ++i) to[i] = dropout_element(from[i], u[i], rate, scale);
    }
  });
}

}  // namespace

void dropout_forward(const Exec& exec, Vector<const float> x, Vector<float> y, float rate,
                     uint64_t seed, uint64_t stream, uint64_t first_index) {
  apply(exec, "dropout_forward", x, y, rate, seed, stream, first_index);
}

void dropout_backward(const Exec& exec, Vector<const float> dy, Vector<float> dx, float rate,
                      uint64_t seed, uint64_t stream, uint64_t first_index) {
  apply(exec, "dropout_backward", dy, dx, rate, seed, stream, first_index);
}

}  // namespace hlite::ops
