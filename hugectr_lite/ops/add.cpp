#include "hugectr_lite/ops/add.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

void add_on_cpu(const Exec& exec, std::span<const Vector<const float>> inputs, Vector<float> out) {
  constexpr int64_t kGrain = 1 << 14;  // elements worth waking a thread for
  constexpr int64_t kChunk = 2048;     // stays in L1 while the inputs pass by
  cpu_threads(exec, "add_forward")
      .parallel_for(out.size(), kGrain, [&](int64_t begin, int64_t end) {
        for (; begin < end; begin += kChunk) {
          const int64_t n = std::min(kChunk, end - begin);
          float* const to = out.data() + begin;
          if (inputs[0].data() != out.data()) std::copy_n(inputs[0].data() + begin, n, to);
          for (const Vector<const float>& input : inputs.subspan(1)) {
            const float* const from = input.data() + begin;
            for (int64_t i = 0; i < n; ++i) to[i] += from[i];
          }
        }
      });
}

}  // namespace

template <typename T>
void add_forward(const Exec& exec, std::span<const Vector<const std::type_identity_t<T>>> inputs,
                 Vector<std::type_identity_t<T>> out) {
  HLITE_CHECK(!inputs.empty(), "add_forward needs at least one input");
  for (size_t i = 0; i < inputs.size(); ++i) {
    HLITE_CHECK(inputs[i].dim(0) == out.dim(0), "input {} {}, out {}", i, inputs[i].shape(),
                out.shape());
  }
  if (exec.on_gpu()) return kernels::add_forward<T>(exec, inputs, out);
  if constexpr (std::is_same_v<T, float>)
    add_on_cpu(exec, inputs, out);
  else
    needs_gpu("add_forward");
}

#define HLITE_INSTANTIATE(T) \
  template void add_forward<T>(const Exec&, std::span<const Vector<const T>>, Vector<T>);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::ops
