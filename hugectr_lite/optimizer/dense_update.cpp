#include "hugectr_lite/optimizer/dense_update.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/wide.h"
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

template <typename T>
struct HostUpdateArrays {
  const float* g;
  float *w, *state0, *state1;  // states beyond the rule's may be null
  T* mirror;                   // may be null

  [[nodiscard]] HostUpdateArrays at(int64_t i) const {
    return {g + i, w + i, state0 ? state0 + i : nullptr, state1 ? state1 + i : nullptr,
            mirror ? mirror + i : nullptr};
  }
};

// A piece at a time, which stays in L1; gradients multiplied by `inverse`, unless null.
template <OptimizerType type, typename T>
void update_pieces(const StepScalars& scalars, const HostUpdateArrays<T>& x, int64_t n,
                   const float* inverse) {
  constexpr int64_t kPiece = 1024;
  float scaled[kPiece];
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    const int64_t count = std::min(kPiece, n - begin);
    HostUpdateArrays<T> piece = x.at(begin);
    if (inverse) {
      for (int64_t i = 0; i < count; ++i) scaled[i] = piece.g[i] * *inverse;
      piece.g = scaled;
    }
    update_elements<type>(scalars, count, piece.g, piece.w, piece.state0, piece.state1);
    if (piece.mirror) narrow(piece.w, count, piece.mirror);
  }
}

template <typename T>
void update_on_cpu(const Exec& exec, const UpdateRule& rule, float lr, int64_t step, int64_t n,
                   const HostUpdateArrays<T>& x, const GradientScale& scale) {
  HLITE_CHECK(step >= 1, "dense_update: step {} counts from 1", step);
  if (scale.skips()) return;
  const StepScalars scalars = step_scalars(rule, lr, step);
  with_rule_type(rule.type, [&]<OptimizerType type>() {
    exec.threads().parallel_for(
        (n + kLine - 1) / kLine, kGrain / kLine, [&](int64_t begin, int64_t end) {
          const int64_t first = begin * kLine, count = std::min(n, end * kLine) - first;
          wide([&] { update_pieces<type>(scalars, x.at(first), count, scale.inverse); });
        });
  });
}

}  // namespace

template <typename T>
void dense_update(const Exec& exec, const UpdateRule& rule, const float* lr, const int64_t* step,
                  const DenseArrays& x, const GradientScale& scale, VectorOf<T> mirror) {
  const int64_t n = x.w.dim(0);
  HLITE_CHECK(lr && step, "dense_update needs a learning rate and a step");
  HLITE_CHECK(x.g.dim(0) == n, "dense_update: {} weights, {} gradients", n, x.g.dim(0));
  HLITE_CHECK(has_state(x.state0, 0, rule.type, n) && has_state(x.state1, 1, rule.type, n),
              "dense_update: {} weights, states of {} and {}", n, x.state0.dim(0), x.state1.dim(0));
  HLITE_CHECK(!mirror.data() || mirror.dim(0) == n, "dense_update: {} weights, a mirror of {}", n,
              mirror.dim(0));
  if (exec.on_gpu()) return kernels::dense_update<T>(exec, rule, lr, step, x, scale, mirror);
  if constexpr (kOnCpu<T>)
    update_on_cpu<T>(exec, rule, *lr, *step, n,
                     {x.g.data(), x.w.data(), x.state0.data(), x.state1.data(), mirror.data()},
                     scale);
  else
    raise("dense_update: a mirror in fp16 needs a GPU");
}

HLITE_INSTANTIATE_FLOATS(dense_update)

}  // namespace hlite::optimizer
