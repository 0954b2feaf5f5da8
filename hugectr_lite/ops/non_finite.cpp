#include "hugectr_lite/ops/non_finite.h"

#include <algorithm>
#include <atomic>

#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/wide.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

// First in [begin, end), or `end`: whole chunks by a loop without exits, which vectorises.
template <typename T>
int64_t find(const T* x, int64_t begin, int64_t end) {
  constexpr int64_t kChunk = 256;
  for (; begin < end; begin += kChunk) {
    const int64_t stop = std::min(end, begin + kChunk);
    uint32_t found = 0;
    for (int64_t i = begin; i < stop; ++i) found |= non_finite(to_float(x[i])) ? 1u : 0u;
    if (found)
      return std::find_if(x + begin, x + stop, [](T v) { return non_finite(to_float(v)); }) - x;
  }
  return end;
}

template <typename T>
int64_t find_on_cpu(const Exec& exec, Vector<const T> x) {
  constexpr int64_t kBlock = 1 << 15;
  const int64_t n = x.size();
  std::atomic<int64_t> first{n};
  cpu_threads(exec, "first_non_finite").run((n + kBlock - 1) / kBlock, [&](int64_t block, int) {
    const int64_t begin = block * kBlock, end = std::min(n, begin + kBlock);
    int64_t known = first.load();
    if (begin >= known) return;
    int64_t at = end;
    wide([&] { at = find(x.data(), begin, end); });
    if (at == end) return;
    while (at < known && !first.compare_exchange_weak(known, at)) {
    }
  });
  return first.load() == n ? -1 : first.load();
}

}  // namespace

template <typename T>
int64_t first_non_finite(const Exec& exec, VectorOf<const T> x) {
  if (exec.on_gpu()) return kernels::first_non_finite<T>(exec, x);
  if constexpr (kOnCpu<T>)
    return find_on_cpu<T>(exec, x);
  else
    needs_gpu("first_non_finite");
}

template <typename T>
void flag_non_finite(const Exec& exec, VectorOf<const T> x, int32_t* found) {
  HLITE_CHECK(found != nullptr, "flag_non_finite has no flag to set");
  if (exec.on_gpu()) return kernels::flag_non_finite<T>(exec, x, found);
  if (first_non_finite<T>(exec, x) >= 0) *found = 1;
}

HLITE_INSTANTIATE_FLOATS(first_non_finite)
HLITE_INSTANTIATE_FLOATS(flag_non_finite)

}  // namespace hlite::ops
