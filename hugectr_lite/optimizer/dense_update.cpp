#include "hugectr_lite/optimizer/dense_update.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/optimizer/update_loops.h"

namespace hlite::optimizer {
namespace {
// Ranges begin at multiples of a cache line.
constexpr int64_t kLine = 16;
// Elements below which a second thread costs more than it brings.
constexpr int64_t kGrain = 8192;

bool has_state(Vector<float> state, int index, OptimizerType type, int64_t n) {
  return state_count(type) <= index || state.dim(0) == n;
}
}  // namespace

void dense_update(const Exec& exec, const UpdateRule& rule, float lr, int64_t step, Vector<float> w,
                  Vector<const float> g, Vector<float> state0, Vector<float> state1) {
  const int64_t n = w.dim(0);
  HLITE_CHECK(!exec.on_gpu(), "dense_update runs on the CPU");
  HLITE_CHECK(g.dim(0) == n, "dense_update: {} weights, {} gradients", n, g.dim(0));
  HLITE_CHECK(has_state(state0, 0, rule.type, n) && has_state(state1, 1, rule.type, n),
              "dense_update: {} weights, states of {} and {}", n, state0.dim(0), state1.dim(0));
  HLITE_CHECK(step >= 1, "dense_update: step {} counts from 1", step);
  const StepScalars scalars = step_scalars(rule, lr, step);
  with_rule_type(rule.type, [&]<OptimizerType type>() {
    constexpr int kStates = state_count(type);
    exec.threads().parallel_for(
        (n + kLine - 1) / kLine, kGrain / kLine, [&](int64_t begin, int64_t end) {
          const int64_t first = begin * kLine, last = std::min(n, end * kLine);
          update_elements<type>(scalars, last - first, g.data() + first, w.data() + first,
                                kStates > 0 ? state0.data() + first : nullptr,
                                kStates > 1 ? state1.data() + first : nullptr);
        });
  });
}

}  // namespace hlite::optimizer
