#include "hugectr_lite/ops/add.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

// The sums of a chunk stay in L1 while the inputs pass by.
constexpr int64_t kSumChunk = 2048;

void add_chunk(std::span<const Vector<const float>> inputs, int64_t begin, int64_t n, float* to) {
  if (inputs[0].data() + begin != to) std::copy_n(inputs[0].data() + begin, n, to);
  for (const auto& input : inputs.subspan(1)) add_row(input.data() + begin, n, to);
}

void add_chunk(std::span<const Vector<const bf16>> inputs, int64_t begin, int64_t n, bf16* to) {
  float sums[kSumChunk];
  widen(inputs[0].data() + begin, n, sums);
  for (const auto& input : inputs.subspan(1)) add_row(input.data() + begin, n, sums);
  narrow(sums, n, to);
}

template <typename T>
void add_on_cpu(const Exec& exec, std::span<const Vector<const T>> inputs, Vector<T> out) {
  constexpr int64_t kGrain = 1 << 14;  // elements worth waking a thread for
  cpu_threads(exec, "add_forward")
      .parallel_for(out.size(), kGrain, [&](int64_t begin, int64_t end) {
        for (; begin < end; begin += kSumChunk)
          add_chunk(inputs, begin, std::min(kSumChunk, end - begin), out.data() + begin);
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
  if constexpr (kOnCpu<T>)
    add_on_cpu<T>(exec, inputs, out);
  else
    needs_gpu("add_forward");
}

#define HLITE_INSTANTIATE(T) \
  template void add_forward<T>(const Exec&, std::span<const Vector<const T>>, Vector<T>);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::ops
