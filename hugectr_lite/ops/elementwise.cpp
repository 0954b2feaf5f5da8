#include "hugectr_lite/ops/elementwise.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

template <Elementwise kHow, typename T>
void combine_on_cpu(const Exec& exec, std::span<const Vector<const T>> inputs, Vector<T> out) {
  constexpr int64_t kChunk = 2048;  // stays in L1 while the inputs pass by
  wide_for<T>(exec, "elementwise", out.size(), kElementGrain, [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += kChunk) {
      const int64_t n = std::min(kChunk, end - begin);
      float sums[kChunk];  // or differences, or products
      for (int64_t i = 0; i < n; ++i) sums[i] = to_float(inputs[0].data()[begin + i]);
      for (const Vector<const T>& input : inputs.subspan(1)) {
        const T* const from = input.data() + begin;
        for (int64_t i = 0; i < n; ++i) sums[i] = combine(kHow, sums[i], to_float(from[i]));
      }
      for (int64_t i = 0; i < n; ++i) out.data()[begin + i] = from_float<T>(sums[i]);
    }
  });
}

}  // namespace

template <typename T>
void elementwise(const Exec& exec, Elementwise how, std::span<const VectorOf<const T>> inputs,
                 VectorOf<T> out) {
  HLITE_CHECK(!inputs.empty(), "elementwise needs at least one input");
  for (size_t i = 0; i < inputs.size(); ++i) {
    HLITE_CHECK(inputs[i].dim(0) == out.dim(0), "input {} {}, out {}", i, inputs[i].shape(),
                out.shape());
  }
  if (exec.on_gpu()) return kernels::elementwise<T>(exec, how, inputs, out);
  switch (how) {
    case Elementwise::kSum:
      return combine_on_cpu<Elementwise::kSum, T>(exec, inputs, out);
    case Elementwise::kDifference:
      return combine_on_cpu<Elementwise::kDifference, T>(exec, inputs, out);
    case Elementwise::kProduct:
      return combine_on_cpu<Elementwise::kProduct, T>(exec, inputs, out);
  }
}

HLITE_INSTANTIATE_FLOATS(elementwise)

}  // namespace hlite::ops
