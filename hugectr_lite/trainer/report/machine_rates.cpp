#include "hugectr_lite/trainer/report/machine_rates.h"

#include <algorithm>

#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/ops/gemm.h"

namespace hlite::trainer {
namespace {

template <typename F>
double best_seconds(int times, F&& body) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const auto start = Clock::now();
    body();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

}  // namespace

MachineRates measure_rates(const Exec& exec, int times, int64_t copied) {
  MachineRates rates;
  {
    const Tensor<float, 2> a(2048, 1024), b(1024, 1024), out(2048, 1024);
    const double seconds = best_seconds(times, [&] {
      ops::gemm(exec, ops::Transpose::kNo, ops::Transpose::kNo, 1, a.view(), b.view(), 0,
                out.view());
    });
    rates.flops = 2.0 * 2048 * 1024 * 1024 / seconds;
  }
  const Tensor<float, 1> from(copied), to(copied);
  const double seconds = best_seconds(times, [&] {
    exec.threads().parallel_for(copied, 1 << 16, [&](int64_t b, int64_t e) {
      std::copy(from.data() + b, from.data() + e, to.data() + b);
    });
  });
  rates.bytes = 2.0 * static_cast<double>(copied) * 4 / seconds;
  return rates;
}

}  // namespace hlite::trainer
