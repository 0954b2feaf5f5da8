#include "hugectr_lite/ops/scan.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

constexpr uint32_t kExponent = 0x7f800000u;  // all ones in NaN and infinity alone

bool non_finite(float x) { return (std::bit_cast<uint32_t>(x) & kExponent) == kExponent; }

// First in [begin, end), or `end`: whole chunks by a loop without exits, which vectorises.
int64_t find(const float* x, int64_t begin, int64_t end) {
  constexpr int64_t kChunk = 256;
  for (; begin < end; begin += kChunk) {
    const int64_t stop = std::min(end, begin + kChunk);
    uint32_t found = 0;
    for (int64_t i = begin; i < stop; ++i) found |= non_finite(x[i]) ? 1u : 0u;
    if (found) return std::find_if(x + begin, x + stop, non_finite) - x;
  }
  return end;
}

}  // namespace

int64_t first_non_finite(const Exec& exec, Vector<const float> x) {
  constexpr int64_t kBlock = 1 << 15;
  const int64_t n = x.size();
  std::atomic<int64_t> first{n};
  cpu_threads(exec, "first_non_finite").run((n + kBlock - 1) / kBlock, [&](int64_t block, int) {
    const int64_t begin = block * kBlock, end = std::min(n, begin + kBlock);
    int64_t known = first.load();
    if (begin >= known) return;
    const int64_t at = find(x.data(), begin, end);
    if (at == end) return;
    while (at < known && !first.compare_exchange_weak(known, at)) {
    }
  });
  return first.load() == n ? -1 : first.load();
}

}  // namespace hlite::ops
