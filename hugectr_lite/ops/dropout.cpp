#include "hugectr_lite/ops/dropout.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

template <typename T>
void apply_on_cpu(const Exec& exec, Vector<const T> x, Vector<T> y, const DropoutMask& mask) {
  constexpr int64_t kGrain = 1 << 12;  // elements worth waking a thread for
  constexpr int64_t kChunk = 512;
  const float scale = 1 / (1 - mask.rate);
  const uint64_t first = dropout_first_index(mask);
  wide_for<T>(exec, "dropout", x.size(), kGrain, [&](int64_t begin, int64_t end) {
    float u[kChunk];
    for (; begin < end; begin += kChunk) {
      const int64_t n = std::min(kChunk, end - begin);
      random::fill_uniform(u, n, mask.seed, mask.stream, first + static_cast<uint64_t>(begin), 0,
                           1);
      const T* const from = x.data() + begin;
      T* const to = y.data() + begin;
      for (int64_t i = 0; i < n; ++i)
        to[i] = from_float<T>(dropout_element(to_float(from[i]), u[i], mask.rate, scale));
    }
  });
}

}  // namespace

template <typename T>
void dropout(const Exec& exec, VectorOf<const T> x, VectorOf<T> y, const DropoutMask& mask) {
  HLITE_CHECK(x.dim(0) == y.dim(0), "dropout: from {}, to {}", x.shape(), y.shape());
  HLITE_CHECK(mask.rate >= 0 && mask.rate < 1, "dropout: rate {}, expected 0 <= rate < 1",
              mask.rate);
  HLITE_CHECK(mask.step != nullptr && mask.first_element >= 0, "dropout: first element {}, step {}",
              mask.first_element, mask.step ? "given" : "missing");
  if (exec.on_gpu()) return kernels::dropout<T>(exec, x, y, mask);
  apply_on_cpu<T>(exec, x, y, mask);
}

HLITE_INSTANTIATE_FLOATS(dropout)

}  // namespace hlite::ops
