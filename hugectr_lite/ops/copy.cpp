#include "hugectr_lite/ops/copy.h"

#include <algorithm>

#include "hugectr_lite/core/backend.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {

template <typename T>
void copy(const Exec& exec, VectorOf<const T> from, VectorOf<T> to) {
  HLITE_CHECK(from.dim(0) == to.dim(0), "copy: from {}, to {}", from.shape(), to.shape());
  if (exec.on_gpu())
    return exec.cuda->copy(to.data(), from.data(), static_cast<size_t>(from.size()) * sizeof(T),
                           exec.stream);
  constexpr int64_t kGrain = 1 << 14;  // elements worth waking a thread for
  cpu_threads(exec, "copy").parallel_for(from.size(), kGrain, [&](int64_t begin, int64_t end) {
    std::copy_n(from.data() + begin, end - begin, to.data() + begin);
  });
}

HLITE_INSTANTIATE_FLOATS(copy)

}  // namespace hlite::ops
